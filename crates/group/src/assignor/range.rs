//! Ranges: each topic is cut into as many ranges as it has subscribers, and the n-th subscriber gets the n-th range.
//! Topics of equal size and equal subscribers are cut alike, so that partitions of one index stay together.

use std::cmp::Ordering;

use super::{GroupSpec, MemberSpec, NOBODY, Owners, Partitions};

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut order: Vec<usize> = (0..group.members.len()).collect();
    order.sort_by(|a, b| compare(&group.members[*a], &group.members[*b]));
    let mut subscribers = vec![0; group.topics.len()];
    for member in group.members {
        member.topics.iter().for_each(|topic| subscribers[*topic] += 1);
    }
    let mut cuts: Vec<Cut> =
        group.topics.iter().zip(&subscribers).map(|(topic, count)| Cut::new(topic.partitions, *count)).collect();
    let mut owners = Owners {
        by_topic: group.topics.iter().map(|topic| vec![NOBODY; topic.partitions]).collect(),
        counts: Vec::new(),
    };
    for member in order {
        for topic in group.members[member].topics {
            let range = cuts[*topic].next_range();
            owners.by_topic[*topic][range].fill(member as u32);
        }
    }
    owners.into_targets(group)
}

/// Static members come first, by instance id, so that a restart under another member id changes nothing; the others by
/// member id.
fn compare(a: &MemberSpec<'_>, b: &MemberSpec<'_>) -> Ordering {
    match (a.instance_id, b.instance_id) {
        (Some(a), Some(b)) => compare_utf16(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => compare_utf16(a.member_id, b.member_id),
    }
}

/// The order of Java strings, which differs from that of UTF-8 for characters outside the basic plane.
fn compare_utf16(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

/// How far a topic has been dealt out.
struct Cut {
    next: usize,
    each: usize,
    extra: usize,
}

impl Cut {
    fn new(partitions: usize, subscribers: usize) -> Cut {
        let subscribers = subscribers.max(1);
        Cut { next: 0, each: partitions / subscribers, extra: partitions % subscribers }
    }

    fn next_range(&mut self) -> std::ops::Range<usize> {
        let size = self.each + usize::from(self.extra > 0);
        self.extra = self.extra.saturating_sub(1);
        let start = self.next;
        self.next += size;
        start..self.next
    }
}
