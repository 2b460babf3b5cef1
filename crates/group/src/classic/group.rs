//! A classic group and its members as values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coordinator::Token;
use wire::ErrorCode;

use crate::shard::java_hash;
use crate::subscription::{CONSUMER_PROTOCOL_TYPE, add_topics};
use crate::timers::Deadline;

/// What a classic group is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No members; it holds offsets or is about to be deleted.
    Empty,
    /// Members are joining.
    PreparingRebalance,
    /// The leader is working out the assignments.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
}

impl State {
    /// The name that responses give it.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }
}

/// A protocol that a member supports, and the member's metadata for it.
pub(crate) type Protocol = (Arc<str>, Box<[u8]>);

/// A member of a classic group. Kept small: there are as many as consumers.
#[derive(Debug)]
pub(crate) struct Member {
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Box<str>>,
    /// `client.id` of the first request.
    pub client_id: Box<str>,
    /// The client's address.
    pub client_host: Box<str>,
    /// How long it may take to join again, ms.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent, ms.
    pub session_timeout_ms: i32,
    /// The protocols it supports, most wanted first, with its metadata for each. Names are shared within the group.
    pub protocols: Box<[Protocol]>,
    /// What the leader assigned to it in this generation.
    pub assignment: Box<[u8]>,
    /// Its JoinGroup that waits for the others.
    pub awaiting_join: Option<Token>,
    /// Version of its last JoinGroup.
    pub join_version: i16,
    /// Its SyncGroup that waits for the leader.
    pub awaiting_sync: Option<Token>,
    /// When its session ends.
    pub session: Deadline,
    /// It has the JoinGroup response of this generation and has not synced yet.
    pub sync_pending: bool,
    /// It has joined for the first time and not been answered yet: it cannot send heartbeats, so it may time out while it
    /// waits.
    pub is_new: bool,
}

impl Member {
    /// Its metadata for a protocol; empty if it does not support it.
    pub fn metadata(&self, protocol: &str) -> &[u8] {
        self.protocols.iter().find(|(name, _)| &**name == protocol).map_or(&[], |(_, metadata)| metadata)
    }
}

/// The delay of the first rebalance of a group, during which members may come together (KIP-134).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InitialDelay {
    /// How long it is, ms.
    pub delay_ms: i32,
    /// How much longer it may be put off after it, ms.
    pub remaining_ms: i32,
    /// Somebody joined since it began.
    pub member_added: bool,
}

/// A classic group.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    /// What it is doing.
    pub state: State,
    /// What it was doing before that.
    pub previous_state: State,
    /// When it began to do so, ms since the epoch; -1 when unknown.
    pub state_timestamp_ms: i64,
    /// Number of the generation.
    pub generation: i32,
    /// `consumer`, `connect` or anything else; `None` for a group that only holds offsets.
    pub protocol_type: Option<Box<str>>,
    /// The protocol chosen for this generation.
    pub protocol: Option<Arc<str>>,
    /// Id of the leader.
    pub leader: Option<Arc<str>>,
    /// The members by id.
    pub members: BTreeMap<Arc<str>, Member>,
    /// Member ids of static members by instance id.
    pub static_members: BTreeMap<Box<str>, Arc<str>>,
    /// Members that were given an id and have not come back with it, with the end of their patience.
    pub pending_joins: BTreeMap<Arc<str>, Deadline>,
    /// How many members support each protocol.
    pub supported: BTreeMap<Arc<str>, usize>,
    /// How many members wait for the end of the join.
    pub awaiting_join: usize,
    /// How many members have not synced yet.
    pub pending_syncs: usize,
    /// Topics the members are subscribed to, where that is known: the group speaks the `consumer` protocol type and
    /// every subscription could be read.
    pub subscribed: Option<BTreeSet<Box<str>>>,
    /// When the join ends.
    pub join_deadline: Deadline,
    /// In the first rebalance: the delay that is running.
    pub initial_delay: Option<InitialDelay>,
    /// When members that have not synced are removed.
    pub sync_deadline: Deadline,
}

impl ClassicGroup {
    /// An empty group in generation 0.
    pub fn new(now_ms: i64) -> ClassicGroup {
        ClassicGroup {
            state: State::Empty,
            previous_state: State::Empty,
            state_timestamp_ms: now_ms,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_joins: BTreeMap::new(),
            supported: BTreeMap::new(),
            awaiting_join: 0,
            pending_syncs: 0,
            subscribed: None,
            join_deadline: Deadline::default(),
            initial_delay: None,
            sync_deadline: Deadline::default(),
        }
    }

    /// Moves on to another state.
    pub fn transition(&mut self, state: State, now_ms: i64) {
        self.previous_state = self.state;
        self.state = state;
        self.state_timestamp_ms = now_ms;
    }

