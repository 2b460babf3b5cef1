use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base::Offset;
use wire::ErrorCode;

use crate::append::ProduceResult;
use crate::backlog::Slot;
use crate::error::PartitionError;
use crate::offset_waiters::{OffsetWaiters, Place};
use crate::partition::Partition;

/// An append that was taken in and ordered; its promise may not hold yet. Dropping it does not take the append back.
#[must_use = "the producer is answered when the promise holds"]
pub struct PendingAppend {
    pub(crate) partition: Partition,
    pub(crate) required_acks: i16,
    pub(crate) stage: Stage,
}

/// Names an append to whoever keeps it, see [`crate::PartitionCore::keep_with`]. The numbers are the keeper's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptToken {
    /// Where the keeper has it.
    pub slot: u32,
    /// Tells it from others that were there before.
    pub generation: u32,
    /// Which of the appends there.
    pub part: u32,
}

/// How far an append has come.
pub(crate) enum Stage {
    /// It waits for room in the log, or for a look into it; not even its offset is known.
    Queued(Rc<Slot>),
    /// It is in the log, or was before.
    Decided(ProduceResult),
}

impl PendingAppend {
    /// The answer, for when it may be given; [`ProduceResult::UNKNOWN`] while it is not decided.
    pub fn result(&self) -> ProduceResult {
        match &self.stage {
            Stage::Queued(_) => ProduceResult::UNKNOWN,
            Stage::Decided(result) => *result,
        }
    }

    /// True while not even its offset is known.
    pub fn is_undecided(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// What [`PendingAppend::wait`] would give at once; `None` while it would wait.
    pub fn outcome(&self) -> Option<Result<ProduceResult, PartitionError>> {
        match &self.stage {
            Stage::Queued(_) => None,
            Stage::Decided(result) => self.outcome_of(*result),
        }
    }

    /// Has the keeper of this core's appends told `token` when [`PendingAppend::outcome`] is worth another look, once. False
    /// if the append is not even decided: then somebody has to wait for it.
    pub fn keep(&self, token: KeptToken) -> bool {
        let Stage::Decided(result) = &self.stage else { return false };
        self.waiters().borrow_mut().register_token(target(result), token);
        true
    }

    fn waiters(&self) -> &RefCell<OffsetWaiters> {
        let inner = &self.partition.0;
        if self.required_acks == 1 { &inner.written } else { &inner.visible }
    }

    /// The error of an append whose time is over.
    pub fn timed_out() -> PartitionError {
        let message = "the replicas did not confirm the batch within the request's timeout";
        PartitionError::new(ErrorCode::REQUEST_TIMED_OUT, message)
    }

    /// Waits for the promise that the request's acks ask for.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER when the leader changed, KAFKA_STORAGE_ERROR when the log failed,
    /// NOT_ENOUGH_REPLICAS_AFTER_APPEND when replicas fell out of sync meanwhile; the batch may be in the log all the
    /// same. What [`Partition::append`] returns, when the append waited for room.
    pub fn wait(self) -> AppendWait {
        AppendWait { append: self, place: None }
    }

    /// The same, but answers REQUEST_TIMED_OUT at `deadline_mono_ns` (`timeout.ms` of the request).
    ///
    /// # Errors
    /// As [`PendingAppend::wait`], and REQUEST_TIMED_OUT.
    pub async fn wait_until(self, deadline_mono_ns: u64) -> Result<ProduceResult, PartitionError> {
        match reactor::race(self.wait(), reactor::sleep_until(deadline_mono_ns)).await {
            reactor::Either::Left(done) => done,
            reactor::Either::Right(()) => Err(PendingAppend::timed_out()),
        }
    }

    /// `None` while the promise does not hold yet.
    fn outcome_of(&self, result: ProduceResult) -> Option<Result<ProduceResult, PartitionError>> {
        let target = target(&result);
        match self.required_acks {
            0 => return Some(Ok(result)),
            1 if self.partition.0.log.progress().written_end >= target => return Some(Ok(result)),
            1 => {}
            _ => {
                let brain = self.partition.brain();
                if brain.high_watermark() >= target {
                    return Some(replicated(result, brain.under_min_isr()));
                }
                if let Err(error) = brain.check_leader(None, true) {
                    return Some(Err(error.into()));
                }
            }
        }
        self.partition.check_online().err().map(Err)
    }
}

/// The offset that has to be reached.
fn target(result: &ProduceResult) -> Offset {
    result.last_offset + 1
}

fn replicated(result: ProduceResult, under_min_isr: bool) -> Result<ProduceResult, PartitionError> {
    if !under_min_isr {
        return Ok(result);
    }
    let message = "the batch is written, but fewer replicas are in sync than min.insync.replicas asks for";
    Err(PartitionError::new(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, message))
}

/// The future of [`PendingAppend::wait`].
pub struct AppendWait {
    append: PendingAppend,
    place: Option<Place>,
}

impl AppendWait {
    fn decided(&mut self, context: &Context<'_>) -> Poll<Result<ProduceResult, PartitionError>> {
        let slot = match &self.append.stage {
            Stage::Decided(result) => return Poll::Ready(Ok(*result)),
            Stage::Queued(slot) => slot,
        };
        let Some(decision) = slot.take(context) else { return Poll::Pending };
        if let Ok(result) = decision {
            self.append.stage = Stage::Decided(result);
        }
        Poll::Ready(decision)
    }
}

impl Future for AppendWait {
    type Output = Result<ProduceResult, PartitionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let result = match ready!(this.decided(context)) {
            Ok(result) => result,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if let Some(outcome) = this.append.outcome_of(result) {
            return Poll::Ready(outcome);
        }
        this.append.waiters().borrow_mut().register(&mut this.place, target(&result), context);
        Poll::Pending
    }
}

impl Drop for AppendWait {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.append.waiters().borrow_mut().remove(place);
        }
    }
}
