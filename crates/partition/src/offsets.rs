use base::{LeaderEpoch, Offset, ProducerId};
use replica::Isolation;
use wire::ErrorCode;

use crate::error::PartitionError;
use crate::partition::Partition;

/// The special timestamps of ListOffsets.
pub mod timestamp {
    /// Offset behind the last record the caller may see.
    pub const LATEST: i64 = -1;
    /// First offset of the log.
    pub const EARLIEST: i64 = -2;
    /// The record with the largest timestamp (KIP-734).
    pub const MAX_TIMESTAMP: i64 = -3;
    /// First offset that is on this broker's disk (KIP-405).
    pub const EARLIEST_LOCAL: i64 = -4;
    /// Last offset in remote storage (KIP-1005).
    pub const LATEST_TIERED: i64 = -5;
    /// First offset that is not yet in remote storage (KIP-1023).
    pub const EARLIEST_PENDING_UPLOAD: i64 = -6;
}

/// What ListOffsets asks of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetQuery {
    /// A time in milliseconds, or one of [`timestamp`].
    pub timestamp: i64,
    /// How far the caller may look; [`Isolation::LogEnd`] for replicas.
    pub isolation: Isolation,
    /// Leader epoch the caller knows, `None` for -1.
    pub current_leader_epoch: Option<LeaderEpoch>,
}

/// The answer to an [`OffsetQuery`]: -1 throughout when no record matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetAnswer {
    /// Timestamp of the record, -1 when the question was not about one.
    pub timestamp: i64,
    /// The offset, -1 for none.
    pub offset: Offset,
    /// Leader epoch of the record at that offset, -1 if unknown.
    pub leader_epoch: LeaderEpoch,
}

impl OffsetAnswer {
    /// No record matches.
    pub const NONE: OffsetAnswer = OffsetAnswer { timestamp: -1, offset: -1, leader_epoch: -1 };
}

/// Where a leader epoch ended; -1 twice when this log cannot tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochAnswer {
    /// Largest known epoch that is not larger than the one asked for.
    pub leader_epoch: LeaderEpoch,
    /// Offset behind its last record.
    pub end_offset: Offset,
}

/// One active producer (DescribeProducers, KIP-664).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerInfo {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence of its last record, -1 if none is known.
    pub last_sequence: i32,
    /// Timestamp of its last batch or marker, milliseconds.
    pub last_timestamp: i64,
    /// Epoch of the coordinator of its last transaction, -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction, -1 for none.
    pub current_txn_start_offset: Offset,
}

/// Size of a replica (DescribeLogDirs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogDirInfo {
    /// Bytes of all segments.
    pub size_bytes: u64,
    /// By how many offsets the log is behind the high watermark; 0 for a leader.
    pub offset_lag: i64,
}

impl Partition {
    /// Answers ListOffsets.
    ///
    /// # Errors
    /// Wrong leader or epoch; OFFSET_NOT_AVAILABLE right after a leader change (KIP-207; to be sent as
    /// LEADER_NOT_AVAILABLE before v5); KAFKA_STORAGE_ERROR.
    pub async fn list_offsets(&self, query: &OffsetQuery) -> Result<OffsetAnswer, PartitionError> {
        self.check_online()?;
        self.brain().check_leader(query.current_leader_epoch, true)?;
        match query.timestamp {
            timestamp::LATEST => self.latest(query.isolation),
            timestamp::EARLIEST | timestamp::EARLIEST_LOCAL => Ok(self.earliest()),
            // Nothing is in remote storage, so there is neither a last offset there nor a first one to go there.
            timestamp::LATEST_TIERED | timestamp::EARLIEST_PENDING_UPLOAD => Ok(OffsetAnswer::NONE),
            _ => self.by_time(query).await,
        }
    }

    fn latest(&self, isolation: Isolation) -> Result<OffsetAnswer, PartitionError> {
        let brain = self.brain();
        if isolation != Isolation::LogEnd {
            brain.check_offsets_available()?;
        }
        let offset = brain.bounds(isolation).upper;
        Ok(OffsetAnswer { timestamp: -1, offset, leader_epoch: brain.leadership().leader_epoch })
    }

    fn earliest(&self) -> OffsetAnswer {
        let brain = self.brain();
        let offset = brain.log_start();
        let leader_epoch = brain.epochs().epoch_of(offset).unwrap_or(-1);
        OffsetAnswer { timestamp: -1, offset, leader_epoch }
    }

