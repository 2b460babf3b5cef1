//! Requests as bytes to decisions with responses as bytes.

use std::borrow::Cow;

use base::Prng;
use bytes::Bytes;
use thiserror::Error;
use wire::{ApiKey, Decode, DecodeError, Encode, EncodeError, Reader, Writer};

use crate::controller::{Controller, Decision, Env};
use crate::error::ApiError;

/// A request that gets no answer: the connection it came on is not to be trusted further.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The controller does not serve this API.
    #[error("the controller does not serve {0}")]
    Api(ApiKey),
    /// The body is not what API and version say.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The answer cannot be said in the version.
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

/// Decodes a request, decides and encodes the answer. `on_error` makes the answer to a request that failed as a whole.
fn answer<'b, Q, R>(
    body: &'b Bytes,
    version: i16,
    decide: impl FnOnce(&Q) -> Result<Decision<R>, ApiError>,
    on_error: impl FnOnce(&Q, ApiError) -> R,
) -> Result<Decision<Bytes>, RequestError>
where
    Q: Decode<'b>,
    R: Encode,
{
    let mut reader = Reader::new(body);
    let request = Q::decode(&mut reader, version)?;
    let decision = decide(&request).unwrap_or_else(|error| Decision::answer(on_error(&request, error)));
    let mut writer = Writer::new();
    decision.response.encode(&mut writer, version)?;
    let bytes = writer.into_bytes().unwrap_or_default();
    Ok(decision.map(|_| bytes))
}

/// Code and text of an error that fails a whole request.
fn parts<'r>(error: ApiError) -> (i16, Option<Cow<'r, str>>) {
    (error.code(), error.message)
}

impl Controller {
    /// Decides one request of the controller's APIs; `body` is the request without its header. The answer is valid once
    /// the records are committed, and has no header either.
    ///
    /// # Errors
    /// When the request is malformed or not one of the controller's.
    pub fn handle(
        &mut self,
        env: Env,
        prng: &mut Prng,
        api: ApiKey,
        version: i16,
        body: &Bytes,
    ) -> Result<Decision<Bytes>, RequestError> {
        match api {
            ApiKey::CreateTopics => answer(body, version, |r| self.create_topics(prng, r), on_error::create_topics),
            ApiKey::DeleteTopics => answer(
                body,
                version,
                |r| self.delete_topics(version, r),
                |r, error| on_error::delete_topics(version, r, error),
            ),
            ApiKey::CreatePartitions => {
                answer(body, version, |r| self.create_partitions(prng, r), on_error::create_partitions)
            }
            ApiKey::AlterConfigs => answer(body, version, |r| self.alter_configs(r), on_error::alter_configs),
            ApiKey::IncrementalAlterConfigs => {
                answer(body, version, |r| self.incremental_alter_configs(r), on_error::incremental_alter_configs)
            }
            ApiKey::ElectLeaders => answer(body, version, |r| self.elect_leaders(r), on_error::elect_leaders),
            ApiKey::AlterPartitionReassignments => {
                answer(body, version, |r| self.alter_reassignments(r), on_error::alter_reassignments)
            }
            ApiKey::ListPartitionReassignments => answer(
                body,
                version,
                |r| Ok(Decision::answer(self.list_reassignments(r))),
                |_, error| on_error::list_reassignments(error),
            ),
            ApiKey::UpdateFeatures => answer(
                body,
                version,
                |r| Ok(self.update_features(env, version, r)),
                |_, error| on_error::update_features(error),
            ),
            _ => self.handle_node(env, api, version, body),
        }
    }

    /// Requests that nodes send to the controller.
    fn handle_node(
        &mut self,
        env: Env,
        api: ApiKey,
        version: i16,
        body: &Bytes,
    ) -> Result<Decision<Bytes>, RequestError> {
        match api {
            ApiKey::BrokerRegistration => answer(
                body,
                version,
                |r| self.register_broker(env, version, r),
                |_, error| on_error::broker_registration(&error),
            ),
            ApiKey::BrokerHeartbeat => {
                answer(body, version, |r| self.broker_heartbeat(env, r), |_, error| on_error::broker_heartbeat(&error))
            }
            ApiKey::UnregisterBroker => {
                answer(body, version, |r| self.unregister_broker(r), |_, error| on_error::unregister_broker(error))
            }
            ApiKey::ControllerRegistration => answer(
                body,
                version,
                |r| self.register_controller(r),
                |_, error| on_error::controller_registration(error),
            ),
            ApiKey::UnregisterController => answer(
                body,
                version,
                |r| self.unregister_controller(r),
                |_, error| on_error::unregister_controller(error),
            ),
            ApiKey::AllocateProducerIds => answer(
                body,
                version,
                |r| self.allocate_producer_ids(r),
                |_, error| on_error::allocate_producer_ids(&error),
            ),
            ApiKey::AlterPartition => answer(
                body,
                version,
                |r| self.alter_partition(version, r),
                |_, error| on_error::alter_partition(&error),
            ),
            ApiKey::AssignReplicasToDirs => answer(
                body,
                version,
                |r| self.assign_replicas_to_dirs(r),
                |_, error| on_error::assign_replicas_to_dirs(&error),
            ),
            other => Err(RequestError::Api(other)),
        }
    }
}

