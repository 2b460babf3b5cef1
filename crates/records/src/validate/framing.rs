//! Finds the one batch that a produce request may hold per partition.

use super::{RecordError, RecordErrorKind, ValidationConfig, messages, refusal};
use crate::header::field;
use crate::{Batch, BatchHeader, Codec};
use bytes::Bytes;

/// The smallest length any record format ever had; below it the length field itself is nonsense.
const LENGTH_MIN: i32 = 14;
/// Produce requests below this version may not hold Zstandard (KIP-110).
const ZSTD_VERSION_MIN: i16 = 7;

/// The extent of what lies at the start of some bytes.
enum Extent {
    /// Nothing, or not all of it.
    Incomplete,
    /// The length or the magic is nonsense.
    Corrupt(String),
    /// Something of this magic and size.
    Whole { magic: i8, size: usize },
}

fn extent(bytes: &[u8]) -> Extent {
    let Some(head) = bytes.first_chunk::<{ field::LOG_OVERHEAD }>() else {
        return Extent::Incomplete;
    };
    let length = i32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    if length < LENGTH_MIN {
        return Extent::Corrupt(format!(
            "Record size {length} is less than the minimum record overhead ({LENGTH_MIN})"
        ));
    }
    let Some(&magic) = bytes.get(field::MAGIC) else {
        return Extent::Incomplete;
    };
    let magic = magic as i8;
    if !(0..=2).contains(&magic) {
        return Extent::Corrupt(format!("Invalid magic found in record: {magic}"));
    }
    let size = field::LOG_OVERHEAD + length as usize;
    if bytes.len() < size { Extent::Incomplete } else { Extent::Whole { magic, size } }
}

/// The size of the first batch, if it is the only whole one.
fn only_extent(bytes: &[u8], who: &str) -> Result<usize, RecordError> {
    let invalid = |text: &str| messages::plain(RecordErrorKind::InvalidRecord, format!("{who} {text}"));
    let corrupt = |text: String| messages::plain(RecordErrorKind::CorruptMessage, text);
    let size = match extent(bytes) {
        Extent::Incomplete => return Err(invalid("must have at least one record batch per partition")),
        Extent::Corrupt(text) => return Err(corrupt(text)),
        Extent::Whole { magic: 2, size } => size,
        Extent::Whole { .. } => return Err(invalid("are only allowed to contain record batches with magic version 2")),
    };
    match extent(&bytes[size..]) {
        Extent::Incomplete => Ok(size),
        Extent::Corrupt(text) => Err(corrupt(text)),
        Extent::Whole { .. } => Err(invalid("are only allowed to contain exactly one record batch per partition")),
    }
}

/// The one batch in `records`.
pub(super) fn only_batch(records: &Bytes, config: &ValidationConfig) -> Result<Batch, RecordError> {
    let size = only_extent(records, "Appends by a leader")?;
    let header = BatchHeader::parse(records).map_err(|e| refusal(&e, config))?;
    Ok(Batch { header, bytes: records.slice(..size) })
}

/// What can be said of the records of a produce request of `version` without knowing the partition: that there is one
/// batch, of magic 2, and not compressed in a way the version does not know. To be asked before the request goes to the
/// partition's core; [`super::Validator::validate`] does the rest there.
///
/// # Errors
/// [`RecordError`] with what the client is to be told of this partition.
pub fn check_produce(version: i16, records: &Bytes) -> Result<BatchHeader, RecordError> {
    let who = format_args!("Produce requests with version {version}").to_string();
    only_extent(records, &who)?;
    let header =
        BatchHeader::parse(records).map_err(|e| messages::plain(RecordErrorKind::CorruptMessage, e.to_string()))?;
    if version < ZSTD_VERSION_MIN && header.attributes.codec() == Ok(Codec::Zstd) {
        let text = format!("{who} are not allowed to use ZStandard compression");
        return Err(messages::plain(RecordErrorKind::UnsupportedCompressionType, text));
    }
    Ok(header)
}
