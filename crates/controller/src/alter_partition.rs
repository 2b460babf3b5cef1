//! AlterPartition: a leader says who is in sync (KIP-497, KIP-704, KIP-966), and AssignReplicasToDirs (KIP-858).

use std::collections::BTreeSet;

use base::{BrokerId, TopicId};
use metadata::{LeaderRecoveryState, PartitionRegistration, TopicImage, VersionedRecord};
use wire::ErrorCode;
use wire::alter_partition_request::{AlterPartitionRequest, PartitionData};
use wire::alter_partition_response::{
    AlterPartitionResponse, PartitionData as PartitionResult, TopicData as TopicResult,
};
use wire::assign_replicas_to_dirs_request::AssignReplicasToDirsRequest;
use wire::assign_replicas_to_dirs_response::{
    AssignReplicasToDirsResponse, DirectoryData as AssignedDirectory, PartitionData as AssignedPartition,
    TopicData as AssignedTopic,
};
use wire::metadata_record::MetadataRecord;

use crate::controller::{Controller, Decision};

use crate::error::ApiError;
use crate::partition_change::{Election, LEADER_UNCHANGED};

/// First version that names each member's epoch.
const ISR_WITH_EPOCHS_FROM: i16 = 3;

/// A member of a proposed ISR and its epoch; -1 for "not said".
type Member = (BrokerId, i64);

impl Controller {
    /// AlterPartition.
    pub(crate) fn alter_partition(
        &mut self,
        version: i16,
        request: &AlterPartitionRequest,
    ) -> Result<Decision<AlterPartitionResponse>, ApiError> {
        self.check_broker_epoch(request.broker_id, request.broker_epoch)?;
        let mut records = Vec::new();
        let mut topics = Vec::with_capacity(request.topics.len());
        for asked in &request.topics {
            let topic = self.image().topics.by_id(asked.topic_id).cloned();
            let mut partitions = Vec::with_capacity(asked.partitions.len());
            for data in &asked.partitions {
                let outcome = match &topic {
                    Some(topic) => self.alter_one(version, request.broker_id, topic, data, &mut records),
                    None => Err(ErrorCode::UNKNOWN_TOPIC_ID),
                };
                partitions.push(result_of(data.partition_index, outcome));
            }
            topics.push(TopicResult { topic_id: asked.topic_id, partitions });
        }
        let response = AlterPartitionResponse { topics, ..AlterPartitionResponse::default() };
        Ok(Decision::new(records, response))
    }

    fn alter_one(
        &mut self,
        version: i16,
        leader: BrokerId,
        topic: &TopicImage,
        data: &PartitionData,
        records: &mut Vec<VersionedRecord<'static>>,
    ) -> Result<PartitionRegistration, ErrorCode> {
        let members: Vec<Member> = if version >= ISR_WITH_EPOCHS_FROM {
            data.new_isr_with_epochs.iter().map(|member| (member.broker_id, member.broker_epoch)).collect()
        } else {
            data.new_isr.iter().map(|id| (*id, -1)).collect()
        };
        let partition = topic.partition(data.partition_index).cloned();
        let partition = partition.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let recovery_state = self.check_proposal(leader, &partition, data, &members)?;
        let policy = self.topic_policy(topic);
        let image = self.image().clone();
        let live = |broker: BrokerId| image.cluster.is_active(broker);
        let record = self.change_partition(topic, data.partition_index, &partition, policy, &live, |change| {
            if policy.unclean_election {
                change.election = Election::Unclean;
            }
            change.isr = members.iter().map(|(id, _)| *id).collect();
            change.recovery_state = recovery_state;
        });
        let Some(record) = record else { return Ok(PartitionRegistration::clone(&partition)) };
        let MetadataRecord::PartitionChange(change) = &record.0 else {
            unreachable!("a partition change makes no other record");
        };
        let next = partition.merge(change).map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
        let other_leader = change.leader != leader && change.leader != LEADER_UNCHANGED;
        records.push(record);
        // The ISR completed a reassignment that takes the leadership away: the leader has to read that first.
        if other_leader { Err(ErrorCode::NEW_LEADER_ELECTED) } else { Ok(next) }
    }

