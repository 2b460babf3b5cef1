//! OffsetForLeaderEpoch (key 23): where an epoch of a partition ended (KIP-101, KIP-320).
//!
//! Versions: 2 the client's own leader epoch; 3 replica id; 4 flexible.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::handlers::by_core::{ByCore, find};
use crate::messages::{CoreReply, CoreRequest, EpochFound, EpochQuery};
use wire::offset_for_leader_epoch_request::OffsetForLeaderEpochRequest;
use wire::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let request: OffsetForLeaderEpochRequest<'_> = call.decode()?;
    let image = call.core.image();
    let mut by_core = ByCore::new(&call);
    let mut found = Vec::new();
    let mut slot = 0;
    for topic in &request.topics {
        for partition in &topic.partitions {
            match find(&image, &topic.topic, partition.partition) {
                Ok(key) => by_core.push(
                    key,
                    EpochQuery {
                        slot,
                        key,
                        current_leader_epoch: partition.current_leader_epoch,
                        leader_epoch: partition.leader_epoch,
                    },
                ),
                Err(error) => found.push(EpochFound { slot, error, leader_epoch: -1, end_offset: -1 }),
            }
            slot += 1;
        }
    }
    for reply in by_core.ask(&call, CoreRequest::EpochEnds).await {
        let CoreReply::EpochEnds(answers) = reply else { unreachable!("epochs are answered by epochs") };
        found.extend(answers);
    }
    found.sort_unstable_by_key(|answer| answer.slot);
    let mut found = found.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let partitions = topic.partitions.iter().map(|partition| {
            let answer = found.next().expect("every partition has an answer");
            EpochEndOffset {
                error_code: answer.error.0,
                partition: partition.partition,
                leader_epoch: answer.leader_epoch,
                end_offset: answer.end_offset,
            }
        });
        topics.push(OffsetForLeaderTopicResult { topic: topic.topic.clone(), partitions: partitions.collect() });
    }
    call.respond(&OffsetForLeaderEpochResponse { topics, ..OffsetForLeaderEpochResponse::default() })
}
