//! Members that speak the classic protocol inside a consumer group: to them, an epoch is a generation, a step of the
//! reconciliation is a rebalance, and what SyncGroup brings is their current assignment.

use std::sync::Arc;

use coordinator::Token;
use metadata::MetadataImage;
use wire::ErrorCode;
use wire::consumer_group_heartbeat_request::TopicPartitions;
use wire::consumer_protocol_subscription::ConsumerProtocolSubscription;
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::join_group_request::JoinGroupRequest;
use wire::join_group_response::JoinGroupResponse;
use wire::leave_group_request::LeaveGroupRequest;
use wire::sync_group_request::SyncGroupRequest;
use wire::sync_group_response::SyncGroupResponse;

use crate::api::{Client, Env, Reply, Request, owned, refused};
use crate::classic::{join_error, leaving, left, member_response, reply_join};
use crate::consumer::decision::{Candidate, Decision, RegexChange, Revoke, owning_static_member, random_member_id};
use crate::consumer::group::{ConsumerGroup, NO_EPOCH};
use crate::consumer::member::{ClassicMember, ClientName, Member, MemberState, Subscription};
use crate::consumer::migrate::downgrades_on_join;
use crate::consumer::records::Records;
use crate::consumer::refusal::Refusal;
use crate::consumer::soft::{Fresh, NEVER, Waits, after_ms};
use crate::shard::{Group, GroupShard, Out};
use crate::subscription::{self, CONSUMER_PROTOCOL_TYPE};

/// First version of JoinGroup whose members must know their id before they join.
const MEMBER_ID_REQUIRED_FROM: i16 = 4;

fn refuse(error: ErrorCode) -> Refusal {
    Refusal::new(error, "")
}

