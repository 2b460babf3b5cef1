//! What goes into the machine and what comes out.

use std::borrow::Cow;

use base::{Now, Prng};
use metadata::MetadataImage;
use wire::ErrorCode;
use wire::consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use wire::delete_groups_response::DeletableGroupResult;
use wire::describe_groups_response::DescribedGroup;
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::join_group_request::JoinGroupRequest;
use wire::join_group_response::JoinGroupResponse;
use wire::leave_group_request::LeaveGroupRequest;
use wire::leave_group_response::LeaveGroupResponse;
use wire::list_groups_request::ListGroupsRequest;
use wire::list_groups_response::ListGroupsResponse;
use wire::offset_commit_request::OffsetCommitRequest;
use wire::offset_commit_response::{OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use wire::offset_delete_request::OffsetDeleteRequest;
use wire::offset_delete_response::OffsetDeleteResponse;
use wire::offset_fetch_request::OffsetFetchRequestGroup;
use wire::offset_fetch_response::OffsetFetchResponseGroup;
use wire::sync_group_request::SyncGroupRequest;
use wire::sync_group_response::SyncGroupResponse;

use crate::config::GroupConfig;
use crate::consumer::HeartbeatReply;

/// What the host lends for one call.
pub struct Env<'e> {
    /// The present moment.
    pub now: Now,
    /// Chance, for member ids.
    pub prng: &'e mut Prng,
    /// The cluster's metadata as this core sees it.
    pub image: &'e MetadataImage,
    /// The broker's group options.
    pub config: &'e GroupConfig,
}

/// Who sent a request that can make a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client<'a> {
    /// `client.id` of the request header; empty when null.
    pub client_id: &'a str,
    /// The peer's address as Kafka shows it: `/127.0.0.1`.
    pub client_host: &'a str,
}

/// A request for one group or for all groups of the shard. APIs that name several groups are taken apart by the host.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// JoinGroup.
    JoinGroup {
        /// The request.
        request: &'a JoinGroupRequest<'a>,
        /// Its version.
        version: i16,
        /// Who sent it.
        client: Client<'a>,
    },
    /// SyncGroup.
    SyncGroup {
        /// The request.
        request: &'a SyncGroupRequest<'a>,
        /// Its version.
        version: i16,
    },
    /// Heartbeat.
    Heartbeat {
        /// The request.
        request: &'a HeartbeatRequest<'a>,
    },
    /// LeaveGroup.
    LeaveGroup {
        /// The request.
        request: &'a LeaveGroupRequest<'a>,
        /// Its version; below 3 it names one member.
        version: i16,
    },
    /// OffsetCommit. Topics that do not exist are answered by the machine, from its image.
    OffsetCommit {
        /// The request.
        request: &'a OffsetCommitRequest<'a>,
        /// Its version; from 10 on it names topics by id.
        version: i16,
    },
    /// OffsetFetch for one group; requests below version 8 are put into the form of a group.
    OffsetFetch {
        /// The group's part of the request.
        group: &'a OffsetFetchRequestGroup<'a>,
        /// Whether offsets of unfinished transactions are errors.
        require_stable: bool,
        /// The request's version; from 10 on it names topics by id.
        version: i16,
    },
    /// OffsetDelete.
    OffsetDelete {
        /// The request.
        request: &'a OffsetDeleteRequest<'a>,
    },
    /// DescribeGroups, one group.
    DescribeGroup {
        /// The group.
        group_id: &'a str,
        /// The request's version; from 6 on a missing group is an error.
        version: i16,
    },
    /// ListGroups, this shard's part.
    ListGroups {
        /// The request.
        request: &'a ListGroupsRequest<'a>,
    },
    /// DeleteGroups, one group.
    DeleteGroup {
        /// The group.
        group_id: &'a str,
    },
    /// ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat {
        /// The request.
        request: &'a ConsumerGroupHeartbeatRequest<'a>,
        /// Its version.
        version: i16,
        /// Who sent it.
        client: Client<'a>,
    },
    /// ConsumerGroupDescribe, one group.
    ConsumerGroupDescribe {
        /// The group.
        group_id: &'a str,
    },
}

