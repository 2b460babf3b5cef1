//! ListGroups (key 16): the groups that this broker coordinates.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 flexible; 4 filter by state (KIP-518); 5 filter by type (KIP-848).
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use group::Reply;
use wire::ErrorCode;
use wire::list_groups_response::ListGroupsResponse;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let mut response = ListGroupsResponse::default();
    for reply in groups::ask(&call).await? {
        let Reply::ListGroups(part) = reply else { unreachable!("answered with {reply:?}") };
        // A partition that was handed on meanwhile is told by its new host.
        if part.error_code != ErrorCode::NOT_COORDINATOR.0 && response.error_code == 0 {
            response.error_code = part.error_code;
        }
        response.groups.extend(part.groups);
    }
    if response.error_code != 0 {
        response.groups.clear();
    }
    // As Kafka's hash table has ids that follow one another.
    response.groups.sort_unstable_by(|a, b| b.group_id.cmp(&a.group_id));
    call.respond(&response)
}
