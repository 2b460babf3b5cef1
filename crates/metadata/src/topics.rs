use std::sync::Arc;

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId, Uuid};
use imbl::OrdMap;

use crate::directory_id;

/// The partition has no leader.
pub const NO_LEADER: BrokerId = -1;

/// Whether the leader was elected from the ISR (KIP-704).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LeaderRecoveryState {
    /// The usual case.
    #[default]
    Recovered,
    /// The leader came from outside the ISR and has to recover its state first.
    Recovering,
}

impl LeaderRecoveryState {
    /// The value in records and requests.
    pub fn value(self) -> i8 {
        match self {
            LeaderRecoveryState::Recovered => 0,
            LeaderRecoveryState::Recovering => 1,
        }
    }

    /// From the value in a record; `None` for values nobody writes.
    pub fn from_value(value: i8) -> Option<LeaderRecoveryState> {
        match value {
            0 => Some(LeaderRecoveryState::Recovered),
            1 => Some(LeaderRecoveryState::Recovering),
            _ => None,
        }
    }
}

/// Everything the cluster has agreed on about one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionRegistration {
    /// Brokers that hold the partition, preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Log directory of each replica, in the order of `replicas`; see [`crate::directory_id`].
    pub directories: Vec<Uuid>,
    /// Replicas in sync with the leader.
    pub isr: Vec<BrokerId>,
    /// Replicas that leave when the running reassignment completes.
    pub removing_replicas: Vec<BrokerId>,
    /// Replicas that join in the running reassignment.
    pub adding_replicas: Vec<BrokerId>,
    /// Eligible leader replicas (KIP-966).
    pub elr: Vec<BrokerId>,
    /// Last known eligible leader replicas (KIP-966).
    pub last_known_elr: Vec<BrokerId>,
    /// The leader, or [`NO_LEADER`].
    pub leader: BrokerId,
    /// Whether the leader was elected cleanly.
    pub leader_recovery_state: LeaderRecoveryState,
    /// Term of the leader; grows by one with every change of leader and with some changes of the ISR.
    pub leader_epoch: LeaderEpoch,
    /// Grows by one with every change of the partition; guards AlterPartition.
    pub partition_epoch: i32,
}

impl PartitionRegistration {
    /// The directory of `broker`'s replica; `None` when the broker holds none.
    pub fn directory(&self, broker: BrokerId) -> Option<Uuid> {
        let index = self.replicas.iter().position(|replica| *replica == broker)?;
        Some(self.directories.get(index).copied().unwrap_or(directory_id::MIGRATING))
    }

    /// True when `broker` holds a replica.
    pub fn has_replica(&self, broker: BrokerId) -> bool {
        self.replicas.contains(&broker)
    }

    /// True when somebody leads.
    pub fn has_leader(&self) -> bool {
        self.leader != NO_LEADER
    }

    /// The replica that should lead when all are well.
    pub fn preferred_replica(&self) -> BrokerId {
        self.replicas.first().copied().unwrap_or(NO_LEADER)
    }

    /// True while a reassignment runs.
    pub fn is_reassigning(&self) -> bool {
        !self.removing_replicas.is_empty() || !self.adding_replicas.is_empty()
    }
}

/// One topic and its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicImage {
    /// The name.
    pub name: Arc<str>,
    /// The id; never reused (KIP-516).
    pub id: TopicId,
    partitions: OrdMap<PartitionIndex, Arc<PartitionRegistration>>,
}

impl TopicImage {
    pub(crate) fn new(name: Arc<str>, id: TopicId) -> TopicImage {
        TopicImage { name, id, partitions: OrdMap::new() }
    }

    /// One partition.
    pub fn partition(&self, index: PartitionIndex) -> Option<&Arc<PartitionRegistration>> {
        self.partitions.get(&index)
    }

