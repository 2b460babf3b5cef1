//! Reads of the partitions of this core, and waiting for something to read.

use super::Served;
use crate::core::DataCore;
use crate::messages::{CoreReply, ReadDone, ReadJob, ReadPart, WatchJob, Watched};
use base::CoreId;
use log::ColdRange;
use partition::{AbortedLookup, Partition, PartitionError, ReadRecords, ReadRequest, ReadResult, WaitOn, Woken};
use reactor::Either;
use reactor::sync::oneshot;
use replica::Isolation;
use std::rc::Rc;
use wire::ErrorCode;

/// Records on disk of at least this many bytes go from their file to the socket by themselves; below, the steps through
/// a pipe cost more than a copy.
const SPLICE_BYTES_MIN: usize = 64 << 10;

/// A read of which a part is on disk.
struct Unfinished {
    at: usize,
    partition: Partition,
    result: ReadResult,
}

/// What was read here, for a connection of this core: records may still lie in a file of it.
pub struct ReadHere {
    /// The answer; it has no records when `file` has them.
    pub done: ReadDone,
    /// Where the records are instead.
    pub file: Option<ColdRange>,
}

/// Reads for another core: everything comes in memory.
pub(super) fn read(core: &Rc<DataCore>, job: &ReadJob) -> Served {
    let (mut done, unfinished) = begin(core, job);
    if unfinished.is_empty() {
        return Served::Done(CoreReply::Read(done));
    }
    Served::later(async move {
        for one in unfinished {
            let at = one.at;
            if let Err(error) = finish(one, &mut done[at], None).await {
                done[at] = ReadDone::failed(done[at].slot, error.code);
            }
        }
        CoreReply::Read(done)
    })
}

/// Reads for a connection of this core.
pub async fn read_here(core: Rc<DataCore>, job: ReadJob) -> Vec<ReadHere> {
    let (done, unfinished) = begin(&core, &job);
    let mut all: Vec<ReadHere> = done.into_iter().map(|done| ReadHere { done, file: None }).collect();
    for one in unfinished {
        let ReadHere { done, file } = &mut all[one.at];
        if let Err(error) = finish(one, done, Some(file)).await {
            *done = ReadDone::failed(done.slot, error.code);
            *file = None;
        }
    }
    all
}

/// Reads in order within the byte budget, as far as that needs no disk.
fn begin(core: &DataCore, job: &ReadJob) -> (Vec<ReadDone>, Vec<Unfinished>) {
    let mut done = Vec::with_capacity(job.parts.len());
    let mut unfinished = Vec::new();
    let mut room = job.bytes_max;
    let mut min_one_batch = true;
    for part in &job.parts {
        let request = request(part, job.isolation, room, min_one_batch);
        let partition = core.partitions.partition(part.key);
        match partition.and_then(|partition| Ok((partition.read(&request)?, partition))) {
            Ok((result, partition)) => {
                if !result.is_empty() {
                    min_one_batch = false;
                    room = room.saturating_sub(result.len());
                }
                done.push(outline(part.slot, &result));
                let at = done.len() - 1;
                match result.records {
                    ReadRecords::Tail { chunks, .. } if !matches!(result.aborted, AbortedLookup::Range(..)) => {
                        done[at].records = chunks;
                    }
                    ReadRecords::None => {}
                    _ => unfinished.push(Unfinished { at, partition, result }),
                }
            }
            Err(error) => done.push(ReadDone::failed(part.slot, error.code)),
        }
    }
    (done, unfinished)
}

fn request(part: &ReadPart, isolation: Isolation, room: usize, min_one_batch: bool) -> ReadRequest {
    let known = |epoch: i32| (epoch >= 0).then_some(epoch);
    ReadRequest {
        from: part.ask.fetch_offset,
        max_bytes: usize::try_from(part.ask.max_bytes).unwrap_or(0).min(room),
        min_one_batch,
        isolation,
        current_leader_epoch: known(part.ask.current_leader_epoch),
        last_fetched_epoch: known(part.ask.last_fetched_epoch),
    }
}

fn outline(slot: u32, result: &ReadResult) -> ReadDone {
    ReadDone {
        slot,
        error: ErrorCode::NONE,
        high_watermark: result.bounds.high_watermark,
        last_stable_offset: result.bounds.last_stable_offset,
        log_start_offset: result.bounds.log_start,
        diverging: result.diverging.map(|end| (end.epoch, end.end_offset)),
        aborted: (result.aborted != AbortedLookup::NotAsked).then(Vec::new),
        records: Vec::new(),
        mark: result.mark,
    }
}

/// Fetches from disk what a read left open; large records are left in their file if `file` takes them.
async fn finish(
    one: Unfinished,
    done: &mut ReadDone,
    file: Option<&mut Option<ColdRange>>,
) -> Result<(), PartitionError> {
    match one.result.records {
        ReadRecords::None => {}
        ReadRecords::Tail { chunks, .. } => done.records = chunks,
        ReadRecords::Cold(cold) => {
            let log = one.partition.log();
            match (log.locate(cold).await?, file) {
                (Some(range), Some(file)) if range.len >= SPLICE_BYTES_MIN => *file = Some(range),
                (Some(range), _) => done.records = vec![log.read_range(&range).await?],
                (None, _) => {}
            }
        }
    }
    if let AbortedLookup::Range(from, upper) = one.result.aborted {
        let found = one.partition.aborted_in(from, upper).await?;
        done.aborted = Some(found.iter().map(|txn| (txn.producer_id, txn.first_offset)).collect());
    }
    Ok(())
}

/// Removes a watch from the table of its core, however its future ends.
struct Registered {
    core: Rc<DataCore>,
    key: (CoreId, u64),
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.core.watches.borrow_mut().remove(&self.key);
    }
}

/// Answers when the partitions have enough to read.
pub(super) fn watch(core: &Rc<DataCore>, from: CoreId, job: WatchJob) -> Served {
    let mut waits = Vec::with_capacity(job.parts.len());
    for part in &job.parts {
        match core.partitions.partition(part.key) {
            Ok(partition) => waits.push(WaitOn { partition, mark: part.mark, max_bytes: part.bytes_max }),
            Err(_) => return Served::Done(CoreReply::Watch(Watched::Over)),
        }
    }
    let waiting = core.partitions.wait_for_bytes(&waits, job.bytes_min, job.deadline_ns);
    let (end, ended) = oneshot::channel();
    let key = (from, job.number);
    core.watches.borrow_mut().insert(key, end);
    let registered = Registered { core: core.clone(), key };
    Served::later(async move {
        let watched = match reactor::race(waiting, ended).await {
            Either::Left(Some(Woken::Bytes(bytes))) => Watched::Bytes(bytes),
            Either::Left(Some(Woken::Changed) | None) | Either::Right(_) => Watched::Over,
        };
        drop(registered);
        CoreReply::Watch(watched)
    })
}

/// Ends a watch.
pub(super) fn unwatch(core: &Rc<DataCore>, from: CoreId, number: u64) -> Served {
    let end = core.watches.borrow_mut().remove(&(from, number));
    if let Some(end) = end {
        let _ = end.send(());
    }
    Served::Done(CoreReply::Done)
}
