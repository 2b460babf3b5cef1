//! ConsumerGroupDescribe (key 69): state and members of consumer groups (KIP-848).
//!
//! Versions: 0; 1 whether a member speaks the classic or the consumer protocol (KIP-1099).
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::groups;
use crate::topology::operations;
use group::Reply;
use wire::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use wire::consumer_group_describe_response::{ConsumerGroupDescribeResponse, DescribedGroup};

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let replies = groups::ask(&call).await?;
    let asked = call.decode::<ConsumerGroupDescribeRequest<'_>>()?.include_authorized_operations;
    let groups = replies.into_iter().map(|reply| match reply {
        Reply::ConsumerGroupDescribe(group) => *group,
        other => unreachable!("answered with {other:?}"),
    });
    let groups = groups.map(|group| match group.error_code {
        0 => DescribedGroup { authorized_operations: operations::if_asked(asked, operations::GROUP), ..group },
        _ => group,
    });
    let groups = groups.collect();
    call.respond(&ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() })
}