    /// True when the group is one of consumers, whose subscriptions the coordinator can read.
    pub fn is_consumer_type(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// The name of a protocol as the group shares it.
    pub fn shared_name(&self, name: &str) -> Arc<str> {
        self.supported.get_key_value(name).map_or_else(|| Arc::from(name), |(shared, _)| shared.clone())
    }

    /// True for the leader of the generation.
    pub fn is_leader(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    /// The longest time a member may take to join again, ms.
    pub fn rebalance_timeout_ms(&self) -> u64 {
        self.members.values().map(|member| member.rebalance_timeout_ms.max(0).unsigned_abs()).max().unwrap_or(0).into()
    }

    /// True when every member waits for the end of the join and nobody is expected back with a new id.
    pub fn all_joined(&self) -> bool {
        self.members.len() == self.awaiting_join && self.pending_joins.is_empty()
    }

    /// True when nobody has to sync any more.
    pub fn all_synced(&self) -> bool {
        self.pending_syncs == 0
    }

    /// Whether a joining member's protocol type and one of its protocols are acceptable to all members.
    pub fn supports<'n>(&self, protocol_type: &str, mut protocols: impl Iterator<Item = &'n str>) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && protocols.next().is_some();
        }
        let everybody = self.members.len();
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.any(|name| self.supported.get(name).copied().unwrap_or(0) == everybody)
    }

    /// Whether a request may speak for the member: it is one, and its instance id, if any, is its own.
    pub fn check_member(&self, id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(owner) if **owner != *id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) }
    }

    /// Replaces what a member supports and its timeouts.
    pub fn update_member(&mut self, id: &str, protocols: Box<[Protocol]>, rebalance_ms: i32, session_ms: i32) {
        self.count_protocols(&protocols, true);
        let Some(member) = self.members.get_mut(id) else { return };
        member.rebalance_timeout_ms = rebalance_ms;
        member.session_timeout_ms = session_ms;
        let old = std::mem::replace(&mut member.protocols, protocols);
        self.count_protocols(&old, false);
    }

    /// Adds a member. Its instance id must be free.
    pub fn add(&mut self, id: Arc<str>, member: Member, protocol_type: &str) {
        if self.members.is_empty() {
            self.protocol_type = Some(Box::from(protocol_type));
        }
        if let Some(instance_id) = &member.instance_id {
            let taken = self.static_members.insert(instance_id.clone(), id.clone());
            assert!(taken.is_none(), "instance id {instance_id} belongs to {taken:?}");
        }
        self.leader.get_or_insert_with(|| id.clone());
        self.count_protocols(&member.protocols, true);
        self.awaiting_join += usize::from(member.awaiting_join.is_some());
        self.pending_joins.remove(&id);
        let old = self.members.insert(id, member);
        assert!(old.is_none(), "a member is added once");
    }

    /// Gives a static member another id. What was waiting under the old one is given back with the old member.
    pub fn replace_static(&mut self, old_id: &str, new_id: Arc<str>) -> Option<Member> {
        let old = self.members.remove(old_id)?;
        self.awaiting_join -= usize::from(old.awaiting_join.is_some());
        self.pending_syncs -= usize::from(old.sync_pending);
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        if let Some(instance_id) = &old.instance_id {
            self.static_members.insert(instance_id.clone(), new_id.clone());
        }
        let member = Member {
            instance_id: old.instance_id.clone(),
            client_id: old.client_id.clone(),
            client_host: old.client_host.clone(),
            protocols: old.protocols.clone(),
            assignment: old.assignment.clone(),
            rebalance_timeout_ms: old.rebalance_timeout_ms,
            session_timeout_ms: old.session_timeout_ms,
            awaiting_join: None,
            join_version: old.join_version,
            awaiting_sync: None,
            session: Deadline::default(),
            sync_pending: false,
            is_new: false,
        };
        self.members.insert(new_id, member);
        Some(old)
    }

    /// Removes a member or one that never joined. Gives back the member.
    pub fn remove(&mut self, id: &str) -> Option<Member> {
        self.pending_joins.remove(id);
        let removed = self.members.remove(id);
        if let Some(member) = &removed {
            self.count_protocols(&member.protocols, false);
            self.awaiting_join -= usize::from(member.awaiting_join.is_some());
            self.pending_syncs -= usize::from(member.sync_pending);
            if let Some(instance_id) = &member.instance_id {
                self.static_members.remove(instance_id);
            }
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        removed
    }

    /// Counts a member's protocols in or out.
    pub fn count_protocols(&mut self, protocols: &[Protocol], joins: bool) {
        for (name, _) in protocols {
            if joins {
                *self.supported.entry(name.clone()).or_insert(0) += 1;
            } else if let Some(count) = self.supported.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.supported.remove(name);
                }
            }
        }
    }

    /// The protocol that most members want among those that all support. Among equals it is the one that Kafka takes, so
    /// that a group decides the same on both: the first in the order of Java's hash map.
    pub fn select_protocol(&self) -> Option<Arc<str>> {
        let everybody = self.members.len();
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for member in self.members.values() {
            let wanted = member.protocols.iter().find(|(name, _)| self.supported.get(name) == Some(&everybody));
            if let Some((name, _)) = wanted {
                *votes.entry(name).or_insert(0) += 1;
            }
        }
        // A hash map of Java has 16 buckets for up to 12 entries, and more than protocols anybody names.
        let bucket = |name: &str| {
            let hash = java_hash(name).cast_unsigned();
            (hash ^ (hash >> 16)) & 15
        };
        let most = votes.values().max()?;
        let equals = votes.iter().filter(|(_, count)| *count == most);
        equals.min_by_key(|(name, _)| bucket(name)).map(|(name, _)| Arc::clone(name))
    }

    /// The topics the members are subscribed to by the chosen protocol; `None` where that cannot be known.
    pub fn compute_subscribed(&self) -> Option<BTreeSet<Box<str>>> {
        if !self.is_consumer_type() {
            return None;
        }
        let mut topics = BTreeSet::new();
        if self.members.is_empty() {
            return Some(topics);
        }
        let protocol = self.protocol.as_deref()?;
        for member in self.members.values() {
            add_topics(member.metadata(protocol), &mut topics).ok()?;
        }
        Some(topics)
    }

    /// Whether a member is subscribed to the topic. Where subscriptions cannot be read every topic counts as subscribed.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.subscribed.as_ref().map_or_else(|| self.is_consumer_type(), |topics| topics.contains(topic))
    }
}
