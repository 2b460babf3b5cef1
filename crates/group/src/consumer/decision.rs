//! What a request that concerns one member of a group decides, step by step. Nothing here changes the group: the decision
//! is a list of records, and deadlines that are set once it is made.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Now, TopicId, Uuid};
use metadata::MetadataImage;
use wire::ErrorCode;
use wire::consumer_group_heartbeat_request::TopicPartitions;

use crate::api::Env;
use crate::assignor::{Assignor, Partitions};
use crate::consumer::group::ConsumerGroup;
use crate::consumer::member::{Member, MemberState, STATIC_LEAVE_EPOCH};
use crate::consumer::reconcile::Step;
use crate::consumer::records::Records;
use crate::consumer::refusal::Refusal;
use crate::consumer::soft::{ConsumerState, GroupOptions, RebalanceWaits, after_ms};
use crate::consumer::target::{self, Pending};

/// A decision in the making.
pub(crate) struct Decision<'g> {
    /// The present moment.
    pub now: Now,
    /// The cluster's metadata.
    pub image: &'g MetadataImage,
    /// What the groups of the shard share.
    pub shared: &'g mut ConsumerState,
    /// The group's id.
    pub group_id: &'g str,
    /// The group before the decision.
    pub group: &'g ConsumerGroup,
    /// Its options.
    pub options: GroupOptions,
    /// What is to be written.
    pub records: Records<'g>,
    /// The regular expressions are to be looked at.
    pub regex_due: bool,
    /// The metadata hash was compared with the image.
    pub topics_seen: bool,
    /// What becomes of the deadline for giving partitions up.
    pub revoke: Revoke,
}

/// What becomes of a member's deadline for giving partitions up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Revoke {
    /// It stays as it is.
    Keep,
    /// There is none.
    Clear,
    /// It is at this time, in monotonic ns, if the member is still in this epoch.
    Set(u64, i32),
}

impl Revoke {
    /// Does so.
    pub fn apply(self, waits: &mut RebalanceWaits) {
        match self {
            Revoke::Keep => {}
            Revoke::Clear => waits.revoke = None,
            Revoke::Set(at, epoch) => waits.revoke = Some((at, epoch)),
        }
    }
}

/// The member a request is about.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Its id.
    pub id: Arc<str>,
    /// What is known of it, or a blank member.
    pub member: Member,
    /// False while the group does not know it.
    pub is_known: bool,
    /// The static member that it takes the place of.
    pub replaces: Option<Arc<str>>,
}

impl Candidate {
    /// Its new state beside the group.
    pub fn pending<'a>(&'a self, member: &'a Member) -> Pending<'a> {
        Pending { id: &self.id, member, replaces: self.replaces.as_deref() }
    }
}

/// Whether a member's regular expression is another one, and whether what it matches is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegexChange {
    /// It is the same.
    None,
    /// It is new; what it matches is not known yet.
    Updated,
    /// It is new or gone, and the topics are known.
    UpdatedAndResolved,
}

/// A random id in Kafka's form, for members that bring none.
pub(crate) fn random_member_id(env: &mut Env<'_>) -> Arc<str> {
    loop {
        let bits = u128::from(env.prng.next_u64()) << 64 | u128::from(env.prng.next_u64());
        if let Some(id) = Uuid::from_random_bits(bits) {
            return Arc::from(id.to_string());
        }
    }
}

/// Whether all that a member says it has is among what it was given.
fn is_subset(reported: Option<&[TopicPartitions]>, assigned: &Partitions) -> bool {
    reported.is_some_and(|topics| {
        topics.iter().all(|topic| topic.partitions.iter().all(|p| assigned.contains(topic.topic_id, *p)))
    })
}

/// Refuses a request with another epoch than the member's, unless it is the retry of one whose answer was lost.
pub(crate) fn check_epoch(member: &Member, epoch: i32, reported: Option<&[TopicPartitions]>) -> Result<(), Refusal> {
    if epoch == 0 || epoch == member.epoch {
        return Ok(());
    }
    let is_retry = epoch == member.previous_epoch && is_subset(reported, member.assigned.partitions());
    let size = match epoch > member.epoch {
        true => "greater",
        false if is_retry => return Ok(()),
        false => "smaller",
    };
    Err(Refusal::new(
        ErrorCode::FENCED_MEMBER_EPOCH,
        format!(
            "The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator \
             ({}). The member must abandon all its partitions and rejoin.",
            member.epoch
        ),
    ))
}

