//! The machine: all groups of one partition of `__consumer_offsets`, and which part of the crate handles what.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use base::Prng;
use coordinator::{CoordinatorRecord, Effects, Machine, Marker, Replayed, Token};
use metadata::MetadataDelta;
use tracing::{debug, warn};
use wire::ErrorCode;
use wire::group_record::{GroupKey, GroupValue};

use crate::api::{Env, Reply, Request, refused};
use crate::classic::ClassicGroup;
use crate::consumer::{ConsumerGroup, ConsumerState};
use crate::counts::GroupEvents;
use crate::offsets::OffsetStore;
use crate::timers::{Deadline, TimerKey, TimerKind, Timers};

/// A map that needs no order. Its hash is keyed with a constant, so that the same events give the same run.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// What the machine gives back from a call.
pub(crate) type Out = Effects<Reply>;

/// A group, by the protocol it speaks now. Committed offsets are kept apart, in [`OffsetStore`]: they outlive a change
/// of protocol.
#[derive(Debug)]
pub(crate) enum Group {
    /// JoinGroup and SyncGroup, or offsets alone.
    Classic(Box<ClassicGroup>),
    /// KIP-848.
    Consumer(Box<ConsumerGroup>),
}

/// All groups of one partition of `__consumer_offsets`.
#[derive(Debug, Default)]
pub struct GroupShard {
    pub(crate) groups: Map<Arc<str>, Group>,
    pub(crate) offsets: OffsetStore,
    pub(crate) timers: Timers,
    /// What the consumer groups share.
    pub(crate) consumer: ConsumerState,
    /// The check for expired offsets.
    pub(crate) offsets_check: Deadline,
    /// What happened, but for what [`ConsumerState`] counts.
    pub(crate) events: GroupEvents,
    /// False while the log is loaded; then the records that are replayed are this machine's own decisions.
    pub(crate) decides: bool,
}

/// The partition of `__consumer_offsets` that a group lives on: Java's hash of the id, without its sign, modulo the
/// number of partitions.
pub fn partition_for(group_id: &str, partitions: i32) -> i32 {
    assert!(partitions > 0, "{partitions} partitions");
    // The smallest number has no absolute value; Kafka takes 0 for it.
    java_hash(group_id).checked_abs().unwrap_or(0) % partitions
}

