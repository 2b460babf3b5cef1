use base::Offset;
use log::LogError;
use records::{RecordError, RecordErrorKind};
use replica::{AppendError, LeadershipError, ProducerError, ReadError};
use wire::ErrorCode;

/// Why a partition refuses a request, in the terms of the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionError {
    /// The protocol's error code.
    pub code: ErrorCode,
    /// What happened, with every number; fit for a client.
    pub message: String,
    /// The offending records by index in the batch, each with a text (Produce v8+, KIP-467).
    pub record_errors: Vec<(i32, String)>,
    /// The log start offset to report beside the error, -1 if unknown (Produce v5+).
    pub log_start_offset: Offset,
}

impl std::fmt::Display for PartitionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for PartitionError {}

impl PartitionError {
    /// An error with a text and nothing else.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> PartitionError {
        PartitionError { code, message: message.into(), record_errors: Vec::new(), log_start_offset: -1 }
    }

    /// The same error with the log start offset beside it.
    #[must_use]
    pub(crate) fn at_log_start(mut self, log_start_offset: Offset) -> PartitionError {
        // These are reported before the partition is looked into, so they know of no offset.
        let bare = [
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::MESSAGE_TOO_LARGE,
            ErrorCode::RECORD_LIST_TOO_LARGE,
            ErrorCode::CORRUPT_MESSAGE,
            ErrorCode::KAFKA_STORAGE_ERROR,
        ];
        if !bare.contains(&self.code) {
            self.log_start_offset = log_start_offset;
        }
        self
    }
}

impl From<ProducerError> for PartitionError {
    fn from(error: ProducerError) -> PartitionError {
        let code = match &error {
            ProducerError::InvalidEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
            ProducerError::NewEpochNotAtZero { .. } | ProducerError::OutOfOrderSequence { .. } => {
                ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            }
            ProducerError::NoOngoingTxn { .. } | ProducerError::ExpectedTransactional { .. } => {
                ErrorCode::INVALID_TXN_STATE
            }
            ProducerError::CoordinatorFenced { .. } => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        };
        PartitionError::new(code, error.to_string())
    }
}

impl From<LeadershipError> for PartitionError {
    fn from(error: LeadershipError) -> PartitionError {
        let code = match error {
            LeadershipError::NotLeader { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
            LeadershipError::FencedLeaderEpoch { .. } => ErrorCode::FENCED_LEADER_EPOCH,
            LeadershipError::UnknownLeaderEpoch { .. } => ErrorCode::UNKNOWN_LEADER_EPOCH,
        };
        PartitionError::new(code, error.to_string())
    }
}

impl From<AppendError> for PartitionError {
    fn from(error: AppendError) -> PartitionError {
        let code = match error {
            AppendError::Producer(error) => return error.into(),
            AppendError::Leadership(error) => return error.into(),
            AppendError::NotEnoughReplicas { .. } => ErrorCode::NOT_ENOUGH_REPLICAS,
            AppendError::InvalidRequiredAcks { .. } => ErrorCode::INVALID_REQUIRED_ACKS,
            AppendError::OffsetsExhausted { .. } => ErrorCode::INVALID_RECORD,
        };
        PartitionError::new(code, error.to_string())
    }
}

impl From<ReadError> for PartitionError {
    fn from(error: ReadError) -> PartitionError {
        let code = match error {
            ReadError::Leadership(error) => return error.into(),
            ReadError::OffsetOutOfRange { .. } | ReadError::UnknownFetchedEpoch { .. } => {
                ErrorCode::OFFSET_OUT_OF_RANGE
            }
            ReadError::OffsetNotAvailable { .. } => ErrorCode::OFFSET_NOT_AVAILABLE,
        };
        PartitionError::new(code, error.to_string())
    }
}

impl From<RecordError> for PartitionError {
    fn from(error: RecordError) -> PartitionError {
        let code = match error.kind {
            RecordErrorKind::CorruptMessage => ErrorCode::CORRUPT_MESSAGE,
            RecordErrorKind::MessageTooLarge => ErrorCode::MESSAGE_TOO_LARGE,
            RecordErrorKind::InvalidTimestamp => ErrorCode::INVALID_TIMESTAMP,
            RecordErrorKind::UnsupportedForMessageFormat => ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT,
            RecordErrorKind::UnsupportedCompressionType => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            RecordErrorKind::InvalidRecord => ErrorCode::INVALID_RECORD,
        };
        let record_errors = error.record_errors;
        PartitionError { code, message: error.message, record_errors, log_start_offset: -1 }
    }
}

impl From<LogError> for PartitionError {
    fn from(error: LogError) -> PartitionError {
        let code = match error {
            LogError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
            LogError::Closed { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
            // Retriable for every client, and true: the storage does not take the batch at the moment. A full disk and
            // a full buffer leave the log usable, a fenced one does not; the client's next step is the same.
            _ => ErrorCode::KAFKA_STORAGE_ERROR,
        };
        PartitionError::new(code, error.to_string())
    }
}
