//! SyncGroup, versions 0 to 5 (3: static members, 5: protocol type and name), and Heartbeat.

use std::collections::BTreeMap;

use coordinator::Token;
use tracing::{info, warn};
use wire::ErrorCode;
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::sync_group_request::SyncGroupRequest;
use wire::sync_group_response::SyncGroupResponse;

use crate::api::{Env, Reply, owned};
use crate::classic::{ClassicGroup, State, Turn};
use crate::shard::{Group, GroupShard, Out};

/// First version that must name the protocol type and the protocol.
const PROTOCOL_REQUIRED_FROM: i16 = 5;

impl GroupShard {
    /// SyncGroup.
    pub(crate) fn sync_group(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &SyncGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        let unnamed = request.protocol_type.is_none() || request.protocol_name.is_none();
        let error = if version >= PROTOCOL_REQUIRED_FROM && unnamed {
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL
        } else if request.group_id.is_empty() {
            ErrorCode::INVALID_GROUP_ID
        } else {
            match self.groups.get_key_value(&*request.group_id) {
                Some((_, Group::Consumer(group))) if !group.is_empty() => {
                    return self.consumer_classic_sync(env, token, request, version, out);
                }
                Some((id, Group::Classic(group))) if group.state != State::Empty => {
                    let id = id.clone();
                    let Some(Group::Classic(group)) = self.groups.get_mut(&id) else { return };
                    let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
                    return group.sync(&mut turn, token, request);
                }
                _ => ErrorCode::UNKNOWN_MEMBER_ID,
            }
        };
        out.reply(token, Reply::sync_error(error));
    }

    /// Heartbeat.
    pub(crate) fn heartbeat(&mut self, env: &mut Env<'_>, token: Token, request: &HeartbeatRequest<'_>, out: &mut Out) {
        let error = if request.group_id.is_empty() {
            ErrorCode::INVALID_GROUP_ID
        } else {
            match self.groups.get_key_value(&*request.group_id) {
                Some((_, Group::Consumer(_))) => {
                    return self.consumer_classic_heartbeat(env, token, request, out);
                }
                Some((id, Group::Classic(_))) => {
                    let id = id.clone();
                    let Some(Group::Classic(group)) = self.groups.get_mut(&id) else { return };
                    let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
                    group.beat(&mut turn, request)
                }
                None => ErrorCode::UNKNOWN_MEMBER_ID,
            }
        };
        let response = HeartbeatResponse { error_code: error.code(), ..Default::default() };
        out.reply(token, Reply::Heartbeat(response));
    }
}

impl ClassicGroup {
    fn beat(&mut self, turn: &mut Turn<'_>, request: &HeartbeatRequest<'_>) -> ErrorCode {
        let id = &*request.member_id;
        if let Err(error) = self.check_member(id, request.group_instance_id.as_deref()) {
            return error;
        }
        if request.generation_id != self.generation {
            return ErrorCode::ILLEGAL_GENERATION;
        }
        match self.state {
            State::Empty => ErrorCode::UNKNOWN_MEMBER_ID,
            State::PreparingRebalance => {
                self.extend_session(turn, id);
                ErrorCode::REBALANCE_IN_PROGRESS
            }
            // A member may send heartbeats as soon as it has the JoinGroup response.
            State::CompletingRebalance | State::Stable => {
                self.extend_session(turn, id);
                ErrorCode::NONE
            }
        }
    }

    fn check_sync(&self, request: &SyncGroupRequest<'_>) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        let differs = |asked: Option<&str>, has: Option<&str>| matches!((asked, has), (Some(a), Some(b)) if a != b);
        if request.generation_id != self.generation {
            Err(ErrorCode::ILLEGAL_GENERATION)
        } else if differs(request.protocol_type.as_deref(), self.protocol_type.as_deref())
            || differs(request.protocol_name.as_deref(), self.protocol.as_deref())
        {
            Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
        } else {
            Ok(())
        }
    }

    fn sync(&mut self, turn: &mut Turn<'_>, token: Token, request: &SyncGroupRequest<'_>) {
        let id = &*request.member_id;
        if let Err(error) = self.check_sync(request) {
            return turn.out.reply(token, Reply::sync_error(error));
        }
        match self.state {
            State::Empty => turn.out.reply(token, Reply::sync_error(ErrorCode::UNKNOWN_MEMBER_ID)),
            State::PreparingRebalance => turn.out.reply(token, Reply::sync_error(ErrorCode::REBALANCE_IN_PROGRESS)),
            State::CompletingRebalance => {
                self.synced(id);
                if let Some(member) = self.members.get_mut(id)
                    && let Some(old) = member.awaiting_sync.replace(token)
                {
                    turn.out.reply(old, Reply::sync_error(ErrorCode::REBALANCE_IN_PROGRESS));
                }
                if self.is_leader(id) {
                    self.assign(turn, request);
                }
            }
            State::Stable => {
                self.synced(id);
                let assignment = self.members.get(id).map_or(&[][..], |member| &member.assignment);
                turn.out.reply(token, Reply::SyncGroup(Box::new(self.sync_response(assignment))));
            }
        }
    }

    /// The member has synced; when all have, nothing has to be waited for.
    fn synced(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            self.pending_syncs -= usize::from(std::mem::take(&mut member.sync_pending));
        }
        if self.sync_deadline.is_set() && self.all_synced() {
            self.sync_deadline.clear();
        }
    }

    fn sync_response(&self, assignment: &[u8]) -> SyncGroupResponse<'static> {
        SyncGroupResponse {
            protocol_type: self.protocol_type.as_deref().map(owned),
            protocol_name: self.protocol.as_deref().map(owned),
            assignment: assignment.to_vec().into(),
            ..Default::default()
        }
    }

    /// The leader's assignments: they are written, and whoever waits for one gets it. The group becomes stable when the
    /// record is replayed.
    fn assign(&mut self, turn: &mut Turn<'_>, request: &SyncGroupRequest<'_>) {
        let assignments: BTreeMap<&str, &[u8]> =
            request.assignments.iter().map(|item| (&*item.member_id, &*item.assignment)).collect();
        let missing = self.members.keys().filter(|id| !assignments.contains_key(&***id)).count();
        if missing > 0 {
            warn!(group = &**turn.id, generation = self.generation, missing, "members without assignment");
        }
        info!(group = &**turn.id, generation = self.generation, members = self.members.len(), "assignments received");
        let record = self.record(turn.id, |id, _| assignments.get(id).copied().unwrap_or_default());
        let record = record.ok().filter(|record| record.size() <= turn.config.record_bytes_max);
        let Some(record) = record else {
            warn!(group = &**turn.id, limit = turn.config.record_bytes_max, "the group is too large for one record");
            self.members.values_mut().for_each(|member| member.assignment = Box::default());
            self.fail_syncs(turn, ErrorCode::UNKNOWN_SERVER_ERROR);
            return self.prepare_rebalance(turn, "the assignments could not be stored");
        };
        turn.out.records.push(record);
        self.answer_syncs(turn, |group, id| group.sync_response(assignments.get(id).copied().unwrap_or_default()));
    }
}