/// Answers to requests that failed as a whole, as each API gives them.
mod on_error {
    use wire::allocate_producer_ids_response::AllocateProducerIdsResponse;
    use wire::alter_configs_request::AlterConfigsRequest;
    use wire::alter_configs_response::{AlterConfigsResourceResponse as LegacyResult, AlterConfigsResponse};
    use wire::alter_partition_reassignments_request::AlterPartitionReassignmentsRequest;
    use wire::alter_partition_reassignments_response::{
        AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
    };
    use wire::alter_partition_response::AlterPartitionResponse;
    use wire::assign_replicas_to_dirs_response::AssignReplicasToDirsResponse;
    use wire::broker_heartbeat_response::BrokerHeartbeatResponse;
    use wire::broker_registration_response::BrokerRegistrationResponse;
    use wire::controller_registration_response::ControllerRegistrationResponse;
    use wire::create_partitions_request::CreatePartitionsRequest;
    use wire::create_partitions_response::{CreatePartitionsResponse, CreatePartitionsTopicResult};
    use wire::create_topics_request::CreateTopicsRequest;
    use wire::create_topics_response::{CreatableTopicResult, CreateTopicsResponse};
    use wire::delete_topics_request::DeleteTopicsRequest;
    use wire::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
    use wire::elect_leaders_request::ElectLeadersRequest;
    use wire::elect_leaders_response::{ElectLeadersResponse, PartitionResult, ReplicaElectionResult};
    use wire::incremental_alter_configs_request::IncrementalAlterConfigsRequest;
    use wire::incremental_alter_configs_response::{AlterConfigsResourceResponse, IncrementalAlterConfigsResponse};
    use wire::list_partition_reassignments_response::ListPartitionReassignmentsResponse;
    use wire::unregister_broker_response::UnregisterBrokerResponse;
    use wire::unregister_controller_response::UnregisterControllerResponse;
    use wire::update_features_response::UpdateFeaturesResponse;

    use super::parts;
    use crate::error::ApiError;

    /// First version of DeleteTopics that names topics by id.
    const DELETE_BY_ID_FROM: i16 = 6;

