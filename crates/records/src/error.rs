use thiserror::Error;

/// Why bytes are not a batch of records. Kafka answers `CORRUPT_MESSAGE` to the first group (the bytes cannot be trusted)
/// and `INVALID_RECORD` to the second (the bytes are as sent, the content is wrong).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BatchError {
    /// Fewer bytes than the header, or than the header says the batch has.
    #[error("the batch is cut off: {have} bytes of {need}")]
    Truncated {
        /// Bytes present.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// A format other than magic 2, which is the only one since Kafka 4.0 (KIP-724).
    #[error("record format {0} is not supported")]
    Magic(i8),
    /// A batch length below that of an empty batch.
    #[error("batch length {0} is smaller than a batch header")]
    Length(i32),
    /// The checksum does not match (CRC-32C from the attributes to the end).
    #[error("checksum mismatch: stored {stored:#010x}, computed {computed:#010x}")]
    Crc {
        /// As found in the batch.
        stored: u32,
        /// Over the bytes of the batch.
        computed: u32,
    },
    /// The codec bits name no codec.
    #[error("unknown compression codec {0}")]
    Codec(u8),
    /// The compressed bytes are not what the codec expects.
    #[error("{codec} data is corrupt: {reason}")]
    Compression {
        /// The codec's name.
        codec: &'static str,
        /// What its decoder said.
        reason: String,
    },
    /// The records would be larger than the limit when decompressed.
    #[error("records exceed {limit} bytes when decompressed")]
    TooLarge {
        /// The caller's limit in bytes.
        limit: usize,
    },
    /// A record is larger than a limit allows (`max.decompressed.message.bytes`).
    #[error("a record of {size} bytes exceeds the limit of {limit}")]
    RecordTooLarge {
        /// Bytes of the record.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The record count is negative.
    #[error("negative record count {0}")]
    Count(i32),
    /// A record, its key, its value or its headers do not fit the bytes, or its size field disagrees with its content.
    #[error("invalid record: {0}")]
    Record(&'static str),
    /// There are bytes after the last record.
    #[error("{0} bytes follow the last record")]
    Trailing(usize),
}

/// Why a batch could not be built.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BuildError {
    /// The batch would need more bytes than its length field can hold.
    #[error("a batch of {0} bytes is larger than the format allows")]
    TooLarge(usize),
    /// The compressor failed.
    #[error("{codec} compression failed: {reason}")]
    Compression {
        /// The codec's name.
        codec: &'static str,
        /// What its encoder said.
        reason: String,
    },
}
