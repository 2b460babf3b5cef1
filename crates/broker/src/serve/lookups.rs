//! What is asked of the partitions of this core beside records: offsets, epochs, producers, sizes, a new start.

use super::Served;
use crate::core::DataCore;
use crate::messages::{
    CoreReply, EpochFound, EpochQuery, LogDirPart, OffsetFound, OffsetQuery, ProducerInfo, ProducersFound,
    RecordsDeleted, RecordsQuery,
};
use base::PartitionKey;
use std::rc::Rc;
use wire::ErrorCode;

/// The epoch of a client that knows none. Other negative epochs are older than any.
pub(super) const NO_EPOCH: i32 = -1;

fn known(epoch: i32) -> Option<i32> {
    (epoch != NO_EPOCH).then_some(epoch)
}

pub(super) fn list_offsets(core: &Rc<DataCore>, queries: Vec<OffsetQuery>) -> Served {
    let core = core.clone();
    Served::later(async move {
        let mut found = Vec::with_capacity(queries.len());
        for query in queries {
            let question = partition::OffsetQuery {
                timestamp: query.timestamp,
                isolation: query.isolation,
                current_leader_epoch: known(query.current_leader_epoch),
            };
            let answer = match core.partitions.partition(query.key) {
                Ok(partition) => partition.list_offsets(&question).await,
                Err(error) => Err(error),
            };
            found.push(match answer {
                Ok(answer) => OffsetFound {
                    slot: query.slot,
                    error: ErrorCode::NONE,
                    timestamp: answer.timestamp,
                    offset: answer.offset,
                    leader_epoch: answer.leader_epoch,
                },
                Err(error) => {
                    OffsetFound { slot: query.slot, error: error.code, timestamp: -1, offset: -1, leader_epoch: -1 }
                }
            });
        }
        CoreReply::ListOffsets(found)
    })
}

pub(super) fn epoch_ends(core: &DataCore, queries: &[EpochQuery]) -> Served {
    let one = |query: &EpochQuery| {
        let known_epoch = known(query.current_leader_epoch);
        let partition = core.partitions.partition(query.key);
        match partition.and_then(|partition| partition.offset_for_epoch(known_epoch, query.leader_epoch)) {
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
        let answer = core.partitions.partition(*key).and_then(|partition| partition.describe_producers());
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

pub(super) fn delete_records(core: &Rc<DataCore>, queries: Vec<RecordsQuery>) -> Served {
    let core = core.clone();
    Served::later(async move {
        let mut deleted = Vec::with_capacity(queries.len());
        for query in queries {
            let start = match core.partitions.partition(query.key) {
                Ok(partition) => partition.delete_records(query.offset).await,
                Err(error) => Err(error),
            };
            deleted.push(RecordsDeleted { slot: query.slot, start: start.map_err(|error| error.code) });
        }
        CoreReply::DeleteRecords(deleted)
    })
}

pub(super) fn log_dirs(core: &DataCore) -> Served {
    let one = |(dir, partition): (usize, partition::Partition)| {
        let info = partition.log_dir_info();
        LogDirPart {
            dir,
            topic: partition.id().topic.clone(),
            key: partition.key(),
            size_bytes: info.size_bytes,
            offset_lag: info.offset_lag,
        }
    };
    Served::Done(CoreReply::LogDirs(core.partitions.partitions_by_dir().into_iter().map(one).collect()))
}
