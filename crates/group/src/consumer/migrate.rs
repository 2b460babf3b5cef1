//! Groups that change their protocol while they have members (KIP-848), as `group.consumer.migration.policy` allows.
//!
//! A classic group becomes a consumer group when the first member that speaks the consumer protocol joins, and the other way
//! round when the last such member is gone. The records of one protocol are deleted and those of the other written in one
//! decision. The present assignment is kept: nobody loses a partition by the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use metadata::MetadataImage;
use tracing::info;
use wire::ErrorCode;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;

use crate::api::Env;
use crate::assignor::Partitions;
use crate::classic::{self, ClassicGroup, State, Turn, join_error};
use crate::config::GroupConfig;
use crate::consumer::classic::Joined;
use crate::consumer::group::ConsumerGroup;
use crate::consumer::member::{ClassicMember, ClientName, Member, Subscription};
use crate::consumer::owned::Owned;
use crate::consumer::records::Records;
use crate::consumer::refusal::Refusal;
use crate::consumer::soft::{BrokerOptions, ConsumerState, Fresh, Waits, after_ms};
use crate::records::group_tombstone;
use crate::shard::{Group, GroupShard, Out};
use crate::subscription::{self, CONSUMER_PROTOCOL_TYPE, NoSubscription};
use crate::timers::Deadline;

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
        env: &mut Env<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        records: &mut Records<'_>,
    ) -> Result<Option<Made>, Refusal> {
        let group_id = &*request.group_id;
        let joins = request.member_epoch == 0;
        match self.groups.get(group_id) {
            Some(Group::Consumer(_)) => Ok(None),
            None if joins => Ok(Some(Made::default())),
            None => Err(not_found(format!("Consumer group {group_id} not found."))),
            Some(Group::Classic(group)) if joins && group.state == State::Empty => {
                records.push(group_tombstone(group_id));
                Ok(Some(Made::default()))
            }
            Some(Group::Classic(group)) if joins => {
                check_upgrade(group_id, group, self.consumer.broker())?;
                records.push(group_tombstone(group_id));
                let made = upgraded(group_id, group, env.image, &mut self.consumer)?;
                write(&made, records);
                Ok(Some(Made { group: made }))
            }
            Some(_) => Err(not_found(format!("Group {group_id} is not a consumer group."))),
        }
    }

    /// The classic group that `made` was made of is over: whoever waits in it has to join again, and the sessions of its
    /// members go on in the new one.
    pub(super) fn leave_classic_group(&mut self, env: &Env<'_>, group_id: &str, made: &ConsumerGroup, out: &mut Out) {
        let Some(id) = self.group_key(group_id) else { return };
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else { return };
        let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
        let members: Vec<Arc<str>> = group.members.keys().cloned().collect();
        for member in members {
            group.answer_join(&mut turn, &member, join_error(&member, ErrorCode::REBALANCE_IN_PROGRESS));
        }
        group.fail_syncs(&mut turn, ErrorCode::REBALANCE_IN_PROGRESS);
        for (member_id, member) in made.members() {
            let Some(classic) = &member.classic else { continue };
            let waits = Waits { session_ns: after_ms(env.now, classic.session_timeout_ms), rebalance: None };
            let (group_id, member_id) = (id.clone(), member_id.clone());
            self.consumer.fresh.push(Fresh { group_id, member_id, waits, regex_due: false });
        }
        info!(group = group_id, members = made.len(), "the classic group has become a consumer group");
    }

    /// The classic group that is left when these members go; `None` if the group stays what it is.
    pub(super) fn downgraded_without(&self, env: &Env<'_>, group_id: &str, ids: &[Arc<str>]) -> Option<ClassicGroup> {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else { return None };
        let left = group.len() - ids.len();
        let leaving_classic = ids.iter().filter(|id| group.member(id).is_some_and(Member::is_classic)).count();
        let only_classic_left = group.classic_members() - leaving_classic == left;
        let allowed = self.consumer.broker().migration.downgrade && left <= env.config.members_max;
        if left == 0 || !only_classic_left || !allowed {
            return None;
        }
        downgraded(group, ids, None, env)
    }

    /// Removes members, and with them the consumer group: `left` takes its place and rebalances.
    pub(super) fn downgrade_without(
        &mut self,
        env: &mut Env<'_>,
        group_id: &str,
        left: ClassicGroup,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else { return Ok(()) };
        let mut records = Records::new(group_id);
        records.group_gone(group, |id| id);
        out.records.extend(records.finish(env.config.record_bytes_max)?);
        self.become_classic(env, group_id, left, Some("the last member of the consumer protocol is gone"), out);
        Ok(())
    }

    /// A classic member has joined in the place of the last one that spoke the consumer protocol.
    pub(super) fn downgrade_on_join(
        &mut self,
        env: &mut Env<'_>,
        group_id: &str,
        joined: &Joined,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else { return Ok(()) };
        let instance_id = joined.member.instance_id.as_deref().unwrap_or_default();
        let replaced = group.static_member(instance_id).map(|(id, _)| id.clone());
        let classic = downgraded(group, &[], Some((&joined.id, &joined.member)), env)
            .ok_or_else(|| Refusal::new(ErrorCode::INCONSISTENT_GROUP_PROTOCOL, ""))?;
        let mut records = Records::new(group_id);
        records.group_gone(group, |id| if replaced.as_deref() == Some(id) { &joined.id } else { id });
        out.records.extend(records.finish(env.config.record_bytes_max)?);
        let reason = (joined.downgrade == Some(true)).then_some("the assignment was to change");
        self.become_classic(env, group_id, classic, reason, out);
        Ok(())
    }

    fn become_classic(
        &mut self,
        env: &mut Env<'_>,
        group_id: &str,
        classic: ClassicGroup,
        rebalance: Option<&str>,
        out: &mut Out,
    ) {
        let id = self.group_key(group_id).unwrap_or_else(|| Arc::from(group_id));
        info!(group = group_id, members = classic.members.len(), "the consumer group has become a classic group");
        self.groups.insert(id.clone(), Group::Classic(Box::new(classic)));
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else { return };
        let mut turn = Turn { id: &id, now: env.now, config: env.config, timers: &mut self.timers, out };
        group.write(&mut turn);
        let members: Vec<Arc<str>> = group.members.keys().cloned().collect();
        members.iter().for_each(|member| group.extend_session(&mut turn, member));
        if let Some(reason) = rebalance {
            group.prepare_rebalance(&mut turn, reason);
        }
    }
}

