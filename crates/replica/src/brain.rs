use base::{BrokerId, LeaderEpoch, Now, Offset, ProducerId};

use crate::batch::{BatchInfo, Origin};
use crate::entry::BatchMeta;
use crate::epochs::{EpochCache, EpochEnd};
use crate::error::{AppendError, LeadershipError, ReadError};
use crate::fetch::{FetchBounds, FetchCheck, FetchVerdict, Isolation};
use crate::producers::{CompletedTxn, ProducerCheck, ProducerStates};

/// Who leads a partition and who follows, as the controller decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leadership {
    /// Leading broker, -1 for none.
    pub leader: BrokerId,
    /// Number of the leader's term.
    pub leader_epoch: LeaderEpoch,
    /// Number of the controller's last change to the partition.
    pub partition_epoch: i32,
    /// All replicas.
    pub replicas: Vec<BrokerId>,
    /// The replicas in sync.
    pub isr: Vec<BrokerId>,
}

/// Settings that may change while the replica lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaConfig {
    /// `min.insync.replicas` of the topic.
    pub min_insync_replicas: usize,
}

/// A replica as its log was found at start-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaInit {
    /// This broker.
    pub local_id: BrokerId,
    /// Settings.
    pub config: ReplicaConfig,
    /// First offset of the log.
    pub log_start: Offset,
    /// Offset behind its last record.
    pub log_end: Offset,
    /// Offset below which the durability promise holds.
    pub own_end: Offset,
    /// Last known high watermark; the log start if there is none.
    pub high_watermark: Offset,
    /// History of leader epochs.
    pub epochs: EpochCache,
    /// Producers after all batches of the log.
    pub producers: ProducerStates,
}

/// The circumstances of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendContext {
    /// Where the batch comes from.
    pub origin: Origin,
    /// `acks` of the request: -1, 0 or 1.
    pub required_acks: i16,
    /// Leader epoch the caller expects, `None` if it does not care.
    pub expected_leader_epoch: Option<LeaderEpoch>,
    /// The transaction coordinator vouched for the producer's transaction here.
    pub transaction_verified: bool,
}

/// A batch the brain agreed to: where it goes. Own data, so that nothing stays borrowed while it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendPlan {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Leader epoch to stamp.
    pub leader_epoch: LeaderEpoch,
    batch: BatchInfo,
}

/// What to do with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendDecision {
    /// Write it as planned, then call [`Replica::commit_append`].
    Append(AppendPlan),
    /// It is in the log already: answer as the first attempt was, once the high watermark allows.
    Duplicate(BatchMeta),
}

/// How far another replica has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Follower {
    id: BrokerId,
    log_end: Offset,
}

/// The brain of one replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replica {
    local_id: BrokerId,
    config: ReplicaConfig,
    leadership: Leadership,
    /// Our log end when we became leader of the current epoch.
    epoch_start: Offset,
    log_start: Offset,
    log_end: Offset,
    own_end: Offset,
    high_watermark: Offset,
    followers: Vec<Follower>,
    epochs: EpochCache,
    producers: ProducerStates,
}

impl Replica {
    /// A replica that neither leads nor follows until the controller says who leads.
    pub fn new(init: ReplicaInit) -> Replica {
        assert!(
            init.log_start <= init.own_end && init.own_end <= init.log_end,
            "log start {}, own end {} and log end {} are out of order",
            init.log_start,
            init.own_end,
            init.log_end
        );
        Replica {
            local_id: init.local_id,
            config: init.config,
            leadership: Leadership {
                leader: -1,
                leader_epoch: -1,
                partition_epoch: -1,
                replicas: Vec::new(),
                isr: Vec::new(),
            },
            epoch_start: init.log_end,
            log_start: init.log_start,
            log_end: init.log_end,
            own_end: init.own_end,
            high_watermark: init.high_watermark.clamp(init.log_start, init.own_end),
            followers: Vec::new(),
            epochs: init.epochs,
            producers: init.producers,
        }
    }