/// Java's hash of a text.
pub(crate) fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Random text in the form of a Java UUID, for member ids.
pub(crate) fn random_uuid(prng: &mut Prng) -> String {
    let high = (prng.next_u64() & !0xf000) | 0x4000;
    let low = (prng.next_u64() & !(0b11 << 62)) | (0b10 << 62);
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

impl GroupShard {
    /// A shard that has seen nothing of its log.
    pub fn new() -> GroupShard {
        GroupShard::default()
    }

    /// Number of groups, empty ones included.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Number of committed offsets.
    pub fn offset_count(&self) -> usize {
        self.offsets.len()
    }

    /// The shared text of a group's id.
    pub(crate) fn group_key(&self, group_id: &str) -> Option<Arc<str>> {
        self.groups.get_key_value(group_id).map(|(id, _)| id.clone())
    }

    fn replay_record(&mut self, key: &GroupKey<'_>, value: Option<&GroupValue<'_>>, record: &Replayed<'_>) {
        match (key, value) {
            (GroupKey::OffsetCommit(key), Some(GroupValue::OffsetCommit(value))) => {
                self.replay_offset(&key.group, &key.topic, key.partition, Some(value), record);
            }
            (GroupKey::LegacyOffsetCommit(key), Some(GroupValue::LegacyOffsetCommit(value))) => {
                let value = wire::offset_commit_value::OffsetCommitValue {
                    offset: value.offset,
                    metadata: value.metadata.clone(),
                    commit_timestamp: value.commit_timestamp,
                    ..Default::default()
                };
                self.replay_offset(&key.group, &key.topic, key.partition, Some(&value), record);
            }
            (GroupKey::OffsetCommit(key), None) => {
                self.replay_offset(&key.group, &key.topic, key.partition, None, record);
            }
            (GroupKey::LegacyOffsetCommit(key), None) => {
                self.replay_offset(&key.group, &key.topic, key.partition, None, record);
            }
            (GroupKey::GroupMetadata(key), Some(GroupValue::GroupMetadata(value))) => {
                self.replay_classic(&key.group, Some(value));
            }
            (GroupKey::GroupMetadata(key), None) => self.replay_classic(&key.group, None),
            (
                GroupKey::ConsumerGroupMetadata(_)
                | GroupKey::ConsumerGroupPartitionMetadata(_)
                | GroupKey::ConsumerGroupMemberMetadata(_)
                | GroupKey::ConsumerGroupTargetAssignmentMetadata(_)
                | GroupKey::ConsumerGroupTargetAssignmentMember(_)
                | GroupKey::ConsumerGroupCurrentMemberAssignment(_)
                | GroupKey::ConsumerGroupRegularExpression(_),
                value,
            ) => self.replay_consumer(key, value, record),
            (key, _) => debug!(offset = record.offset, record = key.name(), "a record of no group served here"),
        }
    }

    /// Which part of the crate decides a request.
    fn decide(&mut self, env: &mut Env<'_>, token: Token, request: Request<'_>, out: &mut Out) {
        match request {
            Request::JoinGroup { request, version, client } => {
                self.join_group(env, token, request, version, client, out);
            }
            Request::SyncGroup { request, version } => self.sync_group(env, token, request, version, out),
            Request::Heartbeat { request } => self.heartbeat(env, token, request, out),
            Request::LeaveGroup { request, version } => self.leave_group(env, token, request, version, out),
            Request::OffsetCommit { request, version } => self.offset_commit(env, token, request, version, out),
            Request::OffsetFetch { group, require_stable, version } => {
                let reply = self.offset_fetch(env, group, require_stable, version);
                out.reply(token, Reply::OffsetFetch(reply));
            }
            Request::OffsetDelete { request } => self.offset_delete(env, token, request, out),
            Request::DescribeGroup { group_id, version } => {
                out.reply(token, Reply::DescribeGroup(Box::new(self.describe_group(group_id, version))));
            }
            Request::ListGroups { request } => out.reply(token, Reply::ListGroups(self.list_groups(request))),
            Request::DeleteGroup { group_id } => self.delete_group(token, group_id, out),
            Request::ConsumerGroupHeartbeat { request, version, client } => {
                self.consumer_group_heartbeat(env, token, request, version, client, out);
            }
            Request::ConsumerGroupDescribe { group_id } => {
                let reply = self.consumer_group_describe(env, group_id);
                out.reply(token, Reply::ConsumerGroupDescribe(Box::new(reply)));
            }
        }
    }
}

impl Machine for GroupShard {
    type Request<'a> = Request<'a>;
    type Reply = Reply;
    type Env<'e> = Env<'e>;
    type Change<'e> = &'e MetadataDelta;

    fn handle(&mut self, mut env: Env<'_>, token: Token, request: Request<'_>, out: &mut Out) {
        self.decide(&mut env, token, request, out);
        if out.records.iter().any(|record| record.size() > env.config.record_bytes_max) {
            // Whoever changes soft state has looked before; what is left are deletions of what was once allowed to be larger.
            out.records.clear();
            out.replies.retain(|(answered, _)| *answered != token);
            out.reply(token, refused(&request, ErrorCode::UNKNOWN_SERVER_ERROR));
        }
    }

    fn replay(&mut self, record: &Replayed<'_>) {
        // What cannot be read is left alone: a newer broker may have written it, and the other groups go on.
        let key: GroupKey<'_> = match GroupKey::decode(record.key) {
            Ok(key) => key,
            Err(error) => {
                let kind = record.key.first_chunk::<2>().map(|bytes| i16::from_be_bytes(*bytes));
                warn!(offset = record.offset, kind, %error, "a record of unknown type is skipped");
                return;
            }
        };
        let value = match record.value.map(|value| GroupValue::decode(key.type_id(), value)).transpose() {
            Ok(value) => value.map(|(value, _)| value),
            Err(error) => {
                warn!(offset = record.offset, record = key.name(), %error, "a record that cannot be read is skipped");
                return;
            }
        };
        self.replay_record(&key, value.as_ref(), record);
    }

    fn replay_decided(&mut self, offset: i64, timestamp_ms: i64, records: &[CoordinatorRecord]) {
        let mut done = 0;
        while done < records.len() {
            let at = offset + (done as u64).cast_signed();
            match self.replay_commits(at, &records[done..]) {
                0 => {
                    self.replay(&records[done].expected_at(at, timestamp_ms));
                    done += 1;
                }
                commits => done += commits,
            }
        }
    }

    fn replay_marker(&mut self, marker: &Marker) {
        self.offsets.end_transaction(marker);
    }

    fn loaded(&mut self, mut env: Env<'_>, out: &mut Out) {
        let env = &mut env;
        self.decides = true;
        self.classic_loaded(env, out);
        self.consumer_loaded(env, out);
        self.schedule_offsets_check(env);
    }

    fn expire(&mut self, mut env: Env<'_>, out: &mut Out) {
        let env = &mut env;
        while let Some(entry) = self.timers.pop(env.now.mono_ns) {
            match &entry.1.kind {
                TimerKind::Offsets => self.expire_offsets(env, entry, out),
                _ => match self.groups.get(&entry.1.group) {
                    Some(Group::Classic(_)) => self.expire_classic(env, entry, out),
                    Some(Group::Consumer(_)) => self.expire_consumer(env, entry, out),
                    None => {}
                },
            }
            if !out.records.is_empty() {
                // Decisions are made on replayed state only, so whatever else is due has to wait for the next call,
                // which follows at once.
                break;
            }
        }
        leave_out_too_large(env, out);
    }

    fn next_timer_ns(&self) -> Option<u64> {
        self.timers.next_ns()
    }

    fn metadata_changed(&mut self, mut env: Env<'_>, change: &MetadataDelta, out: &mut Out) {
        self.delete_offsets_of_deleted_topics(change, out);
        self.consumer_metadata_changed(&mut env, change, out);
        leave_out_too_large(&env, out);
    }
}

/// Deletions that nobody waits for and the offsets topic would not take any more stay undone: the log would refuse them, and with
/// them everything else that is decided in the partition.
fn leave_out_too_large(env: &Env<'_>, out: &mut Out) {
    let (before, limit) = (out.records.len(), env.config.record_bytes_max);
    out.records.retain(|record| record.size() <= limit);
    let left_out = before - out.records.len();
    if left_out > 0 {
        warn!(left_out, limit, "records are too large for the offsets topic's max.message.bytes");
    }
}

/// The key of a deadline of a group.
pub(crate) fn timer_key(group: &Arc<str>, kind: TimerKind) -> TimerKey {
    TimerKey { group: group.clone(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_placed_as_kafka_places_them() {
        // The last one hashes to the smallest number.
        let cases = [("", 0), ("a", 47), ("my-group", 12), ("polygenelubricants", 0)];
        for (group, partition) in cases {
            assert_eq!(partition_for(group, 50), partition, "{group}");
        }
    }

    #[test]
    fn random_ids_have_javas_form() {
        let id = random_uuid(&mut Prng::new(1));
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!((lengths, id.as_bytes()[14]), (vec![8, 4, 4, 4, 12], b'4'), "{id}");
    }
}
