//! The vocabulary every other crate shares: identifiers, time as a value, chance as a value, bounded containers.
//!
//! Lives on every core. It does not know of files, sockets, threads, clocks or the Kafka protocol: a [`Now`] is handed
//! to it, randomness comes from a seeded [`Prng`].

mod bounded;
mod crc;
mod few;
mod prng;
mod time;
mod uuid;

pub use bounded::{BoundedQueue, Full};
pub use crc::{crc32c, crc32c_append};
pub use few::Few;
pub use prng::Prng;
pub use time::Now;
pub use uuid::{Uuid, UuidParseError};

/// Position of a record in its partition, counted from 0; -1 means "none" on the wire.
pub type Offset = i64;

/// Number of a leader's term for one partition (KIP-101); -1 means "unknown".
pub type LeaderEpoch = i32;

/// `node.id` of a broker or controller.
pub type BrokerId = i32;

/// Index of a partition within its topic.
pub type PartitionIndex = i32;

/// Identifier of an idempotent or transactional producer (KIP-98); -1 means "none".
pub type ProducerId = i64;

/// Identifier of a topic, stable over renames of nothing and never reused after deletion (KIP-516).
pub type TopicId = Uuid;

/// Index of a shard: one pinned thread with its own ring. Data cores are 0..n; the controller core, when it is a core of
/// its own, is n.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CoreId(pub u16);

impl CoreId {
    /// As an index into per-core tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl std::fmt::Display for CoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One partition of one topic incarnation. The id, not the name, is the key: a topic that is deleted and created again
/// under the same name is another topic (KIP-516).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionKey {
    /// The topic's id.
    pub topic_id: TopicId,
    /// The partition's index.
    pub partition: PartitionIndex,
}

impl PartitionKey {
    /// The data core on which this partition lives when there are `cores` of them. Partitions of one topic go to
    /// successive cores, so that a topic with as many partitions as cores uses them all; the topic's random id decides
    /// where it begins.
    pub fn home_core(&self, cores: u16) -> CoreId {
        assert!(cores > 0, "a broker has at least one data core");
        let start = self.topic_id.low_bits() % u64::from(cores);
        let step = u64::from(self.partition.unsigned_abs());
        CoreId(((start + step) % u64::from(cores)) as u16)
    }
}

impl std::fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.topic_id, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_a_topic_are_dealt_over_all_cores() {
        let topic_id = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def1);
        let mut seen = [0usize; 4];
        for partition in 0..8 {
            seen[PartitionKey { topic_id, partition }.home_core(4).index()] += 1;
        }
        assert_eq!(seen, [2, 2, 2, 2]);
    }
}