    /// How many partitions there are, if they are numbered from 0 without gaps: then that number says which there are. Apache Kafka
    /// makes no others.
    pub fn dense_count(&self) -> Option<PartitionIndex> {
        let count = PartitionIndex::try_from(self.partitions.len()).ok()?;
        let last = self.partitions.get_max().map_or(-1, |(index, _)| *index);
        let first = self.partitions.get_min().map_or(0, |(index, _)| *index);
        (first == 0 && last == count - 1).then_some(count)
    }

    /// All partitions in order of their index.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionIndex, &Arc<PartitionRegistration>)> {
        self.partitions.iter().map(|(index, partition)| (*index, partition))
    }

    /// Number of partitions. Indexes run from 0 without gaps.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    pub(crate) fn set_partition(&mut self, index: PartitionIndex, partition: PartitionRegistration) {
        self.partitions.insert(index, Arc::new(partition));
    }
}

/// All topics, by id and by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopicsImage {
    by_id: OrdMap<TopicId, Arc<TopicImage>>,
    by_name: OrdMap<Arc<str>, TopicId>,
    partition_count: usize,
}

impl TopicsImage {
    /// A topic by id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.by_id.get(&id)
    }

    /// A topic by name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// One partition by topic id.
    pub fn partition(&self, id: TopicId, index: PartitionIndex) -> Option<&Arc<PartitionRegistration>> {
        self.by_id.get(&id)?.partition(index)
    }

    /// All topics in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.values().filter_map(|id| self.by_id.get(id))
    }

    /// Topics whose name is at least `name` (or greater, when `exclusive`), in order of their names: for paging.
    pub fn iter_from(&self, name: &str, exclusive: bool) -> impl Iterator<Item = &Arc<TopicImage>> {
        use std::ops::Bound;
        let name: Arc<str> = Arc::from(name);
        let start = if exclusive { Bound::Excluded(name) } else { Bound::Included(name) };
        self.by_name.range((start, Bound::Unbounded)).filter_map(|(_, id)| self.by_id.get(id))
    }

    /// All topics in order of their ids.
    pub fn iter_by_id(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_id.values()
    }

    /// Number of topics.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True when there is no topic.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Number of partitions of all topics.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    pub(crate) fn insert(&mut self, topic: TopicImage) {
        self.partition_count += topic.partition_count();
        self.by_name.insert(topic.name.clone(), topic.id);
        if let Some(old) = self.by_id.insert(topic.id, Arc::new(topic)) {
            self.partition_count -= old.partition_count();
        }
    }

    pub(crate) fn remove(&mut self, id: TopicId) -> Option<Arc<TopicImage>> {
        let topic = self.by_id.remove(&id)?;
        self.partition_count -= topic.partition_count();
        // The name may already belong to the topic's successor.
        if self.by_name.get(&topic.name) == Some(&id) {
            self.by_name.remove(&topic.name);
        }
        Some(topic)
    }

    /// Sets one partition of a known topic in place; false when the topic is unknown.
    pub(crate) fn set_partition(
        &mut self,
        id: TopicId,
        index: PartitionIndex,
        partition: PartitionRegistration,
    ) -> bool {
        let Some(topic) = self.by_id.get_mut(&id) else { return false };
        let topic = Arc::make_mut(topic);
        let before = topic.partition_count();
        topic.set_partition(index, partition);
        self.partition_count += topic.partition_count() - before;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_says_which_partitions_there_are_where_none_is_left_out() {
        let cases: [(&[PartitionIndex], Option<PartitionIndex>); 7] = [
            (&[], Some(0)),
            (&[0], Some(1)),
            (&[2, 0, 1], Some(3)),
            (&[1], None),
            (&[0, 2], None),
            (&[-1, 0, 1, 2], None),
            (&[-1, 2], None),
        ];
        for (indexes, count) in cases {
            let mut topic = TopicImage::new(Arc::from("t"), TopicId::from_u128(1));
            for index in indexes {
                topic.set_partition(*index, PartitionRegistration::default());
            }
            assert_eq!(topic.dense_count(), count, "{indexes:?}");
        }
    }
}
