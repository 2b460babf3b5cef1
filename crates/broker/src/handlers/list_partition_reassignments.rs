//! ListPartitionReassignments (key 46): partitions whose replicas are being changed (KIP-455).
//!
//! Versions: 0.
//! Gaps: answered from this broker's image rather than by the controller, which is at most one publication behind.

use crate::call::{Answer, Call};
use metadata::{PartitionRegistration, TopicImage};
use std::borrow::Cow;
use wire::list_partition_reassignments_request::ListPartitionReassignmentsRequest;
use wire::list_partition_reassignments_response::{
    ListPartitionReassignmentsResponse, OngoingPartitionReassignment, OngoingTopicReassignment,
};

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: ListPartitionReassignmentsRequest<'_> = call.decode()?;
    let image = call.core.image();
    let mut topics = Vec::new();
    match &request.topics {
        None => topics.extend(image.topics.iter().map(|topic| of_topic(topic, |_| true))),
        Some(asked) => {
            for one in asked {
                if let Some(topic) = image.topics.by_name(&one.name) {
                    topics.push(of_topic(topic, |index| one.partition_indexes.contains(&index)));
                }
            }
        }
    }
    topics.retain(|topic| !topic.partitions.is_empty());
    call.respond(&ListPartitionReassignmentsResponse {
        error_message: None,
        topics,
        ..ListPartitionReassignmentsResponse::default()
    })
}

fn of_topic(topic: &TopicImage, asked: impl Fn(i32) -> bool) -> OngoingTopicReassignment<'_> {
    let ongoing = |(index, partition): (i32, &std::sync::Arc<PartitionRegistration>)| {
        (partition.is_reassigning() && asked(index)).then(|| OngoingPartitionReassignment {
            partition_index: index,
            replicas: partition.replicas.clone(),
            adding_replicas: partition.adding_replicas.clone(),
            removing_replicas: partition.removing_replicas.clone(),
        })
    };
    OngoingTopicReassignment {
        name: Cow::Borrowed(&topic.name),
        partitions: topic.partitions().filter_map(ongoing).collect(),
    }
}
