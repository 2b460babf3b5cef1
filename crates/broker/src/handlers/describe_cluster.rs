//! DescribeCluster (key 60): cluster id, controller and nodes for administrators.
//!
//! Versions: 0 the brokers; 1 the kind of endpoint wanted, so that a client notices when it talks to a broker instead of
//! a controller (KIP-919); 2 fenced brokers on request.
//! Gaps: none on broker listeners.

use crate::call::{Answer, Call};
use crate::topology::{self, operations};
use std::borrow::Cow;
use wire::ErrorCode;
use wire::describe_cluster_request::DescribeClusterRequest;
use wire::describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponse};

/// Endpoint types of the protocol.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: DescribeClusterRequest = call.decode()?;
    let refusal = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some((
            ErrorCode::MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER".into(),
        )),
        other => Some((ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, format!("Unsupported endpoint type {other}"))),
    };
    if let Some((error, message)) = refusal {
        return call.respond(&DescribeClusterResponse {
            error_code: error.0,
            error_message: Some(Cow::Owned(message)),
            ..DescribeClusterResponse::default()
        });
    }
    let image = call.core.image();
    let broker = |node: topology::Node<'_>| DescribeClusterBroker {
        broker_id: node.broker.id,
        host: Cow::Owned(node.endpoint.host.to_string()),
        port: i32::from(node.endpoint.port),
        rack: node.broker.rack.as_deref().map(|rack| Cow::Owned(rack.to_owned())),
        is_fenced: node.broker.fenced,
    };
    call.respond(&DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: Cow::Borrowed(&call.core.node.cluster_id),
        controller_id: topology::controller_for_clients(&image, call.core.random()),
        brokers: topology::nodes(&image, call.listener(), request.include_fenced_brokers).map(broker).collect(),
        cluster_authorized_operations: operations::if_asked(
            request.include_cluster_authorized_operations,
            operations::CLUSTER,
        ),
        ..DescribeClusterResponse::default()
    })
}