    /// Takes over a decision of the controller; one that is older than the known one is ignored. Returns the leader
    /// epoch and its first offset when this replica begins to lead in a new epoch, for the log's checkpoint.
    pub fn set_leadership(&mut self, leadership: Leadership) -> Option<(LeaderEpoch, Offset)> {
        let current = (self.leadership.leader_epoch, self.leadership.partition_epoch);
        if (leadership.leader_epoch, leadership.partition_epoch) < current {
            return None;
        }
        let new_epoch = leadership.leader_epoch > self.leadership.leader_epoch;
        self.leadership = leadership;
        let mut began = None;
        if !self.is_leader() {
            self.followers.clear();
        } else {
            if new_epoch {
                self.epoch_start = self.log_end;
                self.epochs.assign(self.leadership.leader_epoch, self.log_end);
                began = Some((self.leadership.leader_epoch, self.log_end));
            }
            self.keep_followers_of_assignment(new_epoch);
        }
        self.raise_high_watermark();
        began
    }

    fn keep_followers_of_assignment(&mut self, new_epoch: bool) {
        let known = std::mem::take(&mut self.followers);
        for &id in self.leadership.replicas.iter().filter(|id| **id != self.local_id) {
            let old = known.iter().find(|f| f.id == id && !new_epoch);
            self.followers.push(Follower { id, log_end: old.map_or(-1, |f| f.log_end) });
        }
    }

    /// Changes the settings; takes effect with the next decision.
    pub fn set_config(&mut self, config: ReplicaConfig) {
        self.config = config;
        self.raise_high_watermark();
    }

    /// True if this broker leads the partition.
    pub fn is_leader(&self) -> bool {
        self.leadership.leader == self.local_id
    }

    /// The controller's last decision.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// `min.insync.replicas`, but never more than there are replicas.
    pub fn effective_min_isr(&self) -> usize {
        self.config.min_insync_replicas.min(self.leadership.replicas.len())
    }

    /// True if fewer replicas are in sync than acks=all asks for.
    pub fn under_min_isr(&self) -> bool {
        self.leadership.isr.len() < self.effective_min_isr()
    }

    /// Compares the caller's leader epoch with ours (KIP-320).
    ///
    /// # Errors
    /// FENCED or UNKNOWN leader epoch; NOT_LEADER_OR_FOLLOWER when `leader_only` and this replica does not lead.
    pub fn check_leader(&self, expected: Option<LeaderEpoch>, leader_only: bool) -> Result<(), LeadershipError> {
        let current = self.leadership.leader_epoch;
        match expected {
            Some(epoch) if epoch < current => return Err(LeadershipError::FencedLeaderEpoch { epoch, current }),
            Some(epoch) if epoch > current => return Err(LeadershipError::UnknownLeaderEpoch { epoch, current }),
            _ => {}
        }
        if leader_only && !self.is_leader() {
            let (broker, leader) = (self.local_id, self.leadership.leader);
            return Err(LeadershipError::NotLeader { broker, leader, epoch: current });
        }
        Ok(())
    }

    /// Whether a leader's append is welcome at all, apart from what the batch holds. Asked before the records are
    /// looked at, so that a replica that does not lead spends nothing on them.
    ///
    /// # Errors
    /// Wrong acks, not the leader, or too few replicas in sync.
    pub fn check_append(&self, context: &AppendContext) -> Result<(), AppendError> {
        if !matches!(context.required_acks, -1..=1) {
            return Err(AppendError::InvalidRequiredAcks { acks: context.required_acks });
        }
        self.check_leader(context.expected_leader_epoch, true)?;
        if context.required_acks == -1 && self.under_min_isr() {
            let isr_size = self.leadership.isr.len();
            return Err(AppendError::NotEnoughReplicas { isr_size, min_isr: self.effective_min_isr() });
        }
        Ok(())
    }

