//! DeleteRecords (key 21): move the start of partitions up to an offset, or to the high watermark for -1 (KIP-107).
//!
//! Versions: 1 quota rule; 2 flexible.
//! Gaps: none on one node; with followers the answer will have to wait for them.

use crate::call::{Answer, Call};
use crate::handlers::by_core::{ByCore, find};
use crate::messages::{CoreReply, CoreRequest, RecordsDeleted, RecordsQuery};
use crate::topology;
use wire::ErrorCode;
use wire::delete_records_request::DeleteRecordsRequest;
use wire::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult};

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let request: DeleteRecordsRequest<'_> = call.decode()?;
    let image = call.core.image();
    let mut by_core = ByCore::new(&call);
    let mut deleted = Vec::new();
    let mut slot = 0;
    for topic in &request.topics {
        for partition in &topic.partitions {
            // An internal topic belongs to its coordinator, which alone may cut it.
            let key = match topology::is_internal(&topic.name) {
                true => Err(ErrorCode::INVALID_TOPIC_EXCEPTION),
                false => find(&image, &topic.name, partition.partition_index),
            };
            match key {
                Ok(key) => by_core.push(key, RecordsQuery { slot, key, offset: partition.offset }),
                Err(error) => deleted.push(RecordsDeleted { slot, start: Err(error) }),
            }
            slot += 1;
        }
    }
    for reply in by_core.ask(&call, CoreRequest::DeleteRecords).await {
        let CoreReply::DeleteRecords(answers) = reply else { unreachable!("deletions are answered by deletions") };
        deleted.extend(answers);
    }
    deleted.sort_unstable_by_key(|answer| answer.slot);
    let mut deleted = deleted.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let partitions = topic.partitions.iter().map(|partition| {
            let answer = deleted.next().expect("every partition has an answer");
            DeleteRecordsPartitionResult {
                partition_index: partition.partition_index,
                low_watermark: answer.start.unwrap_or(-1),
                error_code: answer.start.err().unwrap_or(ErrorCode::NONE).0,
            }
        });
        topics.push(DeleteRecordsTopicResult { name: topic.name.clone(), partitions: partitions.collect() });
    }
    call.respond(&DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() })
}
