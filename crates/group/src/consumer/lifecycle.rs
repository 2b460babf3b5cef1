//! What happens by itself: loading, deadlines, new metadata.
//!
//! A group has one timer, for the first deadline of any of its members. Heartbeats only move their own member's deadline;
//! when the timer comes up, all members are looked at and the timer is set anew. Sessions last several heartbeats, so
//! that happens far less often than heartbeats do.

use std::sync::Arc;

use metadata::{ConfigResourceType, MetadataDelta, TopicChangeKind};
use tracing::{debug, info, warn};

use crate::api::Env;
use crate::consumer::group::ConsumerGroup;
use crate::consumer::member::MemberState;
use crate::consumer::soft::{Waits, after_ms};
use crate::shard::{Group, GroupShard, Out, timer_key};
use crate::timers::{TimerKey, TimerKind, Timers};

impl ConsumerGroup {
    /// Makes sure that the group is looked at when `due_ns` comes.
    pub(super) fn arm(&mut self, due_ns: u64, timers: &mut Timers, group_id: &str) {
        if self.soft.timer_ns.is_none_or(|armed| due_ns < armed) {
            self.soft.timer_ns = Some(due_ns);
            self.soft.timer.set(due_ns, timers, || timer_key(&Arc::from(group_id), TimerKind::Consumer));
        }
    }

    /// Sets the timer for the first deadline there is.
    fn rearm(&mut self, timers: &mut Timers, group_id: &str) {
        let next = self.seats_mut().map(|(_, seat)| seat.waits.next_ns()).min();
        let next = if self.soft.regex_due { Some(0) } else { next };
        self.soft.timer_ns = None;
        match next.filter(|next| *next != super::soft::NEVER) {
            Some(next) => self.arm(next, timers, group_id),
            None => self.soft.timer.clear(),
        }
    }

    /// Members whose time is up; their deadlines are taken back.
    fn take_expired(&mut self, group_id: &str, now_ns: u64) -> Vec<Arc<str>> {
        let mut expired = Vec::new();
        for (id, seat) in self.seats_mut() {
            let epoch = seat.member.epoch;
            let Some(reason) = take_due(&mut seat.waits, epoch, now_ns) else { continue };
            info!(group = group_id, member = &**id, epoch, "fenced: {reason}");
            seat.waits = Waits::default();
            expired.push(id.clone());
        }
        expired
    }
}

/// Why a member is to be fenced; `None` if it is not.
fn take_due(waits: &mut Waits, epoch: i32, now_ns: u64) -> Option<&'static str> {
    if waits.session_ns <= now_ns {
        return Some("the session expired");
    }
    let rebalance = waits.rebalance.as_mut()?;
    if rebalance.join_ns <= now_ns {
        return Some("the classic member did not join again within the rebalance timeout");
    }
    if rebalance.sync_ns <= now_ns {
        return Some("the classic member did not sync within the rebalance timeout");
    }
    match rebalance.revoke {
        Some((at, since)) if at <= now_ns => {
            rebalance.revoke = None;
            let stays = since == epoch;
            waits.tidy();
            stays.then_some("partitions were not given up within the rebalance timeout")
        }
        _ => None,
    }
}

impl GroupShard {
    /// The log is loaded: starts the sessions of members and the timers of groups.
    pub(crate) fn consumer_loaded(&mut self, env: &mut Env<'_>, _out: &mut Out) {
        self.consumer.refresh(env);
        let GroupShard { groups, consumer, timers, .. } = self;
        for (group_id, group) in groups.iter_mut() {
            let Group::Consumer(group) = group else { continue };
            let (as_of, options) = consumer.group_options(env, group_id, &None);
            group.soft.options = Some((as_of, options));
            for (_, seat) in group.seats_mut() {
                seat.waits = Waits { session_ns: after_ms(env.now, options.session_timeout_ms), rebalance: None };
                if seat.member.state == MemberState::UnrevokedPartitions {
                    let due_ns = after_ms(env.now, seat.member.rebalance_timeout_ms);
                    seat.waits.rebalance_mut().revoke = Some((due_ns, seat.member.epoch));
                }
            }
            debug!(group = &**group_id, members = group.len(), "consumer group loaded");
            group.rearm(timers, group_id);
        }
    }

    /// A deadline of a consumer group came up in the queue.
    pub(crate) fn expire_consumer(&mut self, env: &mut Env<'_>, entry: (u64, TimerKey), out: &mut Out) {
        self.consumer.refresh(env);
        let group_id = entry.1.group.clone();
        let Some(Group::Consumer(group)) = self.groups.get_mut(&group_id) else { return };
        if !group.soft.timer.fires(entry, env.now.mono_ns, &mut self.timers) {
            return;
        }
        if std::mem::take(&mut group.soft.regex_due) {
            // Deadlines are looked at in the next call: decisions are made on replayed state only.
            group.rearm(&mut self.timers, &group_id);
            self.refresh_regexes(env, &group_id, out);
            return;
        }
        let expired = group.take_expired(&group_id, env.now.mono_ns);
        group.rearm(&mut self.timers, &group_id);
        if let Err(refusal) = self.fence_members(env, &group_id, &expired, out) {
            warn!(group = &*group_id, "cannot fence {} members: {}", expired.len(), refusal.message);
        }
    }

    /// The metadata changed: subscriptions and regular expressions may mean other partitions. Groups notice with the next
    /// heartbeat of any of their members.
    pub(crate) fn consumer_metadata_changed(&mut self, env: &mut Env<'_>, change: &MetadataDelta, _out: &mut Out) {
        self.consumer.refresh(env);
        if !change.topics().is_empty() {
            self.consumer.topic_changes += 1;
            self.consumer.hashes.retain_current(env.image);
        }
        if change.topics().values().any(|topic| topic.kind == TopicChangeKind::Created) {
            self.consumer.new_topics_version = env.image.provenance.last_offset;
        }
        if change.configs().iter().any(|resource| resource.kind == ConfigResourceType::Group) {
            self.consumer.group_configs_changed();
        }
    }
}
