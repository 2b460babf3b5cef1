use crate::BatchError;
use base::{LeaderEpoch, Offset, ProducerId};

/// Where the fields of a batch header stand, in bytes from the start of the batch. All integers are big endian.
pub mod field {
    /// `i64`, the offset of the first record.
    pub const BASE_OFFSET: usize = 0;
    /// `i32`, the number of bytes that follow this field.
    pub const BATCH_LENGTH: usize = 8;
    /// `i32`, the epoch of the leader that appended the batch; outside the checksum.
    pub const LEADER_EPOCH: usize = 12;
    /// `i8`, the format, 2.
    pub const MAGIC: usize = 16;
    /// `u32`, CRC-32C over everything from [`ATTRIBUTES`] to the end.
    pub const CRC: usize = 17;
    /// `i16`, codec and flags.
    pub const ATTRIBUTES: usize = 21;
    /// `i32`, offset of the last record (existing or compacted away) minus the base offset.
    pub const LAST_OFFSET_DELTA: usize = 23;
    /// `i64`, what record timestamps are relative to (or the delete horizon, see [`super::Attributes`]).
    pub const BASE_TIMESTAMP: usize = 27;
    /// `i64`, the largest record timestamp, or the append time.
    pub const MAX_TIMESTAMP: usize = 35;
    /// `i64`, the producer's id or -1.
    pub const PRODUCER_ID: usize = 43;
    /// `i16`, the producer's epoch or -1.
    pub const PRODUCER_EPOCH: usize = 51;
    /// `i32`, sequence number of the first record or -1.
    pub const BASE_SEQUENCE: usize = 53;
    /// `i32`, number of records.
    pub const RECORD_COUNT: usize = 57;
    /// Start of the records, compressed or not; also the length of the header and of an empty batch.
    pub const RECORDS: usize = 61;
    /// Bytes up to the end of [`BATCH_LENGTH`]: what a reader needs to know how long the batch is.
    pub const LOG_OVERHEAD: usize = 12;
}

/// Compression codec of a batch (`compression.type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Codec {
    /// Not compressed.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy blocks in the framing of snappy-java.
    Snappy,
    /// LZ4 frame.
    Lz4,
    /// Zstandard (KIP-110).
    Zstd,
}

impl Codec {
    /// Every codec.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The number in the attributes.
    pub const fn id(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }

