//! ListOffsets (key 2): offsets by time, and the ends of the log.
//!
//! Versions: 1 one offset per partition; 2 isolation level, throttle time; 3 quota rule; 4 leader epochs; 5
//! OFFSET_NOT_AVAILABLE; 6 flexible; 7 -3, the record with the largest timestamp (KIP-734); 8 -4, the earliest offset on
//! local disk (KIP-405); 9 -5, the last tiered offset (KIP-1005); 10 a timeout for remote look-ups; 11 -6, the earliest
//! offset not yet tiered (KIP-1023).
//! Gaps: nothing is tiered, so -5 and -6 find nothing.

use crate::call::{Answer, Call};
use crate::handlers::by_core::{ByCore, find};
use crate::messages::{CoreReply, CoreRequest, OffsetFound, OffsetQuery};
use partition::timestamp;
use replica::Isolation;
use std::collections::BTreeSet;
use wire::ErrorCode;
use wire::list_offsets_request::ListOffsetsRequest;
use wire::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse};

/// Replica id of ordinary clients.
const CONSUMER: i32 = -1;
/// First version whose clients know OFFSET_NOT_AVAILABLE.
const OFFSET_NOT_AVAILABLE_FROM: i16 = 5;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let request: ListOffsetsRequest<'_> = call.decode()?;
    let image = call.core.image();
    let isolation = match (request.replica_id, request.isolation_level) {
        (CONSUMER, 1) => Isolation::ReadCommitted,
        (CONSUMER, _) => Isolation::ReadUncommitted,
        _ => Isolation::LogEnd,
    };
    let repeated = repeated(&request);
    let mut by_core = ByCore::new(&call);
    let mut found = Vec::new();
    let mut slot = 0;
    for topic in &request.topics {
        for partition in &topic.partitions {
            let key = if repeated.contains(&(topic.name.as_ref(), partition.partition_index)) {
                Err(ErrorCode::INVALID_REQUEST)
            } else if !knows_timestamp(call.version, partition.timestamp) {
                Err(ErrorCode::UNSUPPORTED_VERSION)
            } else {
                find(&image, &topic.name, partition.partition_index)
            };
            match key {
                Ok(key) => by_core.push(
                    key,
                    OffsetQuery {
                        slot,
                        key,
                        current_leader_epoch: partition.current_leader_epoch,
                        timestamp: partition.timestamp,
                        isolation,
                    },
                ),
                Err(error) => {
                    found.push(OffsetFound { slot, error, timestamp: -1, offset: -1, leader_epoch: -1 });
                }
            }
            slot += 1;
        }
    }
    for reply in by_core.ask(&call, CoreRequest::ListOffsets).await {
        let CoreReply::ListOffsets(answers) = reply else { unreachable!("offsets are answered by offsets") };
        found.extend(answers);
    }
    found.sort_unstable_by_key(|answer| answer.slot);
    respond(&call, &request, found)
}

/// Partitions named more than once: it would be unclear which answer is which.
fn repeated<'r>(request: &'r ListOffsetsRequest<'_>) -> BTreeSet<(&'r str, i32)> {
    let mut seen = BTreeSet::new();
    let all = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(move |partition| (topic.name.as_ref(), partition.partition_index))
    });
    all.filter(|one| !seen.insert(*one)).collect()
}

/// True for times, and for the special values that the version has.
fn knows_timestamp(version: i16, value: i64) -> bool {
    match value {
        0.. | timestamp::LATEST | timestamp::EARLIEST => true,
        timestamp::MAX_TIMESTAMP => version >= 7,
        timestamp::EARLIEST_LOCAL => version >= 8,
        timestamp::LATEST_TIERED => version >= 9,
        timestamp::EARLIEST_PENDING_UPLOAD => version >= 11,
        _ => false,
    }
}

fn respond(call: &Call, request: &ListOffsetsRequest<'_>, found: Vec<OffsetFound>) -> Answer {
    let mut found = found.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut answered = BTreeSet::new();
    // As in Apache Kafka, a topic of which no partition was asked is not answered, and a repeated partition once.
    for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let partitions = topic.partitions.iter().filter_map(|partition| {
            let answer = found.next().expect("every partition has an answer");
            answered.insert((topic.name.as_ref(), partition.partition_index)).then_some((partition, answer))
        });
        let partitions = partitions.map(|(partition, answer)| {
            let error = match answer.error {
                ErrorCode::OFFSET_NOT_AVAILABLE if call.version < OFFSET_NOT_AVAILABLE_FROM => {
                    ErrorCode::LEADER_NOT_AVAILABLE
                }
                other => other,
            };
            ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                error_code: error.0,
                timestamp: answer.timestamp,
                offset: answer.offset,
                // Not ignorable, so it must keep its default where the version has no such field.
                leader_epoch: if call.version >= 4 { answer.leader_epoch } else { -1 },
            }
        });
        topics.push(ListOffsetsTopicResponse { name: topic.name.clone(), partitions: partitions.collect() });
    }
    call.respond(&ListOffsetsResponse { topics, ..ListOffsetsResponse::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_need_their_version() {
        for (value, from) in [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (0, 1), (i64::MAX, 1)] {
            for version in 1..=11 {
                assert_eq!(knows_timestamp(version, value), version >= from, "{value} in {version}");
            }
        }
        assert!(!knows_timestamp(11, -7) && !knows_timestamp(11, i64::MIN));
    }
}