    pub(super) fn create_topics<'r>(request: &CreateTopicsRequest<'r>, error: ApiError) -> CreateTopicsResponse<'r> {
        let result = |topic: &wire::create_topics_request::CreatableTopic<'r>| {
            let (error_code, error_message) = parts(error.clone());
            CreatableTopicResult { name: topic.name.clone(), error_code, error_message, ..Default::default() }
        };
        CreateTopicsResponse { topics: request.topics.iter().map(result).collect(), ..Default::default() }
    }

    pub(super) fn delete_topics<'r>(
        version: i16,
        request: &DeleteTopicsRequest<'r>,
        error: ApiError,
    ) -> DeleteTopicsResponse<'r> {
        let (error_code, error_message) = parts(error);
        let result = |name, topic_id| DeletableTopicResult {
            name,
            topic_id,
            error_code,
            error_message: error_message.clone().filter(|_| version >= 5),
        };
        let responses = if version >= DELETE_BY_ID_FROM {
            request.topics.iter().map(|topic| result(topic.name.clone(), topic.topic_id)).collect()
        } else {
            request.topic_names.iter().map(|name| result(Some(name.clone()), base::Uuid::ZERO)).collect()
        };
        DeleteTopicsResponse { throttle_time_ms: 0, responses }
    }

    pub(super) fn create_partitions<'r>(
        request: &CreatePartitionsRequest<'r>,
        error: ApiError,
    ) -> CreatePartitionsResponse<'r> {
        let result = |topic: &wire::create_partitions_request::CreatePartitionsTopic<'r>| {
            let (error_code, error_message) = parts(error.clone());
            CreatePartitionsTopicResult { name: topic.name.clone(), error_code, error_message }
        };
        CreatePartitionsResponse { throttle_time_ms: 0, results: request.topics.iter().map(result).collect() }
    }

    pub(super) fn alter_configs<'r>(request: &AlterConfigsRequest<'r>, error: ApiError) -> AlterConfigsResponse<'r> {
        let result = |resource: &wire::alter_configs_request::AlterConfigsResource<'r>| {
            let (error_code, error_message) = parts(error.clone());
            let resource_name = resource.resource_name.clone();
            LegacyResult { error_code, error_message, resource_type: resource.resource_type, resource_name }
        };
        AlterConfigsResponse { throttle_time_ms: 0, responses: request.resources.iter().map(result).collect() }
    }

    pub(super) fn incremental_alter_configs<'r>(
        request: &IncrementalAlterConfigsRequest<'r>,
        error: ApiError,
    ) -> IncrementalAlterConfigsResponse<'r> {
        let result = |resource: &wire::incremental_alter_configs_request::AlterConfigsResource<'r>| {
            let (error_code, error_message) = parts(error.clone());
            let resource_name = resource.resource_name.clone();
            AlterConfigsResourceResponse {
                error_code,
                error_message,
                resource_type: resource.resource_type,
                resource_name,
            }
        };
        IncrementalAlterConfigsResponse {
            throttle_time_ms: 0,
            responses: request.resources.iter().map(result).collect(),
        }
    }

    pub(super) fn elect_leaders<'r>(request: &ElectLeadersRequest<'r>, error: ApiError) -> ElectLeadersResponse<'r> {
        let (error_code, error_message) = parts(error);
        let topics = request.topic_partitions.as_deref().unwrap_or_default();
        let result = |topic: &wire::elect_leaders_request::TopicPartitions<'r>| {
            let of = |index: &i32| PartitionResult {
                partition_id: *index,
                error_code,
                error_message: error_message.clone(),
            };
            ReplicaElectionResult {
                topic: topic.topic.clone(),
                partition_result: topic.partitions.iter().map(of).collect(),
            }
        };
        ElectLeadersResponse {
            throttle_time_ms: 0,
            error_code,
            replica_election_results: topics.iter().map(result).collect(),
        }
    }

    pub(super) fn alter_reassignments<'r>(
        request: &AlterPartitionReassignmentsRequest<'r>,
        error: ApiError,
    ) -> AlterPartitionReassignmentsResponse<'r> {
        let (error_code, error_message) = parts(error);
        let of = |partition: &wire::alter_partition_reassignments_request::ReassignablePartition| {
            let partition_index = partition.partition_index;
            ReassignablePartitionResponse { partition_index, error_code, error_message: error_message.clone() }
        };
        let topics = request.topics.iter().map(|topic| ReassignableTopicResponse {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(of).collect(),
        });
        AlterPartitionReassignmentsResponse {
            responses: topics.collect(),
            error_code,
            error_message: error_message.clone(),
            ..Default::default()
        }
    }

    pub(super) fn list_reassignments<'r>(error: ApiError) -> ListPartitionReassignmentsResponse<'r> {
        let (error_code, error_message) = parts(error);
        ListPartitionReassignmentsResponse { error_code, error_message, ..Default::default() }
    }

    pub(super) fn update_features<'r>(error: ApiError) -> UpdateFeaturesResponse<'r> {
        let (error_code, error_message) = parts(error);
        UpdateFeaturesResponse { error_code, error_message, ..Default::default() }
    }

    pub(super) fn broker_registration(error: &ApiError) -> BrokerRegistrationResponse {
        BrokerRegistrationResponse { error_code: error.code(), ..Default::default() }
    }

    pub(super) fn broker_heartbeat(error: &ApiError) -> BrokerHeartbeatResponse {
        BrokerHeartbeatResponse { error_code: error.code(), ..Default::default() }
    }

    pub(super) fn unregister_broker(error: ApiError) -> UnregisterBrokerResponse<'static> {
        let (error_code, error_message) = parts(error);
        UnregisterBrokerResponse { throttle_time_ms: 0, error_code, error_message }
    }

    pub(super) fn controller_registration(error: ApiError) -> ControllerRegistrationResponse<'static> {
        let (error_code, error_message) = parts(error);
        ControllerRegistrationResponse { throttle_time_ms: 0, error_code, error_message }
    }

    pub(super) fn unregister_controller(error: ApiError) -> UnregisterControllerResponse<'static> {
        let (error_code, error_message) = parts(error);
        UnregisterControllerResponse { throttle_time_ms: 0, error_code, error_message }
    }

    pub(super) fn allocate_producer_ids(error: &ApiError) -> AllocateProducerIdsResponse {
        AllocateProducerIdsResponse { error_code: error.code(), ..Default::default() }
    }

    pub(super) fn alter_partition(error: &ApiError) -> AlterPartitionResponse {
        AlterPartitionResponse { error_code: error.code(), ..Default::default() }
    }

    pub(super) fn assign_replicas_to_dirs(error: &ApiError) -> AssignReplicasToDirsResponse {
        AssignReplicasToDirsResponse { error_code: error.code(), ..Default::default() }
    }
}
