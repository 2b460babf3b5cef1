//! DeleteGroups (key 42): forget empty groups and their offsets (KIP-229).
//!
//! Versions: 1 quota rule; 2 flexible; 3 a message.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;
use wire::delete_groups_response::DeleteGroupsResponse;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let replies = groups::ask(&call).await?;
    let results = replies.into_iter().map(|reply| match reply {
        Reply::DeleteGroup(result) => result,
        other => unreachable!("answered with {other:?}"),
    });
    call.respond(&DeleteGroupsResponse { results: results.collect(), ..DeleteGroupsResponse::default() })
}