/// The error for an id that is no member of the group.
pub(crate) fn unknown_member(group_id: &str, member_id: &str) -> Refusal {
    Refusal::new(ErrorCode::UNKNOWN_MEMBER_ID, format!("Member {member_id} is not a member of group {group_id}."))
}

/// The static member with this instance id, if it has this member id.
pub(crate) fn owning_static_member<'g>(
    group: &'g ConsumerGroup,
    member_id: &str,
    instance_id: &str,
) -> Result<(&'g Arc<str>, &'g Member), Refusal> {
    let Some((id, member)) = group.static_member(instance_id) else {
        let message = format!("Instance id {instance_id} is unknown.");
        return Err(Refusal::new(ErrorCode::UNKNOWN_MEMBER_ID, message));
    };
    if **id != *member_id {
        let message = format!("Static member {member_id} with instance id {instance_id} was fenced by member {id}.");
        return Err(Refusal::new(ErrorCode::FENCED_INSTANCE_ID, message));
    }
    Ok((id, member))
}

impl<'g> Decision<'g> {
    /// Refuses a new member when the group is full.
    pub fn check_size(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), Refusal> {
        let max = self.shared.broker().members_max;
        let takes_a_seat = instance_id.is_some_and(|instance| self.group.static_member(instance).is_some());
        if takes_a_seat || self.group.len() < max || self.group.member(member_id).is_some() {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorCode::GROUP_MAX_SIZE_REACHED,
            format!("The consumer group has reached its maximum capacity of {max} members."),
        ))
    }

    /// A member without instance id; `joins` allows one that the group does not know.
    pub fn dynamic_member(&self, id: &Arc<str>, joins: bool) -> Result<Candidate, Refusal> {
        match self.group.member_entry(id) {
            Some((id, member)) => {
                Ok(Candidate { id: id.clone(), member: member.clone(), is_known: true, replaces: None })
            }
            None if joins => Ok(Candidate { id: id.clone(), member: Member::new(), is_known: false, replaces: None }),
            None => Err(unknown_member(self.group_id, id)),
        }
    }

    /// A static member that joins. If another member has its instance id, it takes that one's place and what it had.
    pub fn joining_static_member(
        &mut self,
        id: &Arc<str>,
        instance: &str,
        classic: bool,
    ) -> Result<Candidate, Refusal> {
        let Some((owner_id, owner)) = self.group.static_member(instance) else {
            return self.dynamic_member(id, true);
        };
        if !classic && !owner.is_classic() && owner.epoch != STATIC_LEAVE_EPOCH {
            return Err(Refusal::new(
                ErrorCode::UNRELEASED_INSTANCE_ID,
                format!(
                    "Static member {id} with instance id {instance} cannot join the group because the instance id is \
                     owned by {owner_id} member."
                ),
            ));
        }
        let member = Member { epoch: 0, previous_epoch: 0, ..owner.clone() };
        self.records.member_gone(owner_id);
        self.records.member(id, &member);
        self.records.target(id, member.target());
        self.records.current(id, &member);
        let replaces = (*owner_id != *id).then(|| owner_id.clone());
        Ok(Candidate { id: id.clone(), member, is_known: false, replaces })
    }

    /// Records what the member says of itself; true when it subscribes to other topics by name.
    pub fn update_metadata(&mut self, before: &Candidate, after: &Member) -> bool {
        if before.member.has_same_metadata(after) {
            return false;
        }
        self.records.member(&before.id, after);
        before.member.subscription.names != after.subscription.names
    }

    /// Follows a change of the member's regular expression, and sees whether any of the group is to be looked at.
    pub fn update_regex(&mut self, before: &Candidate, after: &Member) -> Result<RegexChange, Refusal> {
        let (old, new) = (before.member.subscription.regex(), after.subscription.regex());
        let mut change = RegexChange::None;
        let mut is_new = false;
        if old != new {
            change = RegexChange::Updated;
            if let Some(old) = old.filter(|old| self.group.regex_subscribers(old) == 1) {
                self.records.regex_gone(old);
            }
            match new {
                Some(new) if self.group.regex_subscribers(new) == 0 => {
                    crate::topic_regex::check(new).map_err(|wrong| {
                        let message =
                            format!("SubscribedTopicRegex `{new}` is not a valid regular expression: {wrong}.");
                        Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, message)
                    })?;
                    is_new = true;
                }
                Some(new) if self.group.resolved(new).is_some() => change = RegexChange::UpdatedAndResolved,
                Some(_) => {}
                None => change = RegexChange::UpdatedAndResolved,
            }
        }
        if is_new || self.group.regex_count() > 0 {
            // Afterwards the member's own expression counts, and its old one may be gone.
            let leaves = old != new && old.is_some_and(|old| self.group.regex_subscribers(old) == 1);
            let count = self.group.regex_count() + usize::from(is_new) - usize::from(leaves);
            self.regex_due |= self.group.needs_regex_refresh(self.now, self.shared, count, is_new);
        }
        Ok(change)
    }

    /// The group's epoch after this: one more if `bump`, or if the topics subscribed to are not what they were.
    pub fn update_epoch(&mut self, bump: bool, before: &Candidate, after: &Member) -> i32 {
        let is_stale = self.group.soft.topics_seen != self.shared.topic_changes;
        if !bump && !is_stale {
            return self.group.epoch;
        }
        let counted = before.is_known || before.replaces.is_some() || self.group.member(&before.id).is_some();
        let leaving = [&before.member];
        let outlook = self.group.outlook(if counted { &leaving } else { &[] }, Some(after));
        let hash = self.shared.hashes.group(outlook.topics.iter(), self.image);
        let mut epoch = self.group.epoch;
        if bump || hash != self.group.metadata_hash {
            epoch += 1;
            self.records.epoch(epoch, hash);
            self.shared.rebalances += 1;
        }
        self.topics_seen = true;
        if self.group.has_partition_metadata {
            self.records.partition_metadata_gone();
        }
        epoch
    }

    /// The target the member is to be brought to, and its epoch: a new one if the group's epoch asks for it and enough time
    /// has passed since the last.
    pub fn update_target(&mut self, epoch: i32, before: &Candidate, after: &Member) -> (i32, Partitions) {
        let group = self.group;
        let made_ms = group.assignment_timestamp_ms;
        let interval_ms = i64::from(self.options.assignment_interval_ms);
        let may_assign = made_ms == 0 || interval_ms == 0 || self.now.wall_ms >= made_ms.saturating_add(interval_ms);
        if group.assignment_epoch >= epoch || !may_assign {
            return (group.assignment_epoch, self.last_target(before, after));
        }
        let pending = before.pending(after);
        let preferred = target::preferred_after(group, pending).and_then(|name| Assignor::from_name(&name));
        let assignor = preferred.unwrap_or_else(|| self.shared.broker().default_assignor());
        let own = target::assign(group, pending, assignor, self.image, &mut self.records);
        self.records.target_epoch(epoch, self.now.wall_ms);
        (epoch, own)
    }

    /// What the last assignment gave the member, or whoever had its instance id.
    pub fn last_target(&self, before: &Candidate, after: &Member) -> Partitions {
        let owner = match after.instance_id.as_deref() {
            Some(instance_id) => self.group.static_member(instance_id).map(|(_, member)| member),
            None => Some(&before.member),
        };
        owner.map(|member| member.target().clone()).unwrap_or_default()
    }

    /// Whether the assignor that most prefer is another one with the member's new preference.
    pub fn changes_assignor(&self, before: &Candidate, after: &Member) -> bool {
        if before.member.assignor == after.assignor && (before.is_known || after.assignor.is_none()) {
            return false;
        }
        let or_default =
            |name: Option<Arc<str>>| name.unwrap_or_else(|| Arc::from(self.shared.broker().default_assignor().name()));
        let now = or_default(target::preferred_assignor(self.group.members().map(|(_, member)| member)));
        now != or_default(target::preferred_after(self.group, before.pending(after)))
    }

    /// Ids of the topics the member subscribes to.
    pub fn subscribed_ids(&self, member: &Member) -> BTreeSet<TopicId> {
        target::topic_ids(self.group, &member.subscription, self.image).map(|(id, _)| id).collect()
    }

    /// Brings the member one step nearer to its target.
    pub fn reconcile(
        &mut self,
        id: &str,
        member: Member,
        (assignment_epoch, target): (i32, Partitions),
        subscription_changed: bool,
        reported: Option<&[TopicPartitions]>,
    ) -> Result<Member, Refusal> {
        if !subscription_changed && member.is_reconciled_to(assignment_epoch) {
            return Ok(member);
        }
        let subscribed = self.subscribed_ids(&member);
        let step = Step {
            group: self.group,
            assignment_epoch,
            target: &target,
            subscribed: &subscribed,
            subscription_changed,
            reported,
        };
        let next = step.take(&member)?;
        if next != member {
            self.records.current(id, &next);
            if !next.is_classic() {
                self.revoke = match next.state {
                    MemberState::UnrevokedPartitions => {
                        Revoke::Set(after_ms(self.now, next.rebalance_timeout_ms), next.epoch)
                    }
                    _ => Revoke::Clear,
                };
            }
        }
        Ok(next)
    }
}
