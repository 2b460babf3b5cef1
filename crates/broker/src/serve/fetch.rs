//! Reads of the partitions of this core, and waiting for something to read.

use super::Served;
use crate::core::DataCore;
use crate::messages::{CoreReply, PortableRange, ReadDone, ReadJob, ReadPart, WatchJob, Watched};
use base::{CoreId, Offset, ProducerId};
use bytes::Bytes;
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

/// Partitions of one Fetch that are read from disk at once: enough to keep a device busy, few enough that the answers of
/// many consumers do not all wait behind one.
const DISK_READS_MAX: usize = 8;

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

/// Reads for another core.
pub(super) fn read(core: &Rc<DataCore>, job: &ReadJob) -> Served {
    let (mut done, unfinished) = begin(core, job);
    if unfinished.is_empty() {
        return Served::Done(CoreReply::Read(done));
    }
    Served::later(async move {
        finish_all(unfinished, portable, |at, finished| match finished {
            Ok(found) => done[at].file = found.enter(&mut done[at]),
            Err(error) => done[at] = ReadDone::failed(done[at].slot, error.code),
        })
        .await;
        CoreReply::Read(done)
    })
}

/// A range that another core can send. Without one, when no more files may be open, the records are copied.
fn portable(range: &ColdRange) -> Option<PortableRange> {
    let file = range.file.portable().unwrap_or_else(|error| {
        tracing::debug!(%error, "records on disk are copied for another core");
        None
    })?;
    Some(PortableRange { file, position: range.position, len: range.len })
}

/// Reads for a connection of this core.
pub async fn read_here(core: Rc<DataCore>, job: ReadJob) -> Vec<ReadHere> {
    let (done, unfinished) = begin(&core, &job);
    let mut all: Vec<ReadHere> = done.into_iter().map(|done| ReadHere { done, file: None }).collect();
    finish_all(
        unfinished,
        |range| Some(range.clone()),
        |at, finished| match finished {
            Ok(found) => all[at].file = found.enter(&mut all[at].done),
            Err(error) => all[at].done = ReadDone::failed(all[at].done.slot, error.code),
        },
    )
    .await;
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
        file: None,
        mark: result.mark,
    }
}

/// What the disk had for a read; large records stay in their file, which `F` names.
struct Found<F> {
    records: Vec<Bytes>,
    file: Option<F>,
    aborted: Option<Vec<(ProducerId, Offset)>>,
}

impl<F> Found<F> {
    /// Completes an answer with everything but the file.
    fn enter(self, done: &mut ReadDone) -> Option<F> {
        done.records = self.records;
        done.aborted = self.aborted.or(done.aborted.take());
        self.file
    }
}

/// Fetches from disk what reads left open, several partitions at once, and hands each over with its place. Large records
/// are left in their file if `take` makes something of it.
async fn finish_all<F>(
    unfinished: Vec<Unfinished>,
    take: impl Fn(&ColdRange) -> Option<F>,
    mut enter: impl FnMut(usize, Result<Found<F>, PartitionError>),
) {
    let mut unfinished = unfinished.into_iter();
    loop {
        let some: Vec<Unfinished> = unfinished.by_ref().take(DISK_READS_MAX).collect();
        if some.is_empty() {
            return;
        }
        let places: Vec<usize> = some.iter().map(|one| one.at).collect();
        let finished = reactor::join_all(some.into_iter().map(|one| finish(one, &take))).await;
        for (at, one) in places.into_iter().zip(finished) {
            enter(at, one);
        }
    }
}

async fn finish<F>(one: Unfinished, take: impl Fn(&ColdRange) -> Option<F>) -> Result<Found<F>, PartitionError> {
    let mut found = Found { records: Vec::new(), file: None, aborted: None };
    match one.result.records {
        ReadRecords::None => {}
        ReadRecords::Tail { chunks, .. } => found.records = chunks,
        ReadRecords::Cold(cold) => {
            let log = one.partition.log();
            if let Some(range) = log.locate(cold).await? {
                found.file = if range.len >= SPLICE_BYTES_MIN { take(&range) } else { None };
                if found.file.is_none() {
                    found.records = vec![log.read_range(&range).await?];
                }
            }
        }
    }
    if let AbortedLookup::Range(from, upper) = one.result.aborted {
        let aborted = one.partition.aborted_in(from, upper).await?;
        found.aborted = Some(aborted.iter().map(|txn| (txn.producer_id, txn.first_offset)).collect());
    }
    Ok(found)
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
    if core.stopping.get() {
        return Served::Done(CoreReply::Watch(Watched::Over));
    }
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
