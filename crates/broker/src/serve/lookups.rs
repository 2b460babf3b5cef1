//! Questions about the partitions of this core that read no records.

use super::Served;
use crate::core::DataCore;
use crate::messages::{
    CoreReply, EpochFound, EpochQuery, LogDirPart, OffsetFound, OffsetQuery, ProducerInfo, ProducersFound,
};
use base::PartitionKey;
use partition::PartitionError;
use std::rc::Rc;
use wire::ErrorCode;

/// Why a partition that a request's core knew is not here: it was just removed, or its log could not be opened.
pub(super) fn missing(core: &DataCore, key: PartitionKey) -> PartitionError {
    match core.image().topics.partition(key.topic_id, key.partition) {
        Some(partition) if partition.leader != core.node.id => {
            PartitionError::new(ErrorCode::NOT_LEADER_OR_FOLLOWER, "this broker is not the leader")
        }
        Some(_) => PartitionError::new(ErrorCode::KAFKA_STORAGE_ERROR, "the log could not be opened"),
        None => PartitionError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted"),
    }
}

fn known(epoch: i32) -> Option<i32> {
    (epoch >= 0).then_some(epoch)
}

pub(super) fn list_offsets(core: &Rc<DataCore>, queries: Vec<OffsetQuery>) -> Served {
    let core = core.clone();
    Served::later(async move {
        let mut found = Vec::with_capacity(queries.len());
        for query in queries {
            let answer = match core.partitions.get(query.key) {
                Some(partition) => {
                    let question = partition::OffsetQuery {
                        timestamp: query.timestamp,
                        isolation: query.isolation,
                        current_leader_epoch: known(query.current_leader_epoch),
                    };
                    partition.list_offsets(&question).await
                }
                None => Err(missing(&core, query.key)),
            };
            found.push(match answer {
                Ok(answer) => OffsetFound {
                    slot: query.slot,
                    error: ErrorCode::NONE,
                    timestamp: answer.timestamp,
                    offset: answer.offset,
                    leader_epoch: answer.leader_epoch,
                },
                Err(error) => OffsetFound {
                    slot: query.slot,
                    error: error.code,
                    timestamp: -1,
                    offset: -1,
                    leader_epoch: -1,
                },
            });
        }
        CoreReply::ListOffsets(found)
    })
}

pub(super) fn epoch_ends(core: &DataCore, queries: &[EpochQuery]) -> Served {
    let one = |query: &EpochQuery| {
        let answer = match core.partitions.get(query.key) {
            Some(partition) => partition.offset_for_epoch(known(query.current_leader_epoch), query.leader_epoch),
            None => Err(missing(core, query.key)),
        };
        match answer {
            Ok(answer) => EpochFound {
                slot: query.slot,
                error: ErrorCode::NONE,
                leader_epoch: answer.leader_epoch,
                end_offset: answer.end_offset,
            },
            Err(error) => EpochFound { slot: query.slot, error: error.code, leader_epoch: -1, end_offset: -1 },
        }
    };
    Served::Done(CoreReply::EpochEnds(queries.iter().map(one).collect()))
}

pub(super) fn producers(core: &DataCore, queries: &[(u32, PartitionKey)]) -> Served {
    let one = |(slot, key): &(u32, PartitionKey)| {
        let answer = match core.partitions.get(*key) {
            Some(partition) => partition.describe_producers(),
            None => Err(missing(core, *key)),
        };
        let info = |producer: &partition::ProducerInfo| ProducerInfo {
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            last_sequence: producer.last_sequence,
            last_timestamp_ms: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            txn_start_offset: producer.current_txn_start_offset,
        };
        ProducersFound {
            slot: *slot,
            producers: answer.map(|all| all.iter().map(info).collect()).map_err(|error| error.code),
        }
    };
    Served::Done(CoreReply::Producers(queries.iter().map(one).collect()))
}

pub(super) fn log_dirs(core: &DataCore) -> Served {
    let one = |partition: &partition::Partition| {
        let info = partition.log_dir_info();
        LogDirPart {
            topic: partition.id().topic.clone(),
            key: partition.key(),
            size_bytes: info.size_bytes,
            offset_lag: info.offset_lag,
        }
    };
    Served::Done(CoreReply::LogDirs(core.partitions.all().iter().map(one).collect()))
}
