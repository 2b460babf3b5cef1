//! Reading until there is enough, or the client's patience ends.
//!
//! Each home core holds one watch for the whole request; the deadline is here. A watch that fires is answered with the
//! bytes that can be read on its core, and the answers of all cores are added up.

use super::Ask;
use super::plan::{self, Plan};
use crate::call::Call;
use crate::core::{DataCore, Waiting};
use crate::fetch_session::PartitionFetch;
use crate::messages::{CoreReply, CoreRequest, ReadDone, WatchJob};
use base::CoreId;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The answers, one per partition, in the order of `partitions`.
pub(super) async fn read_until_enough(call: &Call, ask: &Ask, partitions: &[PartitionFetch]) -> Vec<ReadDone> {
    let plan = plan::plan(call, ask, partitions);
    // Waiting for more than the partitions may return would always last to the end.
    let enough = ask.bytes_min.min(plan.reachable_bytes).min(ask.bytes_max.max(1));
    let mut answers = read_all(call, &plan).await;
    let settled = answers.iter().any(|answer| !answer.error.is_none() || answer.diverging.is_some());
    let mut have = bytes_by_core(&plan, &answers);
    let found: usize = have.values().sum();
    if !settled && found < enough && ask.max_wait_ms > 0 {
        let waiting = wait_until_enough(call, ask, &plan, &mut have, enough);
        // Whether time or bytes ended the wait, what is there now is the answer.
        let _ = reactor::timeout(Duration::from_millis(ask.max_wait_ms), waiting).await;
        answers = read_all(call, &plan).await;
    }
    in_order(ask.bytes_max, plan.refused, answers)
}

/// One read on every core; answers in no particular order.
async fn read_all(call: &Call, plan: &Plan) -> Vec<ReadDone> {
    let mut waiting = Vec::with_capacity(plan.jobs.len());
    for (core, job) in &plan.jobs {
        waiting.push(call.core.ask(*core, CoreRequest::Read(job.clone())).await);
    }
    let mut answers = Vec::new();
    for one in waiting {
        match one.await {
            CoreReply::Read(done) => answers.extend(done),
            _ => unreachable!("a read is answered by a read"),
        }
    }
    answers
}

fn bytes_by_core(plan: &Plan, answers: &[ReadDone]) -> BTreeMap<CoreId, usize> {
    let lens: BTreeMap<u32, usize> = answers.iter().map(|answer| (answer.slot, answer.len())).collect();
    let of_job = |parts: &[crate::messages::ReadPart]| parts.iter().filter_map(|part| lens.get(&part.slot)).sum();
    plan.jobs.iter().map(|(core, job)| (*core, of_job(&job.parts))).collect()
}

/// Puts answers into the order of the request, and takes records away that several cores together found beyond the
/// budget. The first partition with records keeps them whatever their size (KIP-74).
fn in_order(bytes_max: usize, refused: Vec<ReadDone>, found: Vec<ReadDone>) -> Vec<ReadDone> {
    let mut answers = refused;
    answers.extend(found);
    answers.sort_unstable_by_key(|answer| answer.slot);
    let mut total = 0usize;
    for answer in &mut answers {
        let len = answer.len();
        if total > 0 && len > 0 && total.saturating_add(len) > bytes_max {
            answer.records.clear();
            answer.aborted = answer.aborted.take().map(|_| Vec::new());
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

/// Returns when the cores together have `enough` bytes to read.
async fn wait_until_enough(
    call: &Call,
    ask: &Ask,
    plan: &Plan,
    have: &mut BTreeMap<CoreId, usize>,
    enough: usize,
) {
    loop {
        let total: usize = have.values().sum();
        let Some(missing) = enough.checked_sub(total).filter(|missing| *missing > 0) else { return };
        // If all cores together gain what is missing, one of them gains at least this.
        let share = missing.div_ceil(plan.jobs.len().max(1));
        let mut watches = Vec::with_capacity(plan.jobs.len());
        for (core, job) in &plan.jobs {
            let number = call.core.next_watch();
            let watch = WatchJob {
                number,
                isolation: job.isolation,
                bytes_min: have.get(core).copied().unwrap_or(0) + share,
                wait_ms: ask.max_wait_ms,
                parts: job.parts.clone(),
            };
            let waiting = call.core.ask(*core, CoreRequest::Watch(watch)).await;
            watches.push(Watch { asking: call.core.clone(), at: *core, number, fired: false, waiting });
        }
        let (core, bytes) = first_to_fire(&mut watches).await;
        // A watch that only ran into its deadline, or lost its partition, gains nothing: look again at once.
        if have.insert(core, bytes).is_some_and(|before| bytes < before + share) {
            return;
        }
    }
}

async fn first_to_fire(watches: &mut [Watch]) -> (CoreId, usize) {
    poll_fn(|cx| {
        for watch in watches.iter_mut() {
            if let Poll::Ready(reply) = Pin::new(&mut watch.waiting).poll(cx) {
                watch.fired = true;
                let CoreReply::Watch(bytes) = reply else { unreachable!("a watch is answered by a watch") };
                return Poll::Ready((watch.at, bytes));
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
        let found = [2, 0, 3, 1].map(|slot| read(slot, lens[slot as usize]));
        let answers = in_order(bytes_max, Vec::new(), found.into());
        assert_eq!(answers.iter().map(ReadDone::len).collect::<Vec<_>>(), expect, "{bytes_max} {lens:?}");
        assert!(answers.iter().all(|answer| answer.high_watermark == 1));
    }

    #[test]
    fn the_budget_holds_except_for_the_first_batch() {
        check(100, [10, 20, 30, 40], [10, 20, 30, 40]);
        check(50, [10, 20, 30, 10], [10, 20, 0, 10]);
        check(1, [0, 20, 30, 0], [0, 20, 0, 0]);
        check(0, [7, 7, 7, 7], [7, 0, 0, 0]);
    }
}
