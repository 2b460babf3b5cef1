//! Records of `__consumer_offsets` to bytes.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use coordinator::CoordinatorRecord;
use wire::group_metadata_key::GroupMetadataKey;
use wire::group_metadata_value::GroupMetadataValue;
use wire::group_record::{GroupKey, GroupValue};
use wire::offset_commit_key::OffsetCommitKey;
use wire::offset_commit_value::OffsetCommitValue;
use wire::{Segment, TypedRecord, Writer};

/// Version in which a classic group is written.
const GROUP_METADATA_VERSION: i16 = 3;
/// Version in which an offset is written.
const OFFSET_COMMIT_VERSION: i16 = 4;
/// Version in which an offset with an explicit end of its life is written.
const OFFSET_COMMIT_EXPIRING_VERSION: i16 = 1;

/// Why a record cannot be made: a text in it is longer than the format can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong;

/// Bytes that a record has room for before it grows: most offsets fit.
const RECORD_BYTES: usize = 160;

/// A record with a value in the given version. Key and value lie in one buffer.
pub(crate) fn record(key: &GroupKey<'_>, value: &GroupValue<'_>, version: i16) -> Result<CoordinatorRecord, TooLong> {
    record_in(&mut BytesMut::with_capacity(RECORD_BYTES), key, value, version)
}

/// As [`record`], at the beginning of `room`, of which the rest is left: many records in it need one buffer.
fn record_in(
    room: &mut BytesMut,
    key: &GroupKey<'_>,
    value: &GroupValue<'_>,
    version: i16,
) -> Result<CoordinatorRecord, TooLong> {
    let mut w = Writer::onto(std::mem::take(room));
    write_key(&mut w, key)?;
    let key_bytes = w.len();
    w.i16(version);
    value.encode_body(&mut w, version).map_err(|_| TooLong)?;
    let (written, rest) = w.finish_leaving();
    *room = rest;
    let Ok(Segment::Bytes(mut value)) = written.into_only() else {
        unreachable!("no record type holds external bytes")
    };
    let key = value.split_to(key_bytes);
    Ok(CoordinatorRecord { key, value: Some(value) })
}

/// A tombstone.
pub(crate) fn tombstone(key: &GroupKey<'_>) -> Result<CoordinatorRecord, TooLong> {
    let mut w = Writer::with_capacity(RECORD_BYTES);
    write_key(&mut w, key)?;
    Ok(CoordinatorRecord { key: bytes_of(w), value: None })
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

/// The record of a committed offset, in `room` as long as that lasts.
pub(crate) fn offset_commit(
    room: &mut BytesMut,
    group: &str,
    topic: &str,
    partition: i32,
    value: OffsetCommitValue<'_>,
) -> Result<CoordinatorRecord, TooLong> {
    let expiring = value.expire_timestamp >= 0;
    let version = if expiring { OFFSET_COMMIT_EXPIRING_VERSION } else { OFFSET_COMMIT_VERSION };
    record_in(room, &offset_key(group, topic, partition), &GroupValue::OffsetCommit(value), version)
}

/// The tombstone of a committed offset.
pub(crate) fn offset_tombstone(group: &str, topic: &str, partition: i32) -> Result<CoordinatorRecord, TooLong> {
    tombstone(&offset_key(group, topic, partition))
}
