//! SyncGroup (key 14): hand the leader's assignment in and get one's own.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 static members (KIP-345); 4 flexible; 5 protocol type and name (KIP-559).
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::SyncGroup(response) => call.respond(&*response),
        other => unreachable!("answered with {other:?}"),
    }
}
