//! OffsetFetch (key 9): offsets that groups have stored.
//!
//! Versions: 1 offsets are kept by the broker; 2 all topics of a group, an error of the whole; 3 throttle time; 4 quota
//! rule; 5 leader epochs (KIP-320); 6 flexible; 7 only what no open transaction may change (KIP-447); 8 several groups
//! (KIP-709); 9 consumer groups (KIP-848); 10 topics by id (KIP-848).
//! Gaps: none.

use crate::call::{Answer, Call, Refusal};
use crate::groups;
use group::Reply;
use std::borrow::Cow;
use wire::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestTopic};
use wire::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

/// First version with several groups.
const GROUPS_FROM: i16 = 8;
/// First version with an error of the whole.
const ERROR_FROM: i16 = 2;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let replies = groups::ask(&call).await?;
    let groups = replies.into_iter().map(|reply| match reply {
        Reply::OffsetFetch(group) => group,
        other => unreachable!("answered with {other:?}"),
    });
    let mut groups: Vec<OffsetFetchResponseGroup<'_>> = groups.collect();
    let mut response = OffsetFetchResponse::default();
    if call.version >= GROUPS_FROM {
        response.groups = groups;
    } else if let Some(group) = groups.pop() {
        response.error_code = group.error_code;
        response.topics = match call.version < ERROR_FROM && group.error_code != 0 {
            true => errors_of_all(&call, group.error_code)?,
            false => group.topics.into_iter().map(topic).collect(),
        };
    }
    call.respond(&response)
}

fn topic(topic: OffsetFetchResponseTopics<'_>) -> OffsetFetchResponseTopic<'_> {
    let partition = |partition: OffsetFetchResponsePartitions<'_>| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata.map(|text| Cow::Owned(text.into_owned())),
        error_code: partition.error_code,
    };
    OffsetFetchResponseTopic {
        name: Cow::Owned(topic.name.into_owned()),
        partitions: topic.partitions.into_iter().map(partition).collect(),
    }
}

/// Every partition of the request with the same error, for the version that has no other place for it.
fn errors_of_all(call: &Call, error_code: i16) -> Result<Vec<OffsetFetchResponseTopic<'static>>, Refusal> {
    let request: OffsetFetchRequest<'_> = call.decode()?;
    let topic = |topic: &OffsetFetchRequestTopic<'_>| {
        let partition = |index: &i32| OffsetFetchResponsePartition {
            partition_index: *index,
            committed_offset: -1,
            metadata: Some(Cow::Borrowed("")),
            error_code,
            ..OffsetFetchResponsePartition::default()
        };
        OffsetFetchResponseTopic {
            name: Cow::Owned(topic.name.to_string()),
            partitions: topic.partition_indexes.iter().map(partition).collect(),
        }
    };
    Ok(request.topics.iter().flatten().map(topic).collect())
}
