//! Members that speak the classic protocol inside a consumer group.

use coordinator::Token;
use wire::ErrorCode;
use wire::heartbeat_request::HeartbeatRequest;
use wire::join_group_request::JoinGroupRequest;
use wire::leave_group_request::LeaveGroupRequest;
use wire::sync_group_request::SyncGroupRequest;

use crate::api::{Client, Env, Reply, Request, refused};
use crate::shard::{GroupShard, Out};

impl GroupShard {
    /// JoinGroup to a consumer group that has members. An empty one has been turned into a classic group before.
    pub(crate) fn consumer_classic_join(
        &mut self,
        _env: &mut Env<'_>,
        token: Token,
        request: &JoinGroupRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) {
        let request = Request::JoinGroup { request, version, client };
        out.reply(token, refused(&request, ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
    }

    /// SyncGroup to a consumer group.
    pub(crate) fn consumer_classic_sync(
        &mut self,
        _env: &mut Env<'_>,
        token: Token,
        request: &SyncGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::SyncGroup { request, version }, ErrorCode::UNKNOWN_MEMBER_ID));
    }

    /// Heartbeat to a consumer group.
    pub(crate) fn consumer_classic_heartbeat(
        &mut self,
        _env: &mut Env<'_>,
        token: Token,
        request: &HeartbeatRequest<'_>,
        out: &mut Out,
    ) {
        out.reply(token, refused(&Request::Heartbeat { request }, ErrorCode::UNKNOWN_MEMBER_ID));
    }

    /// LeaveGroup to a consumer group.
    pub(crate) fn consumer_classic_leave(
        &mut self,
        _env: &mut Env<'_>,
        token: Token,
        request: &LeaveGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        let reply: Reply = refused(&Request::LeaveGroup { request, version }, ErrorCode::UNKNOWN_MEMBER_ID);
        out.reply(token, reply);
    }
}
