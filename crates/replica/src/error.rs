use base::{BrokerId, LeaderEpoch, Offset, ProducerId};

/// Why a producer's batch is refused. The text names every number, since it reaches the client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProducerError {
    /// INVALID_PRODUCER_EPOCH: a producer with a newer epoch wrote already.
    #[error("epoch {epoch} of producer {producer_id} at offset {offset} is smaller than its last seen epoch {current}")]
    InvalidEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch in the batch.
        epoch: i16,
        /// Epoch last seen.
        current: i16,
        /// Offset the batch would have had.
        offset: Offset,
    },
    /// OUT_OF_ORDER_SEQUENCE_NUMBER: a new epoch has to begin with sequence 0.
    #[error(
        "producer {producer_id} begins epoch {epoch} after {current} at offset {offset} with sequence {sequence}, not 0"
    )]
    NewEpochNotAtZero {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch in the batch.
        epoch: i16,
        /// Epoch last seen.
        current: i16,
        /// First sequence of the batch.
        sequence: i32,
        /// Offset the batch would have had.
        offset: Offset,
    },
    /// OUT_OF_ORDER_SEQUENCE_NUMBER: records before this batch are missing, or it is older than the remembered ones.
    #[error(
        "sequence {sequence} of producer {producer_id} at offset {offset} does not follow {last}, the last in the log"
    )]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// First sequence of the batch.
        sequence: i32,
        /// Last sequence in the log, -1 if none in this epoch.
        last: i32,
        /// Offset the batch would have had.
        offset: Offset,
    },
    /// INVALID_TXN_STATE: a transactional batch outside of any transaction the coordinator vouched for.
    #[error("a transactional batch of producer {producer_id} is not part of an ongoing transaction")]
    NoOngoingTxn {
        /// The producer.
        producer_id: ProducerId,
    },
    /// INVALID_TXN_STATE: a plain batch while the producer's transaction is open.
    #[error("expected a transactional write from producer {producer_id} at offset {offset}")]
    ExpectedTransactional {
        /// The producer.
        producer_id: ProducerId,
        /// Offset the batch would have had.
        offset: Offset,
    },
    /// TRANSACTION_COORDINATOR_FENCED: the marker comes from a coordinator that was replaced.
    #[error(
        "coordinator epoch {epoch} of a marker for producer {producer_id} at offset {offset} is older than {current}"
    )]
    CoordinatorFenced {
        /// The producer.
        producer_id: ProducerId,
        /// Coordinator epoch in the marker.
        epoch: i32,
        /// Coordinator epoch last seen.
        current: i32,
        /// Offset the marker would have had.
        offset: Offset,
    },
}

/// Why this replica may not serve a request of the caller's leader epoch (KIP-320).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeadershipError {
    /// NOT_LEADER_OR_FOLLOWER.
    #[error("broker {broker} is not the leader of this partition in epoch {epoch}; the leader is {leader}")]
    NotLeader {
        /// This broker.
        broker: BrokerId,
        /// Leader known here, -1 for none.
        leader: BrokerId,
        /// Leader epoch known here.
        epoch: LeaderEpoch,
    },
    /// FENCED_LEADER_EPOCH: the caller's epoch is older than ours.
    #[error("leader epoch {epoch} is older than the current epoch {current}")]
    FencedLeaderEpoch {
        /// Epoch of the caller.
        epoch: LeaderEpoch,
        /// Epoch known here.
        current: LeaderEpoch,
    },
    /// UNKNOWN_LEADER_EPOCH: the caller knows a newer epoch than we do.
    #[error("leader epoch {epoch} is newer than the current epoch {current}")]
    UnknownLeaderEpoch {
        /// Epoch of the caller.
        epoch: LeaderEpoch,
        /// Epoch known here.
        current: LeaderEpoch,
    },
}

/// Why an append is refused before anything changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AppendError {
    /// Another leader or another leader epoch.
    #[error(transparent)]
    Leadership(#[from] LeadershipError),
    /// NOT_ENOUGH_REPLICAS: acks=all with fewer replicas in sync than `min.insync.replicas`.
    #[error("{isr_size} replicas are in sync, min.insync.replicas asks for {min_isr}")]
    NotEnoughReplicas {
        /// Size of the in-sync set.
        isr_size: usize,
        /// Effective minimum.
        min_isr: usize,
    },
    /// INVALID_REQUIRED_ACKS: only -1, 0 and 1 mean something.
    #[error("acks={acks}; it has to be -1, 0 or 1")]
    InvalidRequiredAcks {
        /// Value of the request.
        acks: i16,
    },
    /// The offsets of the partition are used up.
    #[error("the log ends at offset {log_end}; {records} more offsets do not fit")]
    OffsetsExhausted {
        /// End of the log.
        log_end: Offset,
        /// Offsets the batch needs.
        records: i64,
    },
    /// The producer's state refuses the batch.
    #[error(transparent)]
    Producer(#[from] ProducerError),
}

/// Why a read, or a question about offsets, is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Another leader or another leader epoch.
    #[error(transparent)]
    Leadership(#[from] LeadershipError),
    /// OFFSET_OUT_OF_RANGE.
    #[error("offset {offset} is outside of the log, which holds {log_start} up to {log_end}")]
    OffsetOutOfRange {
        /// Offset asked for.
        offset: Offset,
        /// First offset of the log.
        log_start: Offset,
        /// Offset behind the last record.
        log_end: Offset,
    },
    /// OFFSET_OUT_OF_RANGE: the epoch of the last fetched record says nothing about this log.
    #[error("the end offset of the last fetched epoch {epoch} cannot be determined")]
    UnknownFetchedEpoch {
        /// `LastFetchedEpoch` of the request.
        epoch: LeaderEpoch,
    },
    /// OFFSET_NOT_AVAILABLE: a new leader whose high watermark has not yet reached its first offset (KIP-207).
    #[error("the high watermark {high_watermark} has not reached {epoch_start}, the start of leader epoch {epoch}")]
    OffsetNotAvailable {
        /// High watermark.
        high_watermark: Offset,
        /// First offset of the current leader's epoch.
        epoch_start: Offset,
        /// Current epoch.
        epoch: LeaderEpoch,
    },
}
