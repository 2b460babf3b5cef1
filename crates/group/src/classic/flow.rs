//! How a classic group moves from state to state, whatever made it move.

use std::sync::Arc;

use base::Now;
use coordinator::Token;
use tracing::{debug, info};
use wire::ErrorCode;
use wire::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use wire::sync_group_response::SyncGroupResponse;

use crate::api::{Reply, no_protocol, owned};
use crate::classic::{ClassicGroup, InitialDelay, State};
use crate::config::GroupConfig;
use crate::shard::{Out, timer_key};
use crate::timers::{TimerKind, Timers};

/// How long a member that joins for the first time waits before it is taken for gone, ms: it cannot send heartbeats
/// meanwhile, and its client tries again after its own request timeout.
pub(crate) const NEW_MEMBER_JOIN_TIMEOUT_MS: u64 = 300_000;

/// What a group may use during one call.
pub(crate) struct Turn<'a> {
    /// The group's id.
    pub id: &'a Arc<str>,
    /// The present moment.
    pub now: Now,
    /// The broker's options.
    pub config: &'a GroupConfig,
    /// The shard's deadlines.
    pub timers: &'a mut Timers,
    /// Records and replies.
    pub out: &'a mut Out,
}

impl Turn<'_> {
    /// The monotonic time in `ms`.
    pub fn after_ms(&self, ms: u64) -> u64 {
        self.now.plus_ms(ms).mono_ns
    }
}

impl ClassicGroup {
    /// Starts a member's session anew.
    pub fn extend_session(&mut self, turn: &mut Turn<'_>, id: &str) {
        let Some(member) = self.members.get_mut(id) else { return };
        let timeout = if member.is_new {
            NEW_MEMBER_JOIN_TIMEOUT_MS
        } else {
            member.session_timeout_ms.max(0).unsigned_abs().into()
        };
        let due = turn.after_ms(timeout);
        if member.session.put_off(due) {
            return;
        }
        let Some(shared) = self.members.get_key_value(id).map(|(shared, _)| shared.clone()) else { return };
        let Some(member) = self.members.get_mut(id) else { return };
        member.session.set(due, turn.timers, || timer_key(turn.id, TimerKind::Session(shared)));
    }

    /// Answers a member's JoinGroup if it waits.
    pub fn answer_join(&mut self, turn: &mut Turn<'_>, id: &str, response: JoinGroupResponse<'static>) {
        let Some(member) = self.members.get_mut(id) else { return };
        let version = member.join_version;
        if let Some(token) = member.awaiting_join.take() {
            self.awaiting_join -= 1;
            reply_join(turn.out, token, version, response);
        }
    }

    /// Lets a member wait for the end of the join. Its earlier JoinGroup, given up by the client, is told to try again.
    pub fn park_join(&mut self, turn: &mut Turn<'_>, id: &str, token: Token, version: i16) {
        let Some(member) = self.members.get_mut(id) else { return };
        let old_version = std::mem::replace(&mut member.join_version, version);
        match member.awaiting_join.replace(token) {
            Some(old) => {
                reply_join(turn.out, old, old_version, join_error(id, ErrorCode::REBALANCE_IN_PROGRESS));
            }
            None => self.awaiting_join += 1,
        }
    }

    /// Begins a rebalance, or ends the running one if this was what it waited for.
    pub fn rebalance_or_complete(&mut self, turn: &mut Turn<'_>, reason: &str) {
        if self.state == State::PreparingRebalance {
            self.maybe_complete_join(turn);
        } else {
            self.prepare_rebalance(turn, reason);
        }
    }

    /// Ends the join if everybody is there. The first rebalance lasts for its delay in any case.
    pub fn maybe_complete_join(&mut self, turn: &mut Turn<'_>) {
        if self.state == State::PreparingRebalance && self.initial_delay.is_none() && self.all_joined() {
            self.complete_join(turn);
        }
    }

