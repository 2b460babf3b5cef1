//! A classic group as Kafka's record and back, and what time does to one.

use std::borrow::Cow;
use std::sync::Arc;

use coordinator::CoordinatorRecord;
use tracing::{debug, info, warn};
use wire::group_metadata_value::{GroupMetadataValue, MemberMetadata};

use crate::api::Env;
use crate::classic::{ClassicGroup, Member, State, Turn};
use crate::records::{self, TooLong};
use crate::shard::{Group, GroupShard, Out};
use crate::timers::{Deadline, TimerKey, TimerKind};

impl ClassicGroup {
    /// The group's record, with the assignment that `assignment` gives each member.
    pub fn record<'s>(
        &'s self,
        id: &str,
        assignment: impl Fn(&str, &'s Member) -> &'s [u8],
    ) -> Result<CoordinatorRecord, TooLong> {
        let protocol = self.protocol.as_deref();
        let member = |(id, member): (&'s Arc<str>, &'s Member)| MemberMetadata {
            member_id: Cow::Borrowed(&**id),
            group_instance_id: member.instance_id.as_deref().map(Cow::Borrowed),
            client_id: Cow::Borrowed(&*member.client_id),
            client_host: Cow::Borrowed(&*member.client_host),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: Cow::Borrowed(member.metadata(protocol.unwrap_or_default())),
            assignment: Cow::Borrowed(assignment(id, member)),
        };
        let value = GroupMetadataValue {
            protocol_type: Cow::Borrowed(self.protocol_type.as_deref().unwrap_or_default()),
            generation: self.generation,
            protocol: protocol.map(Cow::Borrowed),
            leader: self.leader.as_deref().map(Cow::Borrowed),
            current_state_timestamp: self.state_timestamp_ms,
            members: self.members.iter().map(member).collect(),
        };
        records::group_metadata(id, value)
    }

    /// Writes the group as it is. One that is too large for a record stays as the log has it: the log would refuse the
    /// record, and with it everything else that is decided in its partition.
    pub fn write(&self, turn: &mut Turn<'_>) {
        let limit = turn.config.record_bytes_max;
        match self.record(turn.id, |_, member| &member.assignment) {
            Ok(record) if record.size() <= limit => turn.out.records.push(record),
            Ok(_) | Err(TooLong) => warn!(group = &**turn.id, limit, "the group is too large for one record"),
        }
    }

    /// The group that a record tells of.
    pub fn from_record(value: &GroupMetadataValue<'_>) -> ClassicGroup {
        let mut group = ClassicGroup::new(value.current_state_timestamp);
        group.generation = value.generation;
        group.protocol = value.protocol.as_deref().map(Arc::from);
        let name: Arc<str> = group.protocol.clone().unwrap_or_else(|| Arc::from(""));
        for member in &value.members {
            let rebalance_timeout_ms =
                if member.rebalance_timeout == -1 { member.session_timeout } else { member.rebalance_timeout };
            let loaded = Member {
                instance_id: member.group_instance_id.as_deref().map(Box::from),
                client_id: Box::from(&*member.client_id),
                client_host: Box::from(&*member.client_host),
                rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout,
                protocols: Box::new([(name.clone(), Box::from(&*member.subscription))]),
                assignment: Box::from(&*member.assignment),
                awaiting_join: None,
                join_version: 0,
                awaiting_sync: None,
                session: Deadline::default(),
                sync_pending: false,
                is_new: false,
            };
            // No broker writes a member or an instance twice; of a damaged record the first counts.
            let taken = loaded.instance_id.as_ref().is_some_and(|id| group.static_members.contains_key(id));
            if !taken && !group.members.contains_key(&*member.member_id) {
                group.add(Arc::from(&*member.member_id), loaded, &value.protocol_type);
            }
        }
        group.protocol_type = Some(&*value.protocol_type).filter(|kind| !kind.is_empty()).map(Box::from);
        let leader = value.leader.as_deref();
        group.leader = leader.and_then(|leader| group.members.get_key_value(leader)).map(|(id, _)| id.clone());
        group.state = if group.members.is_empty() { State::Empty } else { State::Stable };
        group.previous_state = group.state;
        group.subscribed = group.compute_subscribed();
        group
    }

