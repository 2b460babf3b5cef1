use std::collections::BTreeMap;

use base::{Now, Offset, Uuid};
use thiserror::Error;

use crate::control::ControlRecord;
use crate::election::ElectionState;
use crate::voters::{Endpoint, History, ReplicaKey, Voter, VoterSet};
use crate::{KRAFT_VERSION_DYNAMIC, KRAFT_VERSION_STATIC};

/// A point of the metadata log: everything below `offset`, whose last record was written in `epoch`. Names snapshots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OffsetAndEpoch {
    /// First offset that is not covered.
    pub offset: Offset,
    /// Term of the last record that is.
    pub epoch: i32,
}

/// What the log holds when the machine starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPosition {
    /// First offset kept.
    pub start: Offset,
    /// Offset after the last record. All of it is durable.
    pub end: Offset,
    /// Term of the last batch, of the snapshot when the log is empty, else 0.
    pub last_epoch: i32,
}

/// Who this replica is.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// `node.id`.
    pub node_id: i32,
    /// Id of the metadata log's directory.
    pub directory_id: Uuid,
    /// `controller.quorum.voters`; empty when voters are in the log.
    pub static_voters: VoterSet,
    /// This replica's own controller listeners.
    pub endpoints: Vec<Endpoint>,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The leader's batch stands in the log, which now ends at `end`; it need not be durable yet.
    Appended {
        /// Offset after the batch.
        end: Offset,
    },
    /// The log is durable up to `end`.
    Durable {
        /// Offset after the last durable record.
        end: Offset,
    },
    /// A snapshot was written durably or received.
    SnapshotTaken(OffsetAndEpoch),
    /// The log begins at this offset from now on.
    LogTrimmed {
        /// First offset kept.
        start: Offset,
    },
    /// The voters are to be kept in the log from now on: `kraft.version` goes from 0 to 1.
    UpgradeToDynamicVoters,
}

/// Something to do. Actions are carried out one after the other, and none before the one ahead of it is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write `quorum-state` durably in this version of its format.
    PersistElection {
        /// The content.
        state: ElectionState,
        /// 0 or 1.
        version: i16,
    },
    /// This replica leads the term.
    BecameLeader {
        /// The term.
        epoch: i32,
        /// Offset of the first record of the term.
        start: Offset,
    },
    /// Append one control batch, then report [`Event::Appended`] and [`Event::Durable`].
    AppendControl {
        /// Offset of its first record.
        base_offset: Offset,
        /// Term to write it in.
        epoch: i32,
        /// Timestamp of its records, ms since the epoch.
        timestamp_ms: i64,
        /// Its records.
        records: Vec<ControlRecord>,
    },
    /// Everything below this offset is committed.
    Committed {
        /// The high watermark.
        high_watermark: Offset,
    },
}

/// Why the machine cannot start, or refuses an event.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RaftError {
    /// Neither the configuration nor the log names voters.
    #[error(
        "no voters: controller.quorum.voters is empty and neither the metadata log nor a snapshot holds a voter set; \
         format the directory with --standalone or --initial-controllers"
    )]
    NoVoters,
    /// The voters do not include this replica.
    #[error("node {id} with directory {directory} is not one of the voters {voters}")]
    NotAVoter {
        /// `node.id`.
        id: i32,
        /// The directory's id.
        directory: Uuid,
        /// The voters.
        voters: String,
    },
    /// A quorum of several voters needs messages that are not there yet.
    #[error("the voters {voters} are more than one, which this release does not support")]
    SeveralVoters {
        /// The voters.
        voters: String,
    },
    /// The epoch has reached the largest number.
    #[error("the quorum epoch {0} cannot grow any more")]
    EpochExhausted(i32),
}

/// One voter as DescribeQuorum shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VoterView {
    /// The voter.
    pub voter: Voter,
    /// Where its log ends; -1 when unknown.
    pub log_end: Offset,
}

/// The quorum as DescribeQuorum shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuorumView {
    /// The leader.
    pub leader_id: i32,
    /// The term.
    pub epoch: i32,
    /// The high watermark; -1 before the first commit of the term.
    pub high_watermark: Offset,
    /// Voters in order of their ids.
    pub voters: Vec<VoterView>,
}