    /// Asks all members to join again.
    pub fn prepare_rebalance(&mut self, turn: &mut Turn<'_>, reason: &str) {
        if self.state == State::CompletingRebalance {
            self.members.values_mut().for_each(|member| member.assignment = Box::default());
            self.fail_syncs(turn, ErrorCode::REBALANCE_IN_PROGRESS);
        }
        self.clear_sync();
        let initial = self.state == State::Empty;
        self.transition(State::PreparingRebalance, turn.now.wall_ms);
        info!(group = &**turn.id, generation = self.generation, members = self.members.len(), reason, "rebalance");
        let wait_ms = if initial {
            let delay_ms = turn.config.initial_rebalance_delay_ms.max(0);
            let rebalance_ms = i32::try_from(self.rebalance_timeout_ms()).unwrap_or(i32::MAX);
            let remaining_ms = (rebalance_ms - delay_ms).max(0);
            self.initial_delay = Some(InitialDelay { delay_ms, remaining_ms, member_added: false });
            u64::from(delay_ms.unsigned_abs())
        } else if self.all_joined() {
            return self.complete_join(turn);
        } else {
            self.rebalance_timeout_ms()
        };
        self.schedule_join(turn, wait_ms);
    }

    fn schedule_join(&mut self, turn: &mut Turn<'_>, ms: u64) {
        let due = turn.after_ms(ms);
        self.join_deadline.set(due, turn.timers, || timer_key(turn.id, TimerKind::Join));
    }

    /// Nobody has to sync any more, and no deadline runs for it.
    fn clear_sync(&mut self) {
        self.members.values_mut().for_each(|member| member.sync_pending = false);
        self.pending_syncs = 0;
        self.sync_deadline.clear();
    }

    /// Answers all waiting SyncGroups with an error.
    pub fn fail_syncs(&mut self, turn: &mut Turn<'_>, error: ErrorCode) {
        self.answer_syncs(turn, |_, _| SyncGroupResponse { error_code: error.code(), ..Default::default() });
    }

    /// Answers all waiting SyncGroups with what `response` makes for each member.
    pub fn answer_syncs(
        &mut self,
        turn: &mut Turn<'_>,
        response: impl Fn(&ClassicGroup, &str) -> SyncGroupResponse<'static>,
    ) {
        let waiting: Vec<Arc<str>> = self
            .members
            .iter()
            .filter(|(_, member)| member.awaiting_sync.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for id in waiting {
            let token = self.members.get_mut(&id).and_then(|member| member.awaiting_sync.take());
            if let Some(token) = token {
                turn.out.reply(token, Reply::SyncGroup(Box::new(response(self, &id))));
                self.extend_session(turn, &id);
            }
        }
    }

    /// The time to join is over, or the delay of the first rebalance is.
    pub fn join_is_due(&mut self, turn: &mut Turn<'_>) {
        match self.initial_delay {
            Some(InitialDelay { delay_ms, remaining_ms, member_added: true }) if remaining_ms != 0 => {
                let next_ms = turn.config.initial_rebalance_delay_ms.min(remaining_ms).max(0);
                let remaining_ms = (remaining_ms - delay_ms).max(0);
                self.initial_delay = Some(InitialDelay { delay_ms: next_ms, remaining_ms, member_added: false });
                self.schedule_join(turn, u64::from(next_ms.unsigned_abs()));
            }
            _ => self.complete_join(turn),
        }
    }

    /// Ends the join: members that did not come are out, a new generation begins. Static members stay until their
    /// session ends.
    pub fn complete_join(&mut self, turn: &mut Turn<'_>) {
        self.join_deadline.clear();
        let gone = |(id, member): (&Arc<str>, &crate::classic::Member)| {
            (member.awaiting_join.is_none() && member.instance_id.is_none()).then(|| id.clone())
        };
        let gone: Vec<Arc<str>> = self.members.iter().filter_map(gone).collect();
        for id in gone {
            debug!(group = &**turn.id, member = &*id, "a member did not join in time and is removed");
            self.remove(&id);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Nobody is there to lead. The sessions of the static members decide.
            let wait_ms = self.rebalance_timeout_ms();
            self.initial_delay = None;
            return self.schedule_join(turn, wait_ms);
        }
        self.initial_delay = None;
        self.generation = self.generation.checked_add(1).unwrap_or(0);
        self.protocol = self.select_protocol();
        self.subscribed = self.compute_subscribed();
        self.clear_sync();
        if self.members.is_empty() {
            self.transition(State::Empty, turn.now.wall_ms);
            info!(group = &**turn.id, generation = self.generation, "the group is empty");
            self.write(turn);
            return;
        }
        self.transition(State::CompletingRebalance, turn.now.wall_ms);
        info!(group = &**turn.id, generation = self.generation, members = self.members.len(), "all members joined");
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for id in ids {
            let response = self.join_response(&id, false);
            self.answer_join(turn, &id, response);
            if let Some(member) = self.members.get_mut(&id) {
                member.is_new = false;
                member.sync_pending = true;
                self.pending_syncs += 1;
            }
            self.extend_session(turn, &id);
        }
        let due = turn.after_ms(self.rebalance_timeout_ms());
        self.sync_deadline.set(due, turn.timers, || timer_key(turn.id, TimerKind::Sync));
    }

    /// Makes sure that the leader is one that joined; false if none did.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |id: &Arc<str>| self.members.get(id).is_some_and(|member| member.awaiting_join.is_some());
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let leader = self.members.iter().find(|(_, member)| member.awaiting_join.is_some()).map(|(id, _)| id.clone());
        let found = leader.is_some();
        if found {
            self.leader = leader;
        }
        found
    }

