//! ConsumerGroupHeartbeat (key 68): join, report and get assignments in a consumer group (KIP-848).
//!
//! Versions: 0 the broker gives member ids; 1 the client does, and regular expressions.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    match groups::ask_one(&call).await? {
        Reply::ConsumerGroupHeartbeat(reply) => call.respond(&reply.response()),
        other => unreachable!("answered with {other:?}"),
    }
}
