//! Reading until there is enough, or the client's patience ends.
//!
//! Each home core holds one watch for the whole request, with the request's deadline. A watch that fires is answered with
//! the bytes that can be read on its core, and the answers of all cores are added up.

use super::Ask;
use super::plan::{self, Plan};
use crate::call::Call;
use crate::core::{DataCore, Waiting};
use crate::fetch_session::{PartitionAnswer, PartitionFetch};
use crate::messages::{CoreReply, CoreRequest, ReadDone, ReadJob, ReadPart, WatchJob, WatchPart, Watched};
use crate::serve;
use base::CoreId;
use net::FileRange;
use partition::FetchMark;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// The answers, one per partition, in the order of `partitions`.
pub(super) async fn read_until_enough(call: &Call, ask: &Ask, partitions: &[PartitionFetch]) -> Vec<Found> {
    let plan = plan::plan(call, ask, partitions);
    // Waiting for more than the partitions may return would always last to the end.
    let enough = ask.bytes_min.min(plan.reachable_bytes).min(ask.bytes_max.max(1));
    let mut answers = read_all(call, &plan).await;
    let settled = answers.iter().any(|one| !one.done.error.is_none() || one.done.diverging.is_some());
    let found: usize = answers.iter().map(Found::len).sum();
    if !settled && !plan.jobs.is_empty() && found < enough && ask.max_wait_ms > 0 {
        let deadline_ns = reactor::now().plus_ms(ask.max_wait_ms).mono_ns;
        // Whether time or bytes ended the wait, what is there now is the answer.
        wait_until_enough(call, deadline_ns, &plan, &answers, enough as u64).await;
        answers = read_all(call, &plan).await;
    }
    in_order(ask.bytes_max, plan.refused, answers)
}

/// What one partition answers.
pub(super) struct Found {
    /// The answer; without its records when they are in `file`.
    pub done: ReadDone,
    /// Records that go from a file to the socket.
    pub file: Option<FoundFile>,
}

/// A range of a file that is open on this core.
pub(super) struct FoundFile {
    pub range: FileRange,
    pub len: usize,
}

impl Found {
    /// An answer of another core.
    fn arrived(mut done: ReadDone) -> Found {
        let file = done.file.take().map(|moved| FoundFile {
            range: FileRange { file: moved.file.arrive(), offset: moved.position },
            len: moved.len,
        });
        Found { done, file }
    }

    /// An answer of this core.
    fn here(read: serve::fetch::ReadHere) -> Found {
        let file = read
            .file
            .map(|cold| FoundFile { range: FileRange { file: cold.file, offset: cold.position }, len: cold.len });
        Found { done: read.done, file }
    }

    /// Bytes of records.
    pub fn len(&self) -> usize {
        self.file.as_ref().map_or_else(|| self.done.len(), |file| file.len)
    }

    /// As far as a session looks at it.
    pub fn outline(&self) -> PartitionAnswer {
        let outline = self.done.outline();
        let has_records = self.len() > 0;
        PartitionAnswer { has_records, has_content: outline.has_content || has_records, ..outline }
    }

    fn take_records_away(&mut self) {
        self.done.records.clear();
        self.file = None;
        self.done.aborted = self.done.aborted.take().map(|_| Vec::new());
    }
}

/// One read on every core; answers in no particular order.
async fn read_all(call: &Call, plan: &Plan) -> Vec<Found> {
    let mut waiting = Vec::with_capacity(plan.jobs.len());
    let mut here = None;
    for (core, job) in &plan.jobs {
        if *core == call.core.id {
            here = Some(serve::fetch::read_here(call.core.clone(), job.clone()));
        } else {
            waiting.push(call.core.ask(*core, CoreRequest::Read(job.clone())));
        }
    }
    let mut answers = Vec::new();
    if let Some(here) = here {
        answers.extend(here.await.into_iter().map(Found::here));
    }
    for reply in reactor::join_all(waiting).await {
        let CoreReply::Read(done) = reply else { unreachable!("a read is answered by a read") };
        answers.extend(done.into_iter().map(Found::arrived));
    }
    answers
}

/// Puts answers into the order of the request, and takes records away that several cores together found beyond the
/// budget. The first partition with records keeps them whatever their size (KIP-74).
fn in_order(bytes_max: usize, refused: Vec<ReadDone>, mut answers: Vec<Found>) -> Vec<Found> {
    answers.extend(refused.into_iter().map(Found::arrived));
    answers.sort_unstable_by_key(|one| one.done.slot);
    let mut total = 0usize;
    for one in &mut answers {
        let len = one.len();
        if total > 0 && len > 0 && total.saturating_add(len) > bytes_max {
            one.take_records_away();
        } else {
            total += len;
        }
    }
    answers
}

