//! Heartbeat (key 12): a member of a classic group is alive.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 static members (KIP-345); 4 flexible.
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::Heartbeat(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
