//! OffsetDelete (key 47): forget offsets of a group (KIP-496).
//!
//! Versions: 0.
//! Gaps: none.

use crate::call::{Answer, Call};
use group::Reply;

/// The answer, from the reply of the group.
pub fn answer(call: &Call, reply: Reply) -> Answer {
    match reply {
        Reply::OffsetDelete(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
