//! OffsetFetch of one group (7: require stable, 9: member and epoch, 10: topic ids).

use base::Uuid;
use metadata::MetadataImage;
use wire::ErrorCode;
use wire::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::offset_fetch_response::{OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics};

use crate::api::{Env, owned};
use crate::offsets::OffsetView;
use crate::offsets::commit::TOPIC_IDS_FROM;
use crate::offsets::store::TopicOffsets;
use crate::shard::{Group, GroupShard};

impl GroupShard {
    /// OffsetFetch. A group that does not exist has no offsets; that is no error.
    pub(crate) fn offset_fetch(
        &self,
        env: &Env<'_>,
        request: &OffsetFetchRequestGroup<'_>,
        require_stable: bool,
        version: i16,
    ) -> OffsetFetchResponseGroup<'static> {
        let mut response = OffsetFetchResponseGroup { group_id: owned(&request.group_id), ..Default::default() };
        if let Some(Group::Consumer(group)) = self.groups.get(&*request.group_id)
            && let Err(error) = group.check_fetch(request.member_id.as_deref(), request.member_epoch)
        {
            response.error_code = error.code();
            return response;
        }
        let by_id = version >= TOPIC_IDS_FROM;
        response.topics = match &request.topics {
            Some(topics) => {
                // As in Kafka, topics that no id names come last.
                let is_known =
                    |topic: &&OffsetFetchRequestTopics<'_>| !by_id || env.image.topics.by_id(topic.topic_id).is_some();
                let (known, unknown): (Vec<_>, Vec<_>) = topics.iter().partition(is_known);
                let fetch = |topic| self.fetch_topic(env, request, topic, require_stable, by_id);
                known.into_iter().chain(unknown).map(fetch).collect()
            }
            None => self.fetch_all(env.image, &request.group_id, require_stable, by_id),
        };
        response
    }

    fn fetch_topic(
        &self,
        env: &Env<'_>,
        request: &OffsetFetchRequestGroup<'_>,
        topic: &OffsetFetchRequestTopics<'_>,
        require_stable: bool,
        by_id: bool,
    ) -> OffsetFetchResponseTopics<'static> {
        let image = by_id.then(|| env.image.topics.by_id(topic.topic_id));
        let name = match &image {
            Some(None) => return unknown_topic(topic),
            Some(Some(image)) => &*image.name,
            None => &*topic.name,
        };
        let group = &*request.group_id;
        let offsets = self.offsets.group(group).and_then(|topics| topics.get(name));
        // What was committed for an earlier topic of this name is not told to who knows its id.
        let other =
            |offsets: &&TopicOffsets| by_id && !offsets.topic_id.is_zero() && offsets.topic_id != topic.topic_id;
        let offsets = offsets.filter(|offsets| !other(offsets));
        let fetch = |partition: &i32| {
            if require_stable && self.offsets.is_pending(group, name, *partition) {
                return nothing(*partition, ErrorCode::UNSTABLE_OFFSET_COMMIT);
            }
            let committed = offsets.and_then(|offsets| offsets.get(*partition));
            committed.map_or_else(|| nothing(*partition, ErrorCode::NONE), told)
        };
        OffsetFetchResponseTopics {
            partitions: topic.partition_indexes.iter().map(fetch).collect(),
            name: owned(&topic.name),
            topic_id: topic.topic_id,
        }
    }

    /// All offsets of a group. By ids, topics that are gone cannot be named.
    fn fetch_all(
        &self,
        image: &MetadataImage,
        group: &str,
        require_stable: bool,
        by_id: bool,
    ) -> Vec<OffsetFetchResponseTopics<'static>> {
        let mut topics = Vec::new();
        for (name, offsets) in self.offsets.group(group).into_iter().flatten() {
            let topic_id = match image.topics.by_name(name) {
                Some(topic) if by_id => topic.id,
                None if by_id => continue,
                _ => Uuid::ZERO,
            };
            let fetch = |committed: OffsetView<'_>| {
                if require_stable && self.offsets.is_pending(group, name, committed.partition()) {
                    nothing(committed.partition(), ErrorCode::UNSTABLE_OFFSET_COMMIT)
                } else {
                    told(committed)
                }
            };
            let partitions = offsets.iter().map(fetch).collect();
            topics.push(OffsetFetchResponseTopics { name: owned(name), topic_id, partitions });
        }
        topics
    }
}

fn told(committed: OffsetView<'_>) -> OffsetFetchResponsePartitions<'static> {
    OffsetFetchResponsePartitions {
        partition_index: committed.partition(),
        committed_offset: committed.offset(),
        committed_leader_epoch: committed.leader_epoch(),
        metadata: Some(owned(committed.metadata())),
        error_code: ErrorCode::NONE.code(),
    }
}

fn nothing(partition: i32, error: ErrorCode) -> OffsetFetchResponsePartitions<'static> {
    OffsetFetchResponsePartitions {
        partition_index: partition,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(owned("")),
        error_code: error.code(),
    }
}

fn unknown_topic(topic: &OffsetFetchRequestTopics<'_>) -> OffsetFetchResponseTopics<'static> {
    let partitions = topic.partition_indexes.iter().map(|index| nothing(*index, ErrorCode::UNKNOWN_TOPIC_ID));
    OffsetFetchResponseTopics { name: owned(""), topic_id: topic.topic_id, partitions: partitions.collect() }
}
