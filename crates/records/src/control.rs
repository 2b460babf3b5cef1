//! Control records: what brokers write between the records of producers.

use crate::{BatchBuilder, BuildError, RecordData};
use base::{LeaderEpoch, Offset, ProducerId};
use bytes::Bytes;

/// What a control record says; the second number of its key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ControlRecordType {
    /// A transaction was aborted (KIP-98).
    Abort,
    /// A transaction was committed.
    Commit,
    /// A KRaft leader begins its epoch (KIP-595).
    LeaderChange,
    /// Begins a KRaft snapshot (KIP-630).
    SnapshotHeader,
    /// Ends a KRaft snapshot.
    SnapshotFooter,
    /// The `kraft.version` in force (KIP-853).
    KRaftVersion,
    /// The voters in force.
    KRaftVoters,
    /// A number this release does not know.
    Unknown(i16),
}

/// Bytes of a control record's key.
const KEY_BYTES: usize = 4;

impl ControlRecordType {
    /// The number in the key.
    pub const fn id(self) -> i16 {
        match self {
            ControlRecordType::Abort => 0,
            ControlRecordType::Commit => 1,
            ControlRecordType::LeaderChange => 2,
            ControlRecordType::SnapshotHeader => 3,
            ControlRecordType::SnapshotFooter => 4,
            ControlRecordType::KRaftVersion => 5,
            ControlRecordType::KRaftVoters => 6,
            ControlRecordType::Unknown(id) => id,
        }
    }

    /// The type with this number.
    pub const fn from_id(id: i16) -> ControlRecordType {
        match id {
            0 => ControlRecordType::Abort,
            1 => ControlRecordType::Commit,
            2 => ControlRecordType::LeaderChange,
            3 => ControlRecordType::SnapshotHeader,
            4 => ControlRecordType::SnapshotFooter,
            5 => ControlRecordType::KRaftVersion,
            6 => ControlRecordType::KRaftVoters,
            id => ControlRecordType::Unknown(id),
        }
    }

    /// The type in a control record's key; `None` when that is too short or of a negative version. Later versions may
    /// have longer keys that begin alike.
    pub fn parse(key: &[u8]) -> Option<ControlRecordType> {
        let [a, b, c, d] = *key.first_chunk::<KEY_BYTES>()?;
        (i16::from_be_bytes([a, b]) >= 0).then(|| ControlRecordType::from_id(i16::from_be_bytes([c, d])))
    }

    /// The key of such a record.
    pub fn key(self) -> [u8; KEY_BYTES] {
        let [c, d] = self.id().to_be_bytes();
        [0, 0, c, d]
    }

    /// Kafka's name for it, as its tools print it.
    pub const fn name(self) -> &'static str {
        match self {
            ControlRecordType::Abort => "ABORT",
            ControlRecordType::Commit => "COMMIT",
            ControlRecordType::LeaderChange => "LEADER_CHANGE",
            ControlRecordType::SnapshotHeader => "SNAPSHOT_HEADER",
            ControlRecordType::SnapshotFooter => "SNAPSHOT_FOOTER",
            ControlRecordType::KRaftVersion => "KRAFT_VERSION",
            ControlRecordType::KRaftVoters => "KRAFT_VOTERS",
            ControlRecordType::Unknown(_) => "UNKNOWN",
        }
    }
}

/// The value of a transaction marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndTxnMarker {
    /// Epoch of the transaction coordinator that decided.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// From a marker's value; `None` when that is too short or of a negative version.
    pub fn parse(value: &[u8]) -> Option<EndTxnMarker> {
        let [a, b, epoch @ ..] = *value.first_chunk::<6>()?;
        let version = i16::from_be_bytes([a, b]);
        (version >= 0).then_some(EndTxnMarker { coordinator_epoch: i32::from_be_bytes(epoch) })
    }

    /// As the value of a marker.
    pub fn value(self) -> [u8; 6] {
        let [a, b, c, d] = self.coordinator_epoch.to_be_bytes();
        [0, 0, a, b, c, d]
    }
}

/// The marker that ends a transaction of a producer on a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxnMarker {
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// Committed, not aborted.
    pub commit: bool,
    /// Epoch of the coordinator.
    pub coordinator_epoch: i32,
}

impl TxnMarker {
    /// The marker as a batch of its own, with timestamp `ms`.
    ///
    /// # Errors
    /// None in practice: a marker has 78 bytes.
    pub fn build(&self, base_offset: Offset, leader_epoch: LeaderEpoch, ms: i64) -> Result<Bytes, BuildError> {
        let kind = if self.commit { ControlRecordType::Commit } else { ControlRecordType::Abort };
        let value = EndTxnMarker { coordinator_epoch: self.coordinator_epoch }.value();
        let mut batch = BatchBuilder::new(base_offset)
            .control()
            .transactional()
            .producer(self.producer_id, self.producer_epoch, -1)
            .leader_epoch(leader_epoch);
        batch.append(&RecordData { timestamp: ms, key: Some(&kind.key()), value: Some(&value), headers: &[] });
        batch.build()
    }
}

/// A control batch outside of transactions (KRaft): one record per `(type, value)`, in order, with timestamp `ms`.
///
/// # Errors
/// [`BuildError::TooLarge`].
pub fn control_batch(
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    ms: i64,
    records: &[(ControlRecordType, &[u8])],
) -> Result<Bytes, BuildError> {
    let mut batch = BatchBuilder::new(base_offset).control().leader_epoch(leader_epoch);
    for (kind, value) in records {
        batch.append(&RecordData { timestamp: ms, key: Some(&kind.key()), value: Some(value), headers: &[] });
    }
    batch.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, RecordIter};

    #[test]
    fn a_marker_is_78_bytes_and_reads_back() {
        let marker = TxnMarker { producer_id: 4, producer_epoch: 2, commit: true, coordinator_epoch: 77 };
        let bytes = marker.build(11, 3, 1234).unwrap();
        assert_eq!(bytes.len(), 78);
        let batch = Batch::parse(&bytes).unwrap();
        assert!(batch.header.is_control() && batch.header.is_transactional());
        assert_eq!((batch.header.producer_id, batch.header.base_sequence), (4, -1));
        let record = RecordIter::new(&batch.header, batch.payload()).next().unwrap().unwrap();
        assert_eq!(ControlRecordType::parse(record.key.unwrap()), Some(ControlRecordType::Commit));
        assert_eq!(EndTxnMarker::parse(record.value.unwrap()), Some(EndTxnMarker { coordinator_epoch: 77 }));
    }

    #[test]
    fn keys_of_later_versions_and_unknown_types() {
        assert_eq!(ControlRecordType::parse(&[0, 1, 0, 2, 9]), Some(ControlRecordType::LeaderChange));
        assert_eq!(ControlRecordType::parse(&[0, 0, 0, 99]), Some(ControlRecordType::Unknown(99)));
        assert_eq!(ControlRecordType::parse(&[0xff, 0xff, 0, 0]), None);
        assert_eq!(ControlRecordType::parse(&[0, 0, 0]), None);
        for id in 0..8 {
            assert_eq!(ControlRecordType::from_id(id).id(), id);
        }
    }
}
