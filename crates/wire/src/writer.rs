use base::{Few, Uuid};
use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::WriteItem;
use crate::error::EncodeError;
use crate::segment::{Records, Segment};

/// Longest string of the protocol, in bytes.
const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Bytes that a new writer has room for before it grows.
const CAPACITY_BYTES: usize = 256;

/// Where a segment that is not ours stands: behind so many bytes of our own.
#[derive(Debug)]
struct Cut {
    behind: usize,
    segment: Segment,
}

/// Place of the count of a tagged section.
#[derive(Clone, Copy, Debug)]
pub struct TagsMark(usize);

/// Place of the size of a tagged value.
#[derive(Clone, Copy, Debug)]
pub struct TagMark(usize);

/// Writes values of messages. Everything but records goes into one buffer; records are kept beside it as segments, so that
/// their bytes are not copied. The first error sticks and is given by [`crate::Encode::encode`].
#[derive(Debug)]
pub struct Writer {
    buffer: BytesMut,
    cuts: Vec<Cut>,
    /// Bytes of all cuts.
    cut_bytes: usize,
    /// True when the buffer begins with four bytes for the size of the frame.
    is_frame: bool,
    flexible: bool,
    error: Option<EncodeError>,
}

/// The segments of what was written: `whole`, with what is not ours in between.
fn cut_up(whole: Bytes, cuts: Vec<Cut>) -> Few<Segment> {
    let mut segments = Few::with_capacity(2 * cuts.len() + 1);
    let mut from = 0;
    for cut in cuts {
        if cut.behind > from {
            segments.push(Segment::Bytes(whole.slice(from..cut.behind)));
            from = cut.behind;
        }
        segments.push(cut.segment);
    }
    if from == 0 && !whole.is_empty() {
        segments.push(Segment::Bytes(whole));
    } else if whole.len() > from {
        segments.push(Segment::Bytes(whole.slice(from..)));
    }
    segments
}

impl Default for Writer {
    fn default() -> Writer {
        Writer::new()
    }
}

impl Writer {
    /// A writer of bare values.
    pub fn new() -> Writer {
        Writer::with_capacity(CAPACITY_BYTES)
    }

    /// A writer of bare values with room for `capacity` bytes beside records.
    pub fn with_capacity(capacity: usize) -> Writer {
        Writer::of(BytesMut::with_capacity(capacity))
    }

    fn of(buffer: BytesMut) -> Writer {
        Writer { buffer, cuts: Vec::new(), cut_bytes: 0, is_frame: false, flexible: false, error: None }
    }

    /// A writer of a frame: four bytes in front will say how many follow.
    pub fn frame() -> Writer {
        Writer::frame_in(BytesMut::with_capacity(CAPACITY_BYTES))
    }

    /// As [`Writer::frame`], into a buffer that is empty; [`Writer::finish_leaving`] gives back what is left of it.
    pub fn frame_in(buffer: BytesMut) -> Writer {
        assert!(buffer.is_empty(), "values begin behind {} other bytes", buffer.len());
        let mut w = Writer::of(buffer);
        w.is_frame = true;
        w.i32(0);
        w
    }

