use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::{LeaderEpoch, Now, Offset};
use bytes::Bytes;
use log::AppendBatch;
use records::ValidatedBatch;
use replica::{AppendContext, AppendDecision, BatchInfo, Origin};
use wire::ErrorCode;

use crate::error::PartitionError;
use crate::offset_waiters::Place;
use crate::partition::{Inner, Partition};
use crate::recovery::end_txn_marker;
use crate::settings::Settings;

/// How to append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendRequest {
    /// -1: answered when the promise of the durability rung holds on all in-sync replicas; 1: when it is written here;
    /// 0: at once.
    pub required_acks: i16,
    /// Who appends; never [`Origin::Replication`].
    pub origin: Origin,
    /// Leader epoch the caller expects, `None` if it does not care (Produce does not say).
    pub expected_leader_epoch: Option<LeaderEpoch>,
    /// The transaction coordinator vouched for the producer's transaction in this partition.
    pub transaction_verified: bool,
}

impl AppendRequest {
    /// A Produce request's append with these acks, outside of transactions.
    pub fn client(required_acks: i16) -> AppendRequest {
        AppendRequest {
            required_acks,
            origin: Origin::Client,
            expected_leader_epoch: None,
            transaction_verified: false,
        }
    }
}

/// What a producer is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProduceResult {
    /// Offset of the first record; for a duplicate that of the first attempt.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// The append time in milliseconds where the broker sets timestamps, else -1. A duplicate has its batch's
    /// timestamp, as Kafka answers it.
    pub log_append_time_ms: i64,
    /// First offset of the log.
    pub log_start_offset: Offset,
}

/// An append that was taken in and ordered; its promise may not hold yet. Dropping it does not take the append back.
#[must_use = "the producer is answered when the promise holds"]
pub struct PendingAppend {
    partition: Partition,
    result: ProduceResult,
    required_acks: i16,
}

impl PendingAppend {
    /// The answer, as soon as it may be given.
    pub fn result(&self) -> ProduceResult {
        self.result
    }

    /// Waits for the promise that the request's acks ask for.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER when the leader changed, KAFKA_STORAGE_ERROR when the log failed,
    /// NOT_ENOUGH_REPLICAS_AFTER_APPEND when replicas fell out of sync meanwhile. The batch may be in the log all the
    /// same.
    pub fn wait(self) -> AppendWait {
        AppendWait { append: self, place: None }
    }

    /// The same, but answers REQUEST_TIMED_OUT at `deadline_mono_ns` (`timeout.ms` of the request).
    ///
    /// # Errors
    /// As [`PendingAppend::wait`], and REQUEST_TIMED_OUT.
    pub async fn wait_until(self, deadline_mono_ns: u64) -> Result<ProduceResult, PartitionError> {
        let mut wait = self.wait();
        // Most appends are promised within a millisecond; only the others pay for a timer.
        if let Some(done) = poll_once(&mut wait).await {
            return done;
        }
        match reactor::race(wait, reactor::sleep_until(deadline_mono_ns)).await {
            reactor::Either::Left(done) => done,
            reactor::Either::Right(()) => {
                let message = "the replicas did not confirm the batch within the request's timeout";
                Err(PartitionError::new(ErrorCode::REQUEST_TIMED_OUT, message))
            }
        }
    }

    fn target(&self) -> Offset {
        self.result.last_offset + 1
    }

    /// `None` while the promise does not hold yet.
    fn outcome(&self) -> Option<Result<ProduceResult, PartitionError>> {
        match self.required_acks {
            0 => return Some(Ok(self.result)),
            1 if self.partition.0.log.progress().written_end >= self.target() => return Some(Ok(self.result)),
            1 => {}
            _ => {
                let brain = self.partition.brain();
                if brain.high_watermark() >= self.target() {
                    return Some(self.replicated(brain.under_min_isr()));
                }
                if let Err(error) = brain.check_leader(None, true) {
                    return Some(Err(error.into()));
                }
            }
        }
        self.partition.check_online().err().map(Err)
    }

    fn replicated(&self, under_min_isr: bool) -> Result<ProduceResult, PartitionError> {
        if !under_min_isr {
            return Ok(self.result);
        }
        let message = "the batch is written, but fewer replicas are in sync than min.insync.replicas asks for";
        Err(PartitionError::new(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, message))
    }
}

/// Resolves once with `Some` if `future` is ready now, else with `None`; `future` can go on being polled.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The future of [`PendingAppend::wait`].
pub struct AppendWait {
    append: PendingAppend,
    place: Option<Place>,
}

