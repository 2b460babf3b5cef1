//! ConsumerGroupHeartbeat: joining, staying, changing and leaving.

use std::borrow::Cow;
use std::sync::Arc;

use coordinator::Token;
use wire::ErrorCode;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use wire::consumer_group_heartbeat_response::{Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions};

use crate::api::{Client, Env, Reply};
use crate::assignor::{Assignor, Partitions};
use crate::consumer::decision::{Candidate, Decision, RegexChange, Revoke, check_epoch, owning_static_member};
use crate::consumer::group::{ConsumerGroup, Seat};
use crate::consumer::member::{ClientName, LEAVE_EPOCH, Member, STATIC_LEAVE_EPOCH, Subscription};
use crate::consumer::records::Records;
use crate::consumer::refusal::Refusal;
use crate::consumer::soft::{BrokerOptions, Fresh, Waits, after_ms};
use crate::shard::{Group, GroupShard, Out};

/// The answer to a ConsumerGroupHeartbeat. It shares the member's id with the group, so that the answer to a heartbeat that
/// changes nothing costs no memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeartbeatReply {
    error: Option<Box<(ErrorCode, Cow<'static, str>)>>,
    member_id: Option<Arc<str>>,
    member_epoch: i32,
    heartbeat_interval_ms: i32,
    assignment: Option<Partitions>,
}

impl HeartbeatReply {
    /// The answer that refuses the request; no text if `message` is empty.
    pub fn refused(error: ErrorCode, message: impl Into<Cow<'static, str>>) -> HeartbeatReply {
        HeartbeatReply { error: Some(Box::new((error, message.into()))), ..HeartbeatReply::default() }
    }

    /// The answer to a member that is gone.
    pub(super) fn left(member_id: Arc<str>, member_epoch: i32) -> HeartbeatReply {
        HeartbeatReply { member_id: Some(member_id), member_epoch, ..HeartbeatReply::default() }
    }

    /// The error; NONE if the request was accepted.
    pub fn error(&self) -> ErrorCode {
        self.error.as_ref().map_or(ErrorCode::NONE, |error| error.0)
    }

    /// The response to send.
    pub fn response(&self) -> ConsumerGroupHeartbeatResponse<'_> {
        let message = self.error.as_ref().map(|error| &*error.1).filter(|message| !message.is_empty());
        let topic = |(topic_id, partitions): (base::TopicId, &[i32])| TopicPartitions {
            topic_id,
            partitions: partitions.to_vec(),
        };
        ConsumerGroupHeartbeatResponse {
            throttle_time_ms: 0,
            error_code: self.error().code(),
            error_message: message.map(Cow::Borrowed),
            member_id: self.member_id.as_deref().map(Cow::Borrowed),
            member_epoch: self.member_epoch,
            heartbeat_interval_ms: self.heartbeat_interval_ms,
            assignment: self
                .assignment
                .as_ref()
                .map(|partitions| Assignment { topic_partitions: partitions.topics().map(topic).collect() }),
        }
    }
}

fn invalid(message: &'static str) -> Refusal {
    Refusal::new(ErrorCode::INVALID_REQUEST, message)
}

/// Java's idea of a blank text: no character above the space.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c <= ' ')
}

