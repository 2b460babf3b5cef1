//! DescribeTopicPartitions (key 75): topics page by page (KIP-966).
//!
//! Versions: 0.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::topology::{self, operations};
use metadata::{MetadataImage, TopicImage};
use std::borrow::Cow;
use std::collections::BTreeSet;
use wire::ErrorCode;
use wire::describe_topic_partitions_request::DescribeTopicPartitionsRequest;
use wire::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: DescribeTopicPartitionsRequest<'_> = call.decode()?;
    let image = call.core.image();
    let (start, first_partition) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.as_ref(), cursor.partition_index),
        None => ("", 0),
    };
    let is_asked = |name: &str| request.topics.is_empty() || request.topics.iter().any(|topic| topic.name == name);
    if first_partition < 0 || (request.cursor.is_some() && !is_asked(start)) {
        let names = request.topics.iter().map(|topic| topic.name.clone());
        return call.respond(&DescribeTopicPartitionsResponse {
            topics: names.map(|name| failed(ErrorCode::INVALID_REQUEST, name, operations::NOT_ASKED)).collect(),
            ..DescribeTopicPartitionsResponse::default()
        });
    }
    let limit = call.core.config().fetch.request_partitions_max as usize;
    let mut page = Page {
        call,
        image: &image,
        room: usize::try_from(request.response_partition_limit).unwrap_or(0).min(limit).max(1),
        response: DescribeTopicPartitionsResponse::default(),
    };
    let first = |name: &str| if name == start { first_partition } else { 0 };
    if request.topics.is_empty() {
        for topic in image.topics.iter_from(start, false) {
            if !page.topic(topic, first(&topic.name)) {
                break;
            }
        }
    } else {
        let names: BTreeSet<&str> = request.topics.iter().map(|topic| topic.name.as_ref()).collect();
        for name in names.range(start..) {
            let go_on = match image.topics.by_name(name) {
                Some(topic) => page.topic(topic, first(name)),
                None => page.missing(name),
            };
            if !go_on {
                break;
            }
        }
    }
    let response = page.response;
    call.respond(&response)
}

fn failed(error: ErrorCode, name: Cow<'_, str>, operations: i32) -> DescribeTopicPartitionsResponseTopic<'_> {
    DescribeTopicPartitionsResponseTopic {
        error_code: error.0,
        is_internal: topology::is_internal(&name),
        name: Some(name),
        topic_authorized_operations: operations,
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

/// The answer being filled, up to its number of partitions.
struct Page<'i> {
    call: &'i Call,
    image: &'i MetadataImage,
    room: usize,
    response: DescribeTopicPartitionsResponse<'i>,
}

impl<'i> Page<'i> {
    fn stop_before(&mut self, topic: &'i str, partition: i32) -> bool {
        self.response.next_cursor = Some(Cursor { topic_name: Cow::Borrowed(topic), partition_index: partition });
        false
    }

    fn missing(&mut self, name: &str) -> bool {
        let error = topology::missing_topic_error(name);
        self.response.topics.push(failed(error, Cow::Owned(name.to_owned()), operations::TOPIC));
        true
    }

    /// Adds what fits of a topic from partition `first` on; false when the page is full.
    fn topic(&mut self, topic: &'i TopicImage, first: i32) -> bool {
        if self.room == 0 {
            return self.stop_before(&topic.name, 0);
        }
        let mut rest = topic.partitions().skip_while(|(index, _)| *index < first);
        let mut partitions = Vec::new();
        for (index, partition) in rest.by_ref().take(self.room) {
            let view = topology::partition_view(self.image, self.call.listener(), partition, true);
            partitions.push(DescribeTopicPartitionsResponsePartition {
                error_code: view.error.0,
                partition_index: index,
                leader_id: view.leader,
                leader_epoch: view.leader_epoch,
                replica_nodes: partition.replicas.clone(),
                isr_nodes: partition.isr.clone(),
                eligible_leader_replicas: Some(partition.elr.clone()),
                last_known_elr: Some(partition.last_known_elr.clone()),
                offline_replicas: view.offline,
            });
        }
        self.room -= partitions.len();
        self.response.topics.push(DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::NONE.0,
            name: Some(Cow::Borrowed(&topic.name)),
            topic_id: topic.id,
            is_internal: topology::is_internal(&topic.name),
            partitions,
            topic_authorized_operations: operations::TOPIC,
        });
        match rest.next() {
            Some((index, _)) => self.stop_before(&topic.name, index),
            None => true,
        }
    }
}
