//! The assignors the coordinator runs for consumer groups (KIP-848): who shall have which partition.
//!
//! Pure functions of a group's members, their subscriptions and what they were to have before. Results are those of Apache
//! Kafka's assignors of the same names: `range` exactly; `uniform` for different subscriptions exactly, given the same
//! order of members; `uniform` for equal subscriptions as balanced, and never moving more partitions. Racks play no part,
//! as in Kafka, whose server-side assignors do not look at them.

mod partitions;
mod range;
#[cfg(test)]
mod tests;
mod uniform;
mod uniform_mixed;

use base::TopicId;

pub use partitions::{Partitions, PartitionsBuilder, Topics};

/// An assignor, by the name clients and configuration use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Assignor {
    /// Balanced and sticky.
    Uniform,
    /// Each topic cut into ranges; equal ranges for topics of equal size, which joins need.
    Range,
}

impl Assignor {
    /// The name on the wire and in `group.consumer.assignors`.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// From the name; `None` for assignors this broker does not have.
    pub fn from_name(name: &str) -> Option<Assignor> {
        match name {
            "uniform" => Some(Assignor::Uniform),
            "range" => Some(Assignor::Range),
            _ => None,
        }
    }

    /// The new target of each member, in the order of `group.members`. Each partition of each topic that somebody
    /// subscribes to is given to exactly one of its subscribers.
    pub fn assign(self, group: &GroupSpec<'_>) -> Vec<Partitions> {
        debug_assert!(group.topics.is_sorted_by(|a, b| a.id < b.id), "topics are in order of their ids");
        debug_assert!(
            group.members.is_sorted_by(|a, b| a.member_id < b.member_id),
            "members are in order of their ids"
        );
        match self {
            Assignor::Range => range::assign(group),
            Assignor::Uniform if group.has_equal_subscriptions() => uniform::assign(group),
            Assignor::Uniform => uniform_mixed::assign(group),
        }
    }
}

/// A topic that somebody subscribes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicSpec {
    /// Its id.
    pub id: TopicId,
    /// Number of its partitions, whose indexes run from 0.
    pub partitions: usize,
}

/// A member as an assignor sees it.
#[derive(Clone, Copy, Debug)]
pub struct MemberSpec<'a> {
    /// Its id.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<&'a str>,
    /// Its subscription: ascending indexes into [`GroupSpec::topics`].
    pub topics: &'a [usize],
    /// What it was to have until now.
    pub owned: &'a Partitions,
}

/// What an assignor decides on.
#[derive(Clone, Copy, Debug)]
pub struct GroupSpec<'a> {
    /// All topics subscribed to, in order of their ids.
    pub topics: &'a [TopicSpec],
    /// All members, in order of their ids.
    pub members: &'a [MemberSpec<'a>],
}

impl GroupSpec<'_> {
    fn has_equal_subscriptions(&self) -> bool {
        self.members
            .windows(2)
            .all(|pair| std::ptr::eq(pair[0].topics, pair[1].topics) || pair[0].topics == pair[1].topics)
    }

    fn topic_index(&self, id: TopicId) -> Option<usize> {
        self.topics.binary_search_by(|topic| topic.id.cmp(&id)).ok()
    }
}

/// Nobody owns the partition.
const NOBODY: u32 = u32::MAX;

/// The owner of each partition of each topic, by index of the member; and how many partitions each member has.
struct Owners {
    by_topic: Vec<Vec<u32>>,
    counts: Vec<usize>,
}

impl Owners {
    /// What members still may keep of what they owned: partitions that exist, of topics they subscribe to. Should two
    /// members claim a partition, the first one has it.
    fn kept(group: &GroupSpec<'_>) -> Owners {
        let mut by_topic: Vec<Vec<u32>> = group.topics.iter().map(|topic| vec![NOBODY; topic.partitions]).collect();
        let mut counts = vec![0; group.members.len()];
        for (member, spec) in group.members.iter().enumerate() {
            for (id, partitions) in spec.owned.topics() {
                let subscribed = group.topic_index(id).filter(|topic| spec.topics.binary_search(topic).is_ok());
                let Some(topic) = subscribed else { continue };
                for partition in partitions {
                    let owner = usize::try_from(*partition).ok().and_then(|index| by_topic[topic].get_mut(index));
                    if let Some(owner) = owner.filter(|owner| **owner == NOBODY) {
                        *owner = member as u32;
                        counts[member] += 1;
                    }
                }
            }
        }
        Owners { by_topic, counts }
    }

    /// The set of each member. A member that ends up with what it had shares the set it had.
    fn into_targets(self, group: &GroupSpec<'_>) -> Vec<Partitions> {
        let mut targets = vec![PartitionsBuilder::default(); group.members.len()];
        for (topic, owners) in group.topics.iter().zip(&self.by_topic) {
            for (partition, owner) in owners.iter().enumerate() {
                if let Some(target) = targets.get_mut(*owner as usize) {
                    target.push(topic.id, partition as i32);
                }
            }
        }
        let same_if_equal = |(target, member): (PartitionsBuilder, &MemberSpec<'_>)| {
            let target = target.build();
            if target == *member.owned { member.owned.clone() } else { target }
        };
        targets.into_iter().zip(group.members).map(same_if_equal).collect()
    }
}
