//! What records of committed offsets do to a shard.

use std::sync::Arc;

use coordinator::{CoordinatorRecord, Replayed};
use tracing::warn;
use wire::group_record::GroupKey;
use wire::offset_commit_value::OffsetCommitValue;
use wire::{Decode, DecodeError, Reader};

use crate::classic::ClassicGroup;
use crate::offsets::Committed;
use crate::shard::{Group, GroupShard};

/// The number of the partition stands last in the key of a committed offset.
const PARTITION_BYTES: usize = size_of::<i32>();

/// The group, or the topic in it, and the partition of a key that is one.
fn split(key: &[u8]) -> Option<(&[u8], i32)> {
    let (of_topic, partition) = key.split_last_chunk::<PARTITION_BYTES>()?;
    Some((of_topic, i32::from_be_bytes(*partition)))
}

/// The records at the beginning that say something of the same topic in the same group as the first, whose key is that of a committed
/// offset.
fn of_one_topic(records: &[CoordinatorRecord]) -> usize {
    let Some((of_topic, _)) = records.first().and_then(|first| split(first.key())) else { return 0 };
    let alike = |record: &&CoordinatorRecord| {
        record.value().is_some() && split(record.key()).is_some_and(|(other, _)| other == of_topic)
    };
    records.iter().take_while(alike).count()
}

fn value_of(value: &[u8]) -> Result<OffsetCommitValue<'_>, DecodeError> {
    let mut r = Reader::from_slice(value);
    let version = r.i16()?;
    let value = OffsetCommitValue::decode(&mut r, version)?;
    r.finish()?;
    Ok(value)
}

impl GroupShard {
    /// The group of a commit. Who commits without being a member makes a group that only holds offsets.
    fn committing_group(&mut self, group_id: &str) -> Arc<str> {
        self.group_key(group_id).unwrap_or_else(|| {
            let id: Arc<str> = Arc::from(group_id);
            self.groups.insert(id.clone(), Group::Classic(Box::new(ClassicGroup::new(-1))));
            id
        })
    }

    /// A record of a committed offset.
    pub(crate) fn replay_offset(
        &mut self,
        group_id: &str,
        topic: &str,
        partition: i32,
        value: Option<&OffsetCommitValue<'_>>,
        record: &Replayed<'_>,
    ) {
        let Some(value) = value else {
            self.offsets.remove(group_id, topic, partition);
            self.offsets.pending.forget(group_id, topic, partition);
            return;
        };
        self.events.offset_commits += u64::from(self.decides);
        let id = self.committing_group(group_id);
        let committed = Committed::from_record(partition, value, record.offset);
        match record.producer {
            None => self.offsets.put(&id, topic, value.topic_id, committed),
            Some((producer_id, _)) => {
                let name = self.offsets.name(topic);
                self.offsets.pending.put(producer_id, (id, name, partition), value.topic_id, committed);
            }
        }
    }

    /// The commits of one topic at the beginning of what was just decided, of which there are many in a commit of many partitions: the
    /// group and the topic are looked up once. Gives their number; 0 where something else comes first.
    pub(crate) fn replay_commits(&mut self, offset: i64, records: &[CoordinatorRecord]) -> usize {
        let count = of_one_topic(records);
        if count < 2 {
            return 0;
        }
        let Ok(GroupKey::OffsetCommit(key)) = GroupKey::decode(records[0].key()) else { return 0 };
        let commits = records[..count].iter().zip(offset..).filter_map(|(record, offset)| {
            let (_, partition) = split(record.key())?;
            match value_of(record.value()?) {
                Ok(value) => Some((value.topic_id, Committed::from_record(partition, &value, offset))),
                Err(error) => {
                    warn!(offset, record = "OffsetCommit", %error, "a record that cannot be read is skipped");
                    None
                }
            }
        });
        let mut commits = commits.peekable();
        if commits.peek().is_some() {
            let id = self.committing_group(&key.group);
            let mut stored = 0;
            self.offsets.put_all(&id, &key.topic, commits.inspect(|_| stored += 1));
            self.events.offset_commits += if self.decides { stored } else { 0 };
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offsets::OffsetView;
    use crate::records;

    fn commit(group: &str, topic: &str, partition: i32) -> CoordinatorRecord {
        let value = OffsetCommitValue { offset: i64::from(partition), ..OffsetCommitValue::default() };
        records::offset_commit(group, topic, partition, &value)
    }

    fn state(shard: &GroupShard) -> Vec<(String, String, i32, i64, i64)> {
        let mut all = Vec::new();
        for (group, topics) in &shard.offsets.groups {
            for (topic, offsets) in topics {
                let entry = |c: OffsetView<'_>| {
                    (group.to_string(), topic.to_string(), c.partition(), c.offset(), c.record_offset())
                };
                all.extend(offsets.iter().map(entry));
            }
        }
        all.sort();
        all
    }

    /// Whatever stands behind one another: the same comes of it as of one record at a time.
    #[test]
    fn runs_of_commits_do_what_their_records_do() {
        let unreadable =
            CoordinatorRecord::new([commit("g", "t", 9).key(), &[0]].concat().into(), commit("g", "t", 9).key().len());
        let cases: Vec<(Vec<CoordinatorRecord>, usize)> = vec![
            (vec![], 0),
            (vec![commit("g", "t", 1)], 0),
            ((0..50).map(|p| commit("g", "t", p)).collect(), 50),
            ((0..50).rev().map(|p| commit("g", "t", p)).collect(), 50),
            (vec![commit("g", "t", 1), commit("g", "t", 1), commit("g", "t", 0)], 3),
            (vec![commit("g", "t", 1), commit("g", "t", 2), commit("g", "u", 1), commit("g", "u", 2)], 2),
            (vec![commit("g", "t", 1), commit("h", "t", 2)], 0),
            (
                vec![
                    commit("g", "t", 1),
                    commit("g", "t", 2),
                    records::offset_tombstone("g", "t", 1).expect("a record"),
                ],
                2,
            ),
            (vec![records::offset_tombstone("g", "t", 1).expect("a record"), commit("g", "t", 2)], 0),
            (vec![commit("g", "t", 1), unreadable.clone(), commit("g", "t", 2)], 3),
            (vec![unreadable.clone(), unreadable], 2),
            (vec![records::group_tombstone("g").expect("a record"), commit("g", "t", 2)], 0),
        ];
        for (i, (records, run)) in cases.into_iter().enumerate() {
            assert_eq!(GroupShard::new().replay_commits(7, &records), run, "case {i}");
            let (mut alone, mut together) = (GroupShard::new(), GroupShard::new());
            for (record, offset) in records.iter().zip(7..) {
                coordinator::Machine::replay(&mut alone, &record.expected_at(offset, 0));
            }
            coordinator::Machine::replay_decided(&mut together, 7, 0, &records);
            assert_eq!(state(&together), state(&alone), "case {i}");
            assert_eq!(together.group_count(), alone.group_count(), "case {i}");
            assert_eq!(together.offset_count(), state(&together).len(), "case {i}");
        }
    }
}