/// A watch on one core. Dropping it, fired or not, ends it there.
struct Watch {
    asking: Rc<DataCore>,
    at: CoreId,
    number: u64,
    fired: bool,
    waiting: Waiting,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.fired {
            self.asking.tell(self.at, CoreRequest::Unwatch(self.number));
        }
    }
}

/// Returns when the cores together have `enough` bytes to read, or at the deadline.
async fn wait_until_enough(call: &Call, deadline_ns: u64, plan: &Plan, answers: &[Found], enough: u64) {
    let marks: BTreeMap<u32, FetchMark> = answers.iter().map(|one| (one.done.slot, one.done.mark)).collect();
    let mut have: BTreeMap<CoreId, u64> = plan.jobs.iter().map(|(core, job)| (*core, readable(job, &marks))).collect();
    loop {
        let total: u64 = have.values().sum();
        let Some(missing) = enough.checked_sub(total).filter(|missing| *missing > 0) else { return };
        // If all cores together gain what is missing, one of them gains at least this.
        let share = missing.div_ceil(plan.jobs.len().max(1) as u64);
        let mut watches = Vec::with_capacity(plan.jobs.len());
        for (core, job) in &plan.jobs {
            let number = call.core.next_watch();
            let part = |part: &ReadPart| WatchPart {
                key: part.key,
                mark: marks.get(&part.slot).copied().unwrap_or_default(),
                bytes_max: limit_of(part),
            };
            let watch = WatchJob {
                number,
                deadline_ns,
                bytes_min: have.get(core).copied().unwrap_or(0) + share,
                parts: job.parts.iter().map(part).collect(),
            };
            let waiting = call.core.ask(*core, CoreRequest::Watch(watch));
            watches.push(Watch { asking: call.core.clone(), at: *core, number, fired: false, waiting });
        }
        match first_to_fire(&mut watches).await {
            (core, Watched::Bytes(bytes)) => have.insert(core, bytes),
            (_, Watched::Over) => return,
        };
    }
}

/// The client's limit for one partition, in bytes.
fn limit_of(part: &ReadPart) -> u64 {
    u64::try_from(part.ask.max_bytes).unwrap_or(0)
}

fn readable(job: &ReadJob, marks: &BTreeMap<u32, FetchMark>) -> u64 {
    let of_part = |part: &ReadPart| marks.get(&part.slot).map_or(0, |mark| mark.readable(limit_of(part)));
    job.parts.iter().map(of_part).sum()
}

async fn first_to_fire(watches: &mut [Watch]) -> (CoreId, Watched) {
    poll_fn(|cx| {
        for watch in watches.iter_mut() {
            if let Poll::Ready(reply) = Pin::new(&mut watch.waiting).poll(cx) {
                watch.fired = true;
                let CoreReply::Watch(watched) = reply else { unreachable!("a watch is answered by a watch") };
                return Poll::Ready((watch.at, watched));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use wire::ErrorCode;

    fn read(slot: u32, len: usize) -> ReadDone {
        let records = if len == 0 { Vec::new() } else { vec![Bytes::from(vec![0; len])] };
        ReadDone { records, high_watermark: 1, ..ReadDone::failed(slot, ErrorCode::NONE) }
    }

    fn check(bytes_max: usize, lens: [usize; 4], expect: [usize; 4]) {
        let found = [2, 0, 3, 1].map(|slot| Found::arrived(read(slot, lens[slot as usize])));
        let answers = in_order(bytes_max, Vec::new(), found.into());
        assert_eq!(answers.iter().map(Found::len).collect::<Vec<_>>(), expect, "{bytes_max} {lens:?}");
        assert!(answers.iter().all(|one| one.done.high_watermark == 1));
    }

    #[test]
    fn the_budget_holds_except_for_the_first_batch() {
        check(100, [10, 20, 30, 40], [10, 20, 30, 40]);
        check(50, [10, 20, 30, 10], [10, 20, 0, 10]);
        check(1, [0, 20, 30, 0], [0, 20, 0, 0]);
        check(0, [7, 7, 7, 7], [7, 0, 0, 0]);
    }
}
