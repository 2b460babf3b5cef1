//! What tools see of a group, and who may commit and fetch offsets.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::{PartitionIndex, TopicId};
use metadata::MetadataImage;
use wire::ErrorCode;
use wire::consumer_group_describe_response::{Assignment, DescribedGroup, Member as DescribedMember, TopicPartitions};

use crate::api::{Env, owned};
use crate::assignor::Assignor;
use crate::consumer::group::ConsumerGroup;
use crate::consumer::member::Member;
use crate::consumer::target::preferred_assignor;
use crate::shard::GroupShard;

/// `MemberType` of a member that speaks the classic protocol.
const MEMBER_TYPE_CLASSIC: i8 = 0;
/// `MemberType` of one that speaks the consumer protocol.
const MEMBER_TYPE_CONSUMER: i8 = 1;
/// First version of OffsetCommit that speaks of member epochs.
const COMMIT_VERSION_WITH_EPOCHS: i16 = 9;

/// What a member that commits offsets may commit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommitRight<'a> {
    /// Anything.
    All,
    /// Partitions it was given in this epoch or before, and has not lost since: its request was on the way while the
    /// group moved on.
    Since(i32, &'a Member),
}

impl CommitRight<'_> {
    /// Whether one partition may be committed. If not, nothing of the request is.
    pub fn check(&self, topic: TopicId, partition: PartitionIndex) -> Result<(), ErrorCode> {
        let CommitRight::Since(epoch, member) = self else { return Ok(()) };
        let given = member.assigned.epoch_of(topic, partition).or_else(|| member.revoking.epoch_of(topic, partition));
        if given.is_some_and(|given| given <= *epoch) { Ok(()) } else { Err(stale(member)) }
    }
}

/// The error for another epoch than the member's, in its own protocol.
fn stale(member: &Member) -> ErrorCode {
    if member.is_classic() { ErrorCode::ILLEGAL_GENERATION } else { ErrorCode::STALE_MEMBER_EPOCH }
}

impl ConsumerGroup {
    /// Whether these may commit offsets: a member with its epoch or, with limits, an earlier one; or anybody with a
    /// negative epoch while the group is empty.
    pub fn check_commit(&self, member_id: &str, epoch: i32, version: i16) -> Result<CommitRight<'_>, ErrorCode> {
        if epoch < 0 && self.is_empty() {
            return Ok(CommitRight::All);
        }
        let member = self.member(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if !member.is_classic() && version < COMMIT_VERSION_WITH_EPOCHS {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        self.commit_right(member, epoch)
    }

    fn commit_right<'a>(&self, member: &'a Member, epoch: i32) -> Result<CommitRight<'a>, ErrorCode> {
        match epoch.cmp(&member.epoch) {
            std::cmp::Ordering::Equal => Ok(CommitRight::All),
            std::cmp::Ordering::Greater => Err(stale(member)),
            std::cmp::Ordering::Less => Ok(CommitRight::Since(epoch, member)),
        }
    }

    /// Whether these may fetch offsets (OffsetFetch since version 9): anybody who names no member, or a member with its
    /// epoch.
    pub fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.member(id)).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if member.epoch == epoch { Ok(()) } else { Err(stale(member)) }
    }

    /// The group as ConsumerGroupDescribe shows it.
    fn describe(&self, group_id: &str, default_assignor: Assignor, image: &MetadataImage) -> DescribedGroup<'static> {
        let preferred = preferred_assignor(self.members().map(|(_, member)| member));
        let mut members: Vec<_> = self.members().map(|(id, member)| describe_member(id, member, image)).collect();
        // As Kafka's hash table has ids that follow one another.
        members.sort_unstable_by(|a, b| b.member_id.cmp(&a.member_id));
        DescribedGroup {
            group_id: owned(group_id),
            group_state: Cow::Borrowed(self.state_name()),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor_name: preferred.map_or(Cow::Borrowed(default_assignor.name()), |name| owned(&name)),
            members,
            ..Default::default()
        }
    }
}

fn describe_member(id: &str, member: &Member, image: &MetadataImage) -> DescribedMember<'static> {
    let option = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(owned);
    let has = member.assigned.iter().chain(member.revoking.iter()).map(|(topic, partition, _)| (topic, partition));
    DescribedMember {
        member_id: owned(id),
        instance_id: option(&member.instance_id),
        rack_id: option(&member.rack_id),
        member_epoch: member.epoch,
        client_id: owned(member.client.id()),
        client_host: owned(member.client.host()),
        subscribed_topic_names: member.subscription.names.iter().map(|name| owned(name)).collect(),
        subscribed_topic_regex: Some(owned(&member.subscription.regex)),
        assignment: Assignment { topic_partitions: by_topic(has, image) },
        target_assignment: Assignment { topic_partitions: by_topic(member.target().iter(), image) },
        member_type: if member.is_classic() { MEMBER_TYPE_CLASSIC } else { MEMBER_TYPE_CONSUMER },
    }
}

/// Partitions by topic with the topics' names. Topics that are gone are left out.
fn by_topic(
    partitions: impl Iterator<Item = (TopicId, PartitionIndex)>,
    image: &MetadataImage,
) -> Vec<TopicPartitions<'static>> {
    let mut topics: BTreeMap<TopicId, Vec<PartitionIndex>> = BTreeMap::new();
    partitions.for_each(|(topic, partition)| topics.entry(topic).or_default().push(partition));
    let named = topics.into_iter().filter_map(|(topic_id, mut partitions)| {
        partitions.sort_unstable();
        let topic_name = owned(&image.topics.by_id(topic_id)?.name);
        Some(TopicPartitions { topic_id, topic_name, partitions })
    });
    named.collect()
}

impl GroupShard {
    /// ConsumerGroupDescribe of one group.
    pub(crate) fn consumer_group_describe(&mut self, env: &Env<'_>, group_id: &str) -> DescribedGroup<'static> {
        self.consumer.refresh(env);
        let default_assignor = self.consumer.broker().default_assignor();
        if group_id.is_empty() {
            return DescribedGroup { error_code: ErrorCode::INVALID_GROUP_ID.code(), ..Default::default() };
        }
        match self.existing_consumer_group(group_id) {
            Ok(group) => group.describe(group_id, default_assignor, env.image),
            Err(refusal) => DescribedGroup {
                error_code: refusal.error.code(),
                error_message: Some(refusal.message),
                group_id: owned(group_id),
                ..Default::default()
            },
        }
    }
}
