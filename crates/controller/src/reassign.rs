//! AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

use std::collections::BTreeSet;

use base::BrokerId;
use metadata::{PartitionRegistration, TopicImage, VersionedRecord};
use wire::ErrorCode;
use wire::alter_partition_reassignments_request::{AlterPartitionReassignmentsRequest, ReassignablePartition};
use wire::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::list_partition_reassignments_request::ListPartitionReassignmentsRequest;
use wire::list_partition_reassignments_response::{
    ListPartitionReassignmentsResponse, OngoingPartitionReassignment, OngoingTopicReassignment,
};

use crate::controller::{Controller, Decision, RECORDS_PER_REQUEST_MAX};
use crate::elections::too_many_changes;
use crate::error::{ApiError, code_and_message};
use crate::partition_change::Election;

impl Controller {
    /// AlterPartitionReassignments: begins, replaces or cancels moves of replicas.
    pub(crate) fn alter_reassignments<'r>(
        &mut self,
        request: &AlterPartitionReassignmentsRequest<'r>,
    ) -> Result<Decision<AlterPartitionReassignmentsResponse<'r>>, ApiError> {
        let mut records = Vec::new();
        let mut responses = Vec::with_capacity(request.topics.len());
        let may_resize = request.allow_replication_factor_change;
        for topic in &request.topics {
            let mut reassign = |target: &ReassignablePartition| {
                let outcome = self.reassign(&topic.name, target, may_resize).map(|record| records.extend(record));
                let (error_code, error_message) = code_and_message(&outcome);
                ReassignablePartitionResponse { partition_index: target.partition_index, error_code, error_message }
            };
            let partitions = topic.partitions.iter().map(&mut reassign).collect();
            responses.push(ReassignableTopicResponse { name: topic.name.clone(), partitions });
        }
        if records.len() > RECORDS_PER_REQUEST_MAX {
            return Err(too_many_changes());
        }
        let response = AlterPartitionReassignmentsResponse {
            allow_replication_factor_change: may_resize,
            error_message: None,
            responses,
            ..AlterPartitionReassignmentsResponse::default()
        };
        Ok(Decision::new(records, response))
    }

    fn reassign(
        &mut self,
        name: &str,
        target: &ReassignablePartition,
        may_resize: bool,
    ) -> Result<Option<VersionedRecord<'static>>, ApiError> {
        let unknown = |text| ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text);
        let image = self.image().clone();
        let topic = image.topics.by_name(name);
        let topic = topic.ok_or_else(|| unknown(format!("Unable to find a topic named {name}.")))?;
        let index = target.partition_index;
        let partition = topic.partition(index);
        let partition = partition.ok_or_else(|| unknown(format!("Unable to find partition {name}:{index}.")))?;
        match &target.replicas {
            None => self.cancel(topic, index, partition),
            Some(replicas) => {
                self.check_assignment(replicas, None)?;
                if !may_resize {
                    check_size(partition, replicas)?;
                }
                Ok(self.move_replicas(topic, index, partition, replicas))
            }
        }
    }

    /// New replicas join beside the old ones; those that are to go leave when the new ones are in sync.
    fn move_replicas(
        &mut self,
        topic: &TopicImage,
        index: i32,
        partition: &PartitionRegistration,
        target: &[BrokerId],
    ) -> Option<VersionedRecord<'static>> {
        let current: BTreeSet<BrokerId> = partition.replicas.iter().copied().collect();
        let wanted: BTreeSet<BrokerId> = target.iter().copied().collect();
        let removing: Vec<BrokerId> = current.difference(&wanted).copied().collect();
        let adding: Vec<BrokerId> = wanted.difference(&current).copied().collect();
        let policy = self.topic_policy(topic);
        let image = self.image().clone();
        let live = |broker: BrokerId| image.cluster.is_active(broker);
        self.change_partition(topic, index, partition, policy, &live, |change| {
            change.replicas = target.iter().chain(&removing).copied().collect();
            if !removing.is_empty() {
                change.removing = removing;
            }
            if !adding.is_empty() {
                change.adding = adding;
            }
        })
    }

    fn cancel(
        &mut self,
        topic: &TopicImage,
        index: i32,
        partition: &PartitionRegistration,
    ) -> Result<Option<VersionedRecord<'static>>, ApiError> {
        if !partition.is_reassigning() {
            return Err(ApiError::bare(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS));
        }
        let stays = |list: &[BrokerId]| -> Vec<BrokerId> {
            list.iter().copied().filter(|replica| !partition.adding_replicas.contains(replica)).collect()
        };
        let (replicas, mut isr) = (stays(&partition.replicas), stays(&partition.isr));
        let policy = self.topic_policy(topic);
        let invalid = |text| ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text);
        if isr.is_empty() {
            // Only replicas that are to go again are in sync: going back loses what just they have.
            let first = replicas.first().ok_or_else(|| {
                invalid("Invalid replica assignment: addingReplicas contains all replicas.".to_owned())
            })?;
            isr.push(*first);
            if !policy.unclean_election {
                return Err(invalid(format!(
                    "Unable to revert partition assignment for {}:{index} because it would require an unclean leader \
                     election.",
                    topic.name
                )));
            }
        }
        let image = self.image().clone();
        let live = |broker: BrokerId| image.cluster.is_active(broker);
        Ok(self.change_partition(topic, index, partition, policy, &live, |change| {
            if policy.unclean_election {
                change.election = Election::Unclean;
            }
            change.isr = isr;
            change.replicas = replicas;
            change.removing.clear();
            change.adding.clear();
        }))
    }

    /// ListPartitionReassignments.
    pub(crate) fn list_reassignments<'r>(
        &self,
        request: &ListPartitionReassignmentsRequest<'r>,
    ) -> ListPartitionReassignmentsResponse<'r> {
        let image = self.image();
        let of = |topic: &TopicImage, indexes: &mut dyn Iterator<Item = i32>| {
            let partitions: Vec<_> = indexes.filter_map(|index| ongoing(index, topic.partition(index)?)).collect();
            let name = std::borrow::Cow::Owned(topic.name.to_string());
            (!partitions.is_empty()).then_some(OngoingTopicReassignment { name, partitions })
        };
        let topics = match &request.topics {
            None => image.topics.iter().filter_map(|t| of(t, &mut t.partitions().map(|(index, _)| index))).collect(),
            Some(asked) => asked
                .iter()
                .filter_map(|a| of(image.topics.by_name(&a.name)?, &mut a.partition_indexes.iter().copied()))
                .collect(),
        };
        ListPartitionReassignmentsResponse { topics, error_message: None, ..Default::default() }
    }
}

fn ongoing(index: i32, partition: &PartitionRegistration) -> Option<OngoingPartitionReassignment> {
    partition.is_reassigning().then(|| OngoingPartitionReassignment {
        partition_index: index,
        replicas: partition.replicas.clone(),
        adding_replicas: partition.adding_replicas.clone(),
        removing_replicas: partition.removing_replicas.clone(),
    })
}

/// The number of replicas may change only when the client says so (KIP-860).
fn check_size(partition: &PartitionRegistration, target: &[BrokerId]) -> Result<(), ApiError> {
    let goes = |replica: &&BrokerId| !partition.removing_replicas.contains(replica);
    let current = partition.replicas.iter().filter(goes).count();
    if current == target.len() {
        return Ok(());
    }
    let text = format!("The replication factor is changed from {current} to {}", target.len());
    Err(ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, text))
}
