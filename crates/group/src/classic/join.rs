//! JoinGroup, versions 0 to 9. Version 1 adds the rebalance timeout, 4 the member id required round (KIP-394), 5 static
//! members (KIP-345), 7 the protocol type in the response, 8 the reason (KIP-800), 9 SkipAssignment (KIP-814).

use std::sync::Arc;

use coordinator::Token;
use tracing::info;
use wire::ErrorCode;
use wire::group_metadata_value::GroupMetadataValue;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};

use crate::api::{Client, Env};
use crate::classic::flow::{join_error, reply_join};
use crate::classic::{ClassicGroup, Member, Protocol, State, Turn};
use crate::records;
use crate::shard::{Group, GroupShard, Out, random_uuid, timer_key};
use crate::timers::{Deadline, TimerKind};

/// First version whose dynamic members are given an id before they may join.
const MEMBER_ID_REQUIRED_FROM: i16 = 4;

/// Members per group that were given an id and may still come back with it. A client that never does costs an entry for
/// its session timeout; beyond so many of them no more ids are given out.
const PENDING_JOINS_MAX: usize = 65_536;

/// Longest client or instance id of a member, in bytes: its member id is that, a dash and a UUID, and no text of the
/// protocol is longer than 32767 bytes.
const MEMBER_ID_PREFIX_BYTES_MAX: usize = 32_767 - 37;

/// A JoinGroup on its way through the group.
pub(crate) struct Join<'a> {
    /// Its token.
    pub token: Token,
    /// Its version.
    pub version: i16,
    /// The request.
    pub request: &'a JoinGroupRequest<'a>,
    /// Who sent it.
    pub client: Client<'a>,
    /// A fresh id, for a member without one.
    pub new_id: Arc<str>,
}

impl Join<'_> {
    /// The rebalance timeout; version 0 has none and means the session timeout.
    pub fn rebalance_timeout_ms(&self) -> i32 {
        if self.version == 0 { self.request.session_timeout_ms } else { self.request.rebalance_timeout_ms }
    }

    /// The instance id of a static member.
    pub fn instance_id(&self) -> Option<&str> {
        self.request.group_instance_id.as_deref()
    }

    /// The names of the protocols.
    pub fn protocol_names(&self) -> impl Iterator<Item = &str> {
        self.request.protocols.iter().map(|protocol| &*protocol.name)
    }

    /// Answers.
    pub fn fail(&self, turn: &mut Turn<'_>, member_id: &str, error: ErrorCode) {
        reply_join(turn.out, self.token, self.version, join_error(member_id, error));
    }

    fn reason(&self) -> &str {
        self.request.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("not provided")
    }
}

impl GroupShard {
    /// JoinGroup.
    pub(crate) fn join_group(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &JoinGroupRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) {
        let timeouts = env.config.session_timeout_ms_min..=env.config.session_timeout_ms_max;
        let error = if request.group_id.is_empty() {
            Some(ErrorCode::INVALID_GROUP_ID)
        } else if !timeouts.contains(&request.session_timeout_ms) {
            Some(ErrorCode::INVALID_SESSION_TIMEOUT)
        } else {
            None
        };
        if let Some(error) = error {
            return reply_join(out, token, version, join_error(&request.member_id, error));
        }
        match self.groups.get(&*request.group_id) {
            Some(Group::Consumer(group)) if !group.is_empty() => {
                return self.consumer_classic_join(env, token, request, version, client, out);
            }
            Some(Group::Consumer(group)) => {
                group.tombstones(&request.group_id, &mut out.records);
                self.groups.remove(&*request.group_id);
            }
            Some(Group::Classic(_)) => {}
            None if request.member_id.is_empty() => {}
            None => {
                let response = join_error(&request.member_id, ErrorCode::UNKNOWN_MEMBER_ID);
                return reply_join(out, token, version, response);
            }
        }
        let prefix = request.group_instance_id.as_deref().unwrap_or(client.client_id);
        if prefix.len() > MEMBER_ID_PREFIX_BYTES_MAX {
            let response = join_error(&request.member_id, ErrorCode::UNKNOWN_SERVER_ERROR);
            return reply_join(out, token, version, response);
        }
        let new_id = Arc::from(format!("{prefix}-{}", random_uuid(env.prng)));
        let join = Join { token, version, request, client, new_id };
        let is_new_group = !self.groups.contains_key(&*request.group_id);
        let id = self.group_key(&request.group_id).unwrap_or_else(|| Arc::from(&*request.group_id));
        let new = || Group::Classic(Box::new(ClassicGroup::new(env.now.wall_ms)));
        let Group::Classic(group) = self.groups.entry(id.clone()).or_insert_with(new) else { return };
        let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
        let created_ms = group.state_timestamp_ms;
        group.join(&mut turn, &join);
        if is_new_group {
            // The group is there before its first generation is: whoever loads the log must know it too.
            let value = GroupMetadataValue {
                protocol: None,
                leader: None,
                current_state_timestamp: created_ms,
                ..Default::default()
            };
            turn.out.records.extend(records::group_metadata(turn.id, value));
        }
    }
}

