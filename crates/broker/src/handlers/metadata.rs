//! Metadata (key 3): brokers, and for topics their partitions and leaders.
//!
//! Versions: 0 an empty list asks for all topics; 1 null does, rack, controller id, is_internal; 2 cluster id; 3 throttle
//! time; 4 auto-creation can be declined; 5 offline replicas; 6 LISTENER_NOT_FOUND; 7 leader epochs; 8 authorized
//! operations; 9 flexible; 10 topic ids in the response; 11 no cluster operations; 12 topics by id; 13 a top-level error
//! code (used only with REBOOTSTRAP_REQUIRED, which a broker sends when it knows its client is on a stale address).
//! Gaps: without an authorizer every operation is allowed.

use crate::auto_create;
use crate::call::{Answer, Call};
use crate::topology::{self, operations};
use metadata::{MetadataImage, TopicImage};
use std::borrow::Cow;
use std::collections::BTreeSet;
use wire::ErrorCode;
use wire::metadata_request::MetadataRequest;
use wire::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

/// First version that can name topics by id.
const TOPIC_IDS_FROM: i16 = 12;
/// First version whose clients know LISTENER_NOT_FOUND.
const LISTENER_NOT_FOUND_FROM: i16 = 6;

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: MetadataRequest<'_> = call.decode()?;
    let image = call.core.image();
    let view = View { call, image: &image, topic_operations: request.include_topic_authorized_operations };
    let mut response = view.cluster();
    response.cluster_authorized_operations =
        operations::if_asked(request.include_cluster_authorized_operations, operations::CLUSTER);
    match view.topics(&request, &mut response) {
        Ok(()) => call.respond(&response),
        Err(error) => call.respond(&view.refused(&request, error)),
    }
}

struct View<'i> {
    call: &'i Call,
    image: &'i MetadataImage,
    topic_operations: bool,
}

impl<'i> View<'i> {
    fn cluster(&self) -> MetadataResponse<'i> {
        let broker = |node: topology::Node<'i>| MetadataResponseBroker {
            node_id: node.broker.id,
            host: Cow::Borrowed(&node.endpoint.host),
            port: i32::from(node.endpoint.port),
            rack: node.broker.rack.as_deref().map(Cow::Borrowed),
        };
        MetadataResponse {
            brokers: topology::nodes(self.image, self.call.listener(), false).map(broker).collect(),
            cluster_id: Some(Cow::Borrowed(&self.call.core.node.cluster_id)),
            controller_id: topology::controller_for_clients(self.image, self.call.core.random()),
            ..MetadataResponse::default()
        }
    }

    /// The answer to a request that is wrong as a whole: every topic has the error, and there is nothing else.
    fn refused(&self, request: &MetadataRequest<'i>, error: ErrorCode) -> MetadataResponse<'i> {
        let topics = request.topics.iter().flatten().map(|topic| MetadataResponseTopic {
            topic_id: topic.topic_id,
            is_internal: false,
            topic_authorized_operations: operations::NOT_ASKED,
            ..self.failed(error, Some(topic.name.clone().unwrap_or_default()))
        });
        MetadataResponse { error_code: error.0, topics: topics.collect(), ..MetadataResponse::default() }
    }

    /// # Errors
    /// INVALID_REQUEST when the request names topics in a way its version does not have; UNKNOWN_SERVER_ERROR, as
    /// Apache Kafka's, for a topic with neither name nor id.
    fn topics(&self, request: &MetadataRequest<'i>, response: &mut MetadataResponse<'i>) -> Result<(), ErrorCode> {
        let version = self.call.version;
        let Some(asked) = request.topics.as_ref().filter(|topics| !(topics.is_empty() && version == 0)) else {
            response.topics = self.image.topics.iter().map(|topic| self.topic(topic)).collect();
            return Ok(());
        };
        if version < TOPIC_IDS_FROM && asked.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_zero()) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if asked.iter().any(|topic| topic.name.is_none() && topic.topic_id.is_zero()) {
            return Err(ErrorCode::UNKNOWN_SERVER_ERROR);
        }
        let ids: BTreeSet<_> = asked.iter().map(|topic| topic.topic_id).filter(|id| !id.is_zero()).collect();
        for id in &ids {
            response.topics.push(match self.image.topics.by_id(*id) {
                Some(topic) => self.topic(topic),
                None => MetadataResponseTopic { topic_id: *id, ..self.failed(ErrorCode::UNKNOWN_TOPIC_ID, None) },
            });
        }
        if ids.is_empty() {
            let names: BTreeSet<_> = asked.iter().filter_map(|topic| topic.name.clone()).collect();
            self.by_name(names, request.allow_auto_topic_creation, response);
        }
        Ok(())
    }

    fn by_name(&self, names: BTreeSet<Cow<'i, str>>, may_create: bool, response: &mut MetadataResponse<'i>) {
        let (known, missing): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| self.image.topics.by_name(name).is_some());
        if may_create && !missing.is_empty() {
            auto_create::start(self.call, missing.iter().map(AsRef::as_ref));
        }
        let known = known.iter().filter_map(|name| self.image.topics.by_name(name));
        response.topics.extend(known.map(|topic| self.topic(topic)));
        for name in missing {
            response.topics.push(MetadataResponseTopic {
                topic_authorized_operations: operations::if_asked(self.topic_operations, operations::TOPIC),
                ..self.failed(topology::missing_topic_error(&name), Some(name))
            });
        }
    }

    fn failed(&self, error: ErrorCode, name: Option<Cow<'i, str>>) -> MetadataResponseTopic<'i> {
        MetadataResponseTopic {
            error_code: error.0,
            is_internal: name.as_deref().is_some_and(topology::is_internal),
            name: name.or_else(|| (self.call.version < TOPIC_IDS_FROM).then_some(Cow::Borrowed(""))),
            topic_authorized_operations: operations::NOT_ASKED,
            ..MetadataResponseTopic::default()
        }
    }

    fn topic(&self, topic: &'i TopicImage) -> MetadataResponseTopic<'i> {
        let names_listener_error = self.call.version >= LISTENER_NOT_FOUND_FROM;
        let partitions = topic.partitions().map(|(index, partition)| {
            let view = topology::partition_view(self.image, self.call.listener(), partition, names_listener_error);
            MetadataResponsePartition {
                error_code: view.error.0,
                partition_index: index,
                leader_id: view.leader,
                leader_epoch: view.leader_epoch,
                replica_nodes: partition.replicas.clone(),
                isr_nodes: partition.isr.clone(),
                offline_replicas: view.offline,
            }
        });
        MetadataResponseTopic {
            error_code: ErrorCode::NONE.0,
            name: Some(Cow::Borrowed(&topic.name)),
            topic_id: topic.id,
            is_internal: topology::is_internal(&topic.name),
            partitions: partitions.collect(),
            topic_authorized_operations: operations::if_asked(self.topic_operations, operations::TOPIC),
        }
    }
}