/// The member that a request of the classic protocol names.
fn classic_member<'g>(
    group: &'g ConsumerGroup,
    member_id: &str,
    instance_id: Option<&str>,
) -> Result<(&'g Arc<str>, &'g Member, &'g ClassicMember), ErrorCode> {
    let (id, member) = match instance_id {
        None => group.member_entry(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?,
        Some(instance_id) => owning_static_member(group, member_id, instance_id).map_err(|refusal| refusal.error)?,
    };
    let classic = member.classic.as_ref().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
    Ok((id, member, classic))
}

impl ConsumerGroup {
    /// True while a member lacks a partition of its target that another member still has.
    fn waits_for_others(&self, member: &Member) -> bool {
        member.target().iter().any(|(topic, partition)| {
            !member.assigned.partitions().contains(topic, partition) && self.owner_epoch(topic, partition) != NO_EPOCH
        })
    }

    /// Whether a member has to join again to move on.
    fn must_rejoin(&self, member: &Member) -> bool {
        member.epoch < self.assignment_epoch
            || member.state == MemberState::UnrevokedPartitions
            || member.state == MemberState::UnreleasedPartitions && !self.waits_for_others(member)
    }
}

/// What a JoinGroup makes of the member.
fn apply(
    request: &JoinGroupRequest<'_>,
    subscription: &ConsumerProtocolSubscription<'_>,
    client: Client<'_>,
    member: &Member,
) -> Member {
    let mut after = member.clone();
    if let Some(instance_id) = request.group_instance_id.as_deref() {
        after.instance_id = Some(Arc::from(instance_id));
    }
    if let Some(rack_id) = subscription.rack_id.as_deref().filter(|rack| !rack.is_empty()) {
        after.rack_id = Some(Arc::from(rack_id));
    }
    after.rebalance_timeout_ms = rebalance_timeout_ms(request);
    let topics = subscription.topics.iter().map(|topic| &**topic);
    after.subscription = Arc::new(Subscription::new(topics, Arc::from("")));
    after.client = ClientName::new(client.client_id, client.client_host);
    let protocols = request.protocols.iter();
    let protocols = protocols.map(|protocol| (Arc::from(&*protocol.name), Box::from(&*protocol.metadata)));
    after.classic = Some(Arc::new(ClassicMember {
        session_timeout_ms: request.session_timeout_ms,
        protocols: protocols.collect(),
    }));
    after
}

/// Version 0 has none and means the session timeout.
fn rebalance_timeout_ms(request: &JoinGroupRequest<'_>) -> i32 {
    if request.rebalance_timeout_ms == -1 { request.session_timeout_ms } else { request.rebalance_timeout_ms }
}

/// What a member says it has, by the ids of the topics that exist.
fn reported(subscription: &ConsumerProtocolSubscription<'_>, image: &MetadataImage) -> Vec<TopicPartitions> {
    let topics = subscription.owned_partitions.iter();
    let known = topics.filter_map(|topic| {
        let topic_id = image.topics.by_name(&topic.topic)?.id;
        Some(TopicPartitions { topic_id, partitions: topic.partitions.clone() })
    });
    known.collect()
}

/// A decided JoinGroup.
pub(super) struct Joined {
    pub id: Arc<str>,
    pub is_known: bool,
    pub member: Member,
    pub regex_due: bool,
    /// The group becomes a classic one; it has to rebalance if its assignment was to change.
    pub downgrade: Option<bool>,
}

impl GroupShard {
    /// JoinGroup to a consumer group that has members. An empty one has been turned into a classic group before.
    pub(crate) fn consumer_classic_join(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &JoinGroupRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) {
        self.consumer.refresh(env);
        let id = match self.classic_join_id(env, request, version) {
            Ok(id) => id,
            Err(response) => return reply_join(out, token, version, *response),
        };
        let response = match self.decide_classic_join(env, &id, request, client, out) {
            Ok(joined) => self.settle_classic_join(env, request, joined, out),
            Err(refusal) => join_error("", refusal.error),
        };
        reply_join(out, token, version, response);
    }

    /// The id of the member that joins, or the answer to one that cannot, or that must know its id first.
    fn classic_join_id(
        &mut self,
        env: &mut Env<'_>,
        request: &JoinGroupRequest<'_>,
        version: i16,
    ) -> Result<Arc<str>, Box<JoinGroupResponse<'static>>> {
        let refused = |error| Err(Box::new(join_error("", error)));
        let Some(Group::Consumer(group)) = self.groups.get(&*request.group_id) else {
            return refused(ErrorCode::UNKNOWN_MEMBER_ID);
        };
        let broker = self.consumer.broker();
        if !broker.migration.upgrade && !broker.migration.downgrade {
            return refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let instance_id = request.group_instance_id.as_deref();
        let has_seat = instance_id.is_some_and(|instance| group.static_member(instance).is_some());
        if !has_seat && group.len() >= broker.members_max && group.member(&request.member_id).is_none() {
            return refused(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        let supported = request.protocols.iter().any(|protocol| group.is_supported_by_classic_members(&protocol.name));
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE || !supported {
            return refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if !request.member_id.is_empty() {
            let known = group.member_entry(&request.member_id).map(|(id, _)| id.clone());
            return Ok(known.unwrap_or_else(|| Arc::from(&*request.member_id)));
        }
        let id = random_member_id(env);
        if version >= MEMBER_ID_REQUIRED_FROM && instance_id.is_none() {
            return Err(Box::new(join_error(&id, ErrorCode::MEMBER_ID_REQUIRED)));
        }
        Ok(id)
    }

    fn decide_classic_join(
        &mut self,
        env: &mut Env<'_>,
        id: &Arc<str>,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        out: &mut Out,
    ) -> Result<Joined, Refusal> {
        let first = request.protocols.first().ok_or_else(|| refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL))?;
        let subscription =
            subscription::subscription(&first.metadata).map_err(|_| refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL))?;
        let group_id = &*request.group_id;
        let group = match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => &**group,
            _ => return Err(refuse(ErrorCode::UNKNOWN_MEMBER_ID)),
        };
        let (_, options) = self.consumer.group_options(env, group_id, &group.soft.options);
        let instance_id = request.group_instance_id.as_deref();
        let downgrades = downgrades_on_join(group, instance_id, self.consumer.broker(), env.config);
        let mut decision = Decision {
            now: env.now,
            image: env.image,
            shared: &mut self.consumer,
            group_id,
            group,
            options,
            records: Records::new(group_id),
            regex_due: false,
            topics_seen: false,
            revoke: Revoke::Keep,
        };
        let before = match instance_id {
            None => decision.dynamic_member(id, true)?,
            Some(instance_id) if request.member_id.is_empty() => {
                decision.joining_static_member(id, instance_id, true)?
            }
            Some(instance_id) => {
                let (id, member) = owning_static_member(group, id, instance_id)?;
                Candidate { id: id.clone(), member: member.clone(), is_known: true, replaces: None }
            }
        };
        let after = apply(request, &subscription, client, &before.member);
        let names_changed = decision.update_metadata(&before, &after);
        let changed = decision.update_regex(&before, &after)? != RegexChange::None || names_changed;
        let epoch = decision.update_epoch(changed, &before, &after);
        let reported = reported(&subscription, env.image);
        let downgrade = downgrades.then_some(group.assignment_epoch < epoch);
        let target = match downgrade {
            None => Some(decision.update_target(epoch, &before, &after)),
            // The leader of the classic group will work out a new assignment.
            Some(true) => None,
            Some(false) => Some((group.assignment_epoch, decision.last_target(&before, &after))),
        };
        let member = match target {
            Some(target) => decision.reconcile(&before.id, after, target, changed, Some(&reported))?,
            None => after,
        };
        let regex_due = decision.regex_due;
        out.records.extend(decision.records.finish(env.config.record_bytes_max)?);
        Ok(Joined { id: before.id, is_known: before.is_known, member, regex_due, downgrade })
    }

    /// Sets the deadlines of a member that has joined, and turns the group into a classic one if that was decided.
    fn settle_classic_join(
        &mut self,
        env: &mut Env<'_>,
        request: &JoinGroupRequest<'_>,
        joined: Joined,
        out: &mut Out,
    ) -> JoinGroupResponse<'static> {
        let group_id = &*request.group_id;
        let protocol = joined.member.classic.as_ref().and_then(|classic| classic.protocols.first());
        let response = JoinGroupResponse {
            generation_id: joined.member.epoch,
            protocol_type: Some(owned(CONSUMER_PROTOCOL_TYPE)),
            protocol_name: protocol.map(|(name, _)| owned(name)),
            member_id: owned(&joined.id),
            ..Default::default()
        };
        if joined.downgrade.is_some() {
            return match self.downgrade_on_join(env, group_id, &joined, out) {
                Ok(()) => response,
                Err(refusal) => join_error("", refusal.error),
            };
        }
        let mut waits = Waits { session_ns: after_ms(env.now, request.session_timeout_ms), rebalance: None };
        waits.rebalance_mut().sync_ns = after_ms(env.now, rebalance_timeout_ms(request));
        let GroupShard { groups, consumer, timers, .. } = self;
        if let Some(Group::Consumer(group)) = groups.get_mut(group_id)
            && let Some(seat) = group.seat_mut(&joined.id).filter(|_| joined.is_known)
        {
            let next_ns = if joined.regex_due { 0 } else { waits.next_ns() };
            seat.waits = waits;
            group.soft.regex_due |= joined.regex_due;
            group.arm(next_ns, timers, group_id);
        } else {
            let (group_id, regex_due) = (Arc::from(group_id), joined.regex_due);
            consumer.fresh.push(Fresh { group_id, member_id: joined.id, waits, regex_due });
        }
        response
    }

    /// SyncGroup to a consumer group.
    pub(crate) fn consumer_classic_sync(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &SyncGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        self.consumer.refresh(env);
        let reply = match self.decide_classic_sync(env, request) {
            Ok(assignment) => Reply::SyncGroup(Box::new(SyncGroupResponse {
                protocol_type: request.protocol_type.as_deref().map(owned),
                protocol_name: request.protocol_name.as_deref().map(owned),
                assignment: assignment.into(),
                ..Default::default()
            })),
            Err(error) => refused(&Request::SyncGroup { request, version }, error),
        };
        out.reply(token, reply);
    }

    fn decide_classic_sync(&mut self, env: &Env<'_>, request: &SyncGroupRequest<'_>) -> Result<Vec<u8>, ErrorCode> {
        let GroupShard { groups, timers, .. } = self;
        let group_id = &*request.group_id;
        let Some(Group::Consumer(group)) = groups.get_mut(group_id) else { return Err(ErrorCode::UNKNOWN_MEMBER_ID) };
        let (_, member, classic) = classic_member(group, &request.member_id, request.group_instance_id.as_deref())?;
        let (protocol, metadata) = classic.protocols.first().ok_or(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)?;
        if member.epoch != request.generation_id {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let other = |said: Option<&str>, known: &str| said.is_some_and(|said| said != known);
        if other(request.protocol_type.as_deref(), CONSUMER_PROTOCOL_TYPE)
            || other(request.protocol_name.as_deref(), protocol)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let is_late = group.assignment_epoch > member.epoch && member.state != MemberState::UnrevokedPartitions;
        let version = subscription::version_of(metadata).map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
        let assignment = subscription::assignment_blob(member.assigned.partitions(), env.image, version);
        let (session_ms, rebalance_ms) = (classic.session_timeout_ms, member.rebalance_timeout_ms);
        let Some(seat) = group.seat_mut(&request.member_id) else { return Err(ErrorCode::UNKNOWN_MEMBER_ID) };
        if is_late {
            expect_join(&mut seat.waits, after_ms(env.now, rebalance_ms));
        } else {
            seat.waits.session_ns = after_ms(env.now, session_ms);
            seat.waits.rebalance_mut().sync_ns = NEVER;
            seat.waits.tidy();
        }
        let next_ns = seat.waits.next_ns();
        group.arm(next_ns, timers, group_id);
        if is_late { Err(ErrorCode::REBALANCE_IN_PROGRESS) } else { Ok(assignment) }
    }

    /// Heartbeat to a consumer group.
    pub(crate) fn consumer_classic_heartbeat(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &HeartbeatRequest<'_>,
        out: &mut Out,
    ) {
        let error_code = self.decide_classic_heartbeat(env, request).err().unwrap_or(ErrorCode::NONE).code();
        out.reply(token, Reply::Heartbeat(HeartbeatResponse { error_code, ..Default::default() }));
    }

    fn decide_classic_heartbeat(&mut self, env: &Env<'_>, request: &HeartbeatRequest<'_>) -> Result<(), ErrorCode> {
        let GroupShard { groups, timers, .. } = self;
        let group_id = &*request.group_id;
        let Some(Group::Consumer(group)) = groups.get_mut(group_id) else { return Err(ErrorCode::UNKNOWN_MEMBER_ID) };
        let (_, member, classic) = classic_member(group, &request.member_id, request.group_instance_id.as_deref())?;
        if member.epoch != request.generation_id {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let (session_ms, rebalance_ms) = (classic.session_timeout_ms, member.rebalance_timeout_ms);
        let must_rejoin = group.must_rejoin(member);
        let Some(seat) = group.seat_mut(&request.member_id) else { return Err(ErrorCode::UNKNOWN_MEMBER_ID) };
        seat.waits.session_ns = after_ms(env.now, session_ms);
        if must_rejoin {
            expect_join(&mut seat.waits, after_ms(env.now, rebalance_ms));
        }
        let next_ns = seat.waits.next_ns();
        group.arm(next_ns, timers, group_id);
        if must_rejoin { Err(ErrorCode::REBALANCE_IN_PROGRESS) } else { Ok(()) }
    }

    /// LeaveGroup to a consumer group.
    pub(crate) fn consumer_classic_leave(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &LeaveGroupRequest<'_>,
        version: i16,
        out: &mut Out,
    ) {
        self.consumer.refresh(env);
        let group_id = &*request.group_id;
        let mut ids: Vec<Arc<str>> = Vec::new();
        let mut responses = Vec::new();
        for identity in &*leaving(request, version) {
            let result = match self.groups.get(group_id) {
                Some(Group::Consumer(group)) => {
                    leaving_member(group, &identity.member_id, identity.group_instance_id.as_deref())
                }
                _ => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            };
            responses.push(member_response(identity, result.as_ref().map(|_| ()).map_err(|error| *error)));
            ids.extend(result.ok().filter(|id| !ids.contains(id)));
        }
        match self.fence_members(env, group_id, &ids, out) {
            Ok(()) => out.reply(token, left(responses, version)),
            Err(refusal) => out.reply(token, refused(&Request::LeaveGroup { request, version }, refusal.error)),
        }
    }
}

/// A classic member has to join again before this time; an earlier one stands.
fn expect_join(waits: &mut Waits, due_ns: u64) {
    let rebalance = waits.rebalance_mut();
    rebalance.join_ns = rebalance.join_ns.min(due_ns);
}

/// The member that a LeaveGroup names. Static members can be named by their instance alone.
fn leaving_member(group: &ConsumerGroup, member_id: &str, instance_id: Option<&str>) -> Result<Arc<str>, ErrorCode> {
    match instance_id {
        None => group.member_entry(member_id).map(|(id, _)| id.clone()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID),
        Some(instance_id) if member_id.is_empty() => {
            group.static_member(instance_id).map(|(id, _)| id.clone()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
        }
        Some(instance_id) => owning_static_member(group, member_id, instance_id)
            .map(|(id, _)| id.clone())
            .map_err(|refusal| refusal.error),
    }
}