/// A reply, in the shape of the response or of the group's part of it. Passed on by value many times, so that the large ones,
/// which are rare, are boxed.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// JoinGroup.
    JoinGroup(Box<JoinGroupResponse<'static>>),
    /// SyncGroup.
    SyncGroup(Box<SyncGroupResponse<'static>>),
    /// Heartbeat.
    Heartbeat(HeartbeatResponse),
    /// LeaveGroup.
    LeaveGroup(LeaveGroupResponse<'static>),
    /// OffsetCommit.
    OffsetCommit(OffsetCommitResponse<'static>),
    /// OffsetFetch, one group.
    OffsetFetch(OffsetFetchResponseGroup<'static>),
    /// OffsetDelete.
    OffsetDelete(OffsetDeleteResponse<'static>),
    /// DescribeGroups, one group.
    DescribeGroup(Box<DescribedGroup<'static>>),
    /// ListGroups; the host joins what all shards say.
    ListGroups(ListGroupsResponse<'static>),
    /// DeleteGroups, one group.
    DeleteGroup(DeletableGroupResult<'static>),
    /// ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat(HeartbeatReply),
    /// ConsumerGroupDescribe, one group.
    ConsumerGroupDescribe(Box<DescribedConsumerGroup<'static>>),
}

impl Reply {
    /// A SyncGroup that failed.
    pub(crate) fn sync_error(error: ErrorCode) -> Reply {
        Reply::SyncGroup(Box::new(SyncGroupResponse { error_code: error.code(), ..Default::default() }))
    }
}

/// The same text, owned.
pub(crate) fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}

/// The reply that says of a whole request that it failed: what the host answers when the shell refused it, with Kafka's
/// fields in each API.
pub fn refused(request: &Request<'_>, error: ErrorCode) -> Reply {
    let error_code = error.code();
    match request {
        Request::JoinGroup { request, version, .. } => Reply::JoinGroup(Box::new(JoinGroupResponse {
            error_code,
            protocol_name: no_protocol(*version),
            member_id: owned(&request.member_id),
            ..Default::default()
        })),
        Request::SyncGroup { .. } => Reply::sync_error(error),
        // While the group is loading nobody can say that the member is not alive.
        Request::Heartbeat { .. } => {
            let told = if error == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS { ErrorCode::NONE } else { error };
            Reply::Heartbeat(HeartbeatResponse { error_code: told.code(), ..Default::default() })
        }
        Request::LeaveGroup { .. } => Reply::LeaveGroup(LeaveGroupResponse { error_code, ..Default::default() }),
        Request::OffsetCommit { request, .. } => Reply::OffsetCommit(refused_commit(request, error)),
        Request::OffsetFetch { group, .. } => Reply::OffsetFetch(refused_fetch(group, error)),
        Request::OffsetDelete { .. } => Reply::OffsetDelete(OffsetDeleteResponse { error_code, ..Default::default() }),
        Request::DescribeGroup { group_id, .. } => {
            let group = DescribedGroup { error_code, group_id: owned(group_id), ..Default::default() };
            Reply::DescribeGroup(Box::new(group))
        }
        Request::ListGroups { .. } => Reply::ListGroups(ListGroupsResponse { error_code, ..Default::default() }),
        Request::DeleteGroup { group_id } => {
            Reply::DeleteGroup(DeletableGroupResult { group_id: owned(group_id), error_code, ..Default::default() })
        }
        Request::ConsumerGroupHeartbeat { .. } => Reply::ConsumerGroupHeartbeat(HeartbeatReply::refused(error, "")),
        Request::ConsumerGroupDescribe { group_id } => {
            let group = DescribedConsumerGroup { error_code, group_id: owned(group_id), ..Default::default() };
            Reply::ConsumerGroupDescribe(Box::new(group))
        }
    }
}

/// The protocol name in a JoinGroup response without one: null since version 7, empty before.
pub(crate) fn no_protocol(version: i16) -> Option<Cow<'static, str>> {
    (version < 7).then_some(Cow::Borrowed(""))
}

fn refused_commit(request: &OffsetCommitRequest<'_>, error: ErrorCode) -> OffsetCommitResponse<'static> {
    let topic = |topic: &wire::offset_commit_request::OffsetCommitRequestTopic<'_>| OffsetCommitResponseTopic {
        name: owned(&topic.name),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: error.code(),
            })
            .collect(),
    };
    OffsetCommitResponse { throttle_time_ms: 0, topics: request.topics.iter().map(topic).collect() }
}

/// Consumers before 3.9 do not try again on COORDINATOR_NOT_AVAILABLE; they know NOT_COORDINATOR.
fn refused_fetch(group: &OffsetFetchRequestGroup<'_>, error: ErrorCode) -> OffsetFetchResponseGroup<'static> {
    let told = if error == ErrorCode::COORDINATOR_NOT_AVAILABLE { ErrorCode::NOT_COORDINATOR } else { error };
    OffsetFetchResponseGroup { group_id: owned(&group.group_id), error_code: told.code(), ..Default::default() }
}
