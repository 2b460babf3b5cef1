//! A new target for all members of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::TopicId;
use metadata::MetadataImage;

use crate::assignor::{Assignor, GroupSpec, MemberSpec, Partitions, TopicSpec};
use crate::consumer::group::ConsumerGroup;
use crate::consumer::member::{Member, Subscription};
use crate::consumer::records::Records;

/// A member as it is after the request at hand, which the group does not know yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its new state.
    pub member: &'a Member,
    /// The id of the static member that it takes the place of.
    pub replaces: Option<&'a str>,
}

/// The existing topics that a subscription means now: by name and by its regular expression, if that is resolved.
pub(crate) fn topic_ids<'a>(
    group: &'a ConsumerGroup,
    subscription: &'a Subscription,
    image: &'a MetadataImage,
) -> impl Iterator<Item = (TopicId, usize)> + 'a {
    let resolved = subscription.regex().and_then(|regex| group.resolved(regex));
    let matched = resolved.map(|resolved| &resolved.topics[..]).unwrap_or_default();
    let names = subscription.names.iter().chain(matched);
    names.filter_map(|name| image.topics.by_name(name)).map(|topic| (topic.id, topic.partition_count()))
}

/// The members as they are after the request, in order of their ids.
fn members_after<'a>(group: &'a ConsumerGroup, pending: Pending<'a>) -> Vec<(&'a str, &'a Member)> {
    let others = group.members().map(|(id, member)| (&**id, member));
    let mut members: Vec<(&str, &Member)> =
        others.filter(|(id, _)| *id != pending.id && Some(*id) != pending.replaces).collect();
    let at = members.partition_point(|(id, _)| *id < pending.id);
    members.insert(at, (pending.id, pending.member));
    members
}

/// The assignor that most members prefer; `None` when none prefers any. Among equals the first by name.
pub(crate) fn preferred_assignor<'a>(members: impl Iterator<Item = &'a Member>) -> Option<Arc<str>> {
    let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    members.filter_map(|member| member.assignor.as_ref()).for_each(|name| *votes.entry(name).or_insert(0) += 1);
    let most = votes.values().max()?;
    votes.iter().find(|(_, count)| *count == most).map(|(name, _)| Arc::clone(name))
}

/// The assignor preferred once the request is done.
pub(crate) fn preferred_after(group: &ConsumerGroup, pending: Pending<'_>) -> Option<Arc<str>> {
    preferred_assignor(members_after(group, pending).into_iter().map(|(_, member)| member))
}

/// Works out what everybody shall have, adds a record for each member for whom that is something else than before, and
/// gives back the pending member's part.
pub(crate) fn assign(
    group: &ConsumerGroup,
    pending: Pending<'_>,
    assignor: Assignor,
    image: &MetadataImage,
    records: &mut Records<'_>,
) -> Partitions {
    let members = members_after(group, pending);
    let topics = subscribed_topics(group, &members, image);
    let indexes = |subscription: &Subscription| {
        let find = |(id, _)| topics.binary_search_by(|topic: &TopicSpec| topic.id.cmp(&id)).ok();
        let mut indexes: Vec<usize> = topic_ids(group, subscription, image).filter_map(find).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    };
    // By address: members that subscribe alike share their subscription.
    let mut known: BTreeMap<*const Subscription, Vec<usize>> = BTreeMap::new();
    for (_, member) in &members {
        known.entry(Arc::as_ptr(&member.subscription)).or_insert_with(|| indexes(&member.subscription));
    }
    let specs: Vec<MemberSpec<'_>> = members
        .iter()
        .map(|(id, member)| MemberSpec {
            member_id: id,
            instance_id: member.instance_id.as_deref(),
            topics: &known[&Arc::as_ptr(&member.subscription)],
            owned: member.target(),
        })
        .collect();
    let targets = assignor.assign(&GroupSpec { topics: &topics, members: &specs });
    let mut own = Partitions::EMPTY;
    for ((id, member), target) in members.iter().zip(targets) {
        if member.target.as_ref() != Some(&target) {
            records.target(id, &target);
        }
        if *id == pending.id {
            own = target;
        }
    }
    own
}

fn subscribed_topics(group: &ConsumerGroup, members: &[(&str, &Member)], image: &MetadataImage) -> Vec<TopicSpec> {
    let subscriptions = members.iter().map(|(_, member)| (Arc::as_ptr(&member.subscription), &*member.subscription));
    let subscriptions: BTreeMap<*const Subscription, &Subscription> = subscriptions.collect();
    let ids = subscriptions.into_values().flat_map(|subscription| topic_ids(group, subscription, image));
    let topics: BTreeMap<TopicId, usize> = ids.collect();
    topics.into_iter().map(|(id, partitions)| TopicSpec { id, partitions }).collect()
}
