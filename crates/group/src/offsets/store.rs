//! Offsets by group, topic and partition, kept small: a shard may hold millions.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Uuid;
use coordinator::CoordinatorRecord;
use wire::offset_commit_value::OffsetCommitValue;

use crate::offsets::transactions::Pending;
use crate::records;
use crate::shard::Map;

/// What few commits have: a metadata text, an end of their life of their own, or numbers that an entry has no room for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Extra {
    offset: i64,
    leader_epoch: i32,
    metadata: Box<str>,
    /// When it expires, ms since the epoch; -1 when the retention decides.
    expire_ms: i64,
}

/// A number of 48 bits: places in a log, and milliseconds since the epoch for some 4,000 years around it. What is beyond is
/// as good as the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct I48([u8; 6]);

impl I48 {
    const MAX: i64 = (1 << 47) - 1;

    fn new(value: i64) -> I48 {
        let [a, b, c, d, e, f, ..] = value.clamp(-Self::MAX, Self::MAX).to_le_bytes();
        I48([a, b, c, d, e, f])
    }

    fn get(self) -> i64 {
        let [a, b, c, d, e, f] = self.0;
        // Up and down again, for the sign.
        i64::from_le_bytes([0, 0, a, b, c, d, e, f]) >> 16
    }
}

/// What every commit has, in 24 bytes side by side. The offset and the epoch are those of the [`Extra`] where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    partition: i32,
    leader_epoch: i16,
    offset: I48,
    commit_ms: I48,
    record_offset: I48,
}

/// A committed offset on its way into the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Committed {
    entry: Entry,
    extra: Option<Box<Extra>>,
}

impl Committed {
    /// From its record.
    pub fn from_record(partition: i32, value: &OffsetCommitValue<'_>, record_offset: i64) -> Committed {
        let (leader_epoch, offset) = (value.leader_epoch as i16, I48::new(value.offset));
        let fits = i32::from(leader_epoch) == value.leader_epoch && offset.get() == value.offset;
        let plain = fits && value.metadata.is_empty() && value.expire_timestamp < 0;
        let extra = || Extra {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: Box::from(&*value.metadata),
            expire_ms: value.expire_timestamp,
        };
        let entry = Entry {
            partition,
            leader_epoch,
            offset,
            commit_ms: I48::new(value.commit_timestamp),
            record_offset: I48::new(record_offset),
        };
        Committed { entry, extra: (!plain).then(|| Box::new(extra())) }
    }

    /// To be looked at.
    pub fn view(&self) -> OffsetView<'_> {
        OffsetView { entry: &self.entry, extra: self.extra.as_deref() }
    }
}

/// A committed offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OffsetView<'a> {
    entry: &'a Entry,
    extra: Option<&'a Extra>,
}

impl<'a> OffsetView<'a> {
    /// The partition.
    pub fn partition(&self) -> i32 {
        self.entry.partition
    }

    /// The offset.
    pub fn offset(&self) -> i64 {
        self.extra.map_or_else(|| self.entry.offset.get(), |extra| extra.offset)
    }

    /// Leader epoch of the record before; -1 when unknown.
    pub fn leader_epoch(&self) -> i32 {
        self.extra.map_or_else(|| i32::from(self.entry.leader_epoch), |extra| extra.leader_epoch)
    }

    /// When it was committed, ms since the epoch.
    pub fn commit_ms(&self) -> i64 {
        self.entry.commit_ms.get()
    }

    /// Offset of its record, by which the later of two commits is known.
    pub fn record_offset(&self) -> i64 {
        self.entry.record_offset.get()
    }

    /// Its metadata text.
    pub fn metadata(&self) -> &'a str {
        self.extra.map_or("", |extra| &extra.metadata)
    }

    /// When it expires, ms since the epoch, if it says so itself.
    pub fn expire_ms(&self) -> Option<i64> {
        self.extra.map(|extra| extra.expire_ms).filter(|ms| *ms >= 0)
    }
}

/// Offsets of one topic in one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TopicOffsets {
    /// The topic's id as far as commits told it; zero when none did. A commit that tells another one belongs to another
    /// topic of the same name, and drops what was committed for the older.
    pub topic_id: Uuid,
    /// By partition, ascending.
    entries: Vec<Entry>,
    /// By partition, of those that have any.
    extras: BTreeMap<i32, Box<Extra>>,
}

impl TopicOffsets {
    fn find(&self, partition: i32) -> Result<usize, usize> {
        match self.entries.last() {
            Some(last) if last.partition < partition => Err(self.entries.len()),
            _ => self.entries.binary_search_by_key(&partition, |entry| entry.partition),
        }
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> OffsetView<'a> {
        OffsetView { entry, extra: self.extras.get(&entry.partition).map(|extra| &**extra) }
    }

