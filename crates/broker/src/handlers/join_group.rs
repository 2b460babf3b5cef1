//! JoinGroup (key 11): become a member of a classic group, or join its next generation.
//!
//! Versions: 1 rebalance timeout; 2 throttle time; 3 quota rule; 4 a member gets its id first (KIP-394); 5 static members
//! (KIP-345); 6 flexible; 7 protocol type and null names (KIP-559); 8 a reason (KIP-800); 9 no assignment from a leader
//! that need not make one (KIP-814).
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::JoinGroup(response) => call.respond(&*response),
        other => unreachable!("answered with {other:?}"),
    }
}