impl Future for AppendWait {
    type Output = Result<ProduceResult, PartitionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.append.outcome() {
            return Poll::Ready(outcome);
        }
        let this = &mut *self;
        let inner = &this.append.partition.0;
        let waiters = if this.append.required_acks == 1 { &inner.written } else { &inner.visible };
        waiters.borrow_mut().register(&mut this.place, this.append.target(), context);
        Poll::Pending
    }
}

impl Drop for AppendWait {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let inner = &self.append.partition.0;
            let waiters = if self.append.required_acks == 1 { &inner.written } else { &inner.visible };
            waiters.borrow_mut().remove(place);
        }
    }
}

impl Partition {
    /// Validates `records` (one batch), decides on it and hands it to the log, all without waiting: the order of calls
    /// is the order of offsets.
    ///
    /// # Errors
    /// Nothing was appended; the code says why. Records that a rule refuses are listed with it.
    pub fn append(&self, now: Now, records: &Bytes, request: &AppendRequest) -> Result<PendingAppend, PartitionError> {
        self.try_append(now, records, request).map_err(|error| error.at_log_start(self.brain().log_start()))
    }

    fn try_append(&self, now: Now, records: &Bytes, request: &AppendRequest) -> Result<PendingAppend, PartitionError> {
        assert_ne!(request.origin, Origin::Replication, "a follower's append takes another way");
        self.check_online()?;
        let context = AppendContext {
            origin: request.origin,
            required_acks: request.required_acks,
            expected_leader_epoch: request.expected_leader_epoch,
            transaction_verified: request.transaction_verified,
        };
        self.brain().check_append(&context)?;
        let settings = self.settings();
        let batch = self.validate(now, records, request.origin, &settings)?;
        let marker = end_txn_marker(&batch.header, &batch.bytes);
        let decision = self.brain().prepare_append(&BatchInfo::new(&batch.header, marker), &context)?;
        let log_start_offset = self.brain().log_start();
        let result = match decision {
            AppendDecision::Duplicate(first) => ProduceResult {
                base_offset: first.first_offset(),
                last_offset: first.last_offset,
                log_append_time_ms: first.timestamp,
                log_start_offset,
            },
            AppendDecision::Append(plan) => {
                self.write(now, &batch, &plan)?;
                let append_time = settings.client.timestamp_type == records::TimestampType::LogAppendTime;
                ProduceResult {
                    base_offset: plan.base_offset,
                    last_offset: plan.last_offset,
                    log_append_time_ms: if append_time { batch.max_timestamp } else { -1 },
                    log_start_offset,
                }
            }
        };
        Ok(PendingAppend { partition: self.clone(), result, required_acks: request.required_acks })
    }

    /// Hands a decided batch to the log and lets the brain know.
    fn write(&self, now: Now, batch: &ValidatedBatch, plan: &replica::AppendPlan) -> Result<(), PartitionError> {
        let inner: &Rc<Inner> = &self.0;
        inner.log.append(&AppendBatch {
            bytes: batch.bytes.clone(),
            header: batch.header,
            base_offset: plan.base_offset,
            leader_epoch: plan.leader_epoch,
        })?;
        let ended = inner.brain.borrow_mut().commit_append(now, plan);
        if let Some(txn) = ended.filter(|txn| !txn.committed) {
            inner.log.note_aborted(crate::recovery::aborted_txn(&txn));
        }
        inner.bytes.borrow_mut().appended(plan.last_offset + 1, batch.bytes.len() as u64);
        inner.shared.fetches.progressed(inner.id.key, &inner.bytes.borrow());
        Ok(())
    }

    /// Applies the topic's rules to the one batch in `records`.
    fn validate(
        &self,
        now: Now,
        records: &Bytes,
        origin: Origin,
        settings: &Settings,
    ) -> Result<ValidatedBatch, PartitionError> {
        let rules = if origin == Origin::Client { &settings.client } else { &settings.coordinator };
        let batch = self.0.shared.validator.borrow_mut().validate(records, now.wall_ms, rules)?;
        if batch.bytes.len() > settings.segment_bytes {
            let message = format!(
                "a batch of {} bytes does not fit a segment of {} bytes in {}",
                batch.bytes.len(),
                settings.segment_bytes,
                rules.topic_partition
            );
            return Err(PartitionError::new(ErrorCode::RECORD_LIST_TOO_LARGE, message));
        }
        Ok(batch)
    }
}
