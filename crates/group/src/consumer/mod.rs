//! The consumer protocol (KIP-848): members say what they want and what they have, and the coordinator brings each of them,
//! step by step, to what it shall have.
//!
//! A group's hard state is its records (`replay`, `group`, `member`); `decision` makes the records of one request,
//! `reconcile` one step of one member, `target` a new assignment for all. Deadlines and options are soft (`soft`,
//! `lifecycle`). A partition belongs to one member at a time: the group knows the epoch of each partition's owner, and gives
//! it to the next one only when the owner has said that it let go, or is gone.

mod classic;
mod decision;
mod describe;
mod group;
mod heartbeat;
mod leave;
mod lifecycle;
mod member;
mod migrate;
mod owned;
mod reconcile;
mod records;
mod refusal;
mod regexes;
mod replay;
mod soft;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coordinator::{CoordinatorRecord, Replayed};
use tracing::warn;
use wire::group_record::{GroupKey, GroupValue};

pub(crate) use group::ConsumerGroup;
pub use heartbeat::HeartbeatReply;
pub(crate) use soft::ConsumerState;

use crate::shard::{Group, GroupShard};
use replay::Fate;

/// The group a record of the consumer protocol belongs to, and the member if it is one's.
fn owner_of<'a>(key: &'a GroupKey<'_>) -> Option<(&'a str, Option<&'a str>)> {
    Some(match key {
        GroupKey::ConsumerGroupMetadata(key) => (&key.group_id, None),
        GroupKey::ConsumerGroupPartitionMetadata(key) => (&key.group_id, None),
        GroupKey::ConsumerGroupMemberMetadata(key) => (&key.group_id, Some(&key.member_id)),
        GroupKey::ConsumerGroupTargetAssignmentMetadata(key) => (&key.group_id, None),
        GroupKey::ConsumerGroupTargetAssignmentMember(key) => (&key.group_id, Some(&key.member_id)),
        GroupKey::ConsumerGroupCurrentMemberAssignment(key) => (&key.group_id, Some(&key.member_id)),
        GroupKey::ConsumerGroupRegularExpression(key) => (&key.group_id, None),
        _ => return None,
    })
}

impl ConsumerGroup {
    /// The tombstones that delete it, offsets aside.
    pub fn tombstones(&self, group_id: &str, records: &mut Vec<CoordinatorRecord>) {
        let mut all = records::Records::new(group_id);
        all.group_gone(self, |id| id);
        // Its ids came from records, so that records can hold them.
        records.extend(all.finish(usize::MAX).unwrap_or_default());
    }
}

impl GroupShard {
    /// A record of types 3 to 8 or 16; `value` is `None` for a tombstone and has the key's type otherwise.
    pub(crate) fn replay_consumer(
        &mut self,
        key: &GroupKey<'_>,
        value: Option<&GroupValue<'_>>,
        record: &Replayed<'_>,
    ) {
        let Some((group_id, member_id)) = owner_of(key) else { return };
        let offset = record.offset;
        match self.groups.get_mut(group_id) {
            Some(Group::Consumer(_)) => {}
            // What holds nothing but offsets becomes whatever a record says it is.
            Some(Group::Classic(group))
                if value.is_some() && group.members.is_empty() && group.protocol_type.is_none() =>
            {
                self.groups.insert(Arc::from(group_id), Group::Consumer(Box::default()));
            }
            Some(Group::Classic(_)) => {
                // A decision that turned the group into a classic one has done so already.
                if value.is_some() && !self.decides {
                    warn!(
                        group = group_id,
                        offset,
                        record = key.name(),
                        "a consumer group's record in a classic group"
                    );
                }
                return;
            }
            None if value.is_some() => {
                self.groups.insert(Arc::from(group_id), Group::Consumer(Box::default()));
            }
            None => return,
        }
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else { return };
        if group.replay(key, value) == Fate::Deleted {
            self.groups.remove(group_id);
            return;
        }
        if let Some(member_id) = member_id.filter(|_| value.is_some() && !self.consumer.fresh.is_empty()) {
            self.seat_fresh_member(group_id, member_id);
        }
    }

    /// Gives a member that a decision has just brought its deadlines.
    fn seat_fresh_member(&mut self, group_id: &str, member_id: &str) {
        let GroupShard { groups, consumer, timers, .. } = self;
        let Some(Group::Consumer(group)) = groups.get_mut(group_id) else { return };
        let is_it = |fresh: &soft::Fresh| *fresh.group_id == *group_id && *fresh.member_id == *member_id;
        let Some(fresh) = consumer.fresh.iter().find(|fresh| is_it(fresh)) else { return };
        let Some(seat) = group.seat_mut(member_id) else { return };
        seat.waits = fresh.waits.clone();
        group.soft.regex_due |= fresh.regex_due;
        let next_ns = if fresh.regex_due { 0 } else { fresh.waits.next_ns() };
        group.arm(next_ns, timers, group_id);
    }
}
