//! CreateTopics in all versions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{BrokerId, PartitionIndex, Prng};
use config::{AlterOp, Change, Wanted};
use metadata::{ConfigResource, LeaderRecoveryState, PartitionRegistration, VersionedRecord};
use wire::ErrorCode;
use wire::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use wire::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse};
use wire::topic_record::TopicRecord;

use crate::controller::{Controller, Decision, RECORDS_PER_REQUEST_MAX, random_uuid};
use crate::elections::too_many_changes;
use crate::error::{ApiError, code_and_message};
use crate::names::{CLUSTER_METADATA_TOPIC, reason_invalid};
use crate::placement::{Placer, UsableBroker};

/// Most partitions that one request may create.
pub(crate) const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;

impl Controller {
    /// CreateTopics: each topic by itself succeeds or fails; what succeeds is one batch.
    pub(crate) fn create_topics<'r>(
        &mut self,
        prng: &mut Prng,
        request: &CreateTopicsRequest<'r>,
    ) -> Result<Decision<CreateTopicsResponse<'r>>, ApiError> {
        let defaults = self.layered().current.topics.clone();
        let repeated = repeated_names(request.topics.iter().map(|topic| &*topic.name));
        let single = || request.topics.iter().filter(|topic| !repeated.contains(&*topic.name));
        let allowed = || single().filter(|topic| topic.name != CLUSTER_METADATA_TOPIC);
        check_total(allowed(), i64::from(defaults.partitions))?;
        let mut records = Vec::new();
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in allowed() {
            let outcome = self.create_topic(prng, topic, &mut records);
            topics.push(outcome.unwrap_or_else(|error| failed(&topic.name, error)));
        }
        for name in &repeated {
            let error = ApiError::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name.");
            topics.push(failed(&Cow::Owned((*name).to_owned()), error));
        }
        for topic in single().filter(|topic| topic.name == CLUSTER_METADATA_TOPIC) {
            let text = format!("Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.");
            topics.push(failed(&topic.name, ApiError::new(ErrorCode::INVALID_REQUEST, text)));
        }
        if records.len() > RECORDS_PER_REQUEST_MAX {
            return Err(too_many_changes());
        }
        if request.validate_only {
            records.clear();
        }
        Ok(Decision::new(records, CreateTopicsResponse { throttle_time_ms: 0, topics }))
    }

    fn create_topic<'r>(
        &mut self,
        prng: &mut Prng,
        topic: &CreatableTopic<'r>,
        records: &mut Vec<VersionedRecord<'static>>,
    ) -> Result<CreatableTopicResult<'r>, ApiError> {
        self.check_name(&topic.name)?;
        let config_records = self.creation_configs(topic)?;
        let partitions = if topic.assignments.is_empty() {
            self.place_topic(prng, topic)?
        } else {
            self.assigned_partitions(topic)?
        };
        let topic_id = random_uuid(prng);
        let replication_factor = partitions.first().map_or(0, |partition| partition.replicas.len() as i16);
        let result = CreatableTopicResult {
            name: topic.name.clone(),
            topic_id,
            error_message: None,
            num_partitions: partitions.len() as i32,
            replication_factor,
            configs: Some(self.echoed_configs(topic)?),
            ..CreatableTopicResult::default()
        };
        records.push((TopicRecord { name: Cow::Owned(topic.name.to_string()), topic_id }.into(), 0));
        records.extend(config_records);
        let version = self.version();
        let numbered = partitions.iter().zip(0..);
        records.extend(numbered.map(|(partition, index)| partition.to_record(topic_id, index, version)));
        Ok(result)
    }

    fn check_name(&self, name: &str) -> Result<(), ApiError> {
        if self.image().topics.by_name(name).is_some() {
            let text = format!("Topic '{name}' already exists.");
            return Err(ApiError::new(ErrorCode::TOPIC_ALREADY_EXISTS, text));
        }
        let invalid = |text| Err(ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, text));
        if let Some(other) = self.collisions.find(name) {
            return invalid(format!("Topic '{name}' collides with existing topic: {other}"));
        }
        match reason_invalid(name) {
            Some(text) => invalid(text),
            None => Ok(()),
        }
    }

    /// Records of the configuration that the topic is created with.
    fn creation_configs<'c>(
        &mut self,
        topic: &'c CreatableTopic<'_>,
    ) -> Result<Vec<VersionedRecord<'static>>, ApiError> {
        let without_value: Vec<&str> =
            topic.configs.iter().filter(|config| config.value.is_none()).map(|config| &*config.name).collect();
        if !without_value.is_empty() {
            let text = format!("Null value not supported for topic configs: {}", without_value.join(","));
            return Err(ApiError::new(ErrorCode::INVALID_CONFIG, text));
        }
        if topic.configs.is_empty() {
            return Ok(Vec::new());
        }
        let set = |config: &'c CreatableTopicConfig<'_>| Change {
            name: &config.name,
            op: AlterOp::Set,
            value: config.value.as_deref(),
        };
        // Of an option that is named twice the last value counts.
        let mut changes: BTreeMap<&str, Change<'c>> = BTreeMap::new();
        changes.extend(topic.configs.iter().map(|config| (&*config.name, set(config))));
        let changes: Vec<Change<'_>> = changes.into_values().collect();
        let mut records = self.change_configs(&ConfigResource::topic(&topic.name), &changes, true)?;
        records.extend(self.clear_elr_records(&records));
        Ok(records)
    }

    /// The configuration in force, as a creation answers it since version 5.
    fn echoed_configs<'r>(&mut self, topic: &CreatableTopic<'r>) -> Result<Vec<CreatableTopicConfigs<'r>>, ApiError> {
        let set: HashMap<String, String> = topic
            .configs
            .iter()
            .filter_map(|config| Some((config.name.to_string(), config.value.as_deref()?.to_owned())))
            .collect();
        let entries = self.layered().describe_topic(&set, Wanted::default())?;
        // What was set is answered as it was written, not as DescribeConfigs will show it.
        let echo = entries.into_iter().map(|entry| CreatableTopicConfigs {
            value: set.get(&entry.name).cloned().or(entry.value).map(Cow::Owned),
            name: Cow::Owned(entry.name),
            read_only: entry.read_only,
            config_source: entry.source as i8,
            is_sensitive: entry.sensitive,
        });
        Ok(echo.collect())
    }

    fn place_topic(
        &mut self,
        prng: &mut Prng,
        topic: &CreatableTopic<'_>,
    ) -> Result<Vec<PartitionRegistration>, ApiError> {
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return Err(ApiError::new(
                ErrorCode::INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ));
        }
        if topic.num_partitions < -1 || topic.num_partitions == 0 {
            return Err(ApiError::new(
                ErrorCode::INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            ));
        }
        let defaults = &self.layered().current.topics;
        let count = u32::try_from(topic.num_partitions).unwrap_or(defaults.partitions);
        let factor =
            if topic.replication_factor == -1 { defaults.replication_factor } else { topic.replication_factor };
        let replicas = self.place(prng, count, factor).map_err(|reason| {
            let text = format!("Unable to replicate the partition {factor} time(s): {reason}");
            ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, text)
        })?;
        replicas
            .into_iter()
            .map(|replicas| {
                self.new_partition(replicas).ok_or_else(|| {
                    let text = format!("Unable to replicate the partition {factor} time(s): {NO_ACTIVE_BROKER}");
                    ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, text)
                })
            })
            .collect()
    }

    /// Replicas of `count` new partitions.
    ///
    /// # Errors
    /// Kafka's text when there are too few brokers.
    pub(crate) fn place(&self, prng: &mut Prng, count: u32, factor: i16) -> Result<Vec<Vec<BrokerId>>, String> {
        let usable = self
            .image()
            .cluster
            .brokers()
            .filter(|broker| !self.heartbeats.is_shutting_down(broker.id) && broker.has_uncordoned_directory());
        let usable =
            usable.map(|broker| UsableBroker { id: broker.id, rack: broker.rack.clone(), fenced: broker.fenced });
        let mut placer = Placer::new(usable, prng);
        let wanted = placer.check(factor)?;
        Ok((0..count).map(|_| placer.place(wanted)).collect())
    }

    /// A partition on these replicas, the active ones in sync; `None` when none is active.
    pub(crate) fn new_partition(&self, replicas: Vec<BrokerId>) -> Option<PartitionRegistration> {
        let cluster = &self.image().cluster;
        let isr: Vec<BrokerId> = replicas.iter().copied().filter(|id| cluster.is_active(*id)).collect();
        Some(PartitionRegistration {
            directories: replicas.iter().map(|id| self.default_directory(*id)).collect(),
            leader: *isr.first()?,
            leader_recovery_state: LeaderRecoveryState::Recovered,
            isr,
            replicas,
            ..PartitionRegistration::default()
        })
    }

    fn assigned_partitions(&self, topic: &CreatableTopic<'_>) -> Result<Vec<PartitionRegistration>, ApiError> {
        for (set, what) in
            [(topic.replication_factor != -1, "replication factor"), (topic.num_partitions != -1, "numPartitions")]
        {
            if set {
                let text = format!("A manual partition assignment was specified, but {what} was not set to -1.");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, text));
            }
        }
        let invalid = |text: String| ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text);
        let mut partitions: BTreeMap<PartitionIndex, PartitionRegistration> = BTreeMap::new();
        let mut factor = None;
        for CreatableReplicaAssignment { partition_index: index, broker_ids } in &topic.assignments {
            if partitions.contains_key(index) {
                return Err(invalid(format!("Found multiple manual partition assignments for partition {index}")));
            }
            self.check_assignment(broker_ids, factor)?;
            factor = Some(broker_ids.len());
            let partition = self.new_partition(broker_ids.clone()).ok_or_else(|| invalid(all_fenced(*index)))?;
            partitions.insert(*index, partition);
        }
        if partitions.keys().zip(0..).any(|(index, expected)| *index != expected) {
            return Err(invalid("partitions should be a consecutive 0-based integer sequence".to_owned()));
        }
        Ok(partitions.into_values().collect())
    }

    /// Judges replicas that a client named; with `factor` they have to be that many.
    pub(crate) fn check_assignment(&self, replicas: &[BrokerId], factor: Option<usize>) -> Result<(), ApiError> {
        let invalid = |text: String| Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
        if replicas.is_empty() {
            return invalid("The manual partition assignment includes an empty replica list.".to_owned());
        }
        let mut sorted = replicas.to_vec();
        sorted.sort_unstable();
        let mut previous = None;
        for id in &sorted {
            if self.image().cluster.broker(*id).is_none() {
                return invalid(format!(
                    "The manual partition assignment includes broker {id}, but no such broker is registered."
                ));
            }
            if previous == Some(id) {
                return invalid(format!("The manual partition assignment includes the broker {id} more than once."));
            }
            previous = Some(id);
        }
        match factor {
            Some(factor) if factor != sorted.len() => invalid(format!(
                "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with \
                 previous partitions, which have {factor} replica(s).",
                sorted.len()
            )),
            _ => Ok(()),
        }
    }
}

