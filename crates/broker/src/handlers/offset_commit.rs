//! OffsetCommit (key 8): store offsets of a group.
//!
//! Versions: 2 retention time; 3 throttle time; 4 quota rule; 5 no retention time; 6 leader epochs (KIP-320); 7 static
//! members (KIP-345); 8 flexible; 9 consumer groups (KIP-848); 10 topics by id (KIP-848).
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::OffsetCommit(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
