//! A consumer group as a value: what its records say, and the indexes over that which decisions need.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::Included;
use std::sync::Arc;

use base::{PartitionIndex, TopicId};

use crate::assignor::Partitions;
use crate::consumer::member::{Member, Subscription};
use crate::consumer::owned::Owned;
use crate::consumer::soft::{GroupSoft, Waits};

/// Epoch of a group, and of its assignment, before anything is written.
const FIRST_EPOCH: i32 = 1;
/// "No epoch": the partition has no owner.
pub(crate) const NO_EPOCH: i32 = -1;
/// Largest partition index taken from a record. Far above any topic; it bounds what one wrong record can make us allocate.
pub(crate) const PARTITION_INDEX_MAX: PartitionIndex = 1_000_000;

/// A member with its deadlines.
#[derive(Debug)]
pub(crate) struct Seat {
    /// What the records say.
    pub member: Member,
    /// When it is due.
    pub waits: Waits,
}

/// What a regular expression matched when it was last looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Resolved {
    /// The topics, sorted.
    pub topics: Box<[Arc<str>]>,
    /// Offset in the metadata log up to which topics were known.
    pub version: i64,
    /// When, ms since the epoch.
    pub timestamp_ms: i64,
}

/// A group that speaks the consumer protocol.
#[derive(Debug)]
pub(crate) struct ConsumerGroup {
    /// Grows with every change that calls for a new assignment.
    pub epoch: i32,
    /// Hash of the subscribed topics (KIP-1101).
    pub metadata_hash: i64,
    /// The epoch that the present target was made for; -1 once it is deleted.
    pub assignment_epoch: i32,
    /// When it was made, ms since the epoch; 0 for never.
    pub assignment_timestamp_ms: i64,
    /// An older broker has left a record of partition metadata, which the next change of metadata deletes.
    pub has_partition_metadata: bool,
    members: BTreeMap<Arc<str>, Seat>,
    /// Targets of ids that are no members (yet): a compacted log may have a member's target before the member.
    early_targets: BTreeMap<Arc<str>, Partitions>,
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Each distinct subscription and how many have it.
    subscriptions: BTreeMap<Arc<Subscription>, usize>,
    /// Each regular expression and how many have it.
    regexes: BTreeMap<Arc<str>, usize>,
    resolved: BTreeMap<Arc<str>, Resolved>,
    /// The epoch of each owned partition's owner, by partition index.
    owners: BTreeMap<TopicId, Vec<i32>>,
    classic_members: usize,
    /// How many classic members support each protocol.
    classic_protocols: BTreeMap<Arc<str>, usize>,
    /// What dies with the process.
    pub soft: GroupSoft,
}

impl Default for ConsumerGroup {
    fn default() -> ConsumerGroup {
        ConsumerGroup {
            epoch: FIRST_EPOCH,
            metadata_hash: 0,
            assignment_epoch: FIRST_EPOCH,
            assignment_timestamp_ms: 0,
            has_partition_metadata: false,
            members: BTreeMap::new(),
            early_targets: BTreeMap::new(),
            static_members: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            regexes: BTreeMap::new(),
            resolved: BTreeMap::new(),
            owners: BTreeMap::new(),
            classic_members: 0,
            classic_protocols: BTreeMap::new(),
            soft: GroupSoft::default(),
        }
    }
}

/// Questions.
impl ConsumerGroup {
    /// True when it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The members in order of their ids.
    pub fn members(&self) -> impl Iterator<Item = (&Arc<str>, &Member)> {
        self.members.iter().map(|(id, seat)| (id, &seat.member))
    }

    /// A member by id.
    pub fn member(&self, id: &str) -> Option<&Member> {
        self.members.get(id).map(|seat| &seat.member)
    }

    /// A member by id, with the shared text of the id.
    pub fn member_entry(&self, id: &str) -> Option<(&Arc<str>, &Member)> {
        self.members.get_key_value(id).map(|(id, seat)| (id, &seat.member))
    }