/// The machine. It leads from [`Raft::start`] on, because a single voter elects itself.
#[derive(Debug)]
pub struct Raft {
    config: RaftConfig,
    voters: History<VoterSet>,
    kraft_version: History<i16>,
    epoch: i32,
    epoch_start: Offset,
    log_start: Offset,
    log_end: Offset,
    /// Up to where each voter holds the log durably.
    acknowledged: BTreeMap<i32, Offset>,
    high_watermark: Option<Offset>,
    latest_snapshot: Option<OffsetAndEpoch>,
}

impl Raft {
    /// A machine that has read nothing yet. Feed it the control records of the snapshot and the log with
    /// [`Raft::replay`], then call [`Raft::start`].
    pub fn new(config: RaftConfig) -> Raft {
        let initial = (!config.static_voters.is_empty()).then(|| config.static_voters.clone());
        Raft {
            config,
            voters: History::new(initial),
            kraft_version: History::new(Some(KRAFT_VERSION_STATIC)),
            epoch: 0,
            epoch_start: 0,
            log_start: 0,
            log_end: 0,
            acknowledged: BTreeMap::new(),
            high_watermark: None,
            latest_snapshot: None,
        }
    }

    /// Takes in a control record found at `offset` of the log. Records of a snapshot count as standing at the last offset
    /// the snapshot covers, which is -1 for the one that formatting writes.
    pub fn replay(&mut self, offset: Offset, record: &ControlRecord) {
        match record {
            ControlRecord::KraftVersion(level) => self.kraft_version.set(offset, *level),
            ControlRecord::Voters(voters) => self.voters.set(offset, voters.clone()),
            ControlRecord::LeaderChange { .. }
            | ControlRecord::SnapshotHeader { .. }
            | ControlRecord::SnapshotFooter => {}
        }
    }

    /// Holds the election once everything is read. The new term is above every term seen, whether or not the last one
    /// was ours: a record is then named by its offset and term for ever, even when its unsynced tail was lost.
    ///
    /// # Errors
    /// When the voters are unknown, are several, or do not include this replica.
    pub fn start(
        &mut self,
        now: Now,
        election: Option<ElectionState>,
        log: LogPosition,
        snapshot: Option<OffsetAndEpoch>,
    ) -> Result<Vec<Action>, RaftError> {
        let key = ReplicaKey { id: self.config.node_id, directory_id: self.config.directory_id };
        let (voters_offset, voters) = self.voters.last().ok_or(RaftError::NoVoters)?;
        if !voters.contains(key) {
            return Err(RaftError::NotAVoter { id: key.id, directory: key.directory_id, voters: voters.to_string() });
        }
        if voters.len() > 1 {
            return Err(RaftError::SeveralVoters { voters: voters.to_string() });
        }
        let voters = voters.clone();
        let seen = election.map_or(0, |election| election.epoch).max(log.last_epoch);
        self.epoch = seen.checked_add(1).ok_or(RaftError::EpochExhausted(seen))?;
        (self.log_start, self.log_end, self.epoch_start) = (log.start, log.end, log.end);
        self.latest_snapshot = snapshot;
        self.acknowledged.insert(key.id, log.end);

        let version = self.kraft_version();
        // Its own vote is the majority, so the vote and its outcome are one step and are remembered as one.
        let elected = ElectionState {
            epoch: self.epoch,
            leader_id: Some(key.id),
            voted: None,
            voters: voters.iter().map(|voter| voter.key.id).collect(),
        };
        let leader_change = ControlRecord::LeaderChange { leader_id: key.id, voters: elected.voters.clone() };
        let mut records = vec![leader_change];
        let own = Voter::new(key, self.config.endpoints.clone());
        if version >= KRAFT_VERSION_DYNAMIC && (voters_offset < 0 || voters.get(key.id) != Some(&own)) {
            records.push(ControlRecord::KraftVersion(version));
            records.push(ControlRecord::Voters(voters.with(own)));
        }
        Ok(vec![
            Action::PersistElection { state: elected, version },
            Action::BecameLeader { epoch: self.epoch, start: self.epoch_start },
            self.append_control(now, records),
        ])
    }

