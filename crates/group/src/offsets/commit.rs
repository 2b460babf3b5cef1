//! OffsetCommit, versions 2 to 10 (7: static members, 9: consumer groups, 10: topic ids), and OffsetDelete.

use std::borrow::Cow;

use base::Uuid;
use coordinator::Token;
use metadata::TopicImage;
use tracing::info;
use wire::ErrorCode;
use wire::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::offset_commit_response::{OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use wire::offset_commit_value::OffsetCommitValue;
use wire::offset_delete_request::OffsetDeleteRequest;
use wire::offset_delete_response::{OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};

use crate::api::{Env, Reply, Request, owned, refused};
use crate::classic::{ClassicGroup, State, Turn};
use crate::records::{self, OffsetCommits};
use crate::shard::{Group, GroupShard, Out};

/// First version that knows GROUP_ID_NOT_FOUND.
const NOT_FOUND_FROM: i16 = 9;
/// First version that names topics by id.
pub(super) const TOPIC_IDS_FROM: i16 = 10;

impl GroupShard {
    /// OffsetCommit.
    pub(crate) fn offset_commit(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &OffsetCommitRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        let topics: Vec<Result<Target<'_>, ErrorCode>> =
            request.topics.iter().map(|topic| Target::find(env, topic, version)).collect();
        let anything = request.topics.iter().zip(&topics).any(|(topic, target)| {
            let Ok(target) = target else { return false };
            topic.partitions.iter().any(|partition| target.has(partition.partition_index))
        });
        // The group is only asked where there is something to commit to, and only that is refused in its name.
        let refusal = if anything { self.check_commit(env, request, version, &topics, out).err() } else { None };
        let mut response = OffsetCommitResponse { throttle_time_ms: 0, topics: Vec::with_capacity(topics.len()) };
        let mut batch = CommitBatch::new(env, request);
        for (topic, target) in request.topics.iter().zip(&topics) {
            let commit = |partition: &OffsetCommitRequestPartition<'_>| {
                let result = match target {
                    Ok(target) if !target.has(partition.partition_index) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                    Ok(target) => match refusal {
                        Some(error) => Err(error),
                        None => batch.commit(env, request, target, partition),
                    },
                    Err(error) => Err(*error),
                };
                OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: result.err().unwrap_or(ErrorCode::NONE).code(),
                }
            };
            response.topics.push(OffsetCommitResponseTopic {
                partitions: topic.partitions.iter().map(commit).collect(),
                name: owned(&topic.name),
                topic_id: topic.topic_id,
            });
        }
        // All of it is one batch, so that nobody finds half of it.
        if batch.is_too_large() {
            let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            for partition in partitions.filter(|partition| partition.error_code == ErrorCode::NONE.code()) {
                partition.error_code = ErrorCode::UNKNOWN_SERVER_ERROR.code();
            }
        } else {
            out.records.extend(batch.commits.finish());
        }
        out.reply(token, Reply::OffsetCommit(response));
    }

    /// Whether the group takes the commit. A commit of a classic member is a sign of life, too.
    fn check_commit(
        &mut self,
        env: &Env<'_>,
        request: &OffsetCommitRequest<'_>,
        version: i16,
        topics: &[Result<Target<'_>, ErrorCode>],
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        let (member, instance) = (&*request.member_id, request.group_instance_id.as_deref());
        let generation = request.generation_id_or_member_epoch;
        let Some((id, group)) = self.groups.get_key_value(&*request.group_id) else {
            return if generation < 0 {
                info!(group = &*request.group_id, "a group is made by committing offsets alone");
                Ok(())
            } else if version >= NOT_FOUND_FROM {
                Err(ErrorCode::GROUP_ID_NOT_FOUND)
            } else {
                Err(ErrorCode::ILLEGAL_GENERATION)
            };
        };
        match group {
            Group::Consumer(group) => {
                let right = group.check_commit(member, generation, version)?;
                for (topic, target) in request.topics.iter().zip(topics) {
                    let Ok(target) = target else { continue };
                    for partition in topic.partitions.iter().filter(|partition| target.has(partition.partition_index)) {
                        right.check(target.image.id, partition.partition_index)?;
                    }
                }
                Ok(())
            }
            Group::Classic(group) => {
                group.check_commit(member, instance, generation)?;
                if matches!(group.state, State::Stable | State::PreparingRebalance) {
                    let id = id.clone();
                    let Some(Group::Classic(group)) = self.groups.get_mut(&id) else { return Ok(()) };
                    let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
                    group.extend_session(&mut turn, member);
                }
                Ok(())
            }
        }
    }

    /// OffsetDelete.
    pub(crate) fn offset_delete(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &OffsetDeleteRequest<'_>,
        out: &mut Out,
    ) {
        let known = |name: &str| env.image.topics.by_name(name).is_some();
        let error = if request.group_id.is_empty() {
            ErrorCode::INVALID_GROUP_ID
        } else {
            match self.groups.get(&*request.group_id) {
                None => ErrorCode::GROUP_ID_NOT_FOUND,
                Some(Group::Classic(group)) if group.state != State::Empty && !group.is_consumer_type() => {
                    ErrorCode::NON_EMPTY_GROUP
                }
                Some(_) => ErrorCode::NONE,
            }
        };
        if !error.is_none() {
            return out.reply(token, refused(&Request::OffsetDelete { request }, error));
        }
        let group = self.groups.get(&*request.group_id);
        let (mut response, mut deleted) = (OffsetDeleteResponse::default(), 0);
        for topic in &request.topics {
            let name = &*topic.name;
            let error = if !known(name) {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            } else if group.is_some_and(|group| group.is_subscribed(name)) {
                ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC
            } else {
                ErrorCode::NONE
            };
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let image = env.image.topics.by_name(name);
                let error = match error {
                    ErrorCode::NONE if image.is_none_or(|topic| topic.partition(index).is_none()) => {
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                    }
                    error => error,
                };
                let held = self.offsets.get(&request.group_id, name, index).is_some()
                    || self.offsets.is_pending(&request.group_id, name, index);
                if error.is_none() && held {
                    out.records.extend(records::offset_tombstone(&request.group_id, name, index));
                    deleted += 1;
                }
                partitions.push(OffsetDeleteResponsePartition { partition_index: index, error_code: error.code() });
            }
            response.topics.push(OffsetDeleteResponseTopic { name: owned(name), partitions });
        }
        self.events.offset_deletions += deleted;
        out.reply(token, Reply::OffsetDelete(response));
    }
}