    /// Number of bytes so far, records and the size in front of a frame included.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.cut_bytes
    }

    /// True when nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has been written, as segments. Empty ones are left out.
    pub fn finish(mut self) -> Few<Segment> {
        self.set_size();
        cut_up(self.buffer.freeze(), self.cuts)
    }

    /// As [`Writer::finish`], and the room behind it, for the next writer. The memory lives as long as either.
    pub fn finish_leaving(mut self) -> (Few<Segment>, BytesMut) {
        self.set_size();
        let whole = self.buffer.split().freeze();
        (cut_up(whole, self.cuts), self.buffer)
    }

    fn set_size(&mut self) {
        if self.is_frame {
            // The size of a frame is an int32; what exceeds it was refused when it was written.
            let size = u32::try_from(self.len() - 4).unwrap_or(u32::MAX);
            self.buffer[..4].copy_from_slice(&size.to_be_bytes());
        }
    }

    /// What has been written, as one piece; copies if there are records. `None` when there are external ones, whose bytes
    /// are not here.
    pub fn into_bytes(self) -> Option<Bytes> {
        let length = self.len();
        let segments = match self.finish().into_only() {
            Ok(Segment::Bytes(bytes)) => return Some(bytes),
            Ok(Segment::External { .. }) => return None,
            Err(segments) => segments,
        };
        let mut joined = BytesMut::with_capacity(length);
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => joined.extend_from_slice(&bytes),
                Segment::External { .. } => return None,
            }
        }
        Some(joined.freeze())
    }

    pub(crate) fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    /// The first error, if there was one.
    pub fn check(&self) -> Result<(), EncodeError> {
        self.error.map_or(Ok(()), Err)
    }

    #[cold]
    fn fail(&mut self, error: EncodeError) {
        self.error.get_or_insert(error);
    }

    /// Notes that a field is set which the version lacks.
    #[cold]
    pub fn not_in_version(&mut self, field: &'static str, version: i16) {
        self.fail(EncodeError::NotInVersion { field, version });
    }

    /// Notes that a field is null which must not be.
    #[cold]
    pub fn null_not_allowed(&mut self, field: &'static str) {
        self.fail(EncodeError::NullNotAllowed { field });
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.buffer.put_u8(value.into());
    }

    /// `int8`.
    pub fn i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    /// `int16`.
    pub fn i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    /// `uint16`.
    pub fn u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    /// `int32`.
    pub fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    /// `uint32`.
    pub fn u32(&mut self, value: u32) {
        self.buffer.put_u32(value);
    }

    /// `int64`.
    pub fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    /// `float64`.
    pub fn f64(&mut self, value: f64) {
        self.buffer.put_f64(value);
    }

    /// `uuid`.
    pub fn uuid(&mut self, value: &Uuid) {
        self.buffer.put_slice(value.as_bytes());
    }

    /// An unsigned varint.
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.buffer.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value as u8);
    }

    /// The length in front of bytes, records and arrays; `None` for null.
    fn length(&mut self, length: Option<usize>) {
        let number = match length.map(i32::try_from) {
            None => -1,
            Some(Ok(number)) => number,
            Some(Err(_)) => return self.fail(EncodeError::TooLong { length: length.unwrap_or(usize::MAX) }),
        };
        // One more than the length, so that 0 is null; it fits, for the length is below 2^31.
        if self.flexible { self.uvarint((number + 1) as u32) } else { self.i32(number) }
    }

    /// `string`.
    pub fn string(&mut self, text: &str) {
        if !self.flexible {
            return self.string_classic(text);
        }
        if text.len() > STRING_BYTES_MAX {
            return self.fail(EncodeError::TooLong { length: text.len() });
        }
        self.uvarint(text.len() as u32 + 1);
        self.buffer.put_slice(text.as_bytes());
    }

    /// `string` in the classic form whatever the message's form.
    pub fn string_classic(&mut self, text: &str) {
        match i16::try_from(text.len()) {
            Ok(length) => {
                self.i16(length);
                self.buffer.put_slice(text.as_bytes());
            }
            Err(_) => self.fail(EncodeError::TooLong { length: text.len() }),
        }
    }

    /// `string` that may be null.
    pub fn opt_string<S: AsRef<str>>(&mut self, text: &Option<S>) {
        match text {
            Some(text) => self.string(text.as_ref()),
            None if self.flexible => self.uvarint(0),
            None => self.i16(-1),
        }
    }

    /// `string` that may be null, in the classic form whatever the message's form.
    pub fn opt_string_classic<S: AsRef<str>>(&mut self, text: &Option<S>) {
        match text {
            Some(text) => self.string_classic(text.as_ref()),
            None => self.i16(-1),
        }
    }

    /// `bytes`.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(Some(bytes.len()));
        self.buffer.put_slice(bytes);
    }

    /// `bytes` that may be null.
    pub fn opt_bytes<B: AsRef<[u8]>>(&mut self, bytes: &Option<B>) {
        match bytes {
            Some(bytes) => self.bytes(bytes.as_ref()),
            None => self.length(None),
        }
    }

    fn cut(&mut self, segment: Segment) {
        if !segment.is_empty() {
            self.cut_bytes += segment.len();
            self.cuts.push(Cut { behind: self.buffer.len(), segment });
        }
    }

    /// `records`.
    pub fn records(&mut self, records: &Records) {
        self.length(Some(records.len()));
        match records {
            Records::Bytes(bytes) => self.cut(Segment::Bytes(bytes.clone())),
            Records::Chain(pieces) => pieces.iter().for_each(|piece| self.cut(Segment::Bytes(piece.clone()))),
            Records::External { len, token } => self.cut(Segment::External { len: *len, token: *token }),
        }
    }

    /// `records` that may be null.
    pub fn opt_records(&mut self, records: &Option<Records>) {
        match records {
            Some(records) => self.records(records),
            None => self.length(None),
        }
    }

    /// An array.
    pub fn array<T: WriteItem>(&mut self, items: &[T], v: i16) {
        self.length(Some(items.len()));
        for item in items {
            item.write(self, v);
        }
    }

    /// An array that may be null.
    pub fn opt_array<T: WriteItem>(&mut self, items: &Option<Vec<T>>, v: i16) {
        match items {
            Some(items) => self.array(items, v),
            None => self.length(None),
        }
    }

    /// A struct that may be null: a sign byte in front.
    pub fn opt_struct<T: WriteItem>(&mut self, value: &Option<T>, v: i16) {
        match value {
            Some(value) => {
                self.i8(1);
                value.write(self, v);
            }
            None => self.i8(-1),
        }
    }

    /// A struct that may be null in a tagged section: 1 in front, or 0 alone.
    pub fn opt_tagged_struct<T: WriteItem>(&mut self, value: &Option<T>, v: i16) {
        self.bool(value.is_some());
        if let Some(value) = value {
            value.write(self, v);
        }
    }

    /// The tagged section of a struct that has no tags, which only flexible versions have.
    pub fn no_tags(&mut self) {
        if self.flexible {
            self.buffer.put_u8(0);
        }
    }

    /// Begins a tagged section. No struct has more than 127 tags, so that the count is one byte.
    pub fn begin_tags(&mut self) -> TagsMark {
        self.buffer.put_u8(0);
        TagsMark(self.buffer.len() - 1)
    }

    /// Begins a tagged value; tags must ascend.
    pub fn begin_tag(&mut self, tags: TagsMark, tag: u32) -> TagMark {
        self.buffer[tags.0] += 1;
        self.uvarint(tag);
        self.buffer.put_u8(0);
        TagMark(self.buffer.len() - 1)
    }

    /// Ends a tagged value: its size takes the byte kept for it, or pushes the value back if it needs more.
    pub fn end_tag(&mut self, tag: TagMark) {
        let start = tag.0 + 1;
        let end = self.buffer.len();
        let Ok(size) = u32::try_from(end - start) else {
            return self.fail(EncodeError::TooLong { length: end - start });
        };
        if size < 0x80 {
            self.buffer[tag.0] = size as u8;
            return;
        }
        self.uvarint(size);
        let size_bytes = self.buffer.len() - end;
        let mut encoded = [0u8; 5];
        encoded[..size_bytes].copy_from_slice(&self.buffer[end..]);
        self.buffer.copy_within(start..end, tag.0 + size_bytes);
        self.buffer[tag.0..tag.0 + size_bytes].copy_from_slice(&encoded[..size_bytes]);
        self.buffer.truncate(end + size_bytes - 1);
    }
}