    /// Takes an event and says what to do.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Action> {
        match event {
            Event::Appended { end } => {
                assert!(end >= self.log_end, "the log went back from {} to {end}", self.log_end);
                self.log_end = end;
                Vec::new()
            }
            Event::Durable { end } => self.durable(end),
            Event::SnapshotTaken(id) => {
                self.latest_snapshot = self.latest_snapshot.max(Some(id));
                Vec::new()
            }
            Event::LogTrimmed { start } => {
                self.log_start = self.log_start.max(start);
                self.voters.trim_before(start);
                self.kraft_version.trim_before(start);
                Vec::new()
            }
            Event::UpgradeToDynamicVoters => self.upgrade(now),
        }
    }

    fn durable(&mut self, end: Offset) -> Vec<Action> {
        assert!(end <= self.log_end, "durable up to {end} of a log that ends at {}", self.log_end);
        let own = self.acknowledged.entry(self.config.node_id).or_insert(end);
        *own = (*own).max(end);
        let Some((_, voters)) = self.voters.last() else { return Vec::new() };
        let mut ends: Vec<Offset> =
            voters.iter().map(|voter| self.acknowledged.get(&voter.key.id).copied().unwrap_or(-1)).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let Some(candidate) = ends.get(voters.majority() - 1).copied() else { return Vec::new() };
        // Records of earlier terms are committed only together with one of this term.
        if candidate <= self.epoch_start || self.high_watermark.is_some_and(|current| candidate <= current) {
            return Vec::new();
        }
        self.high_watermark = Some(candidate);
        vec![Action::Committed { high_watermark: candidate }]
    }

    fn upgrade(&mut self, now: Now) -> Vec<Action> {
        if self.kraft_version() >= KRAFT_VERSION_DYNAMIC {
            return Vec::new();
        }
        let key = ReplicaKey { id: self.config.node_id, directory_id: self.config.directory_id };
        let own = Voter::new(key, self.config.endpoints.clone());
        let voters = self.voters().with(own);
        let records = vec![ControlRecord::KraftVersion(KRAFT_VERSION_DYNAMIC), ControlRecord::Voters(voters)];
        vec![self.append_control(now, records)]
    }

    fn append_control(&mut self, now: Now, records: Vec<ControlRecord>) -> Action {
        let base_offset = self.log_end;
        for (offset, record) in (base_offset..).zip(&records) {
            self.replay(offset, record);
        }
        Action::AppendControl { base_offset, epoch: self.epoch, timestamp_ms: now.wall_ms, records }
    }

    /// The term.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Offset that the next record gets.
    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    /// First offset kept.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// Everything below is committed; `None` before the first commit of the term.
    pub fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// The newest snapshot.
    pub fn latest_snapshot(&self) -> Option<OffsetAndEpoch> {
        self.latest_snapshot
    }

    /// The level of `kraft.version` after the last record.
    pub fn kraft_version(&self) -> i16 {
        self.kraft_version.last().map_or(KRAFT_VERSION_STATIC, |(_, level)| *level)
    }

    /// The voters after the last record.
    pub fn voters(&self) -> VoterSet {
        self.voters.last().map(|(_, voters)| voters.clone()).unwrap_or_default()
    }

    /// `kraft.version`, and the voters when they are in the log, as they were after all records below `end`: what a
    /// snapshot that ends there has to hold.
    pub fn quorum_at(&self, end: Offset) -> (i16, Option<VoterSet>) {
        let version = self.kraft_version.before(end).copied().unwrap_or(KRAFT_VERSION_STATIC);
        let voters = (version >= KRAFT_VERSION_DYNAMIC).then(|| self.voters.before(end).cloned()).flatten();
        (version, voters)
    }

    /// The quorum as DescribeQuorum shows it.
    pub fn view(&self) -> QuorumView {
        let voters = self.voters();
        QuorumView {
            leader_id: self.config.node_id,
            epoch: self.epoch,
            high_watermark: self.high_watermark.unwrap_or(-1),
            voters: voters.iter().map(|voter| self.voter_view(voter)).collect(),
        }
    }

    fn voter_view(&self, voter: &Voter) -> VoterView {
        let own = voter.key.id == self.config.node_id;
        let known = self.acknowledged.get(&voter.key.id).copied().unwrap_or(-1);
        VoterView { voter: voter.clone(), log_end: if own { self.log_end } else { known } }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
