//! ConsumerGroupHeartbeat (key 68): join, report and get assignments in a consumer group (KIP-848).
//!
//! Versions: 0 the broker gives member ids; 1 the client does, and regular expressions.
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::ConsumerGroupHeartbeat(reply) => call.respond(&reply.response()),
        other => unreachable!("answered with {other:?}"),
    }
}