    /// Decides on a batch as leader; changes nothing.
    ///
    /// # Errors
    /// An [`AppendError`]; the log stays as it is.
    pub fn prepare_append(&self, batch: &BatchInfo, context: &AppendContext) -> Result<AppendDecision, AppendError> {
        self.check_append(context)?;
        let base_offset = self.log_end;
        let records = i64::from(batch.last_offset_delta) + 1;
        // One offset stays free behind the last record, because ends are exclusive.
        if base_offset > Offset::MAX - records {
            return Err(AppendError::OffsetsExhausted { log_end: base_offset, records });
        }
        match self.producers.check(context.origin, batch, base_offset, context.transaction_verified)? {
            ProducerCheck::Duplicate(first_attempt) => Ok(AppendDecision::Duplicate(first_attempt)),
            ProducerCheck::Fresh => Ok(AppendDecision::Append(AppendPlan {
                base_offset,
                last_offset: base_offset + records - 1,
                leader_epoch: self.leadership.leader_epoch,
                batch: *batch,
            })),
        }
    }

    /// The plan's batch is in the log (in memory at least): moves the end and takes in the producer. Returns the
    /// transaction it ended; an aborted one belongs into the log's transaction index.
    pub fn commit_append(&mut self, now: Now, plan: &AppendPlan) -> Option<CompletedTxn> {
        assert_eq!(plan.base_offset, self.log_end, "a plan made for another end of the log");
        self.replay(now, plan.base_offset, plan.leader_epoch, &plan.batch)
    }

    /// Takes in a batch that another replica's leader, or an earlier life of this one, put at `base_offset`.
    pub fn replay(
        &mut self,
        now: Now,
        base_offset: Offset,
        leader_epoch: LeaderEpoch,
        batch: &BatchInfo,
    ) -> Option<CompletedTxn> {
        assert!(base_offset >= self.log_end, "batch at {base_offset} inside of a log that ends at {}", self.log_end);
        self.epochs.assign(leader_epoch, base_offset);
        self.log_end = base_offset + Offset::from(batch.last_offset_delta) + 1;
        self.producers.replay(now.wall_ms, base_offset, batch)
    }

    /// Everything below `own_end` is as safe here as the durability rung promises. True if the high watermark moved.
    pub fn advance_own_end(&mut self, own_end: Offset) -> bool {
        assert!(own_end <= self.log_end, "own end {own_end} behind the log end {}", self.log_end);
        self.own_end = self.own_end.max(own_end);
        self.raise_high_watermark()
    }

    /// A follower fetches from `log_end`, hence has everything below. True if the high watermark moved.
    pub fn follower_fetched(&mut self, follower: BrokerId, log_end: Offset) -> bool {
        let log_end = log_end.min(self.log_end);
        match self.followers.iter_mut().find(|f| f.id == follower) {
            Some(f) => f.log_end = f.log_end.max(log_end),
            None => return false,
        }
        self.raise_high_watermark()
    }

    /// The leader told this follower its high watermark. True if ours moved.
    pub fn follow_high_watermark(&mut self, leader_high_watermark: Offset) -> bool {
        let bound = leader_high_watermark.min(self.own_end);
        !self.is_leader() && self.raise_to(bound)
    }

    fn raise_high_watermark(&mut self) -> bool {
        if !self.is_leader() || self.under_min_isr() {
            return false;
        }
        let in_sync = |id: &BrokerId| self.leadership.isr.contains(id);
        let others = self.followers.iter().filter(|f| in_sync(&f.id)).map(|f| f.log_end).min();
        self.raise_to(self.own_end.min(others.unwrap_or(Offset::MAX)))
    }

    fn raise_to(&mut self, offset: Offset) -> bool {
        if offset <= self.high_watermark {
            return false;
        }
        self.high_watermark = offset;
        self.producers.on_high_watermark(offset);
        true
    }

    /// Decides on a fetch; changes nothing.
    ///
    /// # Errors
    /// Wrong leader or epoch, or an offset outside of the log.
    pub fn check_fetch(&self, check: &FetchCheck) -> Result<FetchVerdict, ReadError> {
        self.check_leader(check.current_leader_epoch, check.leader_only)?;
        let bounds = self.bounds(check.isolation);
        let offset = check.offset;
        let out_of_range = ReadError::OffsetOutOfRange { offset, log_start: self.log_start, log_end: self.log_end };
        if let Some(epoch) = check.last_fetched_epoch {
            let end = self.epochs.end_of(epoch, self.log_end).ok_or(ReadError::UnknownFetchedEpoch { epoch })?;
            if offset < self.log_start {
                return Err(out_of_range);
            }
            if end.epoch < epoch || end.end_offset < offset {
                return Ok(FetchVerdict::Diverging(end, bounds));
            }
        }
        if offset < self.log_start || offset > self.log_end {
            return Err(out_of_range);
        }
        Ok(FetchVerdict::Read(bounds))
    }

