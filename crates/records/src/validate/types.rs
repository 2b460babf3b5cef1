use crate::{BatchHeader, Codec, TimestampType};
use bytes::Bytes;
use std::sync::Arc;

/// What the broker does to the compression of batches it is sent (`compression.type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TargetCompression {
    /// `producer`: batches stay as the producer compressed them.
    #[default]
    Producer,
    /// Batches in another codec are recompressed with this one.
    Codec {
        /// The codec.
        codec: Codec,
        /// `compression.<codec>.level` (KIP-390); `None` for the codec's default.
        level: Option<i32>,
    },
}

/// Who appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AppendOrigin {
    /// A produce request: everything is checked.
    #[default]
    Client,
    /// A coordinator of this broker: may write control batches, need not number them.
    Coordinator,
    /// The leader of a KRaft quorum.
    RaftLeader,
}

/// The settings of a partition that bear on what it accepts. Made once per configuration change, not per batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidationConfig {
    /// `topic-partition`, for messages.
    pub topic_partition: Arc<str>,
    /// `compression.type` and the level.
    pub compression: TargetCompression,
    /// `cleanup.policy` contains `compact`: every record needs a key.
    pub compacted: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `max.message.bytes`: the limit of a batch in bytes as it is stored.
    pub batch_bytes_max: usize,
    /// `max.decompressed.message.bytes`: how many bytes one record of a compressed batch may have.
    pub record_bytes_max: usize,
    /// How many bytes the records of a batch may have once decompressed. Kafka has no such limit; without one, 1 MiB can
    /// keep a core busy for seconds.
    pub decompressed_bytes_max: usize,
    /// Who appends.
    pub origin: AppendOrigin,
}

/// Default of [`ValidationConfig::record_bytes_max`]: the longest array Java can make.
pub const RECORD_BYTES_MAX: usize = 0x7fff_fff7;

/// Default of [`ValidationConfig::decompressed_bytes_max`]: no record of a real producer comes near, as a consumer has to
/// hold it in memory, and decompressing as much takes a fraction of a second.
pub const DECOMPRESSED_BYTES_MAX: usize = 128 << 20;

impl Default for ValidationConfig {
    /// Kafka's defaults, with a name that says so.
    fn default() -> ValidationConfig {
        ValidationConfig {
            topic_partition: Arc::from("unnamed-0"),
            compression: TargetCompression::Producer,
            compacted: false,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            batch_bytes_max: 1_048_588,
            record_bytes_max: RECORD_BYTES_MAX,
            decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
            origin: AppendOrigin::Client,
        }
    }
}

/// A batch that may be appended once the base offset and the leader epoch are stamped on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidatedBatch {
    /// The batch to append: the very slice that came in, unless [`ValidatedBatch::rewritten`].
    pub bytes: Bytes,
    /// Its header, base offset still relative (0 from every client).
    pub header: BatchHeader,
    /// The largest timestamp in ms (the append time where the broker sets it), -1 for none.
    pub max_timestamp: i64,
    /// What to add to the base offset to get the offset Kafka reports and indexes for the largest timestamp: that of the
    /// last record of the batch, as followers, who do not look into batches, can know no other. -1 when no record has a
    /// timestamp.
    pub offset_delta_of_max_timestamp: i32,
    /// True when `bytes` are not the bytes received: recompressed, or timestamps changed.
    pub rewritten: bool,
}

/// Which error the client gets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordErrorKind {
    /// `CORRUPT_MESSAGE` (2), retriable: the bytes were damaged on their way.
    CorruptMessage,
    /// `MESSAGE_TOO_LARGE` (10).
    MessageTooLarge,
    /// `INVALID_TIMESTAMP` (32).
    InvalidTimestamp,
    /// `UNSUPPORTED_FOR_MESSAGE_FORMAT` (43).
    UnsupportedForMessageFormat,
    /// `UNSUPPORTED_COMPRESSION_TYPE` (76).
    UnsupportedCompressionType,
    /// `INVALID_RECORD` (87).
    InvalidRecord,
}

impl RecordErrorKind {
    /// The number of the error in the protocol.
    pub const fn code(self) -> i16 {
        match self {
            RecordErrorKind::CorruptMessage => 2,
            RecordErrorKind::MessageTooLarge => 10,
            RecordErrorKind::InvalidTimestamp => 32,
            RecordErrorKind::UnsupportedForMessageFormat => 43,
            RecordErrorKind::UnsupportedCompressionType => 76,
            RecordErrorKind::InvalidRecord => 87,
        }
    }
}

/// How many records of a batch are named in an error. Kafka names all; a batch of a million records without keys would
/// be answered with a hundred megabytes.
pub const RECORD_ERRORS_MAX: usize = 1000;

/// Why a batch is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct RecordError {
    /// The error code's meaning.
    pub kind: RecordErrorKind,
    /// The text for the client.
    pub message: String,
    /// The offending records, by index in the batch, with a text for each (Produce v8, KIP-467); the first
    /// [`RECORD_ERRORS_MAX`] of them. Only when there are any does Kafka send [`RecordError::message`] to the client.
    pub record_errors: Vec<(i32, String)>,
}
