//! DescribeCluster (key 60): cluster id, controller and nodes for administrators; on a controller's listener the nodes are
//! the controllers.
//!
//! Versions: 0 the brokers; 1 the kind of endpoint wanted, so that a client notices when it talks to a broker instead of
//! a controller (KIP-919); 2 fenced brokers on request.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::topology::{self, operations};
use base::BrokerId;
use metadata::MetadataImage;
use std::borrow::Cow;
use wire::ErrorCode;
use wire::describe_cluster_request::DescribeClusterRequest;
use wire::describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponse};

/// First version that says which type of endpoint it wants.
const TYPES_FROM: i16 = 1;

/// The kind of this endpoint and of the one that the client wants.
#[derive(Clone, Copy)]
struct Kind {
    /// Its number in the protocol.
    number: i8,
    /// Its name in messages.
    name: &'static str,
}

const BROKERS: Kind = Kind { number: 1, name: "BROKER" };
const CONTROLLERS: Kind = Kind { number: 2, name: "CONTROLLER" };

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: DescribeClusterRequest = call.decode()?;
    let own = if call.session.on_controller { CONTROLLERS } else { BROKERS };
    if let Err((error, message)) = check(call, own, request.endpoint_type) {
        return call.respond(&DescribeClusterResponse {
            error_code: error.0,
            error_message: Some(Cow::Owned(message)),
            ..DescribeClusterResponse::default()
        });
    }
    let image = call.core.image();
    let (controller_id, brokers) = if call.session.on_controller {
        controllers(&image, call.listener(), call.core.node.id)
    } else {
        let brokers = topology::nodes(&image, call.listener(), request.include_fenced_brokers).map(broker).collect();
        (topology::controller_for_clients(&image, call.core.random()), brokers)
    };
    call.respond(&DescribeClusterResponse {
        endpoint_type: own.number,
        cluster_id: Cow::Borrowed(&call.core.node.cluster_id),
        controller_id,
        brokers,
        cluster_authorized_operations: operations::if_asked(
            request.include_cluster_authorized_operations,
            operations::CLUSTER,
        ),
        ..DescribeClusterResponse::default()
    })
}

/// Why this endpoint does not answer.
fn check(call: &Call, own: Kind, wanted: i8) -> Result<(), (ErrorCode, String)> {
    if call.session.on_controller && !call.core.image().features.metadata_version_or_min().has_controller_registration()
    {
        let text = "Direct-to-controller communication is not supported with the current MetadataVersion.";
        return Err((ErrorCode::UNSUPPORTED_VERSION, text.into()));
    }
    // The version without a type of endpoint does not know the errors about it.
    let known = |error| if call.version < TYPES_FROM { ErrorCode::INVALID_REQUEST } else { error };
    let Some(wanted) = [BROKERS, CONTROLLERS].into_iter().find(|kind| kind.number == wanted) else {
        return Err((known(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE), format!("Unsupported endpoint type {wanted}")));
    };
    if wanted.number == own.number {
        return Ok(());
    }
    let message = format!(
        "The request was sent to an endpoint of type {}, but we wanted an endpoint of type {}",
        own.name, wanted.name
    );
    Err((known(ErrorCode::MISMATCHED_ENDPOINT_TYPE), message))
}

fn broker(node: topology::Node<'_>) -> DescribeClusterBroker<'static> {
    DescribeClusterBroker {
        broker_id: node.broker.id,
        host: Cow::Owned(node.endpoint.host.to_string()),
        port: i32::from(node.endpoint.port),
        rack: node.broker.rack.as_deref().map(|rack| Cow::Owned(rack.to_owned())),
        is_fenced: node.broker.fenced,
    }
}

/// The registered controllers that `listener` reaches, and the one that leads, `leader`, if it is one of them.
fn controllers(
    image: &MetadataImage,
    listener: &str,
    leader: BrokerId,
) -> (BrokerId, Vec<DescribeClusterBroker<'static>>) {
    let reached = image.cluster.controllers().filter_map(|controller| {
        let endpoint = controller.listeners.get(listener)?;
        Some(DescribeClusterBroker {
            broker_id: controller.id,
            host: Cow::Owned(endpoint.host.to_string()),
            port: i32::from(endpoint.port),
            ..DescribeClusterBroker::default()
        })
    });
    let nodes: Vec<_> = reached.collect();
    let leader = if nodes.iter().any(|node| node.broker_id == leader) { leader } else { topology::NO_NODE };
    (leader, nodes)
}
