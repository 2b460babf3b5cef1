//! Heartbeat (key 12): a member of a classic group is alive.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 static members (KIP-345); 4 flexible.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    match groups::ask_one(&call).await? {
        Reply::Heartbeat(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
