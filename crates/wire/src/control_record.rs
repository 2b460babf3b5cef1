//! Records of control batches: what stands between ordinary records in a log to mark the end of a transaction, a change
//! of leader, the ends of a snapshot, or the voters of the quorum.

use crate::codec::{Decode, Encode, Reader, Writer};
use crate::end_txn_marker::EndTxnMarker;
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::kraft_version_record::KRaftVersionRecord;
use crate::leader_change_message::LeaderChangeMessage;
use crate::snapshot_footer_record::SnapshotFooterRecord;
use crate::snapshot_header_record::SnapshotHeaderRecord;
use crate::voters_record::VotersRecord;

/// The version of every control record's key and body. Kafka 4.4 writes and reads no other, also where the schema has
/// more (LeaderChangeMessage).
pub const CONTROL_RECORD_VERSION: i16 = 0;

/// A control record.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRecord<'a> {
    /// Type 0: a producer's transaction was aborted.
    Abort(EndTxnMarker),
    /// Type 1: a producer's transaction was committed.
    Commit(EndTxnMarker),
    /// Type 2: first record of a leader's epoch in the metadata log.
    LeaderChange(LeaderChangeMessage),
    /// Type 3: first record of a snapshot.
    SnapshotHeader(SnapshotHeaderRecord),
    /// Type 4: last record of a snapshot.
    SnapshotFooter(SnapshotFooterRecord),
    /// Type 5: the level of `kraft.version` (KIP-853).
    KraftVersion(KRaftVersionRecord),
    /// Type 6: the voters of the quorum (KIP-853).
    KraftVoters(VotersRecord<'a>),
}

impl<'a> ControlRecord<'a> {
    /// Number of the type.
    pub fn type_id(&self) -> i16 {
        match self {
            ControlRecord::Abort(_) => 0,
            ControlRecord::Commit(_) => 1,
            ControlRecord::LeaderChange(_) => 2,
            ControlRecord::SnapshotHeader(_) => 3,
            ControlRecord::SnapshotFooter(_) => 4,
            ControlRecord::KraftVersion(_) => 5,
            ControlRecord::KraftVoters(_) => 6,
        }
    }

    /// From a record's key and value. A newer version is read as the one we know, which is how Kafka keeps control
    /// records extensible; of unknown types only the error is known, and readers skip them.
    pub fn decode(key: &[u8], value: &'a [u8]) -> Result<ControlRecord<'a>, DecodeError> {
        let mut k = Reader::from_slice(key);
        if k.i16()? < 0 {
            return Err(k.fail(DecodeErrorKind::UnsupportedVersion));
        }
        let type_id = k.i16()?;
        let mut r = Reader::from_slice(value);
        if type_id < 2 && r.i16()? < 0 {
            return Err(r.fail(DecodeErrorKind::UnsupportedVersion));
        }
        let (r, version) = (&mut r, CONTROL_RECORD_VERSION);
        Ok(match type_id {
            0 => ControlRecord::Abort(Decode::decode(r, version)?),
            1 => ControlRecord::Commit(Decode::decode(r, version)?),
            2 => ControlRecord::LeaderChange(Decode::decode(r, version)?),
            3 => ControlRecord::SnapshotHeader(Decode::decode(r, version)?),
            4 => ControlRecord::SnapshotFooter(Decode::decode(r, version)?),
            5 => ControlRecord::KraftVersion(Decode::decode(r, version)?),
            6 => ControlRecord::KraftVoters(Decode::decode(r, version)?),
            _ => return Err(k.unknown_record_type()),
        })
    }

    /// The record's key: version and type.
    pub fn encode_key(&self) -> [u8; 4] {
        let [v0, v1] = CONTROL_RECORD_VERSION.to_be_bytes();
        let [t0, t1] = self.type_id().to_be_bytes();
        [v0, v1, t0, t1]
    }

    /// The record's value. Only the ends of transactions have a version in front; the others have it inside.
    pub fn encode_value(&self) -> Result<Vec<u8>, EncodeError> {
        let mut w = Writer::new();
        let version = CONTROL_RECORD_VERSION;
        match self {
            ControlRecord::Abort(body) | ControlRecord::Commit(body) => {
                w.i16(version);
                body.encode(&mut w, version)?;
            }
            ControlRecord::LeaderChange(body) => body.encode(&mut w, version)?,
            ControlRecord::SnapshotHeader(body) => body.encode(&mut w, version)?,
            ControlRecord::SnapshotFooter(body) => body.encode(&mut w, version)?,
            ControlRecord::KraftVersion(body) => body.encode(&mut w, version)?,
            ControlRecord::KraftVoters(body) => body.encode(&mut w, version)?,
        }
        Ok(w.into_bytes().map(Vec::from).expect("control records hold no external bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader_change_message::Voter;

    #[test]
    fn control_records_stand_as_kafka_writes_them() {
        let check = |record: ControlRecord<'_>, key: [u8; 4], value: &[u8]| {
            assert_eq!(record.encode_key(), key);
            assert_eq!(record.encode_value().as_deref(), Ok(value));
            assert_eq!(ControlRecord::decode(&key, value), Ok(record));
        };
        check(ControlRecord::Commit(EndTxnMarker { coordinator_epoch: 9 }), [0, 0, 0, 1], &[0, 0, 0, 0, 0, 9]);
        check(ControlRecord::SnapshotFooter(SnapshotFooterRecord::default()), [0, 0, 0, 4], &[0, 0, 0]);
        let voter = Voter { voter_id: 5, ..Default::default() };
        let change =
            LeaderChangeMessage { leader_id: 5, voters: vec![voter.clone()], granting_voters: vec![voter], version: 0 };
        let value = [0, 0, 0, 0, 0, 5, 2, 0, 0, 0, 5, 0, 2, 0, 0, 0, 5, 0, 0];
        check(ControlRecord::LeaderChange(change), [0, 0, 0, 2], &value);
    }

    #[test]
    fn bad_control_records_are_refused() {
        let kind = |key: &[u8], value: &[u8]| ControlRecord::decode(key, value).expect_err("it is bad").kind;
        assert_eq!(kind(&[0, 0, 0, 7], &[]), DecodeErrorKind::UnknownRecordType);
        assert_eq!(kind(&[0, 0, 0], &[]), DecodeErrorKind::Truncated);
        assert_eq!(kind(&[0xff, 0, 0, 1], &[]), DecodeErrorKind::UnsupportedVersion);
        assert_eq!(kind(&[0, 0, 0, 0], &[0xff, 0, 0, 0, 0, 0]), DecodeErrorKind::UnsupportedVersion);
    }
}