impl ClassicGroup {
    fn join(&mut self, turn: &mut Turn<'_>, join: &Join<'_>) {
        let id = &*join.request.member_id;
        if !self.accepts(turn.config.members_max, id) {
            self.remove_answering_sync(turn, id);
            join.fail(turn, "", ErrorCode::GROUP_MAX_SIZE_REACHED);
            self.maybe_complete_join(turn);
        } else if !self.supports(&join.request.protocol_type, join.protocol_names()) {
            join.fail(turn, id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        } else if id.is_empty() {
            self.join_without_id(turn, join);
        } else {
            self.join_with_id(turn, join);
        }
    }

    /// Whether the group has room. Members that wait count while it rebalances, so that the last to join again are the
    /// ones left out when it was made smaller.
    fn accepts(&self, members_max: usize, id: &str) -> bool {
        match self.state {
            State::Empty => true,
            State::PreparingRebalance => {
                self.awaiting_join < members_max
                    || self.members.get(id).is_some_and(|member| member.awaiting_join.is_some())
            }
            State::CompletingRebalance | State::Stable => {
                self.members.len() < members_max || self.members.contains_key(id)
            }
        }
    }

    fn join_without_id(&mut self, turn: &mut Turn<'_>, join: &Join<'_>) {
        if let Some(instance_id) = join.instance_id() {
            return match self.static_members.get(instance_id).cloned() {
                Some(old_id) => self.join_replacing(turn, join, &old_id),
                None => self.add_member(turn, join, join.new_id.clone()),
            };
        }
        if join.version < MEMBER_ID_REQUIRED_FROM {
            return self.add_member(turn, join, join.new_id.clone());
        }
        if self.pending_joins.len() >= PENDING_JOINS_MAX {
            return join.fail(turn, "", ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        let id = join.new_id.clone();
        let mut patience = Deadline::default();
        let due = turn.after_ms(join.request.session_timeout_ms.max(0).unsigned_abs().into());
        patience.set(due, turn.timers, || timer_key(turn.id, TimerKind::Session(id.clone())));
        join.fail(turn, &id, ErrorCode::MEMBER_ID_REQUIRED);
        self.pending_joins.insert(id, patience);
    }

    fn join_with_id(&mut self, turn: &mut Turn<'_>, join: &Join<'_>) {
        let id = &*join.request.member_id;
        if let Some((pending, _)) = self.pending_joins.get_key_value(id) {
            // An id that was given out never belongs to a static member.
            return match join.instance_id() {
                Some(_) => join.fail(turn, "", ErrorCode::UNKNOWN_SERVER_ERROR),
                None => self.add_member(turn, join, pending.clone()),
            };
        }
        if let Err(error) = self.check_member(id, join.instance_id()) {
            return join.fail(turn, id, error);
        }
        let same = self.members.get(id).is_some_and(|member| matches(&member.protocols, &join.request.protocols));
        match self.state {
            State::PreparingRebalance => self.rejoin(turn, join, "a member joins again"),
            // The member may have missed the response to its last JoinGroup.
            State::CompletingRebalance if same => self.answer_present(turn, join),
            State::CompletingRebalance => self.rejoin(turn, join, "a member joins with other metadata"),
            // What the leader assigns by may have changed without its metadata.
            State::Stable if self.is_leader(id) => self.rejoin(turn, join, "the leader joins again"),
            State::Stable if same => self.answer_present(turn, join),
            State::Stable => self.rejoin(turn, join, "a member joins with other metadata"),
            State::Empty => join.fail(turn, id, ErrorCode::UNKNOWN_MEMBER_ID),
        }
    }

    /// Answers with the present generation.
    fn answer_present(&mut self, turn: &mut Turn<'_>, join: &Join<'_>) {
        let response = self.join_response(&join.request.member_id, false);
        reply_join(turn.out, join.token, join.version, response);
    }

    fn rejoin(&mut self, turn: &mut Turn<'_>, join: &Join<'_>, reason: &str) {
        let id = &*join.request.member_id;
        let protocols = self.own_protocols(&join.request.protocols);
        self.update_member(id, protocols, join.rebalance_timeout_ms(), join.request.session_timeout_ms);
        self.park_join(turn, id, join.token, join.version);
        info!(group = &**turn.id, member = id, client_reason = join.reason(), reason, "join");
        self.rebalance_or_complete(turn, reason);
    }

    fn add_member(&mut self, turn: &mut Turn<'_>, join: &Join<'_>, id: Arc<str>) {
        if let Some(delay) = self.initial_delay.as_mut().filter(|_| self.state == State::PreparingRebalance) {
            delay.member_added = true;
        }
        let member = Member {
            instance_id: join.instance_id().map(Box::from),
            client_id: Box::from(join.client.client_id),
            client_host: Box::from(join.client.client_host),
            rebalance_timeout_ms: join.rebalance_timeout_ms(),
            session_timeout_ms: join.request.session_timeout_ms,
            protocols: self.own_protocols(&join.request.protocols),
            assignment: Box::default(),
            awaiting_join: None,
            join_version: join.version,
            awaiting_sync: None,
            session: Deadline::default(),
            sync_pending: false,
            is_new: true,
        };
        self.add(id.clone(), member, &join.request.protocol_type);
        self.park_join(turn, &id, join.token, join.version);
        self.extend_session(turn, &id);
        let instance_id = join.instance_id();
        info!(group = &**turn.id, member = &*id, instance_id, client_reason = join.reason(), "a new member joins");
        self.rebalance_or_complete(turn, "a new member joins");
    }

    /// A member's protocols with names the group shares; of a name given twice the first counts.
    pub fn own_protocols(&self, protocols: &[JoinGroupRequestProtocol<'_>]) -> Box<[Protocol]> {
        let mut owned: Vec<Protocol> = Vec::with_capacity(protocols.len());
        for protocol in distinct(protocols) {
            owned.push((self.shared_name(&protocol.name), Box::from(&*protocol.metadata)));
        }
        owned.into_boxed_slice()
    }
}

/// The protocols without those whose name came before.
fn distinct<'a>(
    protocols: &'a [JoinGroupRequestProtocol<'a>],
) -> impl Iterator<Item = &'a JoinGroupRequestProtocol<'a>> {
    let mut seen = std::collections::BTreeSet::new();
    protocols.iter().filter(move |protocol| seen.insert(&*protocol.name))
}

fn matches(member: &[Protocol], request: &[JoinGroupRequestProtocol<'_>]) -> bool {
    let mut distinct = distinct(request);
    let same = member.iter().all(|(name, metadata)| {
        distinct.next().is_some_and(|protocol| *protocol.name == **name && *protocol.metadata == **metadata)
    });
    same && distinct.next().is_none()
}
