//! One change of one partition: who leads, who is in sync, who is eligible, and the record that says so.

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex, TopicId, Uuid};
use metadata::features::MetadataVersion;
use metadata::{LeaderRecoveryState, NO_LEADER, PartitionRegistration, VersionedRecord};
use wire::partition_change_record::PartitionChangeRecord;

/// Value of the leader field that stands for "unchanged".
pub(crate) const LEADER_UNCHANGED: BrokerId = -2;

/// How hard to look for a leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Election {
    /// The first replica if it may lead, else keep the leader.
    Preferred,
    /// Keep the leader, else any replica in sync or eligible.
    Online,
    /// As `Online`, else any live replica, losing what it has not got.
    Unclean,
}

/// What a change has to know besides the partition.
pub(crate) struct ChangeContext<'c> {
    /// Whether a broker may lead or be in sync: it is live, and so is the directory of its replica.
    pub(crate) is_acceptable: &'c dyn Fn(BrokerId) -> bool,
    /// The directory that a broker puts a new replica in.
    pub(crate) default_directory: &'c dyn Fn(BrokerId) -> Uuid,
    /// The cluster's metadata version.
    pub(crate) version: MetadataVersion,
    /// Whether eligible leader replicas are kept (KIP-966).
    pub(crate) elr: bool,
    /// `min.insync.replicas` of the topic, at most its replication factor.
    pub(crate) min_isr: usize,
}

/// The change under construction: the fields start as the partition is and are set to what is wanted.
pub(crate) struct PartitionChange<'c> {
    partition: &'c PartitionRegistration,
    context: &'c ChangeContext<'c>,
    pub(crate) isr: Vec<BrokerId>,
    pub(crate) replicas: Vec<BrokerId>,
    pub(crate) removing: Vec<BrokerId>,
    pub(crate) adding: Vec<BrokerId>,
    pub(crate) recovery_state: LeaderRecoveryState,
    pub(crate) election: Election,
    /// A broker that came back without knowing that it kept everything.
    pub(crate) unclean_shutdown: Option<BrokerId>,
    /// Directories by broker.
    pub(crate) directories: BTreeMap<BrokerId, Uuid>,
    elr: Vec<BrokerId>,
}

struct Elected {
    leader: BrokerId,
    unclean: bool,
}

impl<'c> PartitionChange<'c> {
    pub(crate) fn new(partition: &'c PartitionRegistration, context: &'c ChangeContext<'c>) -> PartitionChange<'c> {
        PartitionChange {
            partition,
            context,
            isr: partition.isr.clone(),
            replicas: partition.replicas.clone(),
            removing: partition.removing_replicas.clone(),
            adding: partition.adding_replicas.clone(),
            recovery_state: partition.leader_recovery_state,
            election: Election::Online,
            unclean_shutdown: None,
            directories: partition.replicas.iter().copied().zip(partition.directories.iter().copied()).collect(),
            elr: partition.elr.clone(),
        }
    }

    /// The record that makes the change, or `None` when nothing changes.
    pub(crate) fn build(mut self, topic_id: TopicId, partition_id: PartitionIndex) -> Option<PartitionChangeRecord> {
        let mut record = PartitionChangeRecord { topic_id, partition_id, ..PartitionChangeRecord::default() };
        let unchanged = record.clone();
        self.complete_reassignment();
        self.find_eligible();
        self.elect(&mut record);
        // A replica that leaves must be told by a new leader epoch, or it would go on fetching.
        let gone = self.partition.replicas.iter().any(|replica| !self.replicas.contains(replica));
        if record.leader == LEADER_UNCHANGED && gone {
            record.leader = self.partition.leader;
        }
        self.set_elr(&mut record);
        self.set_isr(&mut record);
        self.set_last_known(&mut record);
        self.set_assignment(&mut record);
        if self.recovery_state != self.partition.leader_recovery_state {
            record.leader_recovery_state = self.recovery_state.value();
        }
        (record != unchanged).then_some(record)
    }

    /// [`PartitionChange::build`] as a record of the log.
    pub(crate) fn into_record(
        self,
        topic_id: TopicId,
        partition_id: PartitionIndex,
    ) -> Option<VersionedRecord<'static>> {
        let version = self.context.version.partition_record();
        Some((self.build(topic_id, partition_id)?.into(), version))
    }

    /// A running reassignment is over when every replica that stays is in sync.
    fn complete_reassignment(&mut self) {
        if self.removing.is_empty() && self.adding.is_empty() {
            return;
        }
        let stays = |list: &[BrokerId]| -> Vec<BrokerId> {
            list.iter().copied().filter(|replica| !self.removing.contains(replica)).collect()
        };
        let (isr, replicas) = (stays(&self.isr), stays(&self.replicas));
        if isr.is_empty() || replicas.is_empty() || !replicas.iter().all(|replica| isr.contains(replica)) {
            return;
        }
        (self.isr, self.replicas) = (isr, replicas);
        self.removing.clear();
        self.adding.clear();
    }

