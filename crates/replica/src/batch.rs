use base::ProducerId;
use records::BatchHeader;

/// `producerId` of a batch that neither an idempotent nor a transactional producer sent.
pub const NO_PRODUCER_ID: ProducerId = -1;
/// `producerEpoch` of such a batch, and of a producer nothing is known about.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// `baseSequence` of such a batch, and of transaction markers.
pub const NO_SEQUENCE: i32 = -1;

/// Where a batch comes from; it decides which rules may refuse it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client's Produce request: epochs and sequences are enforced and duplicates are answered.
    Client,
    /// A coordinator on this broker (group metadata, transaction markers): epochs are enforced, sequences are not.
    Coordinator,
    /// A leader that already decided, or our own log at recovery: nothing is refused.
    Replication,
}

/// The two outcomes an end-of-transaction control record can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndTxnMarker {
    /// True for COMMIT, false for ABORT.
    pub commit: bool,
    /// Epoch of the transaction coordinator that wrote the marker; older coordinators are fenced by it.
    pub coordinator_epoch: i32,
}

/// What the brain needs to know of one record batch. Offsets are not part of it: a leader assigns them, a follower and
/// recovery pass the batch's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchInfo {
    /// The producer, or [`NO_PRODUCER_ID`].
    pub producer_id: ProducerId,
    /// The producer's epoch, or [`NO_PRODUCER_EPOCH`].
    pub producer_epoch: i16,
    /// Sequence of the first record, or [`NO_SEQUENCE`].
    pub base_sequence: i32,
    /// Offset of the last record minus that of the first; never negative.
    pub last_offset_delta: i32,
    /// Largest record timestamp in milliseconds, or -1.
    pub max_timestamp: i64,
    /// The batch belongs to a transaction.
    pub transactional: bool,
    /// The batch holds control records instead of data.
    pub control: bool,
    /// The marker inside a control batch that ends a transaction. `None` in every other batch, and in a control batch
    /// whose marker was compacted away.
    pub marker: Option<EndTxnMarker>,
}

impl BatchInfo {
    /// A batch without producer, of `records` records.
    pub fn plain(records: i32, max_timestamp: i64) -> BatchInfo {
        BatchInfo {
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            last_offset_delta: records.saturating_sub(1).max(0),
            max_timestamp,
            transactional: false,
            control: false,
            marker: None,
        }
    }

    /// From the header of a valid batch, with the end-of-transaction marker that its first record holds, if any.
    pub fn new(header: &BatchHeader, marker: Option<EndTxnMarker>) -> BatchInfo {
        BatchInfo {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            last_offset_delta: header.last_offset_delta.max(0),
            max_timestamp: header.max_timestamp,
            transactional: header.is_transactional(),
            control: header.is_control(),
            marker,
        }
    }

    /// True if an idempotent or transactional producer sent the batch.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Sequence of the last record, or [`NO_SEQUENCE`].
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            sequence_after(self.base_sequence, self.last_offset_delta)
        }
    }
}

/// The sequence `steps` after `sequence`. Sequences are counted in 0..=`i32::MAX` and begin again at 0 behind it.
pub(crate) fn sequence_after(sequence: i32, steps: i32) -> i32 {
    (sequence.wrapping_add(steps)) & i32::MAX
}

/// The sequence `steps` before `sequence`, on the same ring.
pub(crate) fn sequence_before(sequence: i32, steps: i32) -> i32 {
    (sequence.wrapping_sub(steps)) & i32::MAX
}

/// True if a batch that begins with `next` follows directly on one that ended with `last` ([`NO_SEQUENCE`] when there
/// was none).
pub(crate) fn follows(last: i32, next: i32) -> bool {
    i64::from(next) == i64::from(last) + 1 || (next == 0 && last == i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_behind_the_largest_i32() {
        for (sequence, steps, expect) in [
            (0, 0, 0),
            (5, 3, 8),
            (i32::MAX, 0, i32::MAX),
            (i32::MAX, 1, 0),
            (i32::MAX - 1, 5, 3),
            (i32::MAX, i32::MAX, i32::MAX - 1),
        ] {
            assert_eq!(sequence_after(sequence, steps), expect, "{sequence} + {steps}");
            assert_eq!(sequence_before(expect, steps), sequence, "{expect} - {steps}");
        }
    }

    #[test]
    fn following_sequences() {
        for (last, next, expect) in [
            (NO_SEQUENCE, 0, true),
            (NO_SEQUENCE, 1, false),
            (4, 5, true),
            (4, 4, false),
            (4, 6, false),
            (i32::MAX, 0, true),
            (i32::MAX, 1, false),
        ] {
            assert_eq!(follows(last, next), expect, "{last} then {next}");
        }
    }

    #[test]
    fn last_sequence_of_a_batch() {
        let mut batch = BatchInfo::plain(3, 0);
        assert!(!batch.has_producer_id());
        assert_eq!(batch.last_sequence(), NO_SEQUENCE);
        batch.base_sequence = i32::MAX - 1;
        assert_eq!(batch.last_sequence(), 0);
    }
}
