//! Decisions as records of `__consumer_offsets`, types 3 to 8 and 16, as Kafka writes them.

use std::borrow::Cow;

use coordinator::CoordinatorRecord;
use wire::consumer_group_current_member_assignment_key::ConsumerGroupCurrentMemberAssignmentKey;
use wire::consumer_group_current_member_assignment_value as current;
use wire::consumer_group_member_metadata_key::ConsumerGroupMemberMetadataKey;
use wire::consumer_group_member_metadata_value as metadata;
use wire::consumer_group_metadata_key::ConsumerGroupMetadataKey;
use wire::consumer_group_metadata_value::ConsumerGroupMetadataValue;
use wire::consumer_group_partition_metadata_key::ConsumerGroupPartitionMetadataKey;
use wire::consumer_group_regular_expression_key::ConsumerGroupRegularExpressionKey;
use wire::consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue;
use wire::consumer_group_target_assignment_member_key::ConsumerGroupTargetAssignmentMemberKey;
use wire::consumer_group_target_assignment_member_value as target;
use wire::consumer_group_target_assignment_metadata_key::ConsumerGroupTargetAssignmentMetadataKey;
use wire::consumer_group_target_assignment_metadata_value::ConsumerGroupTargetAssignmentMetadataValue;
use wire::group_record::{GroupKey, GroupValue};

use crate::assignor::Partitions;
use crate::consumer::group::{ConsumerGroup, Resolved};
use crate::consumer::member::Member;
use crate::consumer::owned::Owned;
use crate::records::{TooLong, record, tombstone};

/// Version of every value here.
const VERSION: i16 = 0;

/// The records of one decision about one group, in order.
#[derive(Debug)]
pub(crate) struct Records<'g> {
    group_id: &'g str,
    records: Vec<CoordinatorRecord>,
    too_long: bool,
}

impl<'g> Records<'g> {
    /// No records.
    pub fn new(group_id: &'g str) -> Records<'g> {
        Records { group_id, records: Vec::new(), too_long: false }
    }

    /// The records, unless a text in one of them is longer than the format can say, or one is larger than `bytes_max`: the
    /// log would refuse it, and with it everything else that is decided in its partition.
    pub fn finish(self, bytes_max: usize) -> Result<Vec<CoordinatorRecord>, TooLong> {
        let fit = !self.too_long && self.records.iter().all(|record| record.size() <= bytes_max);
        if fit { Ok(self.records) } else { Err(TooLong) }
    }

    /// Adds a record made elsewhere.
    pub fn push(&mut self, record: Result<CoordinatorRecord, TooLong>) {
        match record {
            Ok(record) => self.records.push(record),
            Err(TooLong) => self.too_long = true,
        }
    }

    fn group(&self) -> Cow<'g, str> {
        Cow::Borrowed(self.group_id)
    }

    /// A member's own data.
    pub fn member(&mut self, id: &str, member: &Member) {
        let text = |text: &'_ str| Cow::Owned(text.to_owned());
        let option = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(|text| Cow::Owned(text.to_string()));
        let classic = member.classic.as_ref().map(|classic| metadata::ClassicMemberMetadata {
            session_timeout_ms: classic.session_timeout_ms,
            supported_protocols: classic
                .protocols
                .iter()
                .map(|(name, data)| metadata::ClassicProtocol { name: text(name), metadata: Cow::Owned(data.to_vec()) })
                .collect(),
        });
        let value = metadata::ConsumerGroupMemberMetadataValue {
            instance_id: option(&member.instance_id),
            rack_id: option(&member.rack_id),
            client_id: text(member.client.id()),
            client_host: text(member.client.host()),
            subscribed_topic_names: member.subscription.names.iter().map(|name| text(name)).collect(),
            subscribed_topic_regex: Some(text(&member.subscription.regex)),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            server_assignor: option(&member.assignor),
            classic_member_metadata: classic,
        };
        let value = GroupValue::ConsumerGroupMemberMetadata(value);
        self.push(record(&self.member_key(id), &value, VERSION));
    }

