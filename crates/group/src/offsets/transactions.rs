//! Offsets committed within transactions (KIP-98): they count when the marker says so, and only where no later commit
//! has come in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Uuid;
use coordinator::Marker;

use crate::offsets::{Committed, OffsetStore};

type Key = (Arc<str>, Arc<str>, i32);

/// Offsets of transactions that are not finished.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    by_producer: BTreeMap<i64, BTreeMap<Key, (Uuid, Committed)>>,
    /// Which producers have one for a partition: such offsets are not stable, and do not expire.
    producers: BTreeMap<Key, BTreeSet<i64>>,
}

impl Pending {
    /// Whether a transaction may still change the partition's offset.
    pub fn contains(&self, group: &str, topic: &str, partition: i32) -> bool {
        // Few transactions are open at a time, and mostly none.
        !self.producers.is_empty() && self.producers.contains_key(&(Arc::from(group), Arc::from(topic), partition))
    }

    /// Whether a transaction of the group is open.
    pub fn contains_group(&self, group: &str) -> bool {
        self.of_group(group).next().is_some()
    }

    /// The partitions of a group with open transactions.
    pub fn of_group(&self, group: &str) -> impl Iterator<Item = (Arc<str>, i32)> {
        let group: Arc<str> = Arc::from(group);
        let start: Key = (group.clone(), Arc::from(""), i32::MIN);
        let keys = self.producers.range(start..).map(|(key, _)| key).take_while(move |key| key.0 == group);
        keys.map(|(_, topic, partition)| (topic.clone(), *partition))
    }

    /// All of them: group, topic, partition and the topic's id.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, Uuid)> {
        let all = self.by_producer.values().flatten();
        all.map(|((group, topic, partition), (topic_id, _))| (group, topic, *partition, *topic_id))
    }

    pub(super) fn put(&mut self, producer_id: i64, key: Key, topic_id: Uuid, committed: Committed) {
        self.producers.entry(key.clone()).or_default().insert(producer_id);
        self.by_producer.entry(producer_id).or_default().insert(key, (topic_id, committed));
    }

    /// Forgets what open transactions committed for a partition.
    pub(super) fn forget(&mut self, group: &str, topic: &str, partition: i32) {
        // Few transactions are open at a time, and mostly none.
        if self.producers.is_empty() {
            return;
        }
        let key = (Arc::from(group), Arc::from(topic), partition);
        for producer_id in self.producers.remove(&key).unwrap_or_default() {
            if let Some(offsets) = self.by_producer.get_mut(&producer_id) {
                offsets.remove(&key);
            }
        }
    }

    fn take(&mut self, producer_id: i64) -> BTreeMap<Key, (Uuid, Committed)> {
        let offsets = self.by_producer.remove(&producer_id).unwrap_or_default();
        for key in offsets.keys() {
            if let Some(producers) = self.producers.get_mut(key) {
                producers.remove(&producer_id);
                if producers.is_empty() {
                    self.producers.remove(key);
                }
            }
        }
        offsets
    }
}

impl OffsetStore {
    /// Whether a transaction may still change the partition's offset.
    pub fn is_pending(&self, group: &str, topic: &str, partition: i32) -> bool {
        self.pending.contains(group, topic, partition)
    }

    /// The end of a transaction.
    pub fn end_transaction(&mut self, marker: &Marker) {
        let offsets = self.pending.take(marker.producer_id);
        if !marker.commit {
            for (_, topic, _) in offsets.into_keys() {
                self.release(&topic);
            }
            return;
        }
        for ((group, topic, partition), (topic_id, committed)) in offsets {
            let later = self
                .get(&group, &topic, partition)
                .is_some_and(|has| has.record_offset() > committed.view().record_offset());
            if !later {
                self.put(&group, &topic, topic_id, committed);
            }
        }
    }
}
