//! CreatePartitions in all versions.

use std::borrow::Cow;

use base::Prng;
use metadata::{TopicImage, VersionedRecord};
use wire::ErrorCode;
use wire::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::create_partitions_response::{CreatePartitionsResponse, CreatePartitionsTopicResult};

use crate::controller::{Controller, Decision, RECORDS_PER_REQUEST_MAX};
use crate::elections::too_many_changes;
use crate::error::{ApiError, code_and_message};
use crate::topics_create::{NO_ACTIVE_BROKER, PARTITIONS_PER_REQUEST_MAX, all_fenced, repeated_names};

impl Controller {
    /// CreatePartitions: each topic by itself succeeds or fails.
    pub(crate) fn create_partitions<'r>(
        &mut self,
        prng: &mut Prng,
        request: &CreatePartitionsRequest<'r>,
    ) -> Result<Decision<CreatePartitionsResponse<'r>>, ApiError> {
        let repeated = repeated_names(request.topics.iter().map(|topic| &*topic.name));
        let single = || request.topics.iter().filter(|topic| !repeated.contains(&*topic.name));
        self.check_additions(single())?;
        let mut results = Vec::with_capacity(request.topics.len());
        for name in &repeated {
            let error: Result<(), _> = Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name."));
            results.push(result_of(&Cow::Owned((*name).to_owned()), &error));
        }
        let mut records = Vec::new();
        for topic in single() {
            let outcome = self.add_partitions(prng, topic).map(|mut added| records.append(&mut added));
            results.push(result_of(&topic.name, &outcome));
        }
        if records.len() > RECORDS_PER_REQUEST_MAX {
            return Err(too_many_changes());
        }
        if request.validate_only {
            records.clear();
        }
        Ok(Decision::new(records, CreatePartitionsResponse { throttle_time_ms: 0, results }))
    }

    fn check_additions<'t, 'r: 't>(
        &self,
        topics: impl Iterator<Item = &'t CreatePartitionsTopic<'r>>,
    ) -> Result<(), ApiError> {
        let added = |topic: &CreatePartitionsTopic<'_>| {
            let existing = self.image().topics.by_name(&topic.name)?.partition_count() as i64;
            Some((i64::from(topic.count) - existing).max(0))
        };
        let total: i64 = topics.filter_map(added).sum();
        if total > PARTITIONS_PER_REQUEST_MAX {
            let text = "Excessively large number of additional partitions per request.";
            return Err(ApiError::new(ErrorCode::POLICY_VIOLATION, text));
        }
        Ok(())
    }

    fn add_partitions(
        &mut self,
        prng: &mut Prng,
        wanted: &CreatePartitionsTopic<'_>,
    ) -> Result<Vec<VersionedRecord<'static>>, ApiError> {
        let topic = self.image().topics.by_name(&wanted.name).cloned();
        let topic = topic.ok_or_else(|| ApiError::bare(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
        let existing = topic.partition_count() as i64;
        let invalid = |text| Err(ApiError::new(ErrorCode::INVALID_PARTITIONS, text));
        let additional = i64::from(wanted.count) - existing;
        if additional == 0 {
            return invalid(format!("Topic already has {existing} partition(s)."));
        }
        if additional < 0 {
            return invalid(format!(
                "The topic {} currently has {existing} partition(s); {} would not be an increase.",
                wanted.name, wanted.count
            ));
        }
        let replicas = match &wanted.assignments {
            Some(assignments) if assignments.len() as i64 != additional => {
                let text = format!(
                    "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                    assignments.len()
                );
                return Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
            }
            Some(assignments) => Some(assignments.iter().map(|assignment| assignment.broker_ids.clone()).collect()),
            None => None,
        };
        self.new_partitions(prng, &topic, additional as u32, replicas)
    }

    fn new_partitions(
        &self,
        prng: &mut Prng,
        topic: &TopicImage,
        count: u32,
        assigned: Option<Vec<Vec<i32>>>,
    ) -> Result<Vec<VersionedRecord<'static>>, ApiError> {
        let factor = topic.partition(0).map_or(1, |partition| partition.replicas.len());
        let manual = assigned.is_some();
        let replicas = match assigned {
            Some(assigned) => assigned,
            None => self
                .place(prng, count, i16::try_from(factor).unwrap_or(i16::MAX))
                .map_err(|reason| ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, reason))?,
        };
        let mut records = Vec::with_capacity(replicas.len());
        for (replicas, index) in replicas.into_iter().zip(topic.partition_count() as i32..) {
            if manual {
                self.check_assignment(&replicas, Some(factor))?;
            }
            let partition = self.new_partition(replicas).ok_or_else(|| match manual {
                true => ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, all_fenced(index)),
                false => {
                    let text = format!("Unable to replicate the partition {factor} time(s): {NO_ACTIVE_BROKER}");
                    ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, text)
                }
            })?;
            records.push(partition.to_record(topic.id, index, self.version()));
        }
        Ok(records)
    }
}

fn result_of<'r, T>(name: &Cow<'r, str>, outcome: &Result<T, ApiError>) -> CreatePartitionsTopicResult<'r> {
    let (error_code, error_message) = code_and_message(outcome);
    CreatePartitionsTopicResult { name: name.clone(), error_code, error_message }
}
