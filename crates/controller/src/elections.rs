//! Changes of leaders and in-sync replicas that follow from something else, and elections on request.

use std::borrow::Cow;
use std::sync::Arc;

use base::BrokerId;
use metadata::{PartitionRegistration, TopicImage, VersionedRecord};
use wire::ErrorCode;
use wire::elect_leaders_request::ElectLeadersRequest;
use wire::elect_leaders_response::{ElectLeadersResponse, PartitionResult, ReplicaElectionResult};

use crate::controller::{Controller, Decision, RECORDS_PER_REQUEST_MAX, TopicPolicy};
use crate::error::{ApiError, code_and_message};
use crate::partition_change::{ChangeContext, Election, PartitionChange};

/// A broker whose standing changes, while its record is not applied yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// Leaves every ISR.
    pub(crate) leaving: Option<BrokerId>,
    /// May lead from now on.
    pub(crate) joining: Option<BrokerId>,
    /// Leaves every ISR and ELR: it may have lost what it had.
    pub(crate) unclean: Option<BrokerId>,
}

impl Controller {
    /// Builds the change of one partition; `configure` says what is wanted.
    pub(crate) fn change_partition(
        &self,
        topic: &TopicImage,
        index: i32,
        partition: &PartitionRegistration,
        policy: TopicPolicy,
        live: &dyn Fn(BrokerId) -> bool,
        configure: impl FnOnce(&mut PartitionChange<'_>),
    ) -> Option<VersionedRecord<'static>> {
        let image = self.image();
        let is_acceptable = |broker: BrokerId| {
            let directory = partition.directory(broker);
            let online = image.cluster.broker(broker).zip(directory).is_some_and(|(b, dir)| b.has_online_dir(dir));
            live(broker) && online
        };
        let default_directory = |broker: BrokerId| self.default_directory(broker);
        let context = ChangeContext {
            is_acceptable: &is_acceptable,
            default_directory: &default_directory,
            version: self.version(),
            elr: image.features.elr_enabled(),
            min_isr: policy.min_isr,
        };
        let mut change = PartitionChange::new(partition, &context);
        configure(&mut change);
        change.into_record(topic.id, index)
    }

    /// Changes of all partitions that `concerned` picks, for a broker whose standing changes.
    pub(crate) fn standing_changes(
        &mut self,
        standing: Standing,
        concerned: impl Fn(&PartitionRegistration) -> bool,
        records: &mut Vec<VersionedRecord<'static>>,
    ) {
        let image = self.image().clone();
        let gone = [standing.leaving, standing.unclean];
        let live = |broker: BrokerId| {
            !gone.contains(&Some(broker)) && (standing.joining == Some(broker) || image.cluster.is_active(broker))
        };
        for topic in image.topics.iter() {
            let mut policy = None;
            for (index, partition) in topic.partitions().filter(|(_, partition)| concerned(partition)) {
                let policy = *policy.get_or_insert_with(|| self.topic_policy(topic));
                let record = self.change_partition(topic, index, partition, policy, &live, |change| {
                    if policy.unclean_election {
                        change.election = Election::Unclean;
                    }
                    change.unclean_shutdown = standing.unclean;
                    change.isr.retain(|replica| !gone.contains(&Some(*replica)));
                });
                records.extend(record);
            }
        }
    }

    /// True when the broker leads a partition.
    pub(crate) fn leads_anything(&self, broker: BrokerId) -> bool {
        self.image().topics.iter().any(|topic| topic.partitions().any(|(_, partition)| partition.leader == broker))
    }

