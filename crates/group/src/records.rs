//! Records of `__consumer_offsets` to bytes.

use std::borrow::Cow;

use bytes::Bytes;
use coordinator::CoordinatorRecord;
use wire::group_metadata_key::GroupMetadataKey;
use wire::group_metadata_value::GroupMetadataValue;
use wire::group_record::{GroupKey, GroupValue};
use wire::offset_commit_key::OffsetCommitKey;
use wire::offset_commit_value::OffsetCommitValue;
use wire::{Encode, TypedRecord, Writer};

/// Version in which a classic group is written.
const GROUP_METADATA_VERSION: i16 = 3;
/// Version in which an offset is written.
const OFFSET_COMMIT_VERSION: i16 = 4;
/// Version in which an offset with an explicit end of its life is written.
const OFFSET_COMMIT_EXPIRING_VERSION: i16 = 1;

/// Number of the type of record that holds a committed offset.
const OFFSET_COMMIT_TYPE: i16 = 1;
/// The longest text that a record can hold.
const TEXT_BYTES_MAX: usize = i16::MAX as usize;

/// Why a record cannot be made: a text in it is longer than the format can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong;

/// Bytes that a record has room for before it grows: most offsets fit.
const RECORD_BYTES: usize = 160;

/// A record with a value in the given version. Key and value lie in one buffer.
pub(crate) fn record(key: &GroupKey<'_>, value: &GroupValue<'_>, version: i16) -> Result<CoordinatorRecord, TooLong> {
    let mut w = Writer::with_capacity(RECORD_BYTES);
    write_key(&mut w, key)?;
    let key_bytes = w.len();
    w.i16(version);
    value.encode_body(&mut w, version).map_err(|_| TooLong)?;
    Ok(CoordinatorRecord::new(bytes_of(w), key_bytes))
}

/// A tombstone.
pub(crate) fn tombstone(key: &GroupKey<'_>) -> Result<CoordinatorRecord, TooLong> {
    let mut w = Writer::with_capacity(RECORD_BYTES);
    write_key(&mut w, key)?;
    Ok(CoordinatorRecord::tombstone(bytes_of(w)))
}

fn write_key(w: &mut Writer, key: &GroupKey<'_>) -> Result<(), TooLong> {
    w.i16(key.type_id());
    key.encode_body(w, 0).map_err(|_| TooLong)
}

fn bytes_of(w: Writer) -> Bytes {
    w.into_bytes().expect("no record type holds external bytes")
}

/// The record of a classic group.
pub(crate) fn group_metadata(group: &str, value: GroupMetadataValue<'_>) -> Result<CoordinatorRecord, TooLong> {
    let key = GroupKey::GroupMetadata(GroupMetadataKey { group: Cow::Borrowed(group) });
    record(&key, &GroupValue::GroupMetadata(value), GROUP_METADATA_VERSION)
}

/// The tombstone of a classic group.
pub(crate) fn group_tombstone(group: &str) -> Result<CoordinatorRecord, TooLong> {
    tombstone(&GroupKey::GroupMetadata(GroupMetadataKey { group: Cow::Borrowed(group) }))
}

fn offset_key<'a>(group: &'a str, topic: &'a str, partition: i32) -> GroupKey<'a> {
    GroupKey::OffsetCommit(OffsetCommitKey { group: Cow::Borrowed(group), topic: Cow::Borrowed(topic), partition })
}

/// Records of committed offsets, one behind the other in one buffer.
pub(crate) struct OffsetCommits {
    w: Writer,
    /// Where the key of each ends, and where it ends itself.
    ends: Vec<(usize, usize)>,
}

impl OffsetCommits {
    /// With room for `count` records of `bytes` in all; more take more.
    pub fn with_capacity(count: usize, bytes: usize) -> OffsetCommits {
        OffsetCommits { w: Writer::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Adds the record of a commit. Nothing is added where a text is too long.
    pub fn add(
        &mut self,
        group: &str,
        topic: &str,
        partition: i32,
        value: &OffsetCommitValue<'_>,
    ) -> Result<(), TooLong> {
        // Looked at before anything is written: a writer that failed is worthless.
        if [group, topic, &value.metadata].iter().any(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(TooLong);
        }
        let key = OffsetCommitKey { group: Cow::Borrowed(group), topic: Cow::Borrowed(topic), partition };
        self.w.i16(OFFSET_COMMIT_TYPE);
        key.encode(&mut self.w, 0).map_err(|_| TooLong)?;
        let key_end = self.w.len();
        let expiring = value.expire_timestamp >= 0;
        let version = if expiring { OFFSET_COMMIT_EXPIRING_VERSION } else { OFFSET_COMMIT_VERSION };
        self.w.i16(version);
        value.encode(&mut self.w, version).map_err(|_| TooLong)?;
        self.ends.push((key_end, self.w.len()));
        Ok(())
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.w.len()
    }

    /// The records.
    pub fn finish(self) -> impl Iterator<Item = CoordinatorRecord> {
        let (whole, mut from) = (bytes_of(self.w), 0);
        self.ends.into_iter().map(move |(key_end, end)| {
            let record = CoordinatorRecord::new(whole.slice(from..end), key_end - from);
            from = end;
            record
        })
    }
}

/// The tombstone of a committed offset.
pub(crate) fn offset_tombstone(group: &str, topic: &str, partition: i32) -> Result<CoordinatorRecord, TooLong> {
    tombstone(&offset_key(group, topic, partition))
}

/// The record of a committed offset.
#[cfg(test)]
pub(crate) fn offset_commit(
    group: &str,
    topic: &str,
    partition: i32,
    value: &OffsetCommitValue<'_>,
) -> CoordinatorRecord {
    let mut commits = OffsetCommits::with_capacity(1, RECORD_BYTES);
    commits.add(group, topic, partition, value).expect("texts of a possible length");
    commits.finish().next().expect("one record")
}