/// What can be said of a request without looking at the group.
fn validate(request: &ConsumerGroupHeartbeatRequest<'_>, version: i16, options: &BrokerOptions) -> Result<(), Refusal> {
    let is_blank_option = |text: &Option<Cow<'_, str>>| text.as_deref().is_some_and(is_blank);
    let epoch = request.member_epoch;
    // Since version 1 the client makes up the id of a member.
    if (version >= 1 || epoch > 0 || epoch == LEAVE_EPOCH) && is_blank(&request.member_id) {
        return Err(invalid("MemberId can't be empty."));
    }
    if is_blank(&request.group_id) {
        return Err(invalid("GroupId can't be empty."));
    }
    if is_blank_option(&request.instance_id) {
        return Err(invalid("InstanceId can't be empty."));
    }
    if is_blank_option(&request.rack_id) {
        return Err(invalid("RackId can't be empty."));
    }
    if epoch == 0 {
        if request.rebalance_timeout_ms == -1 {
            return Err(invalid("RebalanceTimeoutMs must be provided in first request."));
        }
        if request.topic_partitions.as_ref().is_none_or(|topics| !topics.is_empty()) {
            return Err(invalid("TopicPartitions must be empty when (re-)joining."));
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return Err(invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            ));
        }
    } else if epoch == STATIC_LEAVE_EPOCH && request.instance_id.is_none() {
        return Err(invalid("InstanceId can't be null."));
    } else if epoch < STATIC_LEAVE_EPOCH {
        return Err(invalid("MemberEpoch is invalid."));
    }
    let Some(name) = &request.server_assignor else { return Ok(()) };
    if Assignor::from_name(name).is_some_and(|assignor| options.assignors.contains(&assignor)) {
        return Ok(());
    }
    let known: Vec<&str> = options.assignors.iter().map(|assignor| assignor.name()).collect();
    let message = format!("ServerAssignor {name} is not supported. Supported assignors: {}.", known.join(", "));
    Err(Refusal::new(ErrorCode::UNSUPPORTED_ASSIGNOR, message))
}

/// Whether the client says all it has to say, and so expects the whole answer.
fn is_full(request: &ConsumerGroupHeartbeatRequest<'_>) -> bool {
    let subscribes = request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    request.rebalance_timeout_ms != -1 && subscribes && request.topic_partitions.is_some()
}

/// True when a text in a request is absent or what is known already.
fn says_nothing_new(said: &Option<Cow<'_, str>>, known: Option<&str>) -> bool {
    said.as_deref().is_none_or(|said| known == Some(said))
}

/// The member as the request wants it. What the request leaves out stays.
fn apply(request: &ConsumerGroupHeartbeatRequest<'_>, client: Client<'_>, member: &Member) -> Member {
    let mut after = member.clone();
    let set = |field: &mut Option<Arc<str>>, said: &Option<Cow<'_, str>>| {
        if !says_nothing_new(said, field.as_deref()) {
            *field = said.as_deref().map(Arc::from);
        }
    };
    set(&mut after.instance_id, &request.instance_id);
    set(&mut after.rack_id, &request.rack_id);
    set(&mut after.assignor, &request.server_assignor);
    if request.rebalance_timeout_ms != -1 {
        after.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    let subscription = &member.subscription;
    let names = request.subscribed_topic_names.as_ref().filter(|names| !subscription.has_names(names));
    let regex = request.subscribed_topic_regex.as_deref().filter(|regex| *subscription.regex != **regex);
    if names.is_some() || regex.is_some() {
        let regex = regex.map_or_else(|| subscription.regex.clone(), Arc::from);
        after.subscription = Arc::new(match names {
            Some(names) => Subscription::new(names.iter().map(|name| &**name), regex),
            None => Subscription { names: subscription.names.clone(), regex },
        });
    }
    if (after.client.id(), after.client.host()) != (client.client_id, client.client_host) {
        after.client = ClientName::new(client.client_id, client.client_host);
    }
    after.classic = None;
    after
}

/// What a member is once the decision is made, and what it is told.
struct Decided {
    id: Arc<str>,
    is_known: bool,
    revoke: Revoke,
    regex_due: bool,
    topics_seen: bool,
    reply: HeartbeatReply,
}

impl GroupShard {
    /// ConsumerGroupHeartbeat.
    pub(crate) fn consumer_group_heartbeat(
        &mut self,
        env: &mut Env<'_>,
        token: Token,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) {
        self.consumer.refresh(env);
        let reply = match self.steady_heartbeat(env, request, client) {
            Some(reply) => reply,
            None => self
                .decide_heartbeat(env, request, version, client, out)
                .unwrap_or_else(|refusal| HeartbeatReply::refused(refusal.error, refusal.message)),
        };
        out.reply(token, Reply::ConsumerGroupHeartbeat(reply));
    }