    /// The JoinGroup response of the present generation; the leader's names all members.
    pub fn join_response(&self, id: &str, skip_assignment: bool) -> JoinGroupResponse<'static> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = if self.is_leader(id) {
            let described = |(id, member): (&Arc<str>, &crate::classic::Member)| JoinGroupResponseMember {
                member_id: owned(id),
                group_instance_id: member.instance_id.as_deref().map(owned),
                metadata: member.metadata(protocol).to_vec().into(),
            };
            self.members.iter().map(described).collect()
        } else {
            Vec::new()
        };
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.as_deref().map(owned),
            protocol_name: Some(owned(protocol)),
            leader: owned(self.leader.as_deref().unwrap_or_default()),
            skip_assignment,
            member_id: owned(id),
            members,
            ..Default::default()
        }
    }

    /// Removes a member whose session ended; what it waits for is answered.
    pub fn remove_failed(&mut self, turn: &mut Turn<'_>, id: &str) {
        self.answer_join(turn, id, join_error("", ErrorCode::UNKNOWN_MEMBER_ID));
        self.remove_answering_sync(turn, id);
        match self.state {
            State::Stable | State::CompletingRebalance => {
                self.prepare_rebalance(turn, "the session of a member ended");
            }
            State::PreparingRebalance if self.all_joined() => self.complete_join(turn),
            State::PreparingRebalance | State::Empty => {}
        }
    }

    /// Removes a member; its SyncGroup, if one waits, must not hang.
    pub fn remove_answering_sync(&mut self, turn: &mut Turn<'_>, id: &str) {
        let removed = self.remove(id);
        if let Some(token) = removed.and_then(|member| member.awaiting_sync) {
            turn.out.reply(token, Reply::sync_error(ErrorCode::UNKNOWN_MEMBER_ID));
        }
    }

    /// The time to sync is over: members that did not are out.
    pub fn sync_is_due(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.state, State::CompletingRebalance | State::Stable) || self.all_synced() {
            return;
        }
        let late: Vec<Arc<str>> =
            self.members.iter().filter(|(_, member)| member.sync_pending).map(|(id, _)| id.clone()).collect();
        for id in late {
            debug!(group = &**turn.id, member = &*id, "a member did not sync in time and is removed");
            self.remove(&id);
        }
        self.prepare_rebalance(turn, "members did not sync in time");
    }
}

/// The response to a JoinGroup that failed.
pub(crate) fn join_error(member_id: &str, error: ErrorCode) -> JoinGroupResponse<'static> {
    JoinGroupResponse {
        error_code: error.code(),
        protocol_name: None,
        member_id: owned(member_id),
        ..Default::default()
    }
}

/// Answers a JoinGroup in its version: where there is no protocol name, versions below 7 say so by an empty one.
pub(crate) fn reply_join(out: &mut Out, token: Token, version: i16, mut response: JoinGroupResponse<'static>) {
    response.protocol_name = response.protocol_name.or_else(|| no_protocol(version));
    out.reply(token, Reply::JoinGroup(Box::new(response)));
}
