//! Requests whose handling is not in the crate yet; each is refused.

use coordinator::{Marker, Replayed, Token};
use metadata::MetadataDelta;
use wire::ErrorCode;
use wire::describe_groups_response::DescribedGroup;
use wire::group_metadata_value::GroupMetadataValue;
use wire::heartbeat_request::HeartbeatRequest;
use wire::join_group_request::JoinGroupRequest;
use wire::leave_group_request::LeaveGroupRequest;
use wire::list_groups_request::ListGroupsRequest;
use wire::list_groups_response::ListGroupsResponse;
use wire::offset_commit_request::OffsetCommitRequest;
use wire::offset_commit_value::OffsetCommitValue;
use wire::offset_delete_request::OffsetDeleteRequest;
use wire::offset_fetch_request::OffsetFetchRequestGroup;
use wire::offset_fetch_response::OffsetFetchResponseGroup;
use wire::sync_group_request::SyncGroupRequest;

use crate::api::*;
use crate::shard::{GroupShard, Out};
use crate::timers::TimerKey;

const NOT_YET: ErrorCode = ErrorCode::COORDINATOR_NOT_AVAILABLE;

impl GroupShard {
    pub(crate) fn join_group(
        &mut self,
        _: &mut Env<'_>,
        token: Token,
        request: &JoinGroupRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::JoinGroup { request, version, client }, NOT_YET));
    }
    pub(crate) fn sync_group(
        &mut self,
        _: &mut Env<'_>,
        token: Token,
        request: &SyncGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::SyncGroup { request, version }, NOT_YET));
    }
    pub(crate) fn heartbeat(&mut self, _: &mut Env<'_>, token: Token, request: &HeartbeatRequest<'_>, out: &mut Out) {
        out.reply(token, refused(&Request::Heartbeat { request }, NOT_YET));
    }
    pub(crate) fn leave_group(
        &mut self,
        _: &mut Env<'_>,
        token: Token,
        request: &LeaveGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::LeaveGroup { request, version }, NOT_YET));
    }
    pub(crate) fn offset_commit(
        &mut self,
        _: &mut Env<'_>,
        token: Token,
        request: &OffsetCommitRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::OffsetCommit { request, version }, NOT_YET));
    }
    pub(crate) fn offset_fetch(
        &mut self,
        _: &mut Env<'_>,
        group: &OffsetFetchRequestGroup<'_>,
        _: bool,
        _: i16,
    ) -> OffsetFetchResponseGroup<'static> {
        OffsetFetchResponseGroup { group_id: owned(&group.group_id), error_code: NOT_YET.code(), ..Default::default() }
    }
    pub(crate) fn offset_delete(
        &mut self,
        _: &mut Env<'_>,
        token: Token,
        request: &OffsetDeleteRequest<'_>,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::OffsetDelete { request }, NOT_YET));
    }
    pub(crate) fn describe_group(&self, group_id: &str, _: i16) -> DescribedGroup<'static> {
        DescribedGroup { error_code: NOT_YET.code(), group_id: owned(group_id), ..Default::default() }
    }
    pub(crate) fn list_groups(&self, _: &ListGroupsRequest<'_>) -> ListGroupsResponse<'static> {
        ListGroupsResponse::default()
    }
    pub(crate) fn delete_group(&mut self, token: Token, group_id: &str, out: &mut Out) {
        out.reply(token, refused(&Request::DeleteGroup { group_id }, NOT_YET));
    }
    pub(crate) fn replay_offset(
        &mut self,
        _: &str,
        _: &str,
        _: i32,
        _: Option<&OffsetCommitValue<'_>>,
        _: &Replayed<'_>,
    ) {
    }
    pub(crate) fn replay_classic(&mut self, _: &str, _: Option<&GroupMetadataValue<'_>>) {}
    pub(crate) fn classic_loaded(&mut self, _: &mut Env<'_>, _: &mut Out) {}
    pub(crate) fn schedule_offsets_check(&mut self, _: &mut Env<'_>) {}
    pub(crate) fn expire_offsets(&mut self, _: &mut Env<'_>, _: (u64, TimerKey), _: &mut Out) {}
    pub(crate) fn expire_classic(&mut self, _: &mut Env<'_>, _: (u64, TimerKey), _: &mut Out) {}
    pub(crate) fn delete_offsets_of_deleted_topics(&mut self, _: &MetadataDelta, _: &mut Out) {}
}

impl crate::offsets::OffsetStore {
    pub(crate) fn len(&self) -> usize {
        0
    }
    pub(crate) fn end_transaction(&mut self, _: &Marker) {}
}