    fn member_key<'a>(&self, id: &'a str) -> GroupKey<'a>
    where
        'g: 'a,
    {
        let key = ConsumerGroupMemberMetadataKey { group_id: self.group(), member_id: Cow::Borrowed(id) };
        GroupKey::ConsumerGroupMemberMetadata(key)
    }

    fn target_key<'a>(&self, id: &'a str) -> GroupKey<'a>
    where
        'g: 'a,
    {
        let key = ConsumerGroupTargetAssignmentMemberKey { group_id: self.group(), member_id: Cow::Borrowed(id) };
        GroupKey::ConsumerGroupTargetAssignmentMember(key)
    }

    fn current_key<'a>(&self, id: &'a str) -> GroupKey<'a>
    where
        'g: 'a,
    {
        let key = ConsumerGroupCurrentMemberAssignmentKey { group_id: self.group(), member_id: Cow::Borrowed(id) };
        GroupKey::ConsumerGroupCurrentMemberAssignment(key)
    }

    /// The group's epoch and the hash of what it is subscribed to.
    pub fn epoch(&mut self, epoch: i32, metadata_hash: i64) {
        let key = GroupKey::ConsumerGroupMetadata(ConsumerGroupMetadataKey { group_id: self.group() });
        let value = GroupValue::ConsumerGroupMetadata(ConsumerGroupMetadataValue { epoch, metadata_hash });
        self.push(record(&key, &value, VERSION));
    }

    /// What a member shall have.
    pub fn target(&mut self, id: &str, partitions: &Partitions) {
        let topic = |(topic_id, partitions): (base::TopicId, &[i32])| target::TopicPartition {
            topic_id,
            partitions: partitions.to_vec(),
        };
        let value = target::ConsumerGroupTargetAssignmentMemberValue {
            topic_partitions: partitions.topics().map(topic).collect(),
        };
        let value = GroupValue::ConsumerGroupTargetAssignmentMember(value);
        self.push(record(&self.target_key(id), &value, VERSION));
    }

    fn target_epoch_key(&self) -> GroupKey<'g> {
        let key = ConsumerGroupTargetAssignmentMetadataKey { group_id: self.group() };
        GroupKey::ConsumerGroupTargetAssignmentMetadata(key)
    }

    /// The epoch the targets are for and when they were made; 0 makes the next ones possible at once.
    pub fn target_epoch(&mut self, assignment_epoch: i32, assignment_timestamp: i64) {
        let value = ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch, assignment_timestamp };
        let value = GroupValue::ConsumerGroupTargetAssignmentMetadata(value);
        self.push(record(&self.target_epoch_key(), &value, VERSION));
    }

    /// How far a member is and what it has.
    pub fn current(&mut self, id: &str, member: &Member) {
        let value = current::ConsumerGroupCurrentMemberAssignmentValue {
            member_epoch: member.epoch,
            previous_member_epoch: member.previous_epoch,
            state: member.state.value(),
            assigned_partitions: with_epochs(&member.assigned),
            partitions_pending_revocation: with_epochs(&member.revoking),
        };
        let value = GroupValue::ConsumerGroupCurrentMemberAssignment(value);
        self.push(record(&self.current_key(id), &value, VERSION));
    }

    /// What a regular expression matched.
    pub fn regex(&mut self, regex: &str, resolved: &Resolved) {
        let value = ConsumerGroupRegularExpressionValue {
            topics: resolved.topics.iter().map(|topic| Cow::Borrowed(&**topic)).collect(),
            version: resolved.version,
            timestamp: resolved.timestamp_ms,
        };
        let value = GroupValue::ConsumerGroupRegularExpression(value);
        self.push(record(&self.regex_key(regex), &value, VERSION));
    }

    fn regex_key<'a>(&self, regex: &'a str) -> GroupKey<'a>
    where
        'g: 'a,
    {
        let regular_expression = Cow::Borrowed(regex);
        let key = ConsumerGroupRegularExpressionKey { group_id: self.group(), regular_expression };
        GroupKey::ConsumerGroupRegularExpression(key)
    }

    /// A regular expression nobody has any more.
    pub fn regex_gone(&mut self, regex: &str) {
        self.push(tombstone(&self.regex_key(regex)));
    }

    /// The record of partition metadata that an older broker left.
    pub fn partition_metadata_gone(&mut self) {
        let key = ConsumerGroupPartitionMetadataKey { group_id: self.group() };
        self.push(tombstone(&GroupKey::ConsumerGroupPartitionMetadata(key)));
    }

    /// Removes a member: what it has first, so that it owns nothing when it goes.
    pub fn member_gone(&mut self, id: &str) {
        self.push(tombstone(&self.current_key(id)));
        self.push(tombstone(&self.target_key(id)));
        self.push(tombstone(&self.member_key(id)));
    }

    /// Deletes the group. `renamed` maps member ids: an earlier record of this decision has replaced that member.
    pub fn group_gone<'a>(&mut self, group: &'a ConsumerGroup, renamed: impl Fn(&'a str) -> &'a str)
    where
        'g: 'a,
    {
        let ids: Vec<&str> = group.members().map(|(id, _)| renamed(id)).collect();
        ids.iter().for_each(|id| self.push(tombstone(&self.current_key(id))));
        ids.iter().for_each(|id| self.push(tombstone(&self.target_key(id))));
        self.push(tombstone(&self.target_epoch_key()));
        ids.iter().for_each(|id| self.push(tombstone(&self.member_key(id))));
        group.all_resolved().keys().for_each(|regex| self.regex_gone(regex));
        self.partition_metadata_gone();
        let key = GroupKey::ConsumerGroupMetadata(ConsumerGroupMetadataKey { group_id: self.group() });
        self.push(tombstone(&key));
    }
}

fn with_epochs(owned: &Owned) -> Vec<current::TopicPartitions> {
    let mut topics: Vec<current::TopicPartitions> = Vec::new();
    for (topic_id, partition, epoch) in owned.iter() {
        if topics.last().is_none_or(|topic| topic.topic_id != topic_id) {
            topics.push(current::TopicPartitions {
                topic_id,
                partitions: Vec::new(),
                assignment_epochs: Some(Vec::new()),
            });
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(partition);
            topic.assignment_epochs.get_or_insert_default().push(epoch);
        }
    }
    topics
}
