//! Offsets by group, topic and partition, kept small: a shard may hold millions.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Uuid;
use coordinator::CoordinatorRecord;
use wire::offset_commit_value::OffsetCommitValue;

use crate::offsets::transactions::Pending;
use crate::records;
use crate::shard::Map;

/// What few commits have: a metadata text, or an end of their life of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Extra {
    metadata: Box<str>,
    /// When it expires, ms since the epoch; -1 when the retention decides.
    expire_ms: i64,
}

/// A committed offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Committed {
    /// The offset.
    pub offset: i64,
    /// When it was committed, ms since the epoch.
    pub commit_ms: i64,
    /// Offset of its record, by which the later of two commits is known.
    pub record_offset: i64,
    /// Leader epoch of the record before; -1 when unknown.
    pub leader_epoch: i32,
    /// The partition. Part of the entry so that entries lie side by side, ordered by it.
    pub partition: i32,
    extra: Option<Box<Extra>>,
}

impl Committed {
    /// From its record.
    pub fn from_record(partition: i32, value: &OffsetCommitValue<'_>, record_offset: i64) -> Committed {
        let plain = value.metadata.is_empty() && value.expire_timestamp < 0;
        let extra = || Extra { metadata: Box::from(&*value.metadata), expire_ms: value.expire_timestamp };
        Committed {
            offset: value.offset,
            commit_ms: value.commit_timestamp,
            record_offset,
            leader_epoch: value.leader_epoch,
            partition,
            extra: (!plain).then(|| Box::new(extra())),
        }
    }

    /// Its metadata text.
    pub fn metadata(&self) -> &str {
        self.extra.as_ref().map_or("", |extra| &extra.metadata)
    }

    /// When it expires, ms since the epoch, if it says so itself.
    pub fn expire_ms(&self) -> Option<i64> {
        self.extra.as_ref().map(|extra| extra.expire_ms).filter(|ms| *ms >= 0)
    }
}

/// Offsets of one topic in one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TopicOffsets {
    /// The topic's id as far as commits told it; zero when none did. A commit that tells another one belongs to another
    /// topic of the same name, and drops what was committed for the older.
    pub topic_id: Uuid,
    /// By partition, ascending.
    pub partitions: Vec<Committed>,
}

impl TopicOffsets {
    fn find(&self, partition: i32) -> Result<usize, usize> {
        match self.partitions.last() {
            Some(last) if last.partition < partition => Err(self.partitions.len()),
            _ => self.partitions.binary_search_by_key(&partition, |entry| entry.partition),
        }
    }

    /// The offset of a partition.
    pub fn get(&self, partition: i32) -> Option<&Committed> {
        self.find(partition).ok().map(|index| &self.partitions[index])
    }

    /// Sets the offset of a partition of the topic with this id, which may be unknown. Whatever belongs to another topic goes.
    /// `hint` is where the partition may be; the answer is where the one behind it may be.
    fn put(&mut self, topic_id: Uuid, committed: Committed, hint: usize) -> usize {
        if !topic_id.is_zero() {
            if !self.topic_id.is_zero() && self.topic_id != topic_id {
                self.partitions.clear();
            }
            self.topic_id = topic_id;
        }
        let found = match self.partitions.get(hint) {
            Some(entry) if entry.partition == committed.partition => Ok(hint),
            _ => self.find(committed.partition),
        };
        match found {
            Ok(index) => self.partitions[index] = committed,
            Err(index) => self.partitions.insert(index, committed),
        }
        found.unwrap_or_else(|index| index) + 1
    }
}

/// Offsets of one group, by topic.
pub(crate) type GroupOffsets = BTreeMap<Arc<str>, TopicOffsets>;

/// Committed offsets by group, topic and partition, and those of transactions that are not finished.
#[derive(Debug, Default)]
pub(crate) struct OffsetStore {
    pub(crate) groups: Map<Arc<str>, GroupOffsets>,
    pub(crate) pending: Pending,
    /// One text for each topic name, however many groups have it.
    names: Map<Arc<str>, ()>,
    count: usize,
}

impl OffsetStore {
    /// Number of committed offsets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The offsets of a group.
    pub fn group(&self, group: &str) -> Option<&GroupOffsets> {
        self.groups.get(group)
    }

    /// One offset.
    pub fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&Committed> {
        self.groups.get(group)?.get(topic)?.get(partition)
    }

    /// The shared text of a topic name.
    pub(super) fn name(&mut self, topic: &str) -> Arc<str> {
        if let Some((name, ())) = self.names.get_key_value(topic) {
            return name.clone();
        }
        let name: Arc<str> = Arc::from(topic);
        self.names.insert(name.clone(), ());
        name
    }

    /// Forgets a topic name that only the caller and the table of names still have.
    pub(super) fn release(&mut self, name: &Arc<str>) {
        if Arc::strong_count(name) <= 2 {
            self.names.remove(name);
        }
    }

    /// Sets an offset.
    pub fn put(&mut self, group: &Arc<str>, topic: &str, topic_id: Uuid, committed: Committed) {
        self.put_all(group, topic, std::iter::once((topic_id, committed)));
    }

    /// Sets offsets of one topic, at least one, each with the topic's id as its commit told it.
    pub fn put_all(&mut self, group: &Arc<str>, topic: &str, commits: impl Iterator<Item = (Uuid, Committed)>) {
        let offsets = match self.groups.get_mut(&**group).and_then(|topics| topics.get_mut(topic)) {
            Some(offsets) => offsets,
            None => {
                let name = self.name(topic);
                self.groups.entry(group.clone()).or_default().entry(name).or_default()
            }
        };
        let before = offsets.partitions.len();
        commits.fold(0, |hint, (topic_id, committed)| offsets.put(topic_id, committed, hint));
        self.count = self.count - before + offsets.partitions.len();
    }

    /// Takes an offset away.
    pub fn remove(&mut self, group: &str, topic: &str, partition: i32) {
        let Some(topics) = self.groups.get_mut(group) else { return };
        let Some(offsets) = topics.get_mut(topic) else { return };
        if let Ok(index) = offsets.find(partition) {
            offsets.partitions.remove(index);
            self.count -= 1;
        }
        if offsets.partitions.is_empty() {
            let removed = topics.remove_entry(topic);
            if topics.is_empty() {
                self.groups.remove(group);
            }
            if let Some((name, _)) = removed {
                self.release(&name);
            }
        }
    }

    /// The tombstones of all offsets of a group, those of open transactions included.
    pub fn tombstones_of_group(&self, group: &str, out: &mut Vec<CoordinatorRecord>) {
        for (topic, offsets) in self.groups.get(group).into_iter().flatten() {
            for committed in &offsets.partitions {
                out.extend(records::offset_tombstone(group, topic, committed.partition));
            }
        }
        for (topic, partition) in self.pending.of_group(group) {
            if self.get(group, &topic, partition).is_none() {
                out.extend(records::offset_tombstone(group, &topic, partition));
            }
        }
    }
}
