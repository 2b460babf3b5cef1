//! DeleteGroups (key 42): forget empty groups and their offsets (KIP-229).
//!
//! Versions: 1 quota rule; 2 flexible; 3 a message.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;
use std::collections::HashSet;
use wire::delete_groups_response::DeleteGroupsResponse;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let replies = groups::ask(&call).await?;
    let results = replies.into_iter().map(|reply| match reply {
        Reply::DeleteGroup(result) => result,
        other => unreachable!("answered with {other:?}"),
    });
    // A group that is named twice is answered once: it was there, or it was not.
    let mut named = HashSet::new();
    let results = results.filter(|result| named.insert(result.group_id.to_string())).collect();
    call.respond(&DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() })
}
