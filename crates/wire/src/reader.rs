use std::borrow::Cow;

use base::Uuid;
use bytes::Bytes;

use crate::ApiKey;
use crate::codec::{Bin, ReadItem, Str};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::segment::Records;

/// Bytes of arrays that a large message may make us allocate for each byte it has on the wire. Honest messages stay below:
/// partitions of a Fetch request take 80 for 33 received, topics of a Metadata request with names of four letters 40 for
/// 6. An array of empty strings would take 24 for 1.
pub const DECODED_BYTES_PER_WIRE_BYTE_MAX: usize = 8;

/// Bytes of arrays that every message may make us allocate on top, so that no small message is refused whatever its
/// shape. What small messages can take is bounded by their types: 32 bytes for 1 received, and mostly far less.
pub const DECODED_BYTES_FREE: usize = 1024 * 1024;

/// Bytes that an array reserves at once on the word of its count; beyond, it grows as items really arrive.
const ARRAY_RESERVE_BYTES_MAX: usize = 16 * 1024;

/// Longest string of the protocol, in bytes.
const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Tagged values that one struct may have, known or not; Kafka's own bound.
const TAGS_PER_STRUCT_MAX: u32 = 10_000;

type Result<T> = std::result::Result<T, DecodeError>;

/// Reads the values of a message from a frame, front to back. Text and bytes are borrowed from the frame; records are
/// slices that share it. Nothing that the bytes claim is believed before it has been compared with what is there.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// What the reader was given, when it is a refcounted buffer that records can share.
    frame: Option<&'a Bytes>,
    /// Bytes that were there at the start.
    total: usize,
    /// Bytes of the frame behind the end of the tagged field that is being read.
    hidden: usize,
    /// Bytes of arrays that may still be allocated.
    budget: usize,
    flexible: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `frame`. Records share it.
    pub fn new(frame: &'a Bytes) -> Reader<'a> {
        Reader { frame: Some(frame), ..Reader::from_slice(frame) }
    }

    /// A reader of `frame` from `from` on, which is within it. Records share the frame.
    pub fn behind(frame: &'a Bytes, from: usize) -> Reader<'a> {
        Reader { frame: Some(frame), ..Reader::from_slice(&frame[from..]) }
    }

    /// A reader of plain bytes, for messages without records; records are copied.
    pub fn from_slice(bytes: &'a [u8]) -> Reader<'a> {
        let budget = bytes.len().saturating_mul(DECODED_BYTES_PER_WIRE_BYTE_MAX).saturating_add(DECODED_BYTES_FREE);
        Reader { rest: bytes, frame: None, total: bytes.len(), hidden: 0, budget, flexible: false }
    }

    /// Number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Number of bytes read.
    #[inline]
    pub fn position(&self) -> usize {
        self.total - self.hidden - self.rest.len()
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An error at the present position.
    #[cold]
    pub fn fail(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { kind, position: u32::try_from(self.position()).unwrap_or(u32::MAX) }
    }

    /// An error if anything is left.
    pub fn finish(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.fail(DecodeErrorKind::TrailingBytes)) }
    }

    /// The same reader, of the body of a request, for those who look at its first fields alone.
    #[inline]
    pub fn in_form_of(self, api: ApiKey, version: i16) -> Reader<'a> {
        Reader { flexible: api.info().is_flexible(version), ..self }
    }

    pub(crate) fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.fail(DecodeErrorKind::Truncated)),
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.fail(DecodeErrorKind::Truncated)),
        }
    }

    /// One byte; anything but 0 is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.fixed::<1>()? != [0])
    }

    /// `int8`.
    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    /// `int16`.
    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    /// `uint16`.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    /// `int32`.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    /// `uint32`.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    /// `int64`.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    /// `float64`.
    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.fixed()?))
    }

    /// `uuid`.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid> {
        Ok(Uuid::from_bytes(self.fixed()?))
    }

    /// An unsigned varint of at most 32 bits.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32> {
        // Most are one byte: lengths of short texts and arrays, no tags.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u32::from(byte));
        }
        self.long_uvarint()
    }

    fn long_uvarint(&mut self) -> Result<u32> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed()?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.fail(DecodeErrorKind::BadVarint))
    }

    /// A length in the compact form: a varint that is one more than the length, 0 for null. Apache Kafka takes every
    /// number that is negative as an `int32` for null.
    fn compact_length(&mut self) -> Result<Option<usize>> {
        Ok(usize::try_from((self.uvarint()? as i32).wrapping_sub(1)).ok())
    }

    fn string_of(&mut self, length: Option<usize>) -> Result<Option<Str<'a>>> {
        let Some(length) = length else { return Ok(None) };
        if length > STRING_BYTES_MAX {
            return Err(self.fail(DecodeErrorKind::BadLength));
        }
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(Some(Cow::Borrowed(text))),
            Err(_) => {
                // The position is that of the text, which has been taken.
                let position = self.fail_position().saturating_sub(length as u32);
                Err(DecodeError { kind: DecodeErrorKind::InvalidUtf8, position })
            }
        }
    }

    fn fail_position(&self) -> u32 {
        u32::try_from(self.position()).unwrap_or(u32::MAX)
    }

    fn not_null<T>(&self, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.fail(DecodeErrorKind::NullNotAllowed))
    }

    /// `string` that may be null.
    pub fn opt_string(&mut self) -> Result<Option<Str<'a>>> {
        if !self.flexible {
            return self.opt_string_classic();
        }
        let length = self.compact_length()?;
        self.string_of(length)
    }

    /// `string` that may be null, in the classic form whatever the message's form.
    pub fn opt_string_classic(&mut self) -> Result<Option<Str<'a>>> {
        // The classic form: a signed number, null below 0.
        let length = usize::try_from(self.i16()?).ok();
        self.string_of(length)
    }

    /// `string`.
    pub fn string(&mut self) -> Result<Str<'a>> {
        let text = self.opt_string()?;
        self.not_null(text)
    }

    /// The length in front of bytes, records and arrays.
    fn length(&mut self) -> Result<Option<usize>> {
        if self.flexible {
            return self.compact_length();
        }
        Ok(usize::try_from(self.i32()?).ok())
    }

    fn opt_slice(&mut self) -> Result<Option<&'a [u8]>> {
        match self.length()? {
            None => Ok(None),
            Some(length) => self.take(length).map(Some),
        }
    }

    /// `bytes` that may be null.
    pub fn opt_bytes(&mut self) -> Result<Option<Bin<'a>>> {
        Ok(self.opt_slice()?.map(Cow::Borrowed))
    }

    /// `bytes`.
    pub fn bytes(&mut self) -> Result<Bin<'a>> {
        let bytes = self.opt_bytes()?;
        self.not_null(bytes)
    }

    /// `records` that may be null.
    pub fn opt_records(&mut self) -> Result<Option<Records>> {
        let frame = self.frame;
        Ok(self.opt_slice()?.map(|slice| match frame {
            Some(frame) => Records::Bytes(frame.slice_ref(slice)),
            None => Records::Bytes(Bytes::copy_from_slice(slice)),
        }))
    }

    /// `records`.
    pub fn records(&mut self) -> Result<Records> {
        let records = self.opt_records()?;
        self.not_null(records)
    }

    /// A struct that may be null: a sign byte, then the struct unless the sign is negative.
    pub fn opt_struct<T: ReadItem<'a>>(&mut self, v: i16) -> Result<Option<T>> {
        if self.i8()? < 0 { Ok(None) } else { T::read(self, v).map(Some) }
    }

    /// A struct that may be null in a tagged section: a varint, then the struct unless the varint is 0.
    pub fn opt_tagged_struct<T: ReadItem<'a>>(&mut self, v: i16) -> Result<Option<T>> {
        if self.uvarint()? == 0 { Ok(None) } else { T::read(self, v).map(Some) }
    }

    /// An array that may be null.
    pub fn opt_array<T: ReadItem<'a>>(&mut self, v: i16) -> Result<Option<Vec<T>>> {
        let Some(count) = self.count(T::WIRE_MIN, size_of::<T>())? else { return Ok(None) };
        let mut items = Vec::with_capacity(count.min(ARRAY_RESERVE_BYTES_MAX / size_of::<T>().max(1)));
        for read in 0..count {
            if read == items.capacity() {
                items.reserve_exact(read.max(1).min(count - read));
            }
            items.push(T::read(self, v)?);
        }
        Ok(Some(items))
    }

    /// An array.
    pub fn array<T: ReadItem<'a>>(&mut self, v: i16) -> Result<Vec<T>> {
        let items = self.opt_array(v)?;
        self.not_null(items)
    }

    /// The count in front of an array, checked against the bytes that so many items need and against the memory they
    /// will take.
    fn count(&mut self, wire_min: usize, item_size: usize) -> Result<Option<usize>> {
        let Some(count) = self.length()? else { return Ok(None) };
        if count > self.rest.len() / wire_min {
            return Err(self.fail(DecodeErrorKind::Truncated));
        }
        match self.budget.checked_sub(count.saturating_mul(item_size)) {
            Some(left) => self.budget = left,
            None => return Err(self.fail(DecodeErrorKind::TooExpensive)),
        }
        Ok(Some(count))
    }

    /// The tagged section at the end of a struct, which only flexible versions have. `known` reads the value of a tag it
    /// knows and says whether it did; other values are skipped.
    pub fn tags(&mut self, known: &mut dyn FnMut(&mut Reader<'a>, u32) -> Result<bool>) -> Result<()> {
        if !self.flexible {
            return Ok(());
        }
        let count = self.uvarint()?;
        if count > TAGS_PER_STRUCT_MAX {
            return Err(self.fail(DecodeErrorKind::BadLength));
        }
        // Tags should ascend, but Apache Kafka does not insist; of a tag that comes twice the last value counts.
        for _ in 0..count {
            let tag = self.uvarint()?;
            let size = self.uvarint()? as usize;
            let Some((value, behind)) = self.rest.split_at_checked(size) else {
                return Err(self.fail(DecodeErrorKind::Truncated));
            };
            self.rest = value;
            self.hidden += behind.len();
            let was_known = known(self, tag)?;
            if was_known && !self.rest.is_empty() {
                return Err(self.fail(DecodeErrorKind::TagSize));
            }
            self.rest = behind;
            self.hidden -= behind.len();
        }
        Ok(())
    }

    /// The tagged section of a struct that knows no tags.
    #[inline]
    pub fn skip_tags(&mut self) -> Result<()> {
        // Nearly every section is empty.
        if self.flexible && self.rest.first() == Some(&0) {
            self.rest = &self.rest[1..];
            return Ok(());
        }
        self.tags(&mut |_, _| Ok(false))
    }

    /// The error for a tag that exists in other versions only.
    #[cold]
    pub fn tag_not_in_version(&self) -> DecodeError {
        self.fail(DecodeErrorKind::TagNotInVersion)
    }

    /// The error for a record of an unknown type.
    #[cold]
    pub fn unknown_record_type(&self) -> DecodeError {
        self.fail(DecodeErrorKind::UnknownRecordType)
    }
}
