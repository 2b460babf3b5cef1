//! Walks the records of a batch without holding more of it than a window, and without allocating per record.

use crate::record::{RawRecord, Reader};
use crate::varint::{read_varint, read_varlong};
use crate::{BatchError, BatchHeader, Codec, DecompressStream, Decompressor};

/// How much of a compressed batch is looked at at once: the block of LZ4 as Kafka writes it, twice that of Snappy.
const WINDOW_BYTES: usize = 64 << 10;
/// The longest run of bytes that must be seen in one piece: a varlong.
const PIECE_BYTES_MAX: usize = 10;

/// What a walk tells of a record. Keys and values are there by length only (-1 for null).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordMeta {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key_len: i32,
    pub value_len: i32,
}

impl RecordMeta {
    /// Of a record at hand.
    #[inline(always)]
    pub fn of(raw: &RawRecord<'_>) -> RecordMeta {
        let len = |bytes: Option<&[u8]>| bytes.map_or(-1, |b| b.len() as i32);
        RecordMeta {
            timestamp_delta: raw.timestamp_delta,
            offset_delta: raw.offset_delta,
            key_len: len(raw.key),
            value_len: len(raw.value),
        }
    }

    /// The timestamp the record has in `batch`.
    pub fn timestamp(&self, batch: &BatchHeader) -> i64 {
        match batch.attributes.timestamp_type() {
            crate::TimestampType::LogAppendTime => batch.max_timestamp,
            crate::TimestampType::CreateTime => batch.base_timestamp.wrapping_add(self.timestamp_delta),
        }
    }

    /// The offset the record has in `batch`.
    pub fn offset(&self, batch: &BatchHeader) -> i64 {
        batch.base_offset.wrapping_add(i64::from(self.offset_delta))
    }
}

/// Whether a walk goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walk {
    On,
    Stop,
}

/// Bounds of a walk over compressed records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLimits {
    /// Bytes of one record without its size field.
    pub record_bytes_max: usize,
    /// Bytes of all records.
    pub total_bytes_max: usize,
}

