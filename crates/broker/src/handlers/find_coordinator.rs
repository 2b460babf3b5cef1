//! FindCoordinator (key 10): which broker coordinates a group.
//!
//! Versions: 0 groups; 1 kinds of keys, messages, throttle time; 3 flexible; 4 several keys (KIP-699); 5 transactions
//! (KIP-890), no new fields; 6 share groups (KIP-932).
//! Gaps: transactional ids and share partitions have no coordinator yet and are answered INVALID_REQUEST, which clients
//! take for final.

use crate::call::{Answer, Call};
use crate::internal_topics::{self, CONSUMER_OFFSETS};
use crate::topology::{self, NO_NODE};
use std::borrow::Cow;
use wire::ErrorCode;
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::find_coordinator_response::{Coordinator, FindCoordinatorResponse};

/// First version with several keys.
const BATCHED_FROM: i16 = 4;
/// Kinds of keys.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// Where a coordinator is, or why that is not known.
type Found = Result<(i32, String, i32), (ErrorCode, Option<&'static str>)>;

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: FindCoordinatorRequest<'_> = call.decode()?;
    if call.version < BATCHED_FROM {
        let found = find(call, request.key_type, &request.key);
        let one = coordinator(Cow::Borrowed(""), found);
        let none = || Some(Cow::Borrowed("NONE"));
        return call.respond(&FindCoordinatorResponse {
            error_code: one.error_code,
            error_message: if one.error_code == 0 { none() } else { one.error_message },
            node_id: one.node_id,
            host: one.host,
            port: one.port,
            ..FindCoordinatorResponse::default()
        });
    }
    let keys = request.coordinator_keys.iter();
    let coordinators = keys.map(|key| coordinator(key.clone(), find(call, request.key_type, key))).collect();
    call.respond(&FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() })
}

fn find(call: &Call, key_type: i8, key: &str) -> Found {
    match key_type {
        GROUP => find_group(call, key),
        TRANSACTION => Err((ErrorCode::INVALID_REQUEST, Some("Transactions are not served by this broker yet."))),
        SHARE => Err((ErrorCode::INVALID_REQUEST, Some("Share groups are not served by this broker yet."))),
        _ => Err((ErrorCode::INVALID_REQUEST, Some("Unknown coordinator type."))),
    }
}

fn find_group(call: &Call, key: &str) -> Found {
    let unavailable = (ErrorCode::COORDINATOR_NOT_AVAILABLE, None);
    let image = call.core.image();
    let Some(topic) = image.topics.by_name(CONSUMER_OFFSETS) else {
        internal_topics::create_consumer_offsets(&call.core);
        return Err(unavailable);
    };
    let partitions = internal_topics::consumer_offsets_partitions(&image, &call.core.config());
    let partition = topic.partition(group::partition_for(key, partitions)).ok_or(unavailable)?;
    let node = topology::node(&image, call.listener(), partition.leader).ok_or(unavailable)?;
    Ok((node.broker.id, node.endpoint.host.to_string(), i32::from(node.endpoint.port)))
}

fn coordinator(key: Cow<'_, str>, found: Found) -> Coordinator<'_> {
    match found {
        Ok((node_id, host, port)) => {
            Coordinator { key, node_id, host: Cow::Owned(host), port, ..Coordinator::default() }
        }
        Err((error, message)) => Coordinator {
            key,
            node_id: NO_NODE,
            port: -1,
            error_code: error.0,
            error_message: Some(Cow::Borrowed(message.unwrap_or(error.message()))),
            ..Coordinator::default()
        },
    }
}