/// Why a partition cannot be placed although there are brokers.
pub(crate) const NO_ACTIVE_BROKER: &str = "All brokers are currently fenced or in controlled shutdown.";

/// Why a manual assignment cannot be used.
pub(crate) fn all_fenced(index: PartitionIndex) -> String {
    format!(
        "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled \
         shutdown."
    )
}

/// Names that occur more than once.
pub(crate) fn repeated_names<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).collect()
}

fn check_total<'t, 'r: 't>(
    topics: impl Iterator<Item = &'t CreatableTopic<'r>>,
    default_partitions: i64,
) -> Result<(), ApiError> {
    let count = |topic: &CreatableTopic<'_>| match topic.num_partitions {
        _ if !topic.assignments.is_empty() => topic.assignments.len() as i64,
        -1 => default_partitions,
        count => i64::from(count.max(0)),
    };
    let total: i64 = topics.map(count).sum();
    if total > PARTITIONS_PER_REQUEST_MAX {
        let text = "Excessively large number of partitions per request.";
        return Err(ApiError::new(ErrorCode::POLICY_VIOLATION, text));
    }
    Ok(())
}

fn failed<'r>(name: &Cow<'r, str>, error: ApiError) -> CreatableTopicResult<'r> {
    let (error_code, error_message) = code_and_message::<()>(&Err(error));
    CreatableTopicResult { name: name.clone(), error_code, error_message, ..CreatableTopicResult::default() }
}
