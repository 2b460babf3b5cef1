//! The checks a leader applies to a batch before it appends it, and the changes it makes to it. They are Kafka's, in
//! Kafka's order, with three differences, all towards refusing:
//!
//! - What makes Kafka answer `UNKNOWN_SERVER_ERROR` (corrupt compressed data, an unknown codec, compressed records that are
//!   not numbered 0, 1, 2..., negative timestamps in a batch to be converted) is `INVALID_RECORD` or `UNSUPPORTED_COMPRESSION_TYPE` here.
//! - A record in a compressed batch whose size field disagrees with its content is refused; Kafka stores it and consumers
//!   fail on it.
//! - The decompressed size of a batch is bounded.

mod framing;
mod messages;
mod types;

pub use framing::check_produce;
pub use types::{
    AppendOrigin, DECOMPRESSED_BYTES_MAX, RECORD_BYTES_MAX, RECORD_ERRORS_MAX, RecordError, RecordErrorKind,
    TargetCompression, ValidatedBatch, ValidationConfig,
};

use crate::compress::compress;
use crate::header::{crc_of, field};
use crate::record::RawRecord;
use crate::scan::{RecordMeta, ScanLimits, Walk, scan, scan_plain};
use crate::varint::{put_varint, put_varlong, size_of_varint, size_of_varlong};
use crate::{Attributes, Batch, BatchError, BatchHeader, Codec, Scratch, TimestampType};
use bytes::Bytes;
use messages::RecordErrors;

/// Validates with tables and buffers that live from batch to batch. Keep one per core.
#[derive(Debug, Default)]
pub struct Validator {
    scratch: Scratch,
}

/// [`Validator::validate`] with a validator of its own, for places where speed does not matter.
///
/// # Errors
/// As there.
pub fn validate(records: &Bytes, now_ms: i64, config: &ValidationConfig) -> Result<ValidatedBatch, RecordError> {
    Validator::new().validate(records, now_ms, config)
}

impl Validator {
    /// One with nothing allocated yet.
    pub fn new() -> Validator {
        Validator::default()
    }

    /// Checks the one batch in `records`, at `now_ms` on the wall clock, and makes of it what is to be appended. An
    /// incomplete batch behind it is ignored, as Kafka does.
    ///
    /// # Errors
    /// [`RecordError`] with what the client is to be told.
    pub fn validate(
        &mut self,
        records: &Bytes,
        now_ms: i64,
        config: &ValidationConfig,
    ) -> Result<ValidatedBatch, RecordError> {
        let batch = framing::only_batch(records, config)?;
        check_bytes(&batch, config)?;
        check_header(&batch.header, config)?;
        let source = batch.header.attributes.codec().map_err(|e| refusal(&e, config))?;
        let (target, level) = match config.compression {
            TargetCompression::Producer => (source, None),
            TargetCompression::Codec { codec, level } => (codec, level),
        };
        // Control records are the broker's own; they are stored as they are written.
        let keep = source == target || (source == Codec::None && batch.header.is_control());
        let mut checks = Checks::new(&batch.header, now_ms, config, source, keep);
        if keep {
            self.walk(&batch, config, &mut checks)?;
            let max_timestamp = checks.finish()?;
            return Ok(keep_payload(batch, max_timestamp, config));
        }
        self.rebuild(&batch, config, &mut checks, target, level)
    }

    /// Bytes of the buffers held from batch to batch, beside the codecs' own tables.
    pub fn held_bytes(&self) -> usize {
        self.scratch.held_bytes()
    }

    fn walk(&mut self, batch: &Batch, config: &ValidationConfig, checks: &mut Checks<'_>) -> Result<(), RecordError> {
        let limits =
            ScanLimits { record_bytes_max: config.record_bytes_max, total_bytes_max: config.decompressed_bytes_max };
        let Scratch { decompressor, window, .. } = &mut self.scratch;
        scan(&batch.header, batch.payload(), decompressor, window, limits, |meta| checks.see(meta))
            .map_err(|e| refusal(&e, config))
    }

    /// Compresses the records with another codec, numbering them anew.
    fn rebuild(
        &mut self,
        batch: &Batch,
        config: &ValidationConfig,
        checks: &mut Checks<'_>,
        target: Codec,
        level: Option<i32>,
    ) -> Result<ValidatedBatch, RecordError> {
        let source = batch.header.attributes.codec().map_err(|e| refusal(&e, config))?;
        let plain: &[u8] = if source == Codec::None {
            batch.payload()
        } else {
            self.scratch.reset();
            self.scratch
                .decompressor
                .decompress(source, batch.payload(), &mut self.scratch.buffer, config.decompressed_bytes_max)
                .map_err(|e| refusal(&e, config))?;
            &self.scratch.buffer
        };
        let mut body = Renumbered::new(&batch.header, plain.len());
        scan_plain(&batch.header, plain, |raw| {
            body.push(raw);
            checks.see(&RecordMeta::of(raw))
        })
        .map_err(|e| refusal(&e, config))?;
        let max_timestamp = checks.finish()?;
        body.check(config)?;
        let bytes = body.finish(&batch.header, target, level, max_timestamp, config)?;
        let header = BatchHeader::parse(&bytes).map_err(|e| refusal(&e, config))?;
        if bytes.len() > config.batch_bytes_max {
            return Err(messages::too_large_after_conversion(bytes.len(), config));
        }
        Ok(ValidatedBatch {
            bytes,
            header,
            max_timestamp,
            offset_delta_of_max_timestamp: delta_of_max(&header, max_timestamp),
            rewritten: true,
        })
    }
}