    /// Most heartbeats only say that the member is alive. They are answered here without copying anything; `None` for all
    /// others.
    fn steady_heartbeat(
        &mut self,
        env: &mut Env<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Option<HeartbeatReply> {
        let GroupShard { groups, consumer, timers, .. } = self;
        let Group::Consumer(group) = groups.get_mut(&*request.group_id)? else { return None };
        let (as_of, options) = consumer.group_options(env, &request.group_id, &group.soft.options);
        group.soft.options = Some((as_of, options));
        let regexes = group.regex_count();
        let refreshes = group.needs_regex_refresh(env.now, consumer, regexes, false);
        let is_assigned =
            group.epoch <= group.assignment_epoch && group.soft.topics_seen == consumer.topic_changes && !refreshes;
        let assignment_epoch = group.assignment_epoch;
        let (id, Seat { member, waits }) = group.seat_entry_mut(&request.member_id)?;
        let is_settled = request.member_epoch > 0
            && request.member_epoch == member.epoch
            && member.is_reconciled_to(assignment_epoch)
            && is_assigned;
        let subscription = &member.subscription;
        let says_nothing_new = says_nothing_new(&request.instance_id, member.instance_id.as_deref())
            && says_nothing_new(&request.rack_id, member.rack_id.as_deref())
            && says_nothing_new(&request.server_assignor, member.assignor.as_deref())
            && says_nothing_new(&request.subscribed_topic_regex, Some(&subscription.regex))
            && [-1, member.rebalance_timeout_ms].contains(&request.rebalance_timeout_ms)
            && request.subscribed_topic_names.as_ref().is_none_or(|names| subscription.has_names(names))
            && (member.client.id(), member.client.host()) == (client.client_id, client.client_host)
            && !member.is_classic();
        if !is_settled || !says_nothing_new {
            return None;
        }
        let reply = HeartbeatReply {
            error: None,
            member_id: Some(id.clone()),
            member_epoch: member.epoch,
            heartbeat_interval_ms: options.heartbeat_interval_ms,
            assignment: is_full(request).then(|| member.assigned.partitions().clone()),
        };
        let session_ns = after_ms(env.now, options.session_timeout_ms);
        waits.session_ns = session_ns;
        group.arm(session_ns, timers, &request.group_id);
        Some(reply)
    }

    fn decide_heartbeat(
        &mut self,
        env: &mut Env<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        version: i16,
        client: Client<'_>,
        out: &mut Out,
    ) -> Result<HeartbeatReply, Refusal> {
        validate(request, version, self.consumer.broker())?;
        if matches!(request.member_epoch, LEAVE_EPOCH | STATIC_LEAVE_EPOCH) {
            return self.leave_heartbeat(env, request, out);
        }
        let mut records = Records::new(&request.group_id);
        let made = self.consumer_group_to_join(env, request, &mut records)?;
        let group: &ConsumerGroup = match &made {
            Some(made) => &made.group,
            None => match self.groups.get(&*request.group_id) {
                Some(Group::Consumer(group)) => group,
                _ => unreachable!("a group that is not made anew is there"),
            },
        };
        let (_, options) = self.consumer.group_options(env, &request.group_id, &group.soft.options);
        let decision = Decision {
            now: env.now,
            image: env.image,
            shared: &mut self.consumer,
            group_id: &request.group_id,
            group,
            options,
            records,
            regex_due: false,
            topics_seen: false,
            revoke: Revoke::Keep,
        };
        let (decided, records) = decide(decision, env, request, client)?;
        out.records.extend(records.finish(env.config.record_bytes_max)?);
        if let Some(made) = made {
            self.leave_classic_group(env, &request.group_id, &made.group, out);
        }
        let session_ns = after_ms(env.now, options.session_timeout_ms);
        Ok(self.settle_member(&request.group_id, decided, session_ns))
    }

    /// Sets the deadlines that go with a decision: at once, or when the member appears in replay.
    fn settle_member(&mut self, group_id: &str, decided: Decided, session_ns: u64) -> HeartbeatReply {
        let Decided { id, is_known, revoke, regex_due, topics_seen, reply } = decided;
        let mut waits = Waits { session_ns, rebalance: None };
        if let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) {
            group.soft.regex_due |= regex_due;
            if topics_seen {
                group.soft.topics_seen = self.consumer.topic_changes;
            }
            if let Some(seat) = group.seat_mut(&id).filter(|_| is_known) {
                seat.waits.session_ns = session_ns;
                if revoke != Revoke::Keep {
                    revoke.apply(seat.waits.rebalance_mut());
                    seat.waits.tidy();
                }
                let next_ns = if regex_due { 0 } else { seat.waits.next_ns() };
                group.arm(next_ns, &mut self.timers, group_id);
                return reply;
            }
        }
        if matches!(revoke, Revoke::Set(..)) {
            revoke.apply(waits.rebalance_mut());
        }
        self.consumer.fresh.push(Fresh { group_id: Arc::from(group_id), member_id: id, waits, regex_due });
        reply
    }
}