    /// The record of a generation that this group decided is in the log: its assignments are the members' now. True if that
    /// ends a rebalance.
    fn confirm(&mut self, value: &GroupMetadataValue<'_>) -> bool {
        if value.members.is_empty() {
            return false;
        }
        for told in &value.members {
            if let Some(member) = self.members.get_mut(&*told.member_id)
                && *member.assignment != *told.assignment
            {
                member.assignment = Box::from(&*told.assignment);
            }
        }
        let completes = self.state == State::CompletingRebalance;
        if completes {
            self.transition(State::Stable, value.current_state_timestamp);
        }
        completes
    }
}

impl GroupShard {
    /// A record of a classic group.
    pub(crate) fn replay_classic(&mut self, group_id: &str, value: Option<&GroupMetadataValue<'_>>) {
        let Some(value) = value else {
            if matches!(self.groups.get(group_id), Some(Group::Classic(_))) {
                self.groups.remove(group_id);
            }
            return;
        };
        if self.decides
            && let Some(Group::Classic(group)) = self.groups.get_mut(group_id)
        {
            self.events.classic_rebalances += u64::from(group.confirm(value));
            return;
        }
        let id = self.group_key(group_id).unwrap_or_else(|| Arc::from(group_id));
        self.groups.insert(id, Group::Classic(Box::new(ClassicGroup::from_record(value))));
    }

    /// The log is loaded: members have a whole session to report, and groups above `group.max.size` are to shrink.
    pub(crate) fn classic_loaded(&mut self, env: &mut Env<'_>, out: &mut Out) {
        for (id, group) in &mut self.groups {
            let Group::Classic(group) = group else { continue };
            let mut turn = Turn { id, now: env.now, config: env.config, timers: &mut self.timers, out };
            let members: Vec<Arc<str>> = group.members.keys().cloned().collect();
            for member in &members {
                group.extend_session(&mut turn, member);
            }
            if members.len() > env.config.members_max {
                group.prepare_rebalance(&mut turn, "the loaded group is larger than group.max.size");
            }
        }
    }

    /// A deadline of a classic group came up.
    pub(crate) fn expire_classic(&mut self, env: &mut Env<'_>, entry: (u64, TimerKey), out: &mut Out) {
        let id = entry.1.group.clone();
        let Some(Group::Classic(group)) = self.groups.get_mut(&id) else { return };
        let now_ns = env.now.mono_ns;
        let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
        match entry.1.kind.clone() {
            TimerKind::Join => {
                let due = group.join_deadline.fires(entry, now_ns, turn.timers);
                if due && group.state == State::PreparingRebalance {
                    group.join_is_due(&mut turn);
                }
            }
            TimerKind::Sync => {
                if group.sync_deadline.fires(entry, now_ns, turn.timers) {
                    group.sync_is_due(&mut turn);
                }
            }
            TimerKind::Session(member) => group.session_is_up(&mut turn, &member, entry),
            // Left over from the time when the group spoke the consumer protocol.
            TimerKind::Consumer | TimerKind::Offsets => {}
        }
    }
}

impl ClassicGroup {
    fn session_is_up(&mut self, turn: &mut Turn<'_>, id: &str, entry: (u64, TimerKey)) {
        let now_ns = turn.now.mono_ns;
        if let Some(patience) = self.pending_joins.get_mut(id) {
            if patience.fires(entry, now_ns, turn.timers) {
                debug!(group = &**turn.id, member = id, "a member never came back with the id it was given");
                self.pending_joins.remove(id);
                if self.state == State::PreparingRebalance && self.all_joined() {
                    self.complete_join(turn);
                }
            }
            return;
        }
        let Some(member) = self.members.get_mut(id) else { return };
        if !member.session.fires(entry, now_ns, turn.timers) {
            return;
        }
        // Who waits for the group cannot send heartbeats; a newcomer whose wait is too long is taken for gone.
        let waits = member.awaiting_join.is_some() || member.awaiting_sync.is_some();
        if member.is_new || !waits {
            info!(group = &**turn.id, member = id, "the session of a member ended");
            self.remove_failed(turn, id);
        }
    }
}