    async fn by_time(&self, query: &OffsetQuery) -> Result<OffsetAnswer, PartitionError> {
        let (upper, log_end, available) = {
            let brain = self.brain();
            let bounds = brain.bounds(query.isolation);
            (bounds.upper, bounds.log_end, brain.check_offsets_available())
        };
        let found = if query.timestamp == timestamp::MAX_TIMESTAMP {
            self.0.log.max_timestamp().await
        } else {
            self.0.log.find_timestamp(query.timestamp, log_end).await
        };
        let Some(found) = found.map_err(|error| self.failed(error))? else { return Ok(OffsetAnswer::NONE) };
        if found.offset < upper {
            let (timestamp, offset, leader_epoch) = (found.timestamp, found.offset, found.leader_epoch);
            return Ok(OffsetAnswer { timestamp, offset, leader_epoch });
        }
        // The record exists but the caller may not see it yet.
        if query.isolation != Isolation::LogEnd {
            available?;
        }
        Ok(OffsetAnswer::NONE)
    }

    /// Answers OffsetForLeaderEpoch.
    ///
    /// # Errors
    /// Wrong leader or epoch, or a failed log.
    pub fn offset_for_epoch(
        &self,
        current_leader_epoch: Option<LeaderEpoch>,
        epoch: LeaderEpoch,
    ) -> Result<EpochAnswer, PartitionError> {
        self.check_online()?;
        let brain = self.brain();
        brain.check_leader(current_leader_epoch, true)?;
        Ok(match brain.end_of_epoch(epoch) {
            Some(end) => EpochAnswer { leader_epoch: end.epoch, end_offset: end.end_offset },
            None => EpochAnswer { leader_epoch: -1, end_offset: -1 },
        })
    }

    /// Answers DescribeProducers, ordered by producer id.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
    pub fn describe_producers(&self) -> Result<Vec<ProducerInfo>, PartitionError> {
        self.check_online()?;
        let brain = self.brain();
        brain.check_leader(None, true)?;
        let info = |(producer_id, entry): (ProducerId, &replica::ProducerEntry)| ProducerInfo {
            producer_id,
            producer_epoch: entry.epoch(),
            last_sequence: entry.last_sequence(),
            last_timestamp: entry.last_timestamp(),
            coordinator_epoch: entry.coordinator_epoch(),
            current_txn_start_offset: entry.txn_first_offset().unwrap_or(-1),
        };
        Ok(brain.producers().iter().map(info).collect())
    }

    /// Size and lag of this replica.
    pub fn log_dir_info(&self) -> LogDirInfo {
        let brain = self.brain();
        let offset_lag = (brain.high_watermark() - brain.log_end()).max(0);
        LogDirInfo { size_bytes: self.0.log.size_bytes(), offset_lag }
    }

    /// Moves the log start up to `offset`, or to the high watermark for -1, and answers the log start (DeleteRecords).
    /// An offset below the log start is already done.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE for another negative offset or one above the high watermark; POLICY_VIOLATION when
    /// `cleanup.policy` does not allow deletion; NOT_LEADER_OR_FOLLOWER; KAFKA_STORAGE_ERROR.
    pub async fn delete_records(&self, offset: Offset) -> Result<Offset, PartitionError> {
        self.check_online()?;
        let (high_watermark, log_start) = {
            let brain = self.brain();
            brain.check_leader(None, true)?;
            (brain.high_watermark(), brain.log_start())
        };
        if !self.settings().log.delete_policy {
            let message = format!("records of {} cannot be deleted under its cleanup.policy", self.id().dir_name());
            return Err(PartitionError::new(ErrorCode::POLICY_VIOLATION, message));
        }
        let wanted = if offset == -1 { high_watermark } else { offset };
        if wanted < 0 || wanted > high_watermark {
            let message = format!(
                "offset {wanted} is not between 0 and the high watermark {high_watermark} of {}",
                self.id().dir_name()
            );
            return Err(PartitionError::new(ErrorCode::OFFSET_OUT_OF_RANGE, message));
        }
        if wanted > log_start {
            self.0.log.advance_start_offset(wanted).await.map_err(|error| self.failed(error))?;
            self.follow_log_start();
        }
        Ok(self.brain().log_start())
    }

    /// The log's start offset moved: so does the brain's.
    pub(crate) fn follow_log_start(&self) {
        let start = self.0.log.start_offset();
        let moved = self.0.brain.borrow_mut().advance_log_start(start);
        if moved {
            self.on_visible();
        }
    }
}