/// Decides a heartbeat of a member that stays or joins.
fn decide<'g>(
    mut decision: Decision<'g>,
    env: &mut Env<'_>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    client: Client<'_>,
) -> Result<(Decided, Records<'g>), Refusal> {
    let before = candidate(&mut decision, env, request)?;
    let after = apply(request, client, &before.member);
    let names_changed = decision.update_metadata(&before, &after);
    let regex = decision.update_regex(&before, &after)?;
    let bump = names_changed || regex == RegexChange::UpdatedAndResolved || decision.changes_assignor(&before, &after);
    let epoch = decision.update_epoch(bump, &before, &after);
    let target = decision.update_target(epoch, &before, &after);
    let reported = request.topic_partitions.as_deref();
    let changed = names_changed || regex != RegexChange::None;
    let member = decision.reconcile(&before.id, after, target, changed, reported)?;
    let tells = request.member_epoch == 0 || is_full(request) || member.assigned != before.member.assigned;
    let reply = HeartbeatReply {
        error: None,
        member_id: Some(before.id.clone()),
        member_epoch: member.epoch,
        heartbeat_interval_ms: decision.options.heartbeat_interval_ms,
        assignment: tells.then(|| member.assigned.partitions().clone()),
    };
    let Decision { records, regex_due, topics_seen, revoke, .. } = decision;
    Ok((Decided { id: before.id, is_known: before.is_known, revoke, regex_due, topics_seen, reply }, records))
}

/// The member that a heartbeat is about.
fn candidate(
    decision: &mut Decision<'_>,
    env: &mut Env<'_>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> Result<Candidate, Refusal> {
    let joins = request.member_epoch == 0;
    let instance_id = request.instance_id.as_deref();
    decision.check_size(&request.member_id, instance_id)?;
    let id = match &*request.member_id {
        "" => super::decision::random_member_id(env),
        id => decision.group.member_entry(id).map_or_else(|| Arc::from(id), |(id, _)| id.clone()),
    };
    let reported = request.topic_partitions.as_deref();
    match instance_id {
        None => {
            let candidate = decision.dynamic_member(&id, joins)?;
            check_epoch(&candidate.member, request.member_epoch, reported)?;
            Ok(candidate)
        }
        Some(instance_id) if joins => decision.joining_static_member(&id, instance_id, false),
        Some(instance_id) => {
            let (id, member) = owning_static_member(decision.group, &id, instance_id)?;
            check_epoch(member, request.member_epoch, reported)?;
            Ok(Candidate { id: id.clone(), member: member.clone(), is_known: true, replaces: None })
        }
    }
}
