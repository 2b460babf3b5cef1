//! LeaveGroup (key 13): members leave a classic group.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 several members, static ones too (KIP-345); 4 flexible; 5 a reason (KIP-800).
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::LeaveGroup(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