fn not_found(message: String) -> Refusal {
    Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message)
}

/// Whether a classic member that joins under an instance id replaces the last member of the consumer protocol, and the
/// group may become a classic one.
pub(super) fn downgrades_on_join(
    group: &ConsumerGroup,
    instance_id: Option<&str>,
    broker: &BrokerOptions,
    config: &GroupConfig,
) -> bool {
    let replaced = instance_id.and_then(|instance_id| group.static_member(instance_id));
    let is_last = replaced.is_some_and(|(_, member)| !member.is_classic());
    is_last
        && group.classic_members() == group.len() - 1
        && broker.migration.downgrade
        && group.len() <= config.members_max
}

fn check_upgrade(group_id: &str, group: &ClassicGroup, broker: &BrokerOptions) -> Result<(), Refusal> {
    let reason = if !broker.migration.upgrade {
        "online upgrade is disabled"
    } else if !group.is_consumer_type() {
        "the group does not use the consumer embedded protocol"
    } else if group.members.len() > broker.members_max {
        "the group size exceeds the consumer group maximum size"
    } else {
        return Ok(());
    };
    Err(not_found(format!("Cannot upgrade classic group {group_id} to consumer group because {reason}.")))
}

/// The consumer group that a classic group becomes. Every member keeps what it was assigned.
fn upgraded(
    group_id: &str,
    classic: &ClassicGroup,
    image: &MetadataImage,
    shared: &mut ConsumerState,
) -> Result<ConsumerGroup, Refusal> {
    let cannot = |reason: &str| {
        not_found(format!("Cannot upgrade classic group {group_id} to consumer group because {reason}."))
    };
    let malformed = |NoSubscription: NoSubscription| cannot("the embedded consumer protocol is malformed");
    // Before its first generation the group has chosen none; Apache Kafka fails on that.
    let chosen = classic.protocol.clone().or_else(|| classic.select_protocol());
    let protocol = chosen.as_deref().ok_or_else(|| malformed(NoSubscription))?;
    let mut group = ConsumerGroup::default();
    (group.epoch, group.assignment_epoch) = (classic.generation, classic.generation);
    let mut taken = BTreeSet::new();
    for (id, member) in &classic.members {
        let subscription = subscription::subscription(member.metadata(protocol)).map_err(malformed)?;
        let mut pairs = Vec::new();
        if !member.assignment.is_empty() {
            let assignment = subscription::assignment(&member.assignment).map_err(malformed)?;
            if assignment.user_data.as_ref().is_some_and(|data| !data.is_empty()) {
                return Err(cannot(
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default \
                     assignor before re-attempting the upgrade",
                ));
            }
            for topic in &assignment.assigned_partitions {
                let Some(topic_id) = image.topics.by_name(&topic.topic).map(|topic| topic.id) else { continue };
                pairs.extend(topic.partitions.iter().map(|partition| (topic_id, *partition)));
            }
        }
        // A leader can have given a partition to two members, or one that does not exist; a consumer group cannot.
        pairs.retain(|(topic, partition)| {
            image.topics.partition(*topic, *partition).is_some() && taken.insert((*topic, *partition))
        });
        add_upgraded(&mut group, id, member, &subscription, Partitions::from_pairs(pairs));
    }
    let topics = group.names();
    group.metadata_hash = shared.hashes.group(topics.iter(), image);
    Ok(group)
}

