//! LeaveGroup, versions 0 to 5: one member below version 3, then several, static ones by their instance id alone.

use std::borrow::Cow;

use coordinator::Token;
use tracing::info;
use wire::ErrorCode;
use wire::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use wire::leave_group_response::{LeaveGroupResponse, MemberResponse};

use crate::api::{Env, Reply, owned};
use crate::classic::flow::join_error;
use crate::classic::{ClassicGroup, State, Turn};
use crate::shard::{Group, GroupShard, Out};

/// First version that names several members.
const MEMBERS_FROM: i16 = 3;

/// The members that a request names, in the form of version 3.
pub(crate) fn leaving<'a>(request: &'a LeaveGroupRequest<'a>, version: i16) -> Cow<'a, [MemberIdentity<'a>]> {
    if version >= MEMBERS_FROM {
        return Cow::Borrowed(&request.members);
    }
    Cow::Owned(vec![MemberIdentity { member_id: request.member_id.clone(), group_instance_id: None, reason: None }])
}

/// The response in the form of its version: below 3 the error of the one member is that of the whole.
pub(crate) fn left(members: Vec<MemberResponse<'static>>, version: i16) -> Reply {
    Reply::LeaveGroup(if version >= MEMBERS_FROM {
        LeaveGroupResponse { members, ..Default::default() }
    } else {
        let error_code = members.first().map_or(0, |member| member.error_code);
        LeaveGroupResponse { error_code, ..Default::default() }
    })
}

/// What is said of one leaving member.
pub(crate) fn member_response(member: &MemberIdentity<'_>, result: Result<(), ErrorCode>) -> MemberResponse<'static> {
    MemberResponse {
        member_id: owned(&member.member_id),
        group_instance_id: member.group_instance_id.as_deref().map(owned),
        error_code: result.err().unwrap_or(ErrorCode::NONE).code(),
    }
}

impl GroupShard {
    /// LeaveGroup.
    pub(crate) fn leave_group(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &LeaveGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        if request.group_id.is_empty() {
            let error_code = ErrorCode::INVALID_GROUP_ID.code();
            return out.reply(token, Reply::LeaveGroup(LeaveGroupResponse { error_code, ..Default::default() }));
        }
        let members = leaving(request, version);
        match self.groups.get_key_value(&*request.group_id) {
            Some((_, Group::Consumer(_))) => self.consumer_classic_leave(env, token, request, version, out),
            Some((id, Group::Classic(_))) => {
                let id = id.clone();
                let Some(Group::Classic(group)) = self.groups.get_mut(&id) else { return };
                let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
                let responses = group.leave(&mut turn, &members);
                out.reply(token, left(responses, version));
            }
            None => {
                let unknown = |member| member_response(member, Err(ErrorCode::UNKNOWN_MEMBER_ID));
                out.reply(token, left(members.iter().map(unknown).collect(), version));
            }
        }
    }
}

impl ClassicGroup {
    fn leave(&mut self, turn: &mut Turn<'_>, members: &[MemberIdentity<'_>]) -> Vec<MemberResponse<'static>> {
        let mut responses = Vec::with_capacity(members.len());
        let mut anybody_left = false;
        for member in members {
            let result = self.leave_one(turn, member);
            anybody_left |= result.is_ok();
            responses.push(member_response(member, result));
        }
        if anybody_left {
            match self.state {
                State::Stable | State::CompletingRebalance => self.prepare_rebalance(turn, "members left"),
                State::PreparingRebalance => self.maybe_complete_join(turn),
                State::Empty => {}
            }
        }
        responses
    }

    fn leave_one(&mut self, turn: &mut Turn<'_>, member: &MemberIdentity<'_>) -> Result<(), ErrorCode> {
        let instance_id = member.group_instance_id.as_deref();
        let id = if !member.member_id.is_empty() {
            if self.pending_joins.remove(&*member.member_id).is_some() {
                return Ok(());
            }
            self.check_member(&member.member_id, instance_id)?;
            owned(&member.member_id)
        } else {
            // An administrator removes a static member without knowing its member id.
            let found = instance_id.and_then(|instance_id| self.static_members.get(instance_id));
            owned(found.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?)
        };
        let client_reason = member.reason.as_deref().unwrap_or("not provided");
        info!(group = &**turn.id, member = &*id, instance_id, client_reason, "a member leaves");
        self.answer_join(turn, &id, join_error("", ErrorCode::UNKNOWN_MEMBER_ID));
        self.remove_answering_sync(turn, &id);
        Ok(())
    }
}