    /// A member with its deadlines.
    pub fn seat_mut(&mut self, id: &str) -> Option<&mut Seat> {
        self.members.get_mut(id)
    }

    /// The same, with the shared text of the id. One search: a heartbeat is little more than that.
    pub fn seat_entry_mut(&mut self, id: &str) -> Option<(&Arc<str>, &mut Seat)> {
        self.members.range_mut::<str, _>((Included(id), Included(id))).next()
    }

    /// All members with their deadlines.
    pub fn seats_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Seat)> {
        self.members.iter_mut()
    }

    /// The member that has this instance id.
    pub fn static_member(&self, instance_id: &str) -> Option<(&Arc<str>, &Member)> {
        self.member_entry(self.static_members.get(instance_id)?)
    }

    /// The epoch of a partition's owner, or [`NO_EPOCH`].
    pub fn owner_epoch(&self, topic: TopicId, partition: PartitionIndex) -> i32 {
        let index = usize::try_from(partition).ok();
        let epochs = self.owners.get(&topic);
        index.zip(epochs).and_then(|(index, epochs)| epochs.get(index)).copied().unwrap_or(NO_EPOCH)
    }

    /// How many subscribe to a regular expression.
    pub fn regex_subscribers(&self, regex: &str) -> usize {
        self.regexes.get(regex).copied().unwrap_or(0)
    }

    /// The regular expressions subscribed to.
    pub fn regexes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.regexes.keys()
    }

    /// Number of regular expressions subscribed to.
    pub fn regex_count(&self) -> usize {
        self.regexes.len()
    }

    /// What a regular expression matched.
    pub fn resolved(&self, regex: &str) -> Option<&Resolved> {
        self.resolved.get(regex)
    }

    /// All regular expressions with what they matched.
    pub fn all_resolved(&self) -> &BTreeMap<Arc<str>, Resolved> {
        &self.resolved
    }

    /// Number of members that speak the classic protocol.
    pub fn classic_members(&self) -> usize {
        self.classic_members
    }

    /// True when all classic members support this protocol.
    pub fn is_supported_by_classic_members(&self, protocol: &str) -> bool {
        self.classic_protocols.get(protocol).copied().unwrap_or(0) == self.classic_members
    }

    /// Its state as ListGroups and ConsumerGroupDescribe spell it.
    pub fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members().all(|(_, member)| member.is_reconciled_to(self.assignment_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Whether a member is subscribed to the topic: such offsets neither expire nor can be deleted.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        let names = |names: &[Arc<str>]| names.binary_search_by(|name| (**name).cmp(topic)).is_ok();
        self.subscriptions.keys().any(|subscription| names(&subscription.names))
            || self.resolved.values().any(|resolved| names(&resolved.topics))
    }

    /// The topics subscribed to by name.
    pub fn names(&self) -> BTreeSet<Arc<str>> {
        self.subscriptions.keys().flat_map(|subscription| subscription.names.iter().cloned()).collect()
    }

    /// What will be subscribed to once `leaving` are gone and `joining` is there. A member that changes is in both.
    pub fn outlook(&self, leaving: &[&Member], joining: Option<&Member>) -> Outlook {
        let mut counts: BTreeMap<&Arc<Subscription>, usize> = self.subscriptions.iter().map(|(s, n)| (s, *n)).collect();
        let mut regexes = self.regexes.clone();
        for member in leaving {
            if let Some(count) = counts.get_mut(&member.subscription) {
                *count = count.saturating_sub(1);
            }
            if let Some(count) = member.subscription.regex().and_then(|regex| regexes.get_mut(regex)) {
                *count = count.saturating_sub(1);
            }
        }
        if let Some(member) = joining {
            *counts.entry(&member.subscription).or_insert(0) += 1;
            if let Some(regex) = member.subscription.regex() {
                *regexes.entry(regex.clone()).or_insert(0) += 1;
            }
        }
        let dropped: Vec<Arc<str>> = regexes.iter().filter(|(_, n)| **n == 0).map(|(regex, _)| regex.clone()).collect();
        let named = counts.iter().filter(|(_, n)| **n > 0).flat_map(|(subscription, _)| subscription.names.iter());
        let resolved = self.resolved.iter().filter(|(regex, _)| !dropped.contains(regex));
        let topics = named.chain(resolved.flat_map(|(_, resolved)| resolved.topics.iter())).cloned().collect();
        Outlook { topics, dropped_regexes: dropped }
    }
}

