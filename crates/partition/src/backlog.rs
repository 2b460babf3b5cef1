use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use records::ValidatedBatch;
use wire::ErrorCode;

use crate::append::{AppendRequest, ProduceResult};
use crate::error::PartitionError;
use crate::partition::Partition;
use crate::shared::Shared;

/// Appends that wait for room. Each holds memory that was admitted with its request, so this bounds bookkeeping only.
const APPENDS_MAX: usize = 1 << 16;
/// Pause between attempts while the log has no room: far below what a client notices under such load, far above what an
/// attempt costs.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Valid batches for which the core's logs had no room when they came, in the order in which they came. While there are
/// any, all later appends queue up behind them, so that the order of calls stays the order of offsets; a producer is
/// slowed down by this instead of being refused.
#[derive(Default)]
pub(crate) struct Backlog {
    queue: VecDeque<Queued>,
    draining: bool,
}

struct Queued {
    partition: Partition,
    batch: ValidatedBatch,
    request: AppendRequest,
    slot: Rc<Slot>,
}

/// Where a queued append's decision will stand.
#[derive(Default)]
pub(crate) struct Slot {
    decision: RefCell<Option<Result<ProduceResult, PartitionError>>>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    /// The decision, once; else remembers whom to wake.
    pub(crate) fn take(&self, context: &Context<'_>) -> Option<Result<ProduceResult, PartitionError>> {
        let decision = self.decision.borrow_mut().take();
        if decision.is_none() {
            *self.waker.borrow_mut() = Some(context.waker().clone());
        }
        decision
    }

    /// Hands the decision over.
    pub(crate) fn decide(&self, decision: Result<ProduceResult, PartitionError>) {
        *self.decision.borrow_mut() = Some(decision);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Backlog {
    /// True if an append has to queue up behind others.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }
}

/// Queues an append up.
///
/// # Errors
/// KAFKA_STORAGE_ERROR, which is retriable, when too many are queued already.
pub(crate) fn push(
    partition: &Partition,
    batch: ValidatedBatch,
    request: AppendRequest,
) -> Result<Rc<Slot>, PartitionError> {
    let shared = &partition.0.shared;
    let mut backlog = shared.backlog.borrow_mut();
    if backlog.queue.len() >= APPENDS_MAX {
        let message = format!("{APPENDS_MAX} appends wait for the disk already");
        return Err(PartitionError::new(ErrorCode::KAFKA_STORAGE_ERROR, message));
    }
    let slot = Rc::new(Slot::default());
    backlog.queue.push_back(Queued { partition: partition.clone(), batch, request, slot: slot.clone() });
    if !std::mem::replace(&mut backlog.draining, true) {
        reactor::spawn(reactor::Class::Latency, drain(shared.clone())).detach();
    }
    Ok(slot)
}

/// Appends what waits as soon as there is room, and ends when nothing waits.
async fn drain(shared: Rc<Shared>) {
    loop {
        reactor::sleep(RETRY_PAUSE).await;
        loop {
            let Some(front) = shared.backlog.borrow_mut().queue.pop_front() else {
                shared.backlog.borrow_mut().draining = false;
                return;
            };
            match front.partition.decide(reactor::now(), &front.batch, &front.request) {
                Some(decision) => front.slot.decide(decision),
                None => {
                    shared.backlog.borrow_mut().queue.push_front(front);
                    break;
                }
            }
        }
    }
}
