//! Offsets that nobody needs any more: expired ones (KIP-211) and those of deleted topics.

use std::sync::Arc;

use coordinator::CoordinatorRecord;
use metadata::{MetadataDelta, TopicChangeKind};
use tracing::info;

use crate::api::Env;
use crate::classic::{ClassicGroup, State};
use crate::config::GroupConfig;
use crate::offsets::OffsetView;
use crate::records;
use crate::shard::{Group, GroupShard, Out};
use crate::timers::{TimerKey, TimerKind};

/// Tombstones of one pass of the check. What is left over is done by the next pass, soon after.
const TOMBSTONES_PER_PASS_MAX: usize = 10_000;

/// Time until the next pass when one was not enough, ms.
const NEXT_PASS_MS: u64 = 100;

/// From when on the retention counts for an offset.
enum Since {
    /// From its commit.
    Commit,
    /// From the moment at which the group became empty, ms since the epoch; from the commit where that is unknown.
    Empty(i64),
}

impl GroupShard {
    /// Lets the check for expired offsets run after its interval.
    pub(crate) fn schedule_offsets_check(&mut self, env: &Env<'_>) {
        self.check_offsets_after(env, env.config.offsets_check_interval_ms);
    }

    fn check_offsets_after(&mut self, env: &Env<'_>, ms: u64) {
        let key = || TimerKey { group: Arc::from(""), kind: TimerKind::Offsets };
        self.offsets_check.set(env.now.plus_ms(ms).mono_ns, &mut self.timers, key);
    }

    /// The check for expired offsets came up.
    pub(crate) fn expire_offsets(&mut self, env: &Env<'_>, entry: (u64, TimerKey), out: &mut Out) {
        if !self.offsets_check.fires(entry, env.now.mono_ns, &mut self.timers) {
            return;
        }
        let before = out.records.len();
        let mut expired = 0;
        for (id, group) in &self.groups {
            if out.records.len() - before >= TOMBSTONES_PER_PASS_MAX {
                break;
            }
            expired += self.expire_group(id, group, env.now.wall_ms, env.config, &mut out.records);
        }
        self.events.offset_expirations += expired;
        let tombstones = out.records.len() - before;
        if tombstones > 0 {
            info!(tombstones, "expired offsets and empty groups are removed");
        }
        if tombstones >= TOMBSTONES_PER_PASS_MAX {
            self.check_offsets_after(env, NEXT_PASS_MS);
        } else {
            self.schedule_offsets_check(env);
        }
    }

    /// Removes what expired of one group, and the group itself when it is empty and nothing is left. How many offsets expired.
    fn expire_group(
        &self,
        id: &str,
        group: &Group,
        now_ms: i64,
        config: &GroupConfig,
        records: &mut Vec<CoordinatorRecord>,
    ) -> u64 {
        let before = records.len();
        let mut left = self.offsets.pending.contains_group(id);
        if let Some(topics) = self.offsets.group(id) {
            let Some(since) = expires_since(group) else { return 0 };
            for (topic, offsets) in topics {
                let subscribed = group.is_subscribed(topic);
                for committed in offsets.iter() {
                    let expires = !subscribed
                        && is_expired(committed, &since, now_ms, config.offsets_retention_ms)
                        && !self.offsets.is_pending(id, topic, committed.partition());
                    if expires {
                        records.extend(records::offset_tombstone(id, topic, committed.partition()));
                    }
                    left |= !expires;
                }
            }
        }
        let expired = (records.len() - before) as u64;
        let expected = matches!(group, Group::Classic(group) if !group.pending_joins.is_empty());
        if !left && group.is_empty() && !expected {
            group.tombstones(id, records);
        }
        expired
    }

    /// Removes the offsets of deleted topics in all groups.
    pub(crate) fn delete_offsets_of_deleted_topics(&mut self, change: &MetadataDelta, out: &mut Out) {
        let before = out.records.len();
        for (topic_id, topic) in change.topics() {
            if topic.kind != TopicChangeKind::Deleted {
                continue;
            }
            for (group, topics) in &self.offsets.groups {
                let Some(offsets) = topics.get(&topic.name) else { continue };
                if offsets.topic_id.is_zero() || offsets.topic_id == *topic_id {
                    for committed in offsets.iter() {
                        out.records.extend(records::offset_tombstone(group, &topic.name, committed.partition()));
                    }
                }
            }
            for (group, name, partition, pending_id) in self.offsets.pending.iter() {
                let same = *name == topic.name && (pending_id.is_zero() || pending_id == *topic_id);
                if same && self.offsets.get(group, name, partition).is_none() {
                    out.records.extend(records::offset_tombstone(group, name, partition));
                }
            }
        }
        let tombstones = out.records.len() - before;
        if tombstones > 0 {
            info!(tombstones, "offsets of deleted topics are removed");
        }
    }
}

/// From when on the retention counts for offsets of topics that the group is not subscribed to; `None` when none expires.
fn expires_since(group: &Group) -> Option<Since> {
    match group {
        Group::Classic(group) => classic_expires_since(group),
        // Its members' topics are known at any time.
        Group::Consumer(_) => Some(Since::Commit),
    }
}

fn classic_expires_since(group: &ClassicGroup) -> Option<Since> {
    match group.state {
        _ if group.protocol_type.is_none() => Some(Since::Commit),
        State::Empty => Some(Since::Empty(group.state_timestamp_ms)),
        State::Stable if group.is_consumer_type() && group.subscribed.is_some() => Some(Since::Commit),
        _ => None,
    }
}

fn is_expired(committed: OffsetView<'_>, since: &Since, now_ms: i64, retention_ms: i64) -> bool {
    if let Some(expire_ms) = committed.expire_ms() {
        return now_ms >= expire_ms;
    }
    let from_ms = match since {
        Since::Empty(empty_ms) if *empty_ms != -1 => *empty_ms,
        Since::Empty(_) | Since::Commit => committed.commit_ms(),
    };
    now_ms.saturating_sub(from_ms) >= retention_ms
}