/// Walks the uncompressed `records` of `header`, which must hold as many as it counts and nothing more.
pub(crate) fn scan_plain(
    header: &BatchHeader,
    records: &[u8],
    mut see: impl FnMut(&RawRecord<'_>) -> Walk,
) -> Result<(), BatchError> {
    if header.record_count < 0 {
        return Err(BatchError::Count(header.record_count));
    }
    let mut reader = Reader { bytes: records };
    for _ in 0..header.record_count {
        let raw = RawRecord::parse(reader.body()?)?;
        if see(&raw) == Walk::Stop {
            return Ok(());
        }
    }
    if !reader.bytes.is_empty() {
        return Err(BatchError::Trailing(reader.bytes.len()));
    }
    Ok(())
}

/// Walks the records of `header`, compressed or not, `payload` being what follows it.
pub(crate) fn scan(
    header: &BatchHeader,
    payload: &[u8],
    decompressor: &mut Decompressor,
    window: &mut Vec<u8>,
    limits: ScanLimits,
    mut see: impl FnMut(&RecordMeta) -> Walk,
) -> Result<(), BatchError> {
    let codec = header.attributes.codec()?;
    if codec == Codec::None {
        return scan_plain(header, payload, |raw| see(&RecordMeta::of(raw)));
    }
    if header.record_count < 0 {
        return Err(BatchError::Count(header.record_count));
    }
    if header.record_count == 0 {
        return Ok(());
    }
    let mut window = Window::new(decompressor.stream(codec, payload)?, window, limits.total_bytes_max);
    for _ in 0..header.record_count {
        if see(&window.record(limits.record_bytes_max)?) == Walk::Stop {
            return Ok(());
        }
    }
    match window.ensure(1)?.len() {
        0 => Ok(()),
        rest => Err(BatchError::Trailing(rest)),
    }
}

/// A buffer that slides over a decompressed stream.
struct Window<'a, 'b> {
    stream: DecompressStream<'a>,
    buffer: &'b mut Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    total: usize,
    total_max: usize,
}

impl<'a, 'b> Window<'a, 'b> {
    fn new(stream: DecompressStream<'a>, buffer: &'b mut Vec<u8>, total_max: usize) -> Window<'a, 'b> {
        buffer.resize(WINDOW_BYTES, 0);
        Window { stream, buffer, start: 0, end: 0, ended: false, total: 0, total_max }
    }

    /// What is visible after trying to make it at least `n` bytes; less only where the stream ends.
    fn ensure(&mut self, n: usize) -> Result<&[u8], BatchError> {
        if self.end - self.start < n && !self.ended {
            self.slide(n)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn slide(&mut self, n: usize) -> Result<(), BatchError> {
        debug_assert!(n <= WINDOW_BYTES, "{n} bytes do not fit a window of {WINDOW_BYTES}");
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < n {
            let read = self.stream.read(&mut self.buffer[self.end..])?;
            if read == 0 {
                self.ended = true;
                return Ok(());
            }
            self.end += read;
            self.total += read;
            if self.total > self.total_max {
                return Err(BatchError::TooLarge { limit: self.total_max });
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<i32, BatchError> {
        let piece = self.ensure(PIECE_BYTES_MAX)?;
        let (value, len) = read_varint(piece).ok_or(BatchError::Record("a varint is cut off or too long"))?;
        self.start += len;
        Ok(value)
    }

    fn varlong(&mut self) -> Result<i64, BatchError> {
        let piece = self.ensure(PIECE_BYTES_MAX)?;
        let (value, len) = read_varlong(piece).ok_or(BatchError::Record("a varlong is cut off or too long"))?;
        self.start += len;
        Ok(value)
    }

    fn skip(&mut self, mut n: usize) -> Result<(), BatchError> {
        loop {
            let seen = self.ensure(1)?.len().min(n);
            self.start += seen;
            n -= seen;
            if n == 0 {
                return Ok(());
            }
            if seen == 0 {
                return Err(BatchError::Record("the records end too early"));
            }
        }
    }

    fn record(&mut self, bytes_max: usize) -> Result<RecordMeta, BatchError> {
        let Ok(size) = usize::try_from(self.varint()?) else {
            return Err(BatchError::Record("negative size"));
        };
        if size > bytes_max {
            return Err(BatchError::RecordTooLarge { size, limit: bytes_max });
        }
        if size > WINDOW_BYTES {
            return self.large_record(size);
        }
        let Some(body) = self.ensure(size)?.get(..size) else {
            return Err(BatchError::Record("the records end too early"));
        };
        let meta = RecordMeta::of(&RawRecord::parse(body)?);
        self.start += size;
        Ok(meta)
    }

    /// Bytes of the stream passed over so far.
    fn position(&self) -> usize {
        self.total - (self.end - self.start)
    }

    /// A record that does not fit the window: its parts are passed over one after the other.
    fn large_record(&mut self, size: usize) -> Result<RecordMeta, BatchError> {
        let end = self.position() + size;
        self.skip(1)?;
        let timestamp_delta = self.varlong()?;
        let offset_delta = self.varint()?;
        let key_len = self.field(end)?;
        let value_len = self.field(end)?;
        let Ok(headers) = usize::try_from(self.varint()?) else {
            return Err(BatchError::Record("negative number of headers"));
        };
        for _ in 0..headers {
            if self.field(end)? < 0 {
                return Err(BatchError::Record("a header key has a negative length"));
            }
            self.field(end)?;
        }
        if self.position() != end {
            return Err(BatchError::Record("its size exceeds its content"));
        }
        Ok(RecordMeta { timestamp_delta, offset_delta, key_len, value_len })
    }

    /// Passes over a nullable field of a record that ends at `end`, and returns its length.
    fn field(&mut self, end: usize) -> Result<i32, BatchError> {
        let len = self.varint()?;
        if let Ok(n) = usize::try_from(len) {
            if n > end.saturating_sub(self.position()) {
                return Err(BatchError::Record("a length exceeds the record"));
            }
            self.skip(n)?;
        }
        Ok(len.max(-1))
    }
}
