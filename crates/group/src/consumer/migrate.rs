//! Groups that change their protocol while they have members (KIP-848), as `group.consumer.migration.policy` allows.

use std::sync::Arc;

use coordinator::Token;
use wire::ErrorCode;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;

use crate::api::{Env, Reply};
use crate::classic::State;
use crate::consumer::group::ConsumerGroup;
use crate::consumer::records::Records;
use crate::consumer::refusal::Refusal;
use crate::records::group_tombstone;
use crate::shard::{Group, GroupShard, Out};

/// A consumer group that comes into being with the request at hand.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The group, as its records will make it.
    pub group: ConsumerGroup,
}

impl GroupShard {
    /// The group that a heartbeat wants to be in. `None` when it is a consumer group already; otherwise the records that
    /// make it one are added.
    pub(super) fn consumer_group_to_join(
        &mut self,
        _env: &mut Env<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        records: &mut Records<'_>,
    ) -> Result<Option<Made>, Refusal> {
        let group_id = &*request.group_id;
        let joins = request.member_epoch == 0;
        let not_found = |message: String| Err(Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message));
        match self.groups.get(group_id) {
            Some(Group::Consumer(_)) => Ok(None),
            None if joins => Ok(Some(Made::default())),
            None => not_found(format!("Consumer group {group_id} not found.")),
            Some(Group::Classic(group)) if joins && group.state == State::Empty => {
                records.push(group_tombstone(group_id));
                Ok(Some(Made::default()))
            }
            Some(_) => not_found(format!("Group {group_id} is not a consumer group.")),
        }
    }

    /// The requests that wait in the classic group that `made` was made of.
    pub(super) fn leave_classic_group(&mut self, _made: Made) -> Vec<(Token, Reply)> {
        Vec::new()
    }

    pub(super) fn may_downgrade_without(&self, _env: &Env<'_>, _group_id: &str, _ids: &[Arc<str>]) -> bool {
        false
    }

    pub(super) fn downgrade_without(
        &mut self,
        _env: &mut Env<'_>,
        _group_id: &str,
        _ids: &[Arc<str>],
        _out: &mut Out,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}
