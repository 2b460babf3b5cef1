use std::borrow::Cow;

use base::Uuid;
use thiserror::Error;
use wire::kraft_version_record::KRaftVersionRecord;
use wire::leader_change_message::{LeaderChangeMessage, Voter as LeaderVoter};
use wire::snapshot_footer_record::SnapshotFooterRecord;
use wire::snapshot_header_record::SnapshotHeaderRecord;
use wire::voters_record::{Endpoint as WireEndpoint, KRaftVersionFeature, Voter as WireVoter, VotersRecord};
use wire::{Decode, Encode, Reader, Writer};

use crate::voters::{Endpoint, ReplicaKey, Voter, VoterSet};

/// A record of a control batch of the metadata log or of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlRecord {
    /// First record of a term.
    LeaderChange {
        /// The leader.
        leader_id: i32,
        /// Voters, all of which granted their vote.
        voters: Vec<i32>,
    },
    /// First record of a snapshot.
    SnapshotHeader {
        /// Append time of the last batch the snapshot covers, ms since the epoch.
        last_contained_log_timestamp: i64,
    },
    /// Last record of a snapshot.
    SnapshotFooter,
    /// `kraft.version` from here on.
    KraftVersion(i16),
    /// The voters from here on.
    Voters(VoterSet),
}

/// A control record that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ControlError {
    /// The key is not a version and a type.
    #[error("a control record's key has {0} bytes")]
    Key(usize),
    /// The value is not what its type says.
    #[error("control record of type {kind}: {reason}")]
    Value {
        /// Type from the key.
        kind: i16,
        /// What is wrong.
        reason: String,
    },
}

mod kind {
    //! Types in the key of a control record.
    pub(super) const LEADER_CHANGE: i16 = 2;
    pub(super) const SNAPSHOT_HEADER: i16 = 3;
    pub(super) const SNAPSHOT_FOOTER: i16 = 4;
    pub(super) const KRAFT_VERSION: i16 = 5;
    pub(super) const KRAFT_VOTERS: i16 = 6;
}

/// Version in the key of every control record.
const KEY_VERSION: i16 = 0;

impl ControlRecord {
    /// Key and value as they stand in a control batch.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let (kind, value) = match self {
            ControlRecord::LeaderChange { leader_id, voters } => {
                let voter = |id: &i32| LeaderVoter { voter_id: *id, voter_directory_id: Uuid::ZERO };
                let voters: Vec<LeaderVoter> = voters.iter().map(voter).collect();
                let granting_voters = voters.clone();
                let message = LeaderChangeMessage { version: 0, leader_id: *leader_id, voters, granting_voters };
                (kind::LEADER_CHANGE, body(&message))
            }
            ControlRecord::SnapshotHeader { last_contained_log_timestamp } => {
                let last_contained_log_timestamp = *last_contained_log_timestamp;
                (kind::SNAPSHOT_HEADER, body(&SnapshotHeaderRecord { version: 0, last_contained_log_timestamp }))
            }
            ControlRecord::SnapshotFooter => (kind::SNAPSHOT_FOOTER, body(&SnapshotFooterRecord { version: 0 })),
            ControlRecord::KraftVersion(level) => {
                (kind::KRAFT_VERSION, body(&KRaftVersionRecord { version: 0, kraft_version: *level }))
            }
            ControlRecord::Voters(voters) => {
                let voters = voters.iter().map(wire_voter).collect();
                (kind::KRAFT_VOTERS, body(&VotersRecord { version: 0, voters }))
            }
        };
        ([KEY_VERSION.to_be_bytes(), kind.to_be_bytes()].concat(), value)
    }

    /// Reads a record of a control batch; `None` for types that the metadata log does not have, which a reader passes
    /// over.
    ///
    /// # Errors
    /// When the key or the value is damaged.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Option<ControlRecord>, ControlError> {
        let [_, _, high, low] = *key else { return Err(ControlError::Key(key.len())) };
        let kind = i16::from_be_bytes([high, low]);
        let record = match kind {
            kind::LEADER_CHANGE => {
                // The message says its version itself, in its first field.
                let version = if value.starts_with(&[0, 1]) { 1 } else { 0 };
                let message: LeaderChangeMessage = read(kind, value, version)?;
                let voters = message.voters.iter().map(|voter| voter.voter_id).collect();
                ControlRecord::LeaderChange { leader_id: message.leader_id, voters }
            }
            kind::SNAPSHOT_HEADER => {
                let header: SnapshotHeaderRecord = read(kind, value, 0)?;
                ControlRecord::SnapshotHeader { last_contained_log_timestamp: header.last_contained_log_timestamp }
            }
            kind::SNAPSHOT_FOOTER => {
                read::<SnapshotFooterRecord>(kind, value, 0)?;
                ControlRecord::SnapshotFooter
            }
            kind::KRAFT_VERSION => {
                ControlRecord::KraftVersion(read::<KRaftVersionRecord>(kind, value, 0)?.kraft_version)
            }
            kind::KRAFT_VOTERS => {
                let record: VotersRecord<'_> = read(kind, value, 0)?;
                ControlRecord::Voters(VoterSet::new(record.voters.iter().map(voter_of)))
            }
            _ => return Ok(None),
        };
        Ok(Some(record))
    }
}

