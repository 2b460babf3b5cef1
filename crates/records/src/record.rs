//! Parsing of records. Every record of every batch produced goes through here, at some fifteen nanoseconds each; the small
//! steps are inlined by force, as the compiler's own choice costs a third more.

use crate::header::increment_sequence;
use crate::varint::{read_varint, read_varlong};
use crate::{BatchError, BatchHeader, TimestampType};
use base::Offset;

/// One record, borrowed from the (decompressed) bytes of its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Its absolute offset.
    pub offset: Offset,
    /// Its timestamp in ms: its own, or the batch's if that has log append time.
    pub timestamp: i64,
    /// Its sequence number, -1 when the batch has none.
    pub sequence: i32,
    /// Its attribute byte; no bit has a meaning so far.
    pub attributes: i8,
    /// Bytes of the record with its length field.
    pub size: usize,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is a tombstone on a compacted topic.
    pub value: Option<&'a [u8]>,
    /// Its headers (KIP-82).
    pub headers: Headers<'a>,
}

/// The headers of a record: in order, names may repeat. Already checked, so iterating cannot fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    count: usize,
}

/// One header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader<'a> {
    /// The name: UTF-8 from every well-behaved producer, but no broker checks.
    pub key: &'a [u8],
    /// The value.
    pub value: Option<&'a [u8]>,
}

impl<'a> Headers<'a> {
    /// Number of headers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers in order.
    pub fn iter(&self) -> HeaderIter<'a> {
        HeaderIter { reader: Reader { bytes: self.bytes }, left: self.count }
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = RecordHeader<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

/// Iterator over the headers of a record.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = RecordHeader<'a>;

    fn next(&mut self) -> Option<RecordHeader<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.reader.header().ok()
    }
}

/// Iterator over the records of a batch, uncompressed. It ends after as many records as the header counts; the first
/// error ends it too. Bytes left over are an error, found after the last record.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    header: BatchHeader,
    reader: Reader<'a>,
    left: i32,
    finished: bool,
}

impl<'a> RecordIter<'a> {
    /// Over `records`, the uncompressed bytes that follow `header`.
    pub fn new(header: &BatchHeader, records: &'a [u8]) -> RecordIter<'a> {
        RecordIter { header: *header, reader: Reader { bytes: records }, left: header.record_count, finished: false }
    }

    fn step(&mut self) -> Result<Option<Record<'a>>, BatchError> {
        if self.left < 0 {
            return Err(BatchError::Count(self.left));
        }
        if self.left == 0 {
            self.finished = true;
            let rest = self.reader.bytes.len();
            return if rest == 0 { Ok(None) } else { Err(BatchError::Trailing(rest)) };
        }
        self.left -= 1;
        Ok(Some(self.reader.record(&self.header)?))
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Result<Record<'a>, BatchError>> {
        if self.finished {
            return None;
        }
        let step = self.step();
        self.finished |= step.is_err();
        step.transpose()
    }
}

/// What is wrong with a record. Small, as it travels through every step of the parsing; [`BatchError`] is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Malformed(pub &'static str);

impl From<Malformed> for BatchError {
    #[cold]
    fn from(what: Malformed) -> BatchError {
        BatchError::Record(what.0)
    }
}

/// The content of one record as it stands, deltas not yet added to the batch's bases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    pub attributes: i8,
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
    /// Everything after the offset delta: what stays when a record moves into another batch.
    pub tail: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Decodes `body`, a record without its size field and nothing else.
    #[inline(always)]
    pub fn parse(body: &'a [u8]) -> Result<RawRecord<'a>, Malformed> {
        let mut reader = Reader { bytes: body };
        let attributes = reader.take(1)?[0] as i8;
        let timestamp_delta = reader.varlong()?;
        let offset_delta = reader.varint()?;
        let tail = reader.bytes;
        let (key, value) = (reader.nullable()?, reader.nullable()?);
        let headers = reader.headers()?;
        if !reader.bytes.is_empty() {
            return Err(Malformed("its size exceeds its content"));
        }
        Ok(RawRecord { attributes, timestamp_delta, offset_delta, key, value, headers, tail })
    }

    /// The timestamp it has in `batch`.
    #[inline(always)]
    pub fn timestamp(&self, batch: &BatchHeader) -> i64 {
        match batch.attributes.timestamp_type() {
            TimestampType::LogAppendTime => batch.max_timestamp,
            TimestampType::CreateTime => batch.base_timestamp.wrapping_add(self.timestamp_delta),
        }
    }

    /// The offset it has in `batch`.
    #[inline(always)]
    pub fn offset(&self, batch: &BatchHeader) -> Offset {
        batch.base_offset.wrapping_add(i64::from(self.offset_delta))
    }
}

/// A cursor over bytes that all belong to records.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    pub bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn varint(&mut self) -> Result<i32, Malformed> {
        let (value, len) = read_varint(self.bytes).ok_or(Malformed("a varint is cut off or too long"))?;
        self.bytes = &self.bytes[len..];
        Ok(value)
    }

    #[inline(always)]
    fn varlong(&mut self) -> Result<i64, Malformed> {
        let (value, len) = read_varlong(self.bytes).ok_or(Malformed("a varlong is cut off or too long"))?;
        self.bytes = &self.bytes[len..];
        Ok(value)
    }

    #[inline(always)]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.bytes.split_at_checked(len).ok_or(Malformed("a length exceeds the record"))?;
        self.bytes = tail;
        Ok(head)
    }

    #[inline(always)]
    fn nullable(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match usize::try_from(self.varint()?) {
            Ok(len) => self.take(len).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn header(&mut self) -> Result<RecordHeader<'a>, Malformed> {
        let Ok(len) = usize::try_from(self.varint()?) else {
            return Err(Malformed("a header key has a negative length"));
        };
        let key = self.take(len)?;
        Ok(RecordHeader { key, value: self.nullable()? })
    }

    #[inline(always)]
    fn headers(&mut self) -> Result<Headers<'a>, Malformed> {
        let Ok(count) = usize::try_from(self.varint()?) else {
            return Err(Malformed("negative number of headers"));
        };
        // A header has at least two bytes; a lying count is refused before anything is walked.
        if count > self.bytes.len() {
            return Err(Malformed("more headers than bytes"));
        }
        let start = self.bytes;
        for _ in 0..count {
            self.header()?;
        }
        Ok(Headers { bytes: &start[..start.len() - self.bytes.len()], count })
    }

    /// The body of the next record, without its size field.
    #[inline(always)]
    pub fn body(&mut self) -> Result<&'a [u8], Malformed> {
        let Ok(len) = usize::try_from(self.varint()?) else {
            return Err(Malformed("negative size"));
        };
        self.take(len)
    }

    fn record(&mut self, batch: &BatchHeader) -> Result<Record<'a>, Malformed> {
        let before = self.bytes.len();
        let raw = RawRecord::parse(self.body()?)?;
        let sequence =
            if batch.base_sequence < 0 { -1 } else { increment_sequence(batch.base_sequence, raw.offset_delta) };
        Ok(Record {
            offset: raw.offset(batch),
            timestamp: raw.timestamp(batch),
            sequence,
            attributes: raw.attributes,
            size: before - self.bytes.len(),
            key: raw.key,
            value: raw.value,
            headers: raw.headers,
        })
    }
}