/// What Kafka checks before it looks at the batch's meaning.
fn check_bytes(batch: &Batch, config: &ValidationConfig) -> Result<(), RecordError> {
    let header = &batch.header;
    if config.origin == AppendOrigin::Client && header.base_offset != 0 {
        return Err(messages::base_offset(header.base_offset, config));
    }
    if batch.bytes.len() > config.batch_bytes_max {
        return Err(messages::too_large(batch.bytes.len(), config));
    }
    batch.verify_crc().map_err(|e| refusal(&e, config))
}

fn check_header(header: &BatchHeader, config: &ValidationConfig) -> Result<(), RecordError> {
    if config.origin != AppendOrigin::Client {
        return Ok(());
    }
    let span = i64::from(header.last_offset_delta) + 1;
    let count = i64::from(header.record_count);
    if span <= 0 {
        return Err(messages::offset_range(header, config));
    }
    if count <= 0 {
        return Err(messages::record_count(header, config));
    }
    if span != count {
        return Err(messages::offsets_and_count(header, config));
    }
    if header.is_control() {
        return Err(messages::control(config));
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        return Err(messages::sequence(header, config));
    }
    Ok(())
}

/// The error for a batch that cannot be read.
fn refusal(error: &BatchError, config: &ValidationConfig) -> RecordError {
    let kind = match error {
        BatchError::Crc { .. } | BatchError::Length(_) | BatchError::Truncated { .. } => {
            RecordErrorKind::CorruptMessage
        }
        BatchError::Codec(_) => RecordErrorKind::UnsupportedCompressionType,
        _ => RecordErrorKind::InvalidRecord,
    };
    messages::plain(kind, format!("{error} in topic partition {}", config.topic_partition))
}

/// The checks of one record after the other, and what they have found so far.
struct Checks<'a> {
    header: &'a BatchHeader,
    now_ms: i64,
    config: &'a ValidationConfig,
    /// Offsets must be 0, 1, 2...: in compressed batches that are kept, where Kafka would have to renumber them and
    /// cannot.
    numbered: bool,
    /// The batch is compressed and kept: Kafka then calls a record by another name.
    partial: bool,
    index: i32,
    max_timestamp: i64,
    errors: RecordErrors,
    misnumbered: Option<(i32, i32)>,
}

impl<'a> Checks<'a> {
    fn new(
        header: &'a BatchHeader,
        now_ms: i64,
        config: &'a ValidationConfig,
        source: Codec,
        keep: bool,
    ) -> Checks<'a> {
        let numbered = keep && source != Codec::None;
        Checks {
            header,
            now_ms,
            config,
            numbered,
            partial: numbered,
            index: 0,
            max_timestamp: -1,
            errors: RecordErrors::default(),
            misnumbered: None,
        }
    }

    #[inline(always)]
    fn see(&mut self, meta: &RecordMeta) -> Walk {
        let timestamp = meta.timestamp(self.header);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        if self.config.compacted && meta.key_len < 0 {
            self.errors.no_key(self.index, self.config);
        } else {
            self.check_timestamp(meta, timestamp);
        }
        if self.numbered && meta.offset_delta != self.index && self.misnumbered.is_none() {
            self.misnumbered = Some((self.index, meta.offset_delta));
        }
        self.index += 1;
        Walk::On
    }

    #[inline(always)]
    fn check_timestamp(&mut self, meta: &RecordMeta, timestamp: i64) {
        let config = self.config;
        if config.timestamp_type == TimestampType::CreateTime && timestamp != -1 {
            // Java's arithmetic wraps, and so must ours: i64::MIN lies on the future's side of any present.
            let age = self.now_ms.wrapping_sub(timestamp);
            if age > config.timestamp_before_max_ms || age.wrapping_neg() > config.timestamp_after_max_ms {
                self.errors.timestamp(self.index, timestamp, meta.offset(self.header), self.now_ms, config);
            }
        } else if self.header.attributes.timestamp_type() == TimestampType::LogAppendTime {
            self.errors.timestamp_type(self.index, timestamp, meta, meta.offset(self.header), self.partial);
        }
    }

    /// The largest timestamp of the batch as it is to be stored.
    fn finish(&mut self) -> Result<i64, RecordError> {
        std::mem::take(&mut self.errors).into_result()?;
        if let Some((index, delta)) = self.misnumbered {
            return Err(messages::misnumbered(index, delta, self.config));
        }
        Ok(match self.config.timestamp_type {
            TimestampType::LogAppendTime => self.now_ms,
            TimestampType::CreateTime => self.max_timestamp,
        })
    }
}

