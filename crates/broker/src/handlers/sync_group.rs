//! SyncGroup (key 14): hand the leader's assignment in and get one's own.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 static members (KIP-345); 4 flexible; 5 protocol type and name (KIP-559).
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    match groups::ask_one(&call).await? {
        Reply::SyncGroup(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