    /// The codec with this number.
    pub const fn from_id(id: u8) -> Option<Codec> {
        match id {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The codec of this name; `uncompressed` is the spelling of `none` in `compression.type`.
    pub fn from_name(name: &str) -> Option<Codec> {
        if name == "uncompressed" {
            return Some(Codec::None);
        }
        Codec::ALL.into_iter().find(|c| c.name() == name)
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Who set the timestamps of a batch (`message.timestamp.type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TimestampType {
    /// The producer, record by record.
    #[default]
    CreateTime,
    /// The broker, once for the batch: every record has the batch's max timestamp.
    LogAppendTime,
}

impl TimestampType {
    /// The name in configurations and tools.
    pub const fn name(self) -> &'static str {
        match self {
            TimestampType::CreateTime => "CreateTime",
            TimestampType::LogAppendTime => "LogAppendTime",
        }
    }
}

/// The attribute bits of a batch: 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC_MASK: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// Attributes with these meanings and no delete horizon.
    pub fn new(codec: Codec, timestamps: TimestampType, transactional: bool, control: bool) -> Attributes {
        let mut bits = i16::from(codec.id());
        if timestamps == TimestampType::LogAppendTime {
            bits |= Self::LOG_APPEND_TIME;
        }
        if transactional {
            bits |= Self::TRANSACTIONAL;
        }
        if control {
            bits |= Self::CONTROL;
        }
        Attributes(bits)
    }

    /// The three codec bits as they stand.
    pub fn codec_id(self) -> u8 {
        (self.0 & Self::CODEC_MASK) as u8
    }

    /// The codec.
    ///
    /// # Errors
    /// [`BatchError::Codec`] for the three numbers that name none.
    pub fn codec(self) -> Result<Codec, BatchError> {
        Codec::from_id(self.codec_id()).ok_or(BatchError::Codec(self.codec_id()))
    }

    /// True when the codec bits are not zero.
    pub fn is_compressed(self) -> bool {
        self.codec_id() != 0
    }

    /// Who set the timestamps.
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME != 0 { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// The same bits with another timestamp type.
    #[must_use]
    pub fn with_timestamp_type(self, timestamps: TimestampType) -> Attributes {
        match timestamps {
            TimestampType::CreateTime => Attributes(self.0 & !Self::LOG_APPEND_TIME),
            TimestampType::LogAppendTime => Attributes(self.0 | Self::LOG_APPEND_TIME),
        }
    }

    /// Part of a transaction (KIP-98).
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Holds control records, which are the broker's and never reach an application.
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// The base timestamp field holds the time after which tombstones and markers of this batch may be removed (KIP-534).
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same bits with the delete horizon flag set or cleared.
    #[must_use]
    pub fn with_delete_horizon(self, set: bool) -> Attributes {
        if set { Attributes(self.0 | Self::DELETE_HORIZON) } else { Attributes(self.0 & !Self::DELETE_HORIZON) }
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// The 61 bytes in front of the records, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes after the length field; the whole batch has 12 more.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch, -1 from a producer.
    pub leader_epoch: LeaderEpoch,
    /// The stored CRC-32C.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// The base timestamp field, in ms.
    pub base_timestamp: i64,
    /// Largest timestamp, in ms; -1 for none.
    pub max_timestamp: i64,
    /// Producer id, -1 for none.
    pub producer_id: ProducerId,
    /// Producer epoch, -1 for none.
    pub producer_epoch: i16,
    /// First sequence number, -1 for none.
    pub base_sequence: i32,
    /// Number of records that are there (a compacted batch may have fewer than its offsets span).
    pub record_count: i32,
}

impl BatchHeader {
    /// Decodes the header at the start of `bytes`, which need not hold the records behind it. Checked are the magic and
    /// that the length field covers at least the header; counts and offsets are as found.
    ///
    /// # Errors
    /// [`BatchError::Truncated`], [`BatchError::Magic`] or [`BatchError::Length`].
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        // The magic stands at the same place in every format, so an old message is called by its name even when it is
        // shorter than a batch of today.
        if let Some(&magic) = bytes.get(field::MAGIC)
            && magic != 2
        {
            return Err(BatchError::Magic(magic as i8));
        }
        let Some(h) = bytes.first_chunk::<{ field::RECORDS }>() else {
            return Err(BatchError::Truncated { have: bytes.len(), need: field::RECORDS });
        };
        let header = BatchHeader {
            base_offset: i64::from_be_bytes(take(h, field::BASE_OFFSET)),
            batch_length: i32::from_be_bytes(take(h, field::BATCH_LENGTH)),
            leader_epoch: i32::from_be_bytes(take(h, field::LEADER_EPOCH)),
            crc: u32::from_be_bytes(take(h, field::CRC)),
            attributes: Attributes(i16::from_be_bytes(take(h, field::ATTRIBUTES))),
            last_offset_delta: i32::from_be_bytes(take(h, field::LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(take(h, field::BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(take(h, field::MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(take(h, field::PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(take(h, field::PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(take(h, field::BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(take(h, field::RECORD_COUNT)),
        };
        if header.batch_length < (field::RECORDS - field::LOG_OVERHEAD) as i32 {
            return Err(BatchError::Length(header.batch_length));
        }
        Ok(header)
    }

    /// Writes the header over the first 61 bytes of `out`, the stored checksum included.
    ///
    /// # Panics
    /// When `out` is shorter than a header.
    pub fn write(&self, out: &mut [u8]) {
        let out = &mut out[..field::RECORDS];
        put(out, field::BASE_OFFSET, &self.base_offset.to_be_bytes());
        put(out, field::BATCH_LENGTH, &self.batch_length.to_be_bytes());
        put(out, field::LEADER_EPOCH, &self.leader_epoch.to_be_bytes());
        out[field::MAGIC] = 2;
        put(out, field::CRC, &self.crc.to_be_bytes());
        put(out, field::ATTRIBUTES, &self.attributes.0.to_be_bytes());
        put(out, field::LAST_OFFSET_DELTA, &self.last_offset_delta.to_be_bytes());
        put(out, field::BASE_TIMESTAMP, &self.base_timestamp.to_be_bytes());
        put(out, field::MAX_TIMESTAMP, &self.max_timestamp.to_be_bytes());
        put(out, field::PRODUCER_ID, &self.producer_id.to_be_bytes());
        put(out, field::PRODUCER_EPOCH, &self.producer_epoch.to_be_bytes());
        put(out, field::BASE_SEQUENCE, &self.base_sequence.to_be_bytes());
        put(out, field::RECORD_COUNT, &self.record_count.to_be_bytes());
    }

    /// Bytes of the whole batch, header and records.
    pub fn size(&self) -> usize {
        // `parse` refuses lengths below 49; a header made by hand with less would be a programmer's error.
        field::LOG_OVERHEAD + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// Offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Offset after the last record.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().saturating_add(1)
    }

    /// Sequence number of the last record, which wraps from `i32::MAX` to 0; -1 when the batch has none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        increment_sequence(self.base_sequence, self.last_offset_delta)
    }

    /// True when the batch carries a producer id (KIP-98).
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > -1
    }

    /// Part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// Holds control records.
    pub fn is_control(&self) -> bool {
        self.attributes.is_control()
    }

    /// When tombstones and markers of this batch may go, in ms, if the cleaner has said so (KIP-534).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }
}

/// `base + delta` in the space of sequence numbers, which has no negative numbers: `i32::MAX` is followed by 0.
pub(crate) fn increment_sequence(base: i32, delta: i32) -> i32 {
    if base > i32::MAX.wrapping_sub(delta) {
        // As the wrap is at 2^31, this is the sum modulo 2^31.
        delta.wrapping_sub(i32::MAX.wrapping_sub(base)).wrapping_sub(1)
    } else {
        base.wrapping_add(delta)
    }
}

fn take<const N: usize>(bytes: &[u8; field::RECORDS], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The CRC-32C of a batch: over its attributes and all that follows. `batch` is the whole batch and nothing else.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn crc_of(batch: &[u8]) -> u32 {
    base::crc32c(&batch[field::ATTRIBUTES..])
}

/// Writes the base offset and the leader epoch into the batch at the start of `batch`. Both stand outside the checksum,
/// so it stays valid.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn stamp(batch: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    let header = &mut batch[..field::RECORDS];
    put(header, field::BASE_OFFSET, &base_offset.to_be_bytes());
    put(header, field::LEADER_EPOCH, &leader_epoch.to_be_bytes());
}

/// Turns a batch into one with log append time `ms` (KIP-32): sets the flag and the max timestamp and recomputes the
/// checksum. Records keep their deltas; readers ignore them. `batch` is the whole batch and nothing else.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn set_log_append_time(batch: &mut [u8], ms: i64) {
    let bits = i16::from_be_bytes([batch[field::ATTRIBUTES], batch[field::ATTRIBUTES + 1]]);
    let bits = Attributes(bits).with_timestamp_type(TimestampType::LogAppendTime);
    put(batch, field::ATTRIBUTES, &bits.0.to_be_bytes());
    put(batch, field::MAX_TIMESTAMP, &ms.to_be_bytes());
    let crc = crc_of(batch);
    put(batch, field::CRC, &crc.to_be_bytes());
}