/// The topic that a commit is for.
struct Target<'a> {
    image: &'a TopicImage,
    /// The id the request named; zero where it named the topic.
    topic_id: Uuid,
    /// How many partitions it has where that says which.
    count: Option<i32>,
}

impl<'a> Target<'a> {
    fn find(env: &Env<'a>, topic: &OffsetCommitRequestTopic<'_>, version: i16) -> Result<Target<'a>, ErrorCode> {
        let topics = &env.image.topics;
        if version >= TOPIC_IDS_FROM {
            let image = topics.by_id(topic.topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
            return Ok(Target { image, topic_id: topic.topic_id, count: image.dense_count() });
        }
        let image = topics.by_name(&topic.name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        Ok(Target { image, topic_id: Uuid::ZERO, count: image.dense_count() })
    }

    fn has(&self, partition: i32) -> bool {
        match self.count {
            Some(count) => (0..count).contains(&partition),
            None => self.image.partition(partition).is_some(),
        }
    }
}

/// The records of one commit.
struct CommitBatch {
    commits: OffsetCommits,
    /// How many bytes there may be.
    bytes_max: usize,
}

/// Bytes of a record beside the texts in it.
const RECORD_FRAME_BYTES: usize = 56;
/// Bytes of room for the records of one commit; whatever exceeds them gets more of it.
const ROOM_BYTES_MAX: usize = 16 * 1024;

impl CommitBatch {
    fn new(env: &Env<'_>, request: &OffsetCommitRequest<'_>) -> CommitBatch {
        let group_bytes = request.group_id.len();
        let of_topic = |topic: &OffsetCommitRequestTopic<'_>| {
            (RECORD_FRAME_BYTES + group_bytes + topic.name.len()).saturating_mul(topic.partitions.len())
        };
        let bytes = request.topics.iter().map(of_topic).fold(0, usize::saturating_add).min(ROOM_BYTES_MAX);
        let commits = OffsetCommits::with_capacity(bytes / RECORD_FRAME_BYTES, bytes);
        CommitBatch { commits, bytes_max: env.config.record_bytes_max }
    }

    /// No batch may be so large. Nothing is added any more: every record repeats the group's id, so that a small request
    /// could ask for very many bytes.
    fn is_too_large(&self) -> bool {
        self.commits.bytes() > self.bytes_max
    }

    fn commit(
        &mut self,
        env: &Env<'_>,
        request: &OffsetCommitRequest<'_>,
        target: &Target<'_>,
        partition: &OffsetCommitRequestPartition<'_>,
    ) -> Result<(), ErrorCode> {
        let value = value_of(env, request, target, partition)?;
        if self.is_too_large() {
            return Ok(());
        }
        let (group, topic) = (&request.group_id, &target.image.name);
        let added = self.commits.add(group, topic, partition.partition_index, &value);
        added.map_err(|_| ErrorCode::INVALID_COMMIT_OFFSET_SIZE)
    }
}

/// What the record of a commit says.
fn value_of<'r>(
    env: &Env<'_>,
    request: &OffsetCommitRequest<'_>,
    target: &Target<'_>,
    partition: &'r OffsetCommitRequestPartition<'_>,
) -> Result<OffsetCommitValue<'r>, ErrorCode> {
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    let limit = env.config.offset_metadata_chars_max;
    if metadata.len() > limit && metadata.encode_utf16().count() > limit {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    let now_ms = env.now.wall_ms;
    // Versions 2 to 4 may say how long the offset is to live.
    let retention_ms = request.retention_time_ms;
    let expire_timestamp = if retention_ms == -1 { -1 } else { now_ms.saturating_add(retention_ms) };
    Ok(OffsetCommitValue {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: Cow::Borrowed(metadata),
        commit_timestamp: now_ms,
        expire_timestamp,
        topic_id: target.topic_id,
    })
}

impl ClassicGroup {
    /// Whether these may commit: a member in its generation, or anybody without one while the group is empty.
    fn check_commit(&self, member: &str, instance: Option<&str>, generation: i32) -> Result<(), ErrorCode> {
        if generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if generation < 0 && member.is_empty() && instance.is_none() {
            // Only reached while the group has members.
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.check_member(member, instance)?;
        if generation != self.generation {
            Err(ErrorCode::ILLEGAL_GENERATION)
        } else if self.state == State::CompletingRebalance {
            Err(ErrorCode::REBALANCE_IN_PROGRESS)
        } else {
            Ok(())
        }
    }
}