fn delta_of_max(header: &BatchHeader, max_timestamp: i64) -> i32 {
    if max_timestamp < 0 { -1 } else { header.last_offset_delta }
}

/// Keeps the records as they are; the header's timestamps are corrected where they are not what they must be.
fn keep_payload(batch: Batch, max_timestamp: i64, config: &ValidationConfig) -> ValidatedBatch {
    let mut header = batch.header;
    let same_type = header.attributes.timestamp_type() == config.timestamp_type;
    if same_type && header.max_timestamp == max_timestamp {
        return ValidatedBatch {
            offset_delta_of_max_timestamp: delta_of_max(&header, max_timestamp),
            bytes: batch.bytes,
            header,
            max_timestamp,
            rewritten: false,
        };
    }
    // Written anew, the attributes lose bits that have no meaning yet.
    const KNOWN_BITS: i16 = 0x7f;
    header.attributes = Attributes(header.attributes.0 & KNOWN_BITS).with_timestamp_type(config.timestamp_type);
    header.max_timestamp = max_timestamp;
    let mut bytes = batch.bytes.to_vec();
    header.write(&mut bytes);
    header.crc = crc_of(&bytes);
    header.write(&mut bytes);
    ValidatedBatch {
        offset_delta_of_max_timestamp: delta_of_max(&header, max_timestamp),
        bytes: Bytes::from(bytes),
        header,
        max_timestamp,
        rewritten: true,
    }
}

/// The uncompressed records of a batch, numbered from 0 and with timestamps relative to the first.
struct Renumbered {
    body: Vec<u8>,
    base_timestamp: Option<i64>,
    min_timestamp: i64,
    count: i32,
    header: BatchHeader,
}

impl Renumbered {
    fn new(header: &BatchHeader, bytes: usize) -> Renumbered {
        let body = Vec::with_capacity(bytes);
        Renumbered { body, base_timestamp: None, min_timestamp: -1, count: 0, header: *header }
    }

    fn push(&mut self, raw: &RawRecord<'_>) {
        let timestamp = raw.timestamp(&self.header);
        let delta = timestamp.wrapping_sub(*self.base_timestamp.get_or_insert(timestamp));
        self.min_timestamp = self.min_timestamp.min(timestamp);
        let size = 1 + size_of_varlong(delta) + size_of_varint(self.count) + raw.tail.len();
        put_varint(&mut self.body, size as i32);
        self.body.push(0);
        put_varlong(&mut self.body, delta);
        put_varint(&mut self.body, self.count);
        self.body.extend_from_slice(raw.tail);
        self.count += 1;
    }

    /// What Kafka stores as it comes, but fails to write anew.
    fn check(&self, config: &ValidationConfig) -> Result<(), RecordError> {
        let name = &config.topic_partition;
        let refused = |what: &str| {
            let text = format!("{what} in topic partition {name}");
            Err(messages::plain(RecordErrorKind::InvalidRecord, text))
        };
        if self.min_timestamp < -1 {
            return refused("Negative timestamp");
        }
        if self.header.is_transactional() && !self.header.has_producer_id() {
            return refused("Transactional records without producer id");
        }
        if self.header.has_producer_id() && self.header.producer_epoch < 0 {
            return refused("Producer id without producer epoch");
        }
        Ok(())
    }

    fn finish(
        &self,
        from: &BatchHeader,
        codec: Codec,
        level: Option<i32>,
        max_timestamp: i64,
        config: &ValidationConfig,
    ) -> Result<Bytes, RecordError> {
        let mut out = vec![0; field::RECORDS];
        let failed = |text: String| messages::plain(RecordErrorKind::InvalidRecord, text);
        compress(codec, level, &self.body, &mut out).map_err(|e| failed(e.to_string()))?;
        let Ok(batch_length) = i32::try_from(out.len() - field::LOG_OVERHEAD) else {
            return Err(messages::too_large_after_conversion(out.len(), config));
        };
        let mut header = BatchHeader {
            batch_length,
            attributes: Attributes::new(codec, config.timestamp_type, from.is_transactional(), from.is_control()),
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp.unwrap_or(-1),
            max_timestamp,
            record_count: self.count,
            ..*from
        };
        header.write(&mut out);
        header.crc = crc_of(&out);
        header.write(&mut out);
        Ok(Bytes::from(out))
    }
}

#[cfg(test)]
mod tests;
