//! Records to state: the only way a group changes.

use std::sync::Arc;

use base::{PartitionIndex, TopicId};
use wire::consumer_group_current_member_assignment_value as current;
use wire::consumer_group_member_metadata_value::ConsumerGroupMemberMetadataValue;
use wire::consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue;
use wire::group_record::{GroupKey, GroupValue};

use crate::assignor::Partitions;
use crate::consumer::group::{ConsumerGroup, PARTITION_INDEX_MAX, Resolved};
use crate::consumer::member::{ClassicMember, ClientName, LEAVE_EPOCH, Member, MemberState, Subscription};
use crate::consumer::owned::Owned;

/// Epoch of a group's assignment once the record of it is deleted.
const NO_ASSIGNMENT_EPOCH: i32 = -1;

/// What a record does to the map of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The group stays.
    Kept,
    /// The group is deleted.
    Deleted,
}

impl ConsumerGroup {
    /// Takes in one record. Whatever order records come in, which compaction may have changed, the result is the same
    /// as long as each key's last record is.
    pub(crate) fn replay(&mut self, key: &GroupKey<'_>, value: Option<&GroupValue<'_>>) -> Fate {
        match (key, value) {
            (GroupKey::ConsumerGroupMetadata(_), Some(GroupValue::ConsumerGroupMetadata(value))) => {
                self.epoch = value.epoch;
                self.metadata_hash = value.metadata_hash;
            }
            (GroupKey::ConsumerGroupMetadata(_), None) => return Fate::Deleted,
            (GroupKey::ConsumerGroupPartitionMetadata(_), value) => self.has_partition_metadata = value.is_some(),
            (
                GroupKey::ConsumerGroupTargetAssignmentMetadata(_),
                Some(GroupValue::ConsumerGroupTargetAssignmentMetadata(value)),
            ) => {
                self.assignment_epoch = value.assignment_epoch;
                self.assignment_timestamp_ms = value.assignment_timestamp;
            }
            (GroupKey::ConsumerGroupTargetAssignmentMetadata(_), None) => {
                self.assignment_epoch = NO_ASSIGNMENT_EPOCH;
                self.assignment_timestamp_ms = 0;
            }
            (GroupKey::ConsumerGroupRegularExpression(key), value) => {
                let resolved = match value {
                    Some(GroupValue::ConsumerGroupRegularExpression(value)) => Some(resolved(value)),
                    _ => None,
                };
                self.set_resolved(&key.regular_expression, resolved);
            }
            _ => self.replay_member(key, value),
        }
        Fate::Kept
    }

    fn replay_member(&mut self, key: &GroupKey<'_>, value: Option<&GroupValue<'_>>) {
        match (key, value) {
            (GroupKey::ConsumerGroupMemberMetadata(key), Some(GroupValue::ConsumerGroupMemberMetadata(value))) => {
                self.set_metadata(&key.member_id, |member| set_metadata(member, value))
            }
            (GroupKey::ConsumerGroupMemberMetadata(key), None) => self.remove_member(&key.member_id),
            (
                GroupKey::ConsumerGroupTargetAssignmentMember(key),
                Some(GroupValue::ConsumerGroupTargetAssignmentMember(value)),
            ) => {
                let topics = value.topic_partitions.iter();
                let pairs = topics.flat_map(|topic| topic.partitions.iter().map(|p| (topic.topic_id, *p)));
                let target: Partitions = pairs.filter(|(_, partition)| is_index(*partition)).collect();
                self.set_target(&key.member_id, Some(target));
            }
            (GroupKey::ConsumerGroupTargetAssignmentMember(key), None) => self.set_target(&key.member_id, None),
            (
                GroupKey::ConsumerGroupCurrentMemberAssignment(key),
                Some(GroupValue::ConsumerGroupCurrentMemberAssignment(value)),
            ) => self.set_assignment(&key.member_id, |member| {
                member.epoch = value.member_epoch;
                member.previous_epoch = value.previous_member_epoch;
                member.state = MemberState::from_value(value.state);
                member.assigned = owned(&value.assigned_partitions, value.member_epoch);
                member.revoking = owned(&value.partitions_pending_revocation, value.member_epoch);
            }),
            (GroupKey::ConsumerGroupCurrentMemberAssignment(key), None) if self.member(&key.member_id).is_some() => {
                self.set_assignment(&key.member_id, |member| {
                    member.epoch = LEAVE_EPOCH;
                    member.previous_epoch = LEAVE_EPOCH;
                    member.assigned = Owned::default();
                    member.revoking = Owned::default();
                });
            }
            _ => {}
        }
    }
}

fn is_index(partition: PartitionIndex) -> bool {
    (0..=PARTITION_INDEX_MAX).contains(&partition)
}

fn set_metadata(member: &mut Member, value: &ConsumerGroupMemberMetadataValue<'_>) {
    let option = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(Arc::from);
    member.instance_id = option(&value.instance_id);
    member.rack_id = option(&value.rack_id);
    if (member.client.id(), member.client.host()) != (&value.client_id, &value.client_host) {
        member.client = ClientName::new(&value.client_id, &value.client_host);
    }
    let regex = value.subscribed_topic_regex.as_deref().unwrap_or_default();
    let names = value.subscribed_topic_names.iter().map(|name| &**name);
    member.subscription = Arc::new(Subscription::new(names, Arc::from(regex)));
    member.rebalance_timeout_ms = value.rebalance_timeout_ms;
    member.assignor = option(&value.server_assignor);
    member.classic = value.classic_member_metadata.as_ref().map(|classic| {
        let protocols = classic.supported_protocols.iter();
        let protocols = protocols.map(|protocol| (Arc::from(&*protocol.name), Box::from(&*protocol.metadata)));
        Arc::new(ClassicMember { session_timeout_ms: classic.session_timeout_ms, protocols: protocols.collect() })
    });
}

/// Brokers before 4.4 write no epochs: then the member's own counts for all of its partitions.
fn owned(topics: &[current::TopicPartitions], member_epoch: i32) -> Owned {
    let mut entries: Vec<(TopicId, PartitionIndex, i32)> = Vec::new();
    for topic in topics {
        let epochs = topic.assignment_epochs.as_ref().filter(|epochs| epochs.len() == topic.partitions.len());
        for (at, partition) in topic.partitions.iter().enumerate().filter(|(_, partition)| is_index(**partition)) {
            entries.push((topic.topic_id, *partition, epochs.map_or(member_epoch.max(0), |epochs| epochs[at])));
        }
    }
    Owned::from_entries(entries)
}

fn resolved(value: &ConsumerGroupRegularExpressionValue<'_>) -> Resolved {
    let topics: std::collections::BTreeSet<&str> = value.topics.iter().map(|topic| &**topic).collect();
    let topics = topics.into_iter().map(Arc::from).collect();
    Resolved { topics, version: value.version, timestamp_ms: value.timestamp }
}
