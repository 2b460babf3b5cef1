//! OffsetDelete (key 47): forget offsets of a group (KIP-496).
//!
//! Versions: 0.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    match groups::ask_one(&call).await? {
        Reply::OffsetDelete(response) => call.respond(&response),
        other => unreachable!("answered with {other:?}"),
    }
}