    /// ElectLeaders: the preferred leader, or any live one, for some partitions or all (KIP-460).
    pub(crate) fn elect_leaders<'r>(
        &mut self,
        request: &ElectLeadersRequest<'r>,
    ) -> Result<Decision<ElectLeadersResponse<'r>>, ApiError> {
        let election = match request.election_type {
            0 => Election::Preferred,
            1 => Election::Unclean,
            other => {
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, format!("Unknown election type {other}")));
            }
        };
        let mut records = Vec::new();
        let replica_election_results = match &request.topic_partitions {
            None => self.elect_everywhere(election, &mut records),
            Some(topics) => topics
                .iter()
                .map(|topic| {
                    let elect = |index: &i32| self.elect_and_tell(&topic.topic, *index, election, &mut records);
                    let partition_result = topic.partitions.iter().map(elect).collect();
                    ReplicaElectionResult { topic: topic.topic.clone(), partition_result }
                })
                .collect(),
        };
        if records.len() > RECORDS_PER_REQUEST_MAX {
            return Err(too_many_changes());
        }
        let response = ElectLeadersResponse { replica_election_results, ..ElectLeadersResponse::default() };
        Ok(Decision::new(records, response))
    }

    /// With no partitions named all are tried, and those that need no election are not mentioned.
    fn elect_everywhere<'r>(
        &mut self,
        election: Election,
        records: &mut Vec<VersionedRecord<'static>>,
    ) -> Vec<ReplicaElectionResult<'r>> {
        let image = self.image().clone();
        let mut results = Vec::new();
        for topic in image.topics.iter() {
            let mut partition_result = Vec::new();
            for (index, _) in topic.partitions() {
                let result = self.elect_and_tell(&topic.name, index, election, records);
                if result.error_code != ErrorCode::ELECTION_NOT_NEEDED.code() {
                    partition_result.push(result);
                }
            }
            results.push(ReplicaElectionResult { topic: Cow::Owned(topic.name.to_string()), partition_result });
        }
        results
    }

    fn elect_and_tell<'r>(
        &mut self,
        topic: &str,
        index: i32,
        election: Election,
        records: &mut Vec<VersionedRecord<'static>>,
    ) -> PartitionResult<'r> {
        let outcome = self.elect_leader(topic, index, election).map(|record| records.push(record));
        let (error_code, error_message) = code_and_message(&outcome);
        PartitionResult { partition_id: index, error_code, error_message }
    }

    fn elect_leader(
        &mut self,
        name: &str,
        index: i32,
        election: Election,
    ) -> Result<VersionedRecord<'static>, ApiError> {
        let unknown = |text| ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text);
        let image = self.image().clone();
        let topic = image.topics.by_name(name).ok_or_else(|| unknown(format!("No such topic as {name}")))?;
        let partition =
            topic.partition(index).ok_or_else(|| unknown(format!("No such partition as {name}-{index}")))?;
        let not_needed = match election {
            Election::Preferred => partition.leader == partition.preferred_replica(),
            _ => partition.has_leader(),
        };
        if not_needed {
            return Err(ApiError::usual(ErrorCode::ELECTION_NOT_NEEDED));
        }
        let policy = self.topic_policy(topic);
        let live = |broker: BrokerId| image.cluster.is_active(broker);
        let record = self.change_partition(topic, index, partition, policy, &live, |change| change.election = election);
        record.ok_or_else(|| match election {
            Election::Preferred => ApiError::usual(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE),
            _ => ApiError::usual(ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE),
        })
    }

    /// Moves leaderships back to preferred replicas, at most `max` of them; says whether there may be more.
    pub(crate) fn balance_leaders(&mut self, max: usize) -> Decision<bool> {
        let image = self.image().clone();
        self.periodic_elections(max, |_, partition| {
            let preferred = partition.preferred_replica();
            let wanted = partition.leader != preferred && image.cluster.is_active(preferred);
            wanted.then_some(Election::Preferred)
        })
    }

    /// Elects leaders from outside the ISR where topics allow it, at most `max` of them; says whether there may be more.
    pub(crate) fn elect_unclean(&mut self, max: usize) -> Decision<bool> {
        self.periodic_elections(max, |policy, partition| {
            (policy.unclean_election && !partition.has_leader()).then_some(Election::Unclean)
        })
    }

    fn periodic_elections(
        &mut self,
        max: usize,
        wanted: impl Fn(TopicPolicy, &PartitionRegistration) -> Option<Election>,
    ) -> Decision<bool> {
        let image: Arc<_> = self.image().clone();
        let live = |broker: BrokerId| image.cluster.is_active(broker);
        let mut records = Vec::new();
        for topic in image.topics.iter() {
            let mut policy = None;
            for (index, partition) in topic.partitions() {
                // The usual case costs nothing: the preferred replica leads.
                if partition.leader == partition.preferred_replica() {
                    continue;
                }
                let policy = *policy.get_or_insert_with(|| self.topic_policy(topic));
                let Some(election) = wanted(policy, partition) else { continue };
                let change = |change: &mut PartitionChange<'_>| change.election = election;
                records.extend(self.change_partition(topic, index, partition, policy, &live, change));
                if records.len() >= max {
                    return Decision::new(records, true);
                }
            }
        }
        Decision::new(records, false)
    }
}

/// More records than one batch may hold.
pub(crate) fn too_many_changes() -> ApiError {
    ApiError::new(ErrorCode::POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
}
