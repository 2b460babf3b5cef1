//! One step of a member towards its target: what it must give up first, what it gets, what it has to wait for.

use std::collections::BTreeSet;

use base::{PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::consumer_group_heartbeat_request::TopicPartitions;

use crate::assignor::Partitions;
use crate::consumer::group::{ConsumerGroup, NO_EPOCH};
use crate::consumer::member::{Member, MemberState};
use crate::consumer::owned::Owned;
use crate::consumer::refusal::Refusal;

/// What a step depends on beside the member.
pub(crate) struct Step<'a> {
    /// The group, for who owns what.
    pub group: &'a ConsumerGroup,
    /// The epoch of the target.
    pub assignment_epoch: i32,
    /// What the member shall have.
    pub target: &'a Partitions,
    /// Ids of the existing topics the member subscribes to.
    pub subscribed: &'a BTreeSet<TopicId>,
    /// Its subscription is another one than before: what it no longer subscribes to goes at once.
    pub subscription_changed: bool,
    /// What the member says it still has; `None` when it does not say.
    pub reported: Option<&'a [TopicPartitions]>,
}

impl Step<'_> {
    /// The member after the step. It is the same if nothing can be done now.
    pub fn take(&self, member: &Member) -> Result<Member, Refusal> {
        match member.state {
            MemberState::Stable if member.epoch != self.assignment_epoch => Ok(self.advance(member, member.epoch)),
            MemberState::UnrevokedPartitions if !self.still_has(member.revoking.partitions()) => {
                Ok(self.advance(member, member.epoch))
            }
            MemberState::Stable | MemberState::UnrevokedPartitions if self.subscription_changed => {
                Ok(self.drop_unsubscribed(member))
            }
            MemberState::Stable | MemberState::UnrevokedPartitions => Ok(member.clone()),
            MemberState::UnreleasedPartitions => Ok(self.advance(member, member.epoch)),
            MemberState::Unknown(_) if self.reported.is_some_and(<[_]>::is_empty) => {
                Ok(self.advance(member, self.assignment_epoch))
            }
            MemberState::Unknown(_) => Err(Refusal::new(
                ErrorCode::FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and \
                 rejoin.",
            )),
        }
    }

    /// Whether the member still has any of these. If it does not say what it has, it may.
    fn still_has(&self, partitions: &Partitions) -> bool {
        let Some(reported) = self.reported else { return true };
        reported.iter().any(|topic| topic.partitions.iter().any(|p| partitions.contains(topic.topic_id, *p)))
    }

    /// Takes away what the member no longer subscribes to, without looking at the target.
    fn drop_unsubscribed(&self, member: &Member) -> Member {
        let (kept, gone): (Vec<_>, Vec<_>) =
            member.assigned.iter().partition(|(topic, ..)| self.subscribed.contains(topic));
        if gone.is_empty() {
            return member.clone();
        }
        let mut next = member.clone();
        next.advance(member.epoch);
        next.assigned = Owned::from_entries(kept);
        let revoking = Owned::from_entries(member.revoking.iter().chain(gone).collect());
        if self.still_has(revoking.partitions()) {
            next.state = MemberState::UnrevokedPartitions;
            next.revoking = revoking;
        }
        next
    }

    /// The next step. `epoch` is the member's own unless that cannot be relied on.
    fn advance(&self, member: &Member, epoch: i32) -> Member {
        let wanted = |topic: &TopicId, partition: PartitionIndex| {
            self.subscribed.contains(topic) && self.target.contains(*topic, partition)
        };
        let (mut kept, surplus): (Vec<_>, Vec<_>) =
            member.assigned.iter().partition(|(topic, partition, _)| wanted(topic, *partition));
        let surplus = Owned::from_entries(surplus);
        let mut next = member.clone();
        if !surplus.is_empty() && self.still_has(surplus.partitions()) {
            next.state = MemberState::UnrevokedPartitions;
            next.advance(epoch);
            next.assigned = Owned::from_entries(kept);
            next.revoking = surplus;
            return next;
        }
        let mut waits = false;
        for (topic, partition) in self.target.iter().filter(|(topic, _)| self.subscribed.contains(topic)) {
            if member.assigned.partitions().contains(topic, partition) {
                continue;
            }
            // What the member itself is giving up is nobody else's.
            let owned_by_other = self.group.owner_epoch(topic, partition) != NO_EPOCH
                && !member.revoking.partitions().contains(topic, partition);
            if owned_by_other {
                waits = true;
            } else {
                kept.push((topic, partition, self.assignment_epoch));
            }
        }
        next.state = if waits { MemberState::UnreleasedPartitions } else { MemberState::Stable };
        next.advance(self.assignment_epoch);
        next.assigned = Owned::from_entries(kept);
        next.revoking = Owned::default();
        next
    }
}