#[cfg(test)]
impl ConsumerGroup {
    /// The hard state as text.
    pub fn digest(&self) -> String {
        use std::fmt::Write;
        let mut text = format!(
            "epoch {} hash {} assignment {}@{} legacy {}",
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assignment_timestamp_ms,
            self.has_partition_metadata
        );
        for (id, member) in self.members() {
            let _ = write!(text, "\n  {id} {member:?}");
        }
        let _ = write!(text, "\n  resolved {:?} early {:?}", self.resolved, self.early_targets);
        let _ = write!(text, "\n  static {:?} owners {:?}", self.static_members, self.owners);
        let _ = write!(text, "\n  subscriptions {:?} regexes {:?}", self.subscriptions, self.regexes);
        let _ = write!(text, "\n  classic {} {:?}", self.classic_members, self.classic_protocols);
        text
    }

    /// Fails unless the indexes say what the members say.
    pub fn check_indexes(&self) {
        let mut again = ConsumerGroup::default();
        for (id, member) in self.members() {
            again.set_metadata(id, |new| *new = member.clone());
            let (assigned, revoking) = (member.assigned.clone(), member.revoking.clone());
            again.set_assignment(id, |new| {
                (new.assigned, new.revoking) = (Owned::default(), Owned::default());
            });
            again.set_assignment(id, |new| (new.assigned, new.revoking) = (assigned, revoking));
        }
        assert_eq!(self.owners, again.owners);
        assert_eq!(self.static_members, again.static_members);
        assert_eq!((&self.subscriptions, &self.regexes), (&again.subscriptions, &again.regexes));
        assert_eq!((self.classic_members, &self.classic_protocols), (again.classic_members, &again.classic_protocols));
    }
}

/// What [`ConsumerGroup::outlook`] tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outlook {
    /// All topics subscribed to, by name or by a regular expression that is resolved.
    pub topics: BTreeSet<Arc<str>>,
    /// Regular expressions that nobody will have any more.
    pub dropped_regexes: Vec<Arc<str>>,
}

/// Changes. Only replay makes them.
impl ConsumerGroup {
    /// Sets what the metadata record of a member holds. The member appears if it is new.
    pub fn set_metadata(&mut self, id: &str, change: impl FnOnce(&mut Member)) {
        let (id, mut seat) = self.take(id);
        self.count(&seat.member, false);
        if let Some(instance_id) = seat.member.instance_id.take() {
            self.static_members.remove(&instance_id);
        }
        change(&mut seat.member);
        if let Some((shared, _)) = self.subscriptions.get_key_value(&seat.member.subscription) {
            seat.member.subscription = shared.clone();
        }
        self.count(&seat.member, true);
        if let Some(instance_id) = &seat.member.instance_id {
            self.static_members.insert(instance_id.clone(), id.clone());
        }
        self.members.insert(id, seat);
    }

    /// Sets how far a member is and what it has. The member appears if it is new.
    pub fn set_assignment(&mut self, id: &str, change: impl FnOnce(&mut Member)) {
        let (id, mut seat) = self.take(id);
        self.release(&seat.member);
        change(&mut seat.member);
        if let Some(target) = &seat.member.target {
            seat.member.assigned.share(target);
        }
        self.claim(&seat.member.assigned, seat.member.epoch);
        self.claim(&seat.member.revoking, seat.member.epoch);
        self.members.insert(id, seat);
    }

