//! The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. The leader assigns ranges.

use std::time::Duration;

use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::join_group_response::JoinGroupResponse;
use wire::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use wire::leave_group_response::LeaveGroupResponse;
use wire::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::sync_group_response::SyncGroupResponse;
use wire::{ApiKey, ErrorCode};

use crate::conn::{Broken, answer};
use crate::coordinator::is_passing;
use crate::group::World;
use crate::group::assign::{assigned, assignment_blob, range, subscription_blob};
use crate::group::member::{Member, RETRY_MS, Standing};

const PROTOCOL_TYPE: &str = "consumer";
const ASSIGNOR: &str = "range";

/// Joins until there is an assignment.
pub(crate) async fn join(world: &World, me: &Member) -> Result<(), Broken> {
    loop {
        let error = match join_once(world, me).await? {
            Ok(assignments) => sync(world, me, assignments).await?,
            Err(error) => error,
        };
        match error {
            ErrorCode::NONE => return Ok(()),
            // The id to come back with was kept.
            ErrorCode::MEMBER_ID_REQUIRED => {}
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION => {}
            ErrorCode::UNKNOWN_MEMBER_ID => me.reset(),
            error if is_passing(error) => reactor::sleep(Duration::from_millis(RETRY_MS)).await,
            error => return Err(format!("joining group {}: {error}", world.groups[me.group])),
        }
        if reactor::is_stopping() {
            return Err("interrupted while joining".to_owned());
        }
    }
}

/// JoinGroup; gives what the member has to say in SyncGroup.
async fn join_once(
    world: &World,
    me: &Member,
) -> Result<Result<Vec<SyncGroupRequestAssignment<'static>>, ErrorCode>, Broken> {
    let (key, version) = (ApiKey::JoinGroup, world.versions.join);
    let ms = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    let (id, blob) = (me.id.borrow().clone(), subscription_blob(&world.topic));
    let request = JoinGroupRequest {
        group_id: world.groups[me.group].as_str().into(),
        session_timeout_ms: ms(world.plan.session_timeout),
        rebalance_timeout_ms: ms(world.plan.rebalance_timeout),
        member_id: id.as_str().into(),
        protocol_type: PROTOCOL_TYPE.into(),
        protocols: vec![JoinGroupRequestProtocol { name: ASSIGNOR.into(), metadata: blob.into() }],
        ..JoinGroupRequest::default()
    };
    let link = me.own.as_ref().expect("classic members have a connection each");
    let (frame, correlation) = link.ask(key, version, &request).await?;
    let said: JoinGroupResponse<'_> = answer(&frame, key, version, correlation)?;
    let error = ErrorCode(said.error_code);
    if error.is_none() || error == ErrorCode::MEMBER_ID_REQUIRED {
        me.id.replace(said.member_id.to_string());
    }
    if !error.is_none() {
        return Ok(Err(error));
    }
    me.epoch.set(said.generation_id);
    if said.leader != said.member_id || said.skip_assignment {
        return Ok(Ok(Vec::new()));
    }
    let count = said.members.len();
    let each = said.members.iter().enumerate().map(|(i, member)| SyncGroupRequestAssignment {
        member_id: member.member_id.to_string().into(),
        assignment: assignment_blob(&world.topic, range(world.partitions, count, i)).into(),
    });
    Ok(Ok(each.collect()))
}

async fn sync(
    world: &World,
    me: &Member,
    assignments: Vec<SyncGroupRequestAssignment<'static>>,
) -> Result<ErrorCode, Broken> {
    let (key, version) = (ApiKey::SyncGroup, world.versions.sync);
    let id = me.id.borrow().clone();
    let request = SyncGroupRequest {
        group_id: world.groups[me.group].as_str().into(),
        generation_id: me.epoch.get(),
        member_id: id.as_str().into(),
        protocol_type: Some(PROTOCOL_TYPE.into()),
        protocol_name: Some(ASSIGNOR.into()),
        assignments,
        ..SyncGroupRequest::default()
    };
    let link = me.own.as_ref().expect("classic members have a connection each");
    let (frame, correlation) = link.ask(key, version, &request).await?;
    let said: SyncGroupResponse<'_> = answer(&frame, key, version, correlation)?;
    let error = ErrorCode(said.error_code);
    if error.is_none() {
        me.owned.replace(assigned(&said.assignment, &world.topic)?);
        me.standing.set(Standing::In);
    }
    Ok(error)
}

/// A heartbeat.
pub(crate) async fn beat(world: &World, me: &Member) -> Result<ErrorCode, Broken> {
    let (key, version) = (ApiKey::Heartbeat, world.versions.heartbeat);
    let (id, generation) = (me.id.borrow().clone(), me.epoch.get());
    let request = HeartbeatRequest {
        group_id: world.groups[me.group].as_str().into(),
        generation_id: generation,
        member_id: id.as_str().into(),
        ..HeartbeatRequest::default()
    };
    let (frame, correlation) = me.shared.ask(key, version, &request).await?;
    let said: HeartbeatResponse = answer(&frame, key, version, correlation)?;
    let error = ErrorCode(said.error_code);
    match error {
        ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION => me.rejoin.set(true),
        ErrorCode::UNKNOWN_MEMBER_ID => {
            me.reset();
            me.rejoin.set(true);
        }
        _ => {}
    }
    Ok(error)
}

/// Leaves the group.
pub(crate) async fn leave(world: &World, me: &Member) -> Result<(), Broken> {
    let (key, version) = (ApiKey::LeaveGroup, world.versions.leave);
    let id = me.id.borrow().clone();
    let request = LeaveGroupRequest {
        group_id: world.groups[me.group].as_str().into(),
        members: vec![MemberIdentity { member_id: id.as_str().into(), ..MemberIdentity::default() }],
        ..LeaveGroupRequest::default()
    };
    let (frame, correlation) = me.shared.ask(key, version, &request).await?;
    // Whoever was thrown out before has left as well.
    answer::<LeaveGroupResponse<'_>>(&frame, key, version, correlation).map(|_| ())
}