    fn check_proposal(
        &self,
        leader: BrokerId,
        partition: &PartitionRegistration,
        data: &PartitionData,
        members: &[Member],
    ) -> Result<LeaderRecoveryState, ErrorCode> {
        // A leader that knows more than this controller has heard from a newer one.
        if data.leader_epoch > partition.leader_epoch || data.partition_epoch > partition.partition_epoch {
            return Err(ErrorCode::NOT_CONTROLLER);
        }
        if data.leader_epoch < partition.leader_epoch {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        if leader != partition.leader {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if data.partition_epoch < partition.partition_epoch {
            return Err(ErrorCode::INVALID_UPDATE_VERSION);
        }
        let distinct: BTreeSet<BrokerId> = members.iter().map(|(id, _)| *id).collect();
        let replicas_only = distinct.iter().all(|id| partition.has_replica(*id));
        if distinct.is_empty() || distinct.len() != members.len() || !replicas_only || !distinct.contains(&leader) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let state = LeaderRecoveryState::from_value(data.leader_recovery_state).ok_or(ErrorCode::INVALID_REQUEST)?;
        if state == LeaderRecoveryState::Recovering
            && (members.len() > 1 || partition.leader_recovery_state == LeaderRecoveryState::Recovered)
        {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let cluster = &self.image().cluster;
        let eligible = |(id, epoch): &Member| {
            cluster.broker(*id).is_some_and(|broker| broker.is_active() && (*epoch == -1 || *epoch == broker.epoch))
        };
        if !members.iter().all(eligible) {
            return Err(ErrorCode::INELIGIBLE_REPLICA);
        }
        Ok(state)
    }

    /// AssignReplicasToDirs: a broker says in which log directory it put which replica.
    pub(crate) fn assign_replicas_to_dirs(
        &mut self,
        request: &AssignReplicasToDirsRequest,
    ) -> Result<Decision<AssignReplicasToDirsResponse>, ApiError> {
        if !self.version().has_directory_assignment() {
            return Err(ApiError::new(ErrorCode::UNSUPPORTED_VERSION, "Directory assignment is not supported yet."));
        }
        let id = request.broker_id;
        let broker = self.check_broker_epoch(id, request.broker_epoch)?;
        let mut records = Vec::new();
        let mut offline: BTreeSet<(TopicId, i32)> = BTreeSet::new();
        let mut directories = Vec::with_capacity(request.directories.len());
        for directory in &request.directories {
            let is_online = broker.has_online_dir(directory.id);
            let mut topics = Vec::with_capacity(directory.topics.len());
            for topic in &directory.topics {
                let mut assign = |index: i32| {
                    let outcome = self.assign_one(id, directory.id, topic.topic_id, index, &mut records);
                    if outcome.is_ok() && !is_online {
                        offline.insert((topic.topic_id, index));
                    }
                    AssignedPartition {
                        partition_index: index,
                        error_code: outcome.err().unwrap_or(ErrorCode::NONE).code(),
                    }
                };
                let partitions = topic.partitions.iter().map(|partition| assign(partition.partition_index)).collect();
                topics.push(AssignedTopic { topic_id: topic.topic_id, partitions });
            }
            directories.push(AssignedDirectory { id: directory.id, topics });
        }
        self.leave_offline(id, &offline, &mut records);
        let response = AssignReplicasToDirsResponse { directories, ..AssignReplicasToDirsResponse::default() };
        Ok(Decision::new(records, response))
    }

    fn assign_one(
        &mut self,
        broker: BrokerId,
        directory: base::Uuid,
        topic_id: TopicId,
        index: i32,
        records: &mut Vec<VersionedRecord<'static>>,
    ) -> Result<(), ErrorCode> {
        let image = self.image().clone();
        let topic = image.topics.by_id(topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        let partition = topic.partition(index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        if !partition.has_replica(broker) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let policy = self.topic_policy(topic);
        let live = |broker: BrokerId| image.cluster.is_active(broker);
        records.extend(self.change_partition(topic, index, partition, policy, &live, |change| {
            change.directories.insert(broker, directory);
        }));
        Ok(())
    }

    /// Replicas that turn out to lie in an offline directory leave their ISR.
    fn leave_offline(
        &mut self,
        broker: BrokerId,
        offline: &BTreeSet<(TopicId, i32)>,
        records: &mut Vec<VersionedRecord<'static>>,
    ) {
        let image = self.image().clone();
        let live = |id: BrokerId| id != broker && image.cluster.is_active(id);
        for (topic_id, index) in offline {
            let Some(topic) = image.topics.by_id(*topic_id) else { continue };
            let Some(partition) = topic.partition(*index) else { continue };
            let policy = self.topic_policy(topic);
            records.extend(self.change_partition(topic, *index, partition, policy, &live, |change| {
                change.isr.retain(|replica| *replica != broker);
            }));
        }
    }
}

fn result_of(index: i32, outcome: Result<PartitionRegistration, ErrorCode>) -> PartitionResult {
    match outcome {
        Ok(partition) => PartitionResult {
            partition_index: index,
            error_code: ErrorCode::NONE.code(),
            leader_id: partition.leader,
            leader_epoch: partition.leader_epoch,
            isr: partition.isr,
            leader_recovery_state: partition.leader_recovery_state.value(),
            partition_epoch: partition.partition_epoch,
        },
        Err(code) => PartitionResult { partition_index: index, error_code: code.code(), ..PartitionResult::default() },
    }
}