    /// The offsets a reader of this isolation sees now.
    pub fn bounds(&self, isolation: Isolation) -> FetchBounds {
        let last_stable_offset = self.last_stable_offset();
        FetchBounds {
            upper: match isolation {
                Isolation::LogEnd => self.log_end,
                Isolation::ReadUncommitted => self.high_watermark,
                Isolation::ReadCommitted => last_stable_offset,
            },
            high_watermark: self.high_watermark,
            last_stable_offset,
            log_start: self.log_start,
            log_end: self.log_end,
        }
    }

    /// OFFSET_NOT_AVAILABLE while a new leader's high watermark is below the first offset of its epoch (KIP-207).
    ///
    /// # Errors
    /// [`ReadError::OffsetNotAvailable`].
    pub fn check_offsets_available(&self) -> Result<(), ReadError> {
        if self.is_leader() && self.epoch_start > self.high_watermark {
            return Err(ReadError::OffsetNotAvailable {
                high_watermark: self.high_watermark,
                epoch_start: self.epoch_start,
                epoch: self.leadership.leader_epoch,
            });
        }
        Ok(())
    }

    /// Where `epoch` ended in this log; `None` when that is unknown.
    pub fn end_of_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        self.epochs.end_of(epoch, self.log_end)
    }

    /// Moves the log start (retention, DeleteRecords) and with it whatever lay below. True if it moved.
    pub fn advance_log_start(&mut self, log_start: Offset) -> bool {
        assert!(log_start <= self.log_end, "log start {log_start} behind the log end {}", self.log_end);
        if log_start <= self.log_start {
            return false;
        }
        self.log_start = log_start;
        self.epochs.truncate_start(log_start);
        if log_start > self.high_watermark {
            self.raise_to(log_start);
        }
        true
    }

    /// Cuts everything at or behind `end` (a follower that diverged). The producers have to be rebuilt by the caller,
    /// from a snapshot and the batches behind it, since batches cannot be taken back.
    pub fn truncate_end(&mut self, end: Offset, producers: ProducerStates) {
        assert!(end >= self.log_start, "cut at {end} below the log start {}", self.log_start);
        self.log_end = self.log_end.min(end);
        self.own_end = self.own_end.min(end);
        self.high_watermark = self.high_watermark.min(end);
        self.epochs.truncate_end(end);
        self.producers = producers;
    }

    /// Offset below which every transaction is decided; never above the high watermark.
    pub fn last_stable_offset(&self) -> Offset {
        let unstable = self.producers.first_unstable_offset().unwrap_or(Offset::MAX);
        unstable.max(self.log_start).min(self.high_watermark)
    }

    /// High watermark: offset below which every in-sync replica has everything.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// First offset of the log.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// Offset behind the last record.
    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    /// Offset below which the local durability promise holds.
    pub fn own_end(&self) -> Offset {
        self.own_end
    }

    /// History of leader epochs.
    pub fn epochs(&self) -> &EpochCache {
        &self.epochs
    }

    /// The producers.
    pub fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Fills up a producer's window; see [`ProducerStates::remember_older`].
    pub fn remember_older(&mut self, producer_id: ProducerId, older: &[BatchMeta]) {
        self.producers.remember_older(producer_id, older);
    }

    /// Forgets idle producers; see [`ProducerStates::expire`].
    pub fn expire_producers(&mut self, now: Now, expiration_ms: i64) -> usize {
        self.producers.expire(now.wall_ms, expiration_ms)
    }
}

#[cfg(test)]
#[path = "brain_tests.rs"]
mod tests;
