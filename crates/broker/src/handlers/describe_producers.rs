//! DescribeProducers (key 61): the idempotent and transactional producers a partition knows (KIP-664).
//!
//! Versions: 0.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::handlers::by_core::{ByCore, find};
use crate::messages::{CoreReply, CoreRequest, ProducerInfo, ProducersFound};
use crate::topology;
use std::borrow::Cow;
use wire::ErrorCode;
use wire::describe_producers_request::DescribeProducersRequest;
use wire::describe_producers_response::{DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse};

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let request: DescribeProducersRequest<'_> = call.decode()?;
    let image = call.core.image();
    let mut by_core = ByCore::new(&call);
    let mut found = Vec::new();
    let mut slot = 0;
    for topic in &request.topics {
        for partition in &topic.partition_indexes {
            match find(&image, &topic.name, *partition) {
                Ok(key) => by_core.push(key, (slot, key)),
                Err(_) if !topology::is_valid_topic_name(&topic.name) => {
                    found.push(ProducersFound { slot, producers: Err(ErrorCode::INVALID_TOPIC_EXCEPTION) });
                }
                Err(error) => found.push(ProducersFound { slot, producers: Err(error) }),
            }
            slot += 1;
        }
    }
    for reply in by_core.ask(&call, CoreRequest::Producers).await {
        let CoreReply::Producers(answers) = reply else { unreachable!("producers are answered by producers") };
        found.extend(answers);
    }
    found.sort_unstable_by_key(|answer| answer.slot);
    let mut found = found.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let partitions = topic.partition_indexes.iter().map(|partition| {
            let answer = found.next().expect("every partition has an answer");
            partition_response(*partition, answer.producers)
        });
        topics.push(TopicResponse { name: topic.name.clone(), partitions: partitions.collect() });
    }
    call.respond(&DescribeProducersResponse { topics, ..DescribeProducersResponse::default() })
}

fn partition_response(
    partition_index: i32,
    producers: Result<Vec<ProducerInfo>, ErrorCode>,
) -> PartitionResponse<'static> {
    match producers {
        Ok(all) => PartitionResponse {
            partition_index,
            active_producers: all.iter().map(state).collect(),
            ..PartitionResponse::default()
        },
        Err(error) => PartitionResponse {
            partition_index,
            error_code: error.0,
            error_message: Some(Cow::Borrowed(error.message())),
            ..PartitionResponse::default()
        },
    }
}

fn state(producer: &ProducerInfo) -> ProducerState {
    ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch.into(),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp_ms,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.txn_start_offset,
    }
}