    /// Members that leave an ISR below its minimum stay eligible: they have everything that was acknowledged.
    fn find_eligible(&mut self) {
        if !self.context.elr {
            return;
        }
        if self.isr.len() >= self.context.min_isr {
            self.elr.clear();
            return;
        }
        let mut candidates: Vec<BrokerId> = self.elr.iter().chain(&self.partition.isr).copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|replica| !self.isr.contains(replica) && self.unclean_shutdown != Some(*replica));
        self.elr = candidates;
    }

    fn may_lead(&self, replica: BrokerId) -> bool {
        let has_everything = self.isr.contains(&replica) || (self.isr.is_empty() && self.elr.contains(&replica));
        has_everything && (self.context.is_acceptable)(replica)
    }

    fn choose_leader(&self) -> Elected {
        let clean = |leader| Elected { leader, unclean: false };
        let preferred = self.replicas.first().copied().filter(|_| self.election == Election::Preferred);
        let in_order = preferred.into_iter().chain([self.partition.leader]).chain(self.replicas.iter().copied());
        for replica in in_order {
            if self.may_lead(replica) {
                return clean(replica);
            }
        }
        if let Some(leader) = self.last_known_leader() {
            return Elected { leader, unclean: true };
        }
        if self.election == Election::Unclean {
            let live = self.replicas.iter().copied().find(|replica| (self.context.is_acceptable)(*replica));
            if let Some(leader) = live {
                return Elected { leader, unclean: true };
            }
        }
        clean(NO_LEADER)
    }

    /// With nobody in sync or eligible, the last leader is the best there is.
    fn last_known_leader(&self) -> Option<BrokerId> {
        let [last] = self.partition.last_known_elr[..] else { return None };
        let nobody = self.elr.is_empty() && self.isr.is_empty();
        (self.context.elr && nobody && (self.context.is_acceptable)(last)).then_some(last)
    }

    fn elect(&mut self, record: &mut PartitionChangeRecord) {
        let Elected { leader, unclean } = self.choose_leader();
        if leader == self.partition.leader {
            return;
        }
        if self.elr.contains(&leader) {
            self.isr = vec![leader];
            self.elr.retain(|replica| *replica != leader);
        }
        record.leader = leader;
        if unclean {
            record.isr = Some(vec![leader]);
            if self.partition.leader_recovery_state != LeaderRecoveryState::Recovering {
                record.leader_recovery_state = LeaderRecoveryState::Recovering.value();
            }
        }
    }

    fn set_elr(&mut self, record: &mut PartitionChangeRecord) {
        // An unclean election makes a new history; nobody is eligible by the old one.
        if record.isr.is_some() || !self.context.elr {
            self.elr.clear();
        }
        if self.elr != self.partition.elr {
            record.eligible_leader_replicas = Some(self.elr.clone());
        }
    }

    fn set_isr(&mut self, record: &mut PartitionChangeRecord) {
        // Without eligible replicas the last ISR is kept when its last member goes: it says who may lead again.
        let may_be_set = !self.isr.is_empty() || self.context.elr;
        if record.isr.is_none() && may_be_set && self.isr != self.partition.isr {
            record.isr = Some(self.isr.clone());
        }
        let Some(isr) = &record.isr else { return };
        let shrinks = self.partition.isr.iter().any(|replica| !isr.contains(replica));
        if record.leader == LEADER_UNCHANGED && shrinks && !self.context.version.skips_epoch_bump_on_isr_shrink() {
            record.leader = self.partition.leader;
        }
    }

    fn set_last_known(&self, record: &mut PartitionChangeRecord) {
        if !self.context.elr {
            return;
        }
        if record.leader == NO_LEADER && self.partition.last_known_elr.is_empty() {
            record.last_known_elr = Some(vec![self.partition.leader]);
        } else if record.leader >= 0 && !self.partition.last_known_elr.is_empty() {
            record.last_known_elr = Some(Vec::new());
        }
    }

    fn set_assignment(&self, record: &mut PartitionChangeRecord) {
        if !self.replicas.is_empty() {
            if self.context.version.has_directory_assignment() {
                let directory_of = |replica: &BrokerId| {
                    let known = self.directories.get(replica).copied();
                    known.unwrap_or_else(|| (self.context.default_directory)(*replica))
                };
                let directories: Vec<Uuid> = self.replicas.iter().map(directory_of).collect();
                if directories != self.partition.directories {
                    record.directories = Some(directories);
                }
            }
            if self.replicas != self.partition.replicas {
                record.replicas = Some(self.replicas.clone());
            }
        }
        if self.removing != self.partition.removing_replicas {
            record.removing_replicas = Some(self.removing.clone());
        }
        if self.adding != self.partition.adding_replicas {
            record.adding_replicas = Some(self.adding.clone());
        }
    }
}
