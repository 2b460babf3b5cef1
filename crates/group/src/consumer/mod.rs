//! The consumer protocol (KIP-848): what a group of it is, and what the rest of the crate asks of one.

use std::sync::Arc;

use coordinator::{CoordinatorRecord, Replayed, Token};
use metadata::MetadataDelta;
use wire::ErrorCode;
use wire::consumer_group_describe_response::DescribedGroup;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use wire::group_record::{GroupKey, GroupValue};
use wire::heartbeat_request::HeartbeatRequest;
use wire::join_group_request::JoinGroupRequest;
use wire::leave_group_request::LeaveGroupRequest;
use wire::sync_group_request::SyncGroupRequest;

use crate::api::{Client, Env, Reply, Request, owned, refused};
use crate::shard::{GroupShard, Out};
use crate::timers::TimerKey;

/// A group that speaks the consumer protocol.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {}

impl ConsumerGroup {
    /// True when it has no members.
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Its state as ListGroups and ConsumerGroupDescribe spell it.
    pub fn state_name(&self) -> &'static str {
        "Empty"
    }

    /// Whether a member is subscribed to the topic: such offsets neither expire nor can be deleted.
    pub fn is_subscribed(&self, _topic: &str) -> bool {
        false
    }

    /// Whether these may commit offsets to it: a member with its epoch, or anybody with epoch -1 while it is empty.
    pub fn check_commit(
        &self,
        _member_id: &str,
        _instance_id: Option<&str>,
        _epoch: i32,
        _version: i16,
    ) -> Result<(), ErrorCode> {
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    /// Whether these may fetch its offsets (OffsetFetch since version 9).
    pub fn check_fetch(&self, _member_id: Option<&str>, _epoch: i32) -> Result<(), ErrorCode> {
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    /// The tombstones that delete it, offsets aside.
    pub fn tombstones(&self, _group_id: &str, _records: &mut Vec<CoordinatorRecord>) {}
}

impl GroupShard {
    /// ConsumerGroupHeartbeat.
    pub(crate) fn consumer_group_heartbeat(
        &mut self,
        _env: &mut Env<'_>,
        token: Token,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) {
        let request = Request::ConsumerGroupHeartbeat { request, version, client };
        out.reply(token, refused(&request, ErrorCode::UNSUPPORTED_VERSION));
    }

    /// ConsumerGroupDescribe of one group.
    pub(crate) fn consumer_group_describe(&self, _env: &Env<'_>, group_id: &str) -> DescribedGroup<'static> {
        let error_code = ErrorCode::GROUP_ID_NOT_FOUND.code();
        DescribedGroup { error_code, group_id: owned(group_id), ..Default::default() }
    }

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

    /// A record of types 3 to 8 or 16; `value` is `None` for a tombstone and has the key's type otherwise.
    pub(crate) fn replay_consumer(
        &mut self,
        _key: &GroupKey<'_>,
        _value: Option<&GroupValue<'_>>,
        _record: &Replayed<'_>,
    ) {
    }

    /// The log is loaded: starts the sessions of members and the timers of groups.
    pub(crate) fn consumer_loaded(&mut self, _env: &mut Env<'_>, _out: &mut Out) {}

    /// A deadline of a consumer group came up in the queue; [`crate::timers::Deadline::fires`] tells whether it is due.
    pub(crate) fn expire_consumer(&mut self, _env: &mut Env<'_>, _entry: (u64, TimerKey), _out: &mut Out) {}

    /// The metadata changed: subscriptions and regular expressions may mean other partitions.
    pub(crate) fn consumer_metadata_changed(&mut self, _env: &mut Env<'_>, _change: &MetadataDelta, _out: &mut Out) {}

    /// A consumer group by id.
    #[allow(dead_code)]
    pub(crate) fn consumer_group(&mut self, group_id: &str) -> Option<(Arc<str>, &mut ConsumerGroup)> {
        let id = self.group_key(group_id)?;
        match self.groups.get_mut(group_id) {
            Some(crate::shard::Group::Consumer(group)) => Some((id, group)),
            _ => None,
        }
    }
}
