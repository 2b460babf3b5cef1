//! Requests about groups, taken apart into one part for each group.

use bytes::Bytes;
use group::{Client, Request};
use std::borrow::Cow;
use wire::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use wire::delete_groups_request::DeleteGroupsRequest;
use wire::describe_groups_request::DescribeGroupsRequest;
use wire::heartbeat_request::HeartbeatRequest;
use wire::join_group_request::JoinGroupRequest;
use wire::leave_group_request::LeaveGroupRequest;
use wire::list_groups_request::ListGroupsRequest;
use wire::offset_commit_request::OffsetCommitRequest;
use wire::offset_delete_request::OffsetDeleteRequest;
use wire::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::sync_group_request::SyncGroupRequest;
use wire::{ApiKey, Decode, DecodeError, Reader};

/// First version of OffsetFetch with several groups.
const FETCH_GROUPS_FROM: i16 = 8;

/// An undecoded request.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// The API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// The frame.
    pub frame: &'s Bytes,
    /// Where the body begins in it.
    pub body_at: usize,
    /// Who sent it.
    pub client: Client<'s>,
}

/// One group's part of a request.
#[derive(Clone, Copy, Debug)]
pub struct Part<'r> {
    /// Its place in the request.
    pub slot: u32,
    /// The group; `None` for a request about all groups.
    pub group_id: Option<&'r str>,
    /// What is asked of its machine.
    pub request: Request<'r>,
}

/// The group of a request about just one, which each of them begins with. The rest is not looked at.
///
/// # Errors
/// The body does not begin with it.
pub fn only_group<'s>(source: &Source<'s>) -> Result<Cow<'s, str>, DecodeError> {
    Reader::behind(source.frame, source.body_at).in_form_of(source.api, source.version).string()
}

/// Decodes the request and gives `take` its parts, in order.
///
/// # Errors
/// The body is not what its version says; nothing was given then.
pub fn each(source: &Source<'_>, mut take: impl FnMut(Part<'_>)) -> Result<(), DecodeError> {
    let (version, client) = (source.version, source.client);
    let mut r = Reader::behind(source.frame, source.body_at);
    let r = &mut r;
    match source.api {
        ApiKey::JoinGroup => {
            let request = JoinGroupRequest::decode(r, version)?;
            take(one(&request.group_id, Request::JoinGroup { request: &request, version, client }));
        }
        ApiKey::SyncGroup => {
            let request = SyncGroupRequest::decode(r, version)?;
            take(one(&request.group_id, Request::SyncGroup { request: &request, version }));
        }
        ApiKey::Heartbeat => {
            let request = HeartbeatRequest::decode(r, version)?;
            take(one(&request.group_id, Request::Heartbeat { request: &request }));
        }
        ApiKey::LeaveGroup => {
            let request = LeaveGroupRequest::decode(r, version)?;
            take(one(&request.group_id, Request::LeaveGroup { request: &request, version }));
        }
        ApiKey::OffsetCommit => {
            let request = OffsetCommitRequest::decode(r, version)?;
            take(one(&request.group_id, Request::OffsetCommit { request: &request, version }));
        }
        ApiKey::OffsetDelete => {
            let request = OffsetDeleteRequest::decode(r, version)?;
            take(one(&request.group_id, Request::OffsetDelete { request: &request }));
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let request = ConsumerGroupHeartbeatRequest::decode(r, version)?;
            let heartbeat = Request::ConsumerGroupHeartbeat { request: &request, version, client };
            take(one(&request.group_id, heartbeat));
        }
        _ => return each_of_several(source, r, take),
    }
    Ok(())
}

/// The APIs whose requests name several groups, or none.
fn each_of_several(source: &Source<'_>, r: &mut Reader<'_>, mut take: impl FnMut(Part<'_>)) -> Result<(), DecodeError> {
    let version = source.version;
    match source.api {
        ApiKey::OffsetFetch => {
            let mut request = OffsetFetchRequest::decode(r, version)?;
            if version < FETCH_GROUPS_FROM {
                request.groups = vec![as_group(&request)];
            }
            for (slot, group) in (0..).zip(&request.groups) {
                let fetch = Request::OffsetFetch { group, require_stable: request.require_stable, version };
                take(Part { slot, group_id: Some(&group.group_id), request: fetch });
            }
        }
        ApiKey::DescribeGroups => {
            let request = DescribeGroupsRequest::decode(r, version)?;
            for (slot, group_id) in (0..).zip(&request.groups) {
                let describe = Request::DescribeGroup { group_id, version };
                take(Part { slot, group_id: Some(group_id), request: describe });
            }
        }
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::decode(r, version)?;
            for (slot, group_id) in (0..).zip(&request.groups_names) {
                take(Part { slot, group_id: Some(group_id), request: Request::DeleteGroup { group_id } });
            }
        }
        ApiKey::ConsumerGroupDescribe => {
            let request = ConsumerGroupDescribeRequest::decode(r, version)?;
            for (slot, group_id) in (0..).zip(&request.group_ids) {
                take(Part { slot, group_id: Some(group_id), request: Request::ConsumerGroupDescribe { group_id } });
            }
        }
        ApiKey::ListGroups => {
            let request = ListGroupsRequest::decode(r, version)?;
            take(Part { slot: 0, group_id: None, request: Request::ListGroups { request: &request } });
        }
        api => unreachable!("{api} is not about groups"),
    }
    Ok(())
}

fn one<'r>(group_id: &'r str, request: Request<'r>) -> Part<'r> {
    Part { slot: 0, group_id: Some(group_id), request }
}

/// The only group of a request of an old version in the form of the newer ones.
fn as_group<'r>(request: &OffsetFetchRequest<'r>) -> OffsetFetchRequestGroup<'r> {
    let topic = |topic: &wire::offset_fetch_request::OffsetFetchRequestTopic<'r>| OffsetFetchRequestTopics {
        name: topic.name.clone(),
        partition_indexes: topic.partition_indexes.clone(),
        ..OffsetFetchRequestTopics::default()
    };
    OffsetFetchRequestGroup {
        group_id: request.group_id.clone(),
        topics: request.topics.as_ref().map(|topics| topics.iter().map(topic).collect()),
        ..OffsetFetchRequestGroup::default()
    }
}
