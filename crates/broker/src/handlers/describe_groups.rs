//! DescribeGroups (key 15): state and members of classic groups.
//!
//! Versions: 1 throttle time; 2 quota rule; 3 authorized operations (KIP-430); 4 static members (KIP-345); 5 flexible; 6 an
//! error and a message for groups that do not exist (KIP-1043).
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use crate::topology::operations;
use group::Reply;
use wire::describe_groups_request::DescribeGroupsRequest;
use wire::describe_groups_response::{DescribeGroupsResponse, DescribedGroup};

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let replies = groups::ask(&call).await?;
    let asked = call.decode::<DescribeGroupsRequest<'_>>()?.include_authorized_operations;
    let groups = replies.into_iter().map(|reply| match reply {
        Reply::DescribeGroup(group) => *group,
        other => unreachable!("answered with {other:?}"),
    });
    let groups = groups.map(|group| match group.error_code {
        0 => DescribedGroup { authorized_operations: operations::if_asked(asked, operations::GROUP), ..group },
        _ => group,
    });
    call.respond(&DescribeGroupsResponse { groups: groups.collect(), ..DescribeGroupsResponse::default() })
}
