use base::{LeaderEpoch, Now, Offset};
use bytes::Bytes;
use log::{AppendBatch, LogError};
use records::ValidatedBatch;
use replica::{AppendContext, AppendDecision, AppendPlan, BatchInfo, BatchMeta, Origin};
use wire::ErrorCode;

use crate::backlog;
use crate::error::PartitionError;
use crate::look_back;
use crate::partition::Partition;
use crate::pending::{PendingAppend, Stage};
use crate::recovery::{aborted_txn, end_txn_marker};

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

    fn context(&self) -> AppendContext {
        AppendContext {
            origin: self.origin,
            required_acks: self.required_acks,
            expected_leader_epoch: self.expected_leader_epoch,
            transaction_verified: self.transaction_verified,
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

impl ProduceResult {
    /// Nothing is known yet; also what a failed append is answered with.
    pub const UNKNOWN: ProduceResult =
        ProduceResult { base_offset: -1, last_offset: -1, log_append_time_ms: -1, log_start_offset: -1 };

    /// What the retry of a batch is answered with.
    pub(crate) fn of_duplicate(first_attempt: &BatchMeta, log_start_offset: Offset) -> ProduceResult {
        ProduceResult {
            base_offset: first_attempt.first_offset(),
            last_offset: first_attempt.last_offset,
            log_append_time_ms: first_attempt.timestamp,
            log_start_offset,
        }
    }
}

impl Partition {
    /// Validates `records` (one batch), decides on it and hands it to the log, all without waiting: the order of calls
    /// is the order of offsets. When the core has more unwritten bytes than its budget allows, the append is queued
    /// instead, in the same order.
    ///
    /// # Errors
    /// Nothing was appended; the code says why. Records that a rule refuses are listed with it.
    pub fn append(&self, now: Now, records: &Bytes, request: &AppendRequest) -> Result<PendingAppend, PartitionError> {
        let stage = self.try_append(now, records, request).map_err(|error| self.with_log_start(error))?;
        Ok(PendingAppend { partition: self.clone(), required_acks: request.required_acks, stage })
    }

    fn try_append(&self, now: Now, records: &Bytes, request: &AppendRequest) -> Result<Stage, PartitionError> {
        assert_ne!(request.origin, Origin::Replication, "a follower's append takes another way");
        self.check_open()?;
        self.brain().check_append(&request.context())?;
        let batch = self.validate(now, records, request.origin)?;
        let is_waiting = self.0.shared.backlog.borrow().is_waiting();
        let decision = if is_waiting { None } else { self.decide(now, &batch, request) };
        match decision {
            None => backlog::push(self, batch, *request).map(Stage::Queued),
            Some(Ok(result)) => Ok(Stage::Decided(result)),
            Some(Err(error)) => match look_back::begin(self, &batch, &error) {
                Some(slot) => Ok(Stage::Queued(slot)),
                None => Err(error),
            },
        }
    }

    /// Decides on a valid batch and hands it to the log; `None` when that has no room.
    pub(crate) fn decide(
        &self,
        now: Now,
        batch: &ValidatedBatch,
        request: &AppendRequest,
    ) -> Option<Result<ProduceResult, PartitionError>> {
        let decision = self.check_open().and_then(|()| {
            let info = BatchInfo::new(&batch.header, end_txn_marker(&batch.header, &batch.bytes));
            Ok(self.brain().prepare_append(&info, &request.context())?)
        });
        let log_start_offset = self.brain().log_start();
        Some(Ok(match decision {
            Err(error) => return Some(Err(self.with_log_start(error))),
            Ok(AppendDecision::Duplicate(first)) => ProduceResult::of_duplicate(&first, log_start_offset),
            Ok(AppendDecision::Append(plan)) => {
                match self.write(now, batch, &plan) {
                    Ok(()) => {}
                    Err(LogError::Overloaded { .. }) => return None,
                    Err(error) => return Some(Err(self.failed(error))),
                }
                let append_time = batch.header.attributes.timestamp_type() == records::TimestampType::LogAppendTime;
                ProduceResult {
                    base_offset: plan.base_offset,
                    last_offset: plan.last_offset,
                    log_append_time_ms: if append_time { batch.max_timestamp } else { -1 },
                    log_start_offset,
                }
            }
        }))
    }

    /// Hands a decided batch to the log and lets the brain know.
    fn write(&self, now: Now, batch: &ValidatedBatch, plan: &AppendPlan) -> Result<(), LogError> {
        let inner = &self.0;
        inner.log.append(&AppendBatch {
            bytes: batch.bytes.clone(),
            header: batch.header,
            base_offset: plan.base_offset,
            leader_epoch: plan.leader_epoch,
        })?;
        let ended = inner.brain.borrow_mut().commit_append(now, plan);
        if let Some(txn) = ended.filter(|txn| !txn.committed) {
            inner.log.note_aborted(aborted_txn(&txn));
        }
        inner.bytes.borrow_mut().appended(plan.last_offset + 1, batch.bytes.len() as u64);
        inner.shared.fetches.progressed(inner.id.key, &inner.bytes.borrow());
        Ok(())
    }

    /// Applies the topic's rules to the one batch in `records`.
    fn validate(&self, now: Now, records: &Bytes, origin: Origin) -> Result<ValidatedBatch, PartitionError> {
        let settings = self.settings();
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

    fn with_log_start(&self, error: PartitionError) -> PartitionError {
        error.at_log_start(self.brain().log_start())
    }
}