    /// The offset of a partition.
    pub fn get(&self, partition: i32) -> Option<OffsetView<'_>> {
        self.find(partition).ok().map(|index| self.view(&self.entries[index]))
    }

    /// All of them, by partition, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = OffsetView<'_>> {
        self.entries.iter().map(|entry| self.view(entry))
    }

    /// Sets the offset of a partition of the topic with this id, which may be unknown. Whatever belongs to another topic goes.
    /// `hint` is where the partition may be; the answer is where the one behind it may be.
    fn put(&mut self, topic_id: Uuid, committed: Committed, hint: usize) -> usize {
        if !topic_id.is_zero() {
            if !self.topic_id.is_zero() && self.topic_id != topic_id {
                self.entries.clear();
                self.extras.clear();
            }
            self.topic_id = topic_id;
        }
        let Committed { entry, extra } = committed;
        match extra {
            Some(extra) => drop(self.extras.insert(entry.partition, extra)),
            None => drop(self.extras.remove(&entry.partition)),
        }
        let found = match self.entries.get(hint) {
            Some(there) if there.partition == entry.partition => Ok(hint),
            _ => self.find(entry.partition),
        };
        match found {
            Ok(index) => self.entries[index] = entry,
            Err(index) => self.entries.insert(index, entry),
        }
        found.unwrap_or_else(|index| index) + 1
    }

    /// Takes the offset of a partition away; whether there was one.
    fn remove(&mut self, partition: i32) -> bool {
        let Ok(index) = self.find(partition) else { return false };
        self.entries.remove(index);
        self.extras.remove(&partition);
        true
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
    pub fn get(&self, group: &str, topic: &str, partition: i32) -> Option<OffsetView<'_>> {
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
        let before = offsets.entries.len();
        commits.fold(0, |hint, (topic_id, committed)| offsets.put(topic_id, committed, hint));
        self.count = self.count - before + offsets.entries.len();
    }

    /// Takes an offset away.
    pub fn remove(&mut self, group: &str, topic: &str, partition: i32) {
        let Some(topics) = self.groups.get_mut(group) else { return };
        let Some(offsets) = topics.get_mut(topic) else { return };
        self.count -= usize::from(offsets.remove(partition));
        if offsets.entries.is_empty() {
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
            for committed in offsets.iter() {
                out.extend(records::offset_tombstone(group, topic, committed.partition()));
            }
        }
        for (topic, partition) in self.pending.of_group(group) {
            if self.get(group, &topic, partition).is_none() {
                out.extend(records::offset_tombstone(group, &topic, partition));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn value(offset: i64, metadata: &'static str, expire_timestamp: i64) -> OffsetCommitValue<'static> {
        let metadata = Cow::Borrowed(metadata);
        OffsetCommitValue {
            offset,
            leader_epoch: 7,
            metadata,
            commit_timestamp: 1_700_000_000_123,
            expire_timestamp,
            ..Default::default()
        }
    }

    #[test]
    fn numbers_of_48_bits_keep_what_they_can_hold() {
        for (value, kept) in [
            (0, 0),
            (-1, -1),
            (1_700_000_000_123, 1_700_000_000_123),
            (I48::MAX, I48::MAX),
            (I48::MAX + 1, I48::MAX),
            (-I48::MAX, -I48::MAX),
            (i64::MAX, I48::MAX),
            (i64::MIN, -I48::MAX),
        ] {
            assert_eq!(I48::new(value).get(), kept, "{value}");
        }
    }

    #[test]
    fn an_entry_is_as_small_as_it_says() {
        assert_eq!(size_of::<Entry>(), 24);
    }

    #[test]
    fn numbers_beyond_an_entry_are_kept_whole() {
        for (offset, leader_epoch) in [
            (0, -1),
            (I48::MAX, i32::from(i16::MAX)),
            (I48::MAX + 1, 0),
            (5, i32::from(i16::MAX) + 1),
            (i64::MIN, i32::MIN),
            (i64::MAX, i32::MAX),
        ] {
            let committed = Committed::from_record(3, &OffsetCommitValue { leader_epoch, ..value(offset, "", -1) }, 11);
            let view = committed.view();
            assert_eq!((view.offset(), view.leader_epoch(), view.metadata()), (offset, leader_epoch, ""));
            assert_eq!(view.expire_ms(), None);
        }
    }

    #[test]
    fn what_few_commits_have_comes_and_goes_with_them() {
        let (group, mut store) = (Arc::<str>::from("g"), OffsetStore::default());
        let put = |store: &mut OffsetStore, id: Uuid, partition, value: &OffsetCommitValue<'_>| {
            store.put(&group, "t", id, Committed::from_record(partition, value, 11));
        };
        put(&mut store, Uuid::ZERO, 2, &value(i64::MAX, "text", -1));
        put(&mut store, Uuid::ZERO, 1, &value(-1, "", 99));
        put(&mut store, Uuid::ZERO, 3, &value(5, "", -1));
        let told = |store: &OffsetStore| -> Vec<(i32, i64, String, Option<i64>)> {
            let offsets = store.group("g").and_then(|topics| topics.get("t")).expect("the topic");
            offsets.iter().map(|o| (o.partition(), o.offset(), o.metadata().to_owned(), o.expire_ms())).collect()
        };
        let expected =
            [(1, -1, String::new(), Some(99)), (2, i64::MAX, "text".to_owned(), None), (3, 5, String::new(), None)];
        assert_eq!(told(&store), expected);
        let found = store.get("g", "t", 2).expect("committed");
        assert_eq!((found.leader_epoch(), found.commit_ms(), found.record_offset()), (7, 1_700_000_000_123, 11));
        // A later commit without them; a removal; another topic of the same name.
        put(&mut store, Uuid::ZERO, 2, &value(6, "", -1));
        store.remove("g", "t", 1);
        assert_eq!(told(&store), [(2, 6, String::new(), None), (3, 5, String::new(), None)]);
        put(&mut store, Uuid::from_bytes([1; 16]), 2, &value(7, "x", -1));
        put(&mut store, Uuid::from_bytes([2; 16]), 3, &value(8, "", -1));
        put(&mut store, Uuid::from_bytes([2; 16]), 2, &value(9, "", -1));
        assert_eq!(told(&store), [(2, 9, String::new(), None), (3, 8, String::new(), None)]);
        assert_eq!(store.len(), 2);
    }
}