fn add_upgraded(
    group: &mut ConsumerGroup,
    id: &str,
    member: &classic::Member,
    subscription: &wire::consumer_protocol_subscription::ConsumerProtocolSubscription<'_>,
    assigned: Partitions,
) {
    let generation = group.epoch;
    let names = subscription.topics.iter().map(|topic| &**topic);
    group.set_metadata(id, |new| {
        new.instance_id = member.instance_id.as_deref().map(Arc::from);
        new.rack_id = subscription.rack_id.as_deref().filter(|rack| !rack.is_empty()).map(Arc::from);
        new.rebalance_timeout_ms = member.rebalance_timeout_ms;
        new.client = ClientName::new(&member.client_id, &member.client_host);
        new.subscription = Arc::new(Subscription::new(names, Arc::from("")));
        let (session_timeout_ms, protocols) = (member.session_timeout_ms, member.protocols.clone());
        new.classic = Some(Arc::new(ClassicMember { session_timeout_ms, protocols }));
    });
    group.set_target(id, Some(assigned.clone()));
    group.set_assignment(id, |new| {
        (new.epoch, new.previous_epoch) = (generation, generation);
        new.assigned = Owned::at_epoch(assigned, generation);
    });
}

/// All records of a group.
fn write(group: &ConsumerGroup, records: &mut Records<'_>) {
    group.members().for_each(|(id, member)| records.member(id, member));
    records.epoch(group.epoch, group.metadata_hash);
    group.members().for_each(|(id, member)| records.target(id, member.target()));
    records.target_epoch(group.assignment_epoch, group.assignment_timestamp_ms);
    group.members().for_each(|(id, member)| records.current(id, member));
}

/// The classic group that a consumer group becomes without `leaving` and with `joining` in the place of the member that
/// has its instance id. Every member keeps its target. `None` if they have no protocol in common.
fn downgraded(
    group: &ConsumerGroup,
    leaving: &[Arc<str>],
    joining: Option<(&Arc<str>, &Member)>,
    env: &Env<'_>,
) -> Option<ClassicGroup> {
    let mut classic = ClassicGroup::new(env.now.wall_ms);
    let mut targets: Vec<(Arc<str>, Partitions)> = Vec::new();
    for (id, member) in group.members().filter(|(id, _)| !leaving.contains(id)) {
        let replaced = joining.filter(|(_, joining)| joining.instance_id == member.instance_id);
        let (id, now) = replaced.unwrap_or((id, member));
        let shared = now.classic.as_ref()?;
        let protocols = shared.protocols.iter().map(|(name, data)| (classic.shared_name(name), data.clone())).collect();
        let new = classic::Member {
            instance_id: now.instance_id.as_deref().map(Box::from),
            client_id: Box::from(now.client.id()),
            client_host: Box::from(now.client.host()),
            rebalance_timeout_ms: now.rebalance_timeout_ms,
            session_timeout_ms: shared.session_timeout_ms,
            protocols,
            assignment: Box::default(),
            awaiting_join: None,
            join_version: 0,
            awaiting_sync: None,
            session: Deadline::default(),
            sync_pending: false,
            is_new: false,
        };
        classic.add(id.clone(), new, CONSUMER_PROTOCOL_TYPE);
        targets.push((id.clone(), member.target().clone()));
    }
    classic.generation = group.epoch;
    classic.protocol = Some(classic.select_protocol()?);
    let protocol = classic.protocol.clone()?;
    for (id, target) in targets {
        let member = classic.members.get_mut(&id)?;
        let version = subscription::version_of(member.metadata(&protocol)).ok()?;
        member.assignment = subscription::assignment_blob(&target, env.image, version).into();
    }
    classic.subscribed = classic.compute_subscribed();
    classic.transition(State::Stable, env.now.wall_ms);
    Some(classic)
}