fn body<M: Encode>(message: &M) -> Vec<u8> {
    let mut writer = Writer::new();
    message.encode(&mut writer, 0).expect("version 0 of every control record holds all we set");
    Vec::from(writer.into_bytes().expect("control records hold no external bytes"))
}

fn read<'a, M: Decode<'a>>(kind: i16, value: &'a [u8], version: i16) -> Result<M, ControlError> {
    let mut reader = Reader::from_slice(value);
    let message = M::decode(&mut reader, version).and_then(|message| reader.finish().map(|()| message));
    message.map_err(|error| ControlError::Value { kind, reason: error.to_string() })
}

fn wire_voter(voter: &Voter) -> WireVoter<'_> {
    let endpoints = voter.endpoints.iter().map(|endpoint| WireEndpoint {
        name: Cow::Borrowed(&endpoint.name),
        host: Cow::Borrowed(&endpoint.host),
        port: endpoint.port,
    });
    let (min_supported_version, max_supported_version) = voter.kraft_versions;
    WireVoter {
        voter_id: voter.key.id,
        voter_directory_id: voter.key.directory_id,
        endpoints: endpoints.collect(),
        kraft_version_feature: KRaftVersionFeature { min_supported_version, max_supported_version },
    }
}

fn voter_of(voter: &WireVoter<'_>) -> Voter {
    let endpoints = voter.endpoints.iter().map(|endpoint| Endpoint {
        name: endpoint.name.to_string(),
        host: endpoint.host.to_string(),
        port: endpoint.port,
    });
    let range = &voter.kraft_version_feature;
    Voter {
        key: ReplicaKey { id: voter.voter_id, directory_id: voter.voter_directory_id },
        endpoints: endpoints.collect(),
        kraft_versions: (range.min_supported_version, range.max_supported_version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_kafkas_bytes() {
        let endpoint = Endpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 29093 };
        let key = ReplicaKey { id: 1, directory_id: Uuid::from_u128(7) };
        let voters = VoterSet::new([Voter::new(key, vec![endpoint])]);
        for (record, key, value_length) in [
            (ControlRecord::LeaderChange { leader_id: 1, voters: vec![1] }, [0, 0, 0, 2], 19),
            (ControlRecord::SnapshotHeader { last_contained_log_timestamp: 5 }, [0, 0, 0, 3], 11),
            (ControlRecord::SnapshotFooter, [0, 0, 0, 4], 3),
            (ControlRecord::KraftVersion(1), [0, 0, 0, 5], 5),
            (ControlRecord::Voters(voters), [0, 0, 0, 6], 55),
        ] {
            let (found_key, value) = record.encode();
            assert_eq!((found_key.as_slice(), value.len()), (key.as_slice(), value_length), "{record:?}");
            assert_eq!(ControlRecord::decode(&found_key, &value), Ok(Some(record)));
        }
    }

    #[test]
    fn foreign_and_damaged_records_are_told_apart() {
        assert_eq!(ControlRecord::decode(&[0, 0, 0, 1], &[]), Ok(None));
        assert_eq!(ControlRecord::decode(&[0, 0, 0], &[]), Err(ControlError::Key(3)));
        assert!(ControlRecord::decode(&[0, 0, 0, 5], &[0]).is_err());
        let (key, mut value) = ControlRecord::KraftVersion(1).encode();
        value.push(0);
        assert!(ControlRecord::decode(&key, &value).is_err(), "bytes behind the body");
    }

    #[test]
    fn a_leader_change_of_the_newer_version_is_read() {
        let voter = LeaderVoter { voter_id: 4, voter_directory_id: Uuid::from_u128(9) };
        let message =
            LeaderChangeMessage { version: 1, leader_id: 4, voters: vec![voter.clone()], granting_voters: vec![voter] };
        let mut writer = Writer::new();
        message.encode(&mut writer, 1).expect("encodable");
        let value = writer.into_bytes().expect("plain bytes");
        let expect = ControlRecord::LeaderChange { leader_id: 4, voters: vec![4] };
        assert_eq!(ControlRecord::decode(&[0, 0, 0, 2], &value), Ok(Some(expect)));
    }
}
