//! What a shard counts, for metrics.

use crate::classic::State;
use crate::shard::{Group, GroupShard};

/// Things that happened since the shard began to decide. All only grow; what was loaded from the log does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupEvents {
    /// Offsets committed, one for each partition.
    pub offset_commits: u64,
    /// Offsets that expired.
    pub offset_expirations: u64,
    /// Offsets deleted by OffsetDelete.
    pub offset_deletions: u64,
    /// Rebalances of classic groups that ended with assignments.
    pub classic_rebalances: u64,
    /// New epochs of consumer groups that heartbeats, joins or regular expressions called for.
    pub consumer_rebalances: u64,
}

impl GroupEvents {
    /// With those of `other` added.
    #[must_use]
    pub fn plus(self, other: GroupEvents) -> GroupEvents {
        self.zip(other, u64::wrapping_add)
    }

    /// What happened after `earlier`.
    #[must_use]
    pub fn since(self, earlier: GroupEvents) -> GroupEvents {
        self.zip(earlier, u64::wrapping_sub)
    }

    fn zip(self, other: GroupEvents, with: impl Fn(u64, u64) -> u64) -> GroupEvents {
        GroupEvents {
            offset_commits: with(self.offset_commits, other.offset_commits),
            offset_expirations: with(self.offset_expirations, other.offset_expirations),
            offset_deletions: with(self.offset_deletions, other.offset_deletions),
            classic_rebalances: with(self.classic_rebalances, other.classic_rebalances),
            consumer_rebalances: with(self.consumer_rebalances, other.consumer_rebalances),
        }
    }
}

/// How many groups there are, by protocol and state, and offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupCounts {
    /// Committed offsets.
    pub offsets: usize,
    /// Classic groups in the order of [`GroupCounts::CLASSIC_STATES`].
    pub classic: [usize; 4],
    /// Consumer groups in the order of [`GroupCounts::CONSUMER_STATES`].
    pub consumer: [usize; 4],
}

impl GroupCounts {
    /// States of a classic group.
    pub const CLASSIC_STATES: [&str; 4] = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"];
    /// States of a consumer group.
    pub const CONSUMER_STATES: [&str; 4] = ["Empty", "Assigning", "Reconciling", "Stable"];

    /// Groups of all kinds and states.
    pub fn groups(&self) -> usize {
        self.classic.iter().chain(&self.consumer).sum()
    }

    /// With those of `other` added.
    #[must_use]
    pub fn plus(mut self, other: GroupCounts) -> GroupCounts {
        self.offsets += other.offsets;
        self.classic.iter_mut().zip(other.classic).for_each(|(mine, theirs)| *mine += theirs);
        self.consumer.iter_mut().zip(other.consumer).for_each(|(mine, theirs)| *mine += theirs);
        self
    }
}

impl GroupShard {
    /// What happened since the log was loaded.
    pub fn events(&self) -> GroupEvents {
        GroupEvents { consumer_rebalances: self.consumer.rebalances, ..self.events }
    }

    /// What there is now. Looks at every member of every consumer group.
    pub fn counts(&self) -> GroupCounts {
        let mut counts = GroupCounts { offsets: self.offset_count(), ..GroupCounts::default() };
        for group in self.groups.values() {
            match group {
                Group::Classic(group) => {
                    let index = match group.state {
                        State::Empty => 0,
                        State::PreparingRebalance => 1,
                        State::CompletingRebalance => 2,
                        State::Stable => 3,
                    };
                    counts.classic[index] += 1;
                }
                Group::Consumer(group) => {
                    let state = group.state_name();
                    let index = GroupCounts::CONSUMER_STATES.iter().position(|name| *name == state);
                    counts.consumer[index.expect("a state of a consumer group")] += 1;
                }
            }
        }
        counts
    }
}