    /// Sets or deletes what a member shall have.
    pub fn set_target(&mut self, id: &str, target: Option<Partitions>) {
        let Some(seat) = self.members.get_mut(id) else {
            match target {
                Some(target) => self.early_targets.insert(Arc::from(id), target),
                None => self.early_targets.remove(id),
            };
            return;
        };
        let assigned = seat.member.assigned.partitions();
        seat.member.target = target.map(|target| if target == *assigned { assigned.clone() } else { target });
    }

    /// Removes a member.
    pub fn remove_member(&mut self, id: &str) {
        let Some(seat) = self.members.remove(id) else { return };
        self.count(&seat.member, false);
        self.release(&seat.member);
        if let Some(instance_id) = &seat.member.instance_id
            && self.static_members.get(instance_id).is_some_and(|owner| **owner == *id)
        {
            self.static_members.remove(instance_id);
        }
    }

    /// Sets or deletes what a regular expression matched.
    pub fn set_resolved(&mut self, regex: &str, resolved: Option<Resolved>) {
        match resolved {
            Some(resolved) => {
                let shared = self.regexes.get_key_value(regex).map(|(shared, _)| shared.clone());
                self.resolved.insert(shared.unwrap_or_else(|| Arc::from(regex)), resolved);
            }
            None => {
                self.resolved.remove(regex);
            }
        }
    }

    /// Takes a member out; a new one is blank, and counted as such.
    fn take(&mut self, id: &str) -> (Arc<str>, Seat) {
        if let Some(entry) = self.members.remove_entry(id) {
            return entry;
        }
        let member = Member { target: self.early_targets.remove(id), ..Member::new() };
        self.count(&member, true);
        (Arc::from(id), Seat { member, waits: Waits::default() })
    }

    fn count(&mut self, member: &Member, joins: bool) {
        tally(&mut self.subscriptions, &member.subscription, joins);
        if let Some(regex) = member.subscription.regex() {
            tally(&mut self.regexes, regex, joins);
        }
        if let Some(classic) = &member.classic {
            self.classic_members = if joins { self.classic_members + 1 } else { self.classic_members - 1 };
            classic.protocols.iter().for_each(|(name, _)| tally(&mut self.classic_protocols, name, joins));
        }
    }

    fn claim(&mut self, owned: &Owned, epoch: i32) {
        for (topic, partition, _) in owned.iter() {
            let epochs = self.owners.entry(topic).or_default();
            let index = partition as usize;
            if epochs.len() <= index {
                epochs.resize(index + 1, NO_EPOCH);
            }
            // Two owners cannot be; should a log say so all the same, the later epoch is the owner's.
            if epochs[index] == NO_EPOCH || epochs[index] < epoch {
                epochs[index] = epoch;
            }
        }
    }

    fn release(&mut self, member: &Member) {
        for (topic, partition, _) in member.assigned.iter().chain(member.revoking.iter()) {
            let Some(epochs) = self.owners.get_mut(&topic) else { continue };
            if let Some(epoch) = epochs.get_mut(partition as usize).filter(|epoch| **epoch == member.epoch) {
                *epoch = NO_EPOCH;
            }
            if epochs.iter().rev().take(1).all(|epoch| *epoch == NO_EPOCH) {
                let used = epochs.iter().rposition(|epoch| *epoch != NO_EPOCH).map_or(0, |last| last + 1);
                epochs.truncate(used);
            }
            if epochs.is_empty() {
                self.owners.remove(&topic);
            }
        }
    }
}

fn tally<K: Ord + Clone>(counts: &mut BTreeMap<K, usize>, key: &K, joins: bool) {
    if joins {
        *counts.entry(key.clone()).or_insert(0) += 1;
    } else if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
