//! How records of Kafka's own logs stand in a record's key and value.

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

/// The frame version in front of every metadata record.
const FRAME_VERSION: u32 = 1;

/// An enum over the record types of one log.
pub trait TypedRecord<'a>: Sized {
    /// Number of the record type.
    fn type_id(&self) -> i16;
    /// Name of the schema.
    fn name(&self) -> &'static str;
    /// Highest version of the record type.
    fn version_max(&self) -> i16;
    /// Reads the body of a record of the given type.
    fn decode_body(type_id: i16, r: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;
    /// Writes the body.
    fn encode_body(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError>;
}

fn small_number(r: &mut Reader<'_>) -> Result<i16, DecodeError> {
    i16::try_from(r.uvarint()?).map_err(|_| r.fail(DecodeErrorKind::BadVarint))
}

/// Frame version, type and version as varints, then the body and nothing else.
pub fn decode_framed<'a, R: TypedRecord<'a>>(value: &'a [u8]) -> Result<(R, i16), DecodeError> {
    let mut r = Reader::from_slice(value);
    if r.uvarint()? != FRAME_VERSION {
        return Err(r.fail(DecodeErrorKind::UnknownFrameVersion));
    }
    let type_id = small_number(&mut r)?;
    let version = small_number(&mut r)?;
    let record = R::decode_body(type_id, &mut r, version)?;
    r.finish()?;
    Ok((record, version))
}

/// Frame version, type and version as varints, then the body.
pub fn encode_framed<'a, R: TypedRecord<'a>>(record: &R, version: i16) -> Result<Vec<u8>, EncodeError> {
    let mut w = Writer::new();
    w.uvarint(FRAME_VERSION);
    w.uvarint(record.type_id() as u32);
    w.uvarint(version as u32);
    record.encode_body(&mut w, version)?;
    Ok(bytes_of(w))
}

/// The type, then the body in version 0, as in keys of coordinator records.
pub fn decode_key<'a, R: TypedRecord<'a>>(key: &'a [u8]) -> Result<R, DecodeError> {
    let mut r = Reader::from_slice(key);
    let type_id = r.i16()?;
    let record = R::decode_body(type_id, &mut r, 0)?;
    r.finish()?;
    Ok(record)
}

/// The type, then the body in version 0.
pub fn encode_key<'a, R: TypedRecord<'a>>(record: &R) -> Result<Vec<u8>, EncodeError> {
    let mut w = Writer::new();
    w.i16(record.type_id());
    record.encode_body(&mut w, 0)?;
    Ok(bytes_of(w))
}

/// The version, then the body, as in values of coordinator records.
pub fn decode_value<'a, R: TypedRecord<'a>>(type_id: i16, value: &'a [u8]) -> Result<(R, i16), DecodeError> {
    let mut r = Reader::from_slice(value);
    let version = r.i16()?;
    let record = R::decode_body(type_id, &mut r, version)?;
    r.finish()?;
    Ok((record, version))
}

/// The version, then the body.
pub fn encode_value<'a, R: TypedRecord<'a>>(record: &R, version: i16) -> Result<Vec<u8>, EncodeError> {
    let mut w = Writer::new();
    w.i16(version);
    record.encode_body(&mut w, version)?;
    Ok(bytes_of(w))
}

fn bytes_of(w: Writer) -> Vec<u8> {
    w.into_bytes().map(Vec::from).expect("no record type holds external bytes")
}
