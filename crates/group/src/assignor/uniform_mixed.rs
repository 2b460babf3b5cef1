//! The uniform assignor for members with different subscriptions: free partitions go to the least loaded subscriber of
//! their topic, then partitions move from the most to the least loaded ones as long as that evens out the load.

use std::cmp::Ordering;

use base::TopicId;

use super::{GroupSpec, NOBODY, Owners, Partitions};

/// Most rounds over all topics. When the subscribers of each topic subscribe alike, the first round balances and the second
/// one finds nothing to do; overlapping subscriptions may take longer, each round about halving what is left.
const ROUNDS_MAX: usize = 16;

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut subscribers = vec![Vec::new(); group.topics.len()];
    for (member, spec) in group.members.iter().enumerate() {
        spec.topics.iter().for_each(|topic| subscribers[*topic].push(member));
    }
    let mut topics: Vec<usize> = (0..group.topics.len()).filter(|topic| !subscribers[*topic].is_empty()).collect();
    topics.sort_by(|a, b| by_load(group, &subscribers, *a, *b));
    let mut owners = Owners::kept(group);
    for topic in &topics {
        give_free(&mut owners, *topic, &subscribers[*topic]);
    }
    topics.retain(|topic| subscribers[*topic].len() > 1);
    balance(&mut owners, &topics, &subscribers);
    owners.into_targets(group)
}

/// Topics with most partitions for each subscriber first, then those with fewest subscribers.
fn by_load(group: &GroupSpec<'_>, subscribers: &[Vec<usize>], a: usize, b: usize) -> Ordering {
    let of = |topic: usize| (group.topics[topic].partitions, subscribers[topic].len());
    let ((partitions_a, members_a), (partitions_b, members_b)) = (of(a), of(b));
    (partitions_b * members_a)
        .cmp(&(partitions_a * members_b))
        .then(members_a.cmp(&members_b))
        .then_with(|| java_order(group.topics[a].id).cmp(&java_order(group.topics[b].id)))
}

/// Kafka compares ids as two signed numbers.
fn java_order(id: TopicId) -> (i64, i64) {
    let bits = u128::from_be_bytes(*id.as_bytes());
    ((bits >> 64) as i64, bits as i64)
}

fn give_free(owners: &mut Owners, topic: usize, subscribers: &[usize]) {
    let mut scale = Scale::new(subscribers, &owners.counts);
    for owner in owners.by_topic[topic].iter_mut().filter(|owner| **owner == NOBODY) {
        let member = scale.next_least(&owners.counts);
        *owner = member as u32;
        owners.counts[member] += 1;
    }
}

/// Goes over the topics until one whole round has moved nothing.
fn balance(owners: &mut Owners, topics: &[usize], subscribers: &[Vec<usize>]) {
    let mut last_moved = None;
    for _ in 0..ROUNDS_MAX {
        for topic in topics {
            if last_moved == Some(*topic) {
                return;
            }
            let moved = balance_topic(owners, *topic, &subscribers[*topic]);
            if moved || last_moved.is_none() {
                last_moved = Some(*topic);
            }
        }
    }
}

/// Moves partitions of one topic; true when one moved.
fn balance_topic(owners: &mut Owners, topic: usize, subscribers: &[usize]) -> bool {
    let mut scale = Scale::new(subscribers, &owners.counts);
    if scale.spread(&owners.counts) <= 1 {
        return false;
    }
    // What each member could give, the last partition at the end.
    let mut held: Vec<(u32, usize)> =
        owners.by_topic[topic].iter().enumerate().map(|(partition, owner)| (*owner, partition)).collect();
    held.sort_unstable();
    let mut held_end = vec![0; owners.counts.len()];
    for (at, (owner, _)) in held.iter().enumerate() {
        held_end[*owner as usize] = at + 1;
    }
    let mut moved = false;
    while !scale.is_level() {
        let Some(giver) = scale.next_most(&owners.counts) else { break };
        let end = held_end[giver];
        if end == 0 || held[end - 1].0 as usize != giver {
            scale.exclude_most();
            continue;
        }
        held_end[giver] -= 1;
        let partition = held[end - 1].1;
        let taker = scale.next_least(&owners.counts);
        if scale.is_level() {
            break;
        }
        owners.by_topic[topic][partition] = taker as u32;
        owners.counts[giver] -= 1;
        owners.counts[taker] += 1;
        moved = true;
    }
    moved
}

/// The subscribers of a topic in order of their load, with a range of equally loaded members at either end. Loads that a
/// range accounts for are those at its edge; inside it every member has been given, or has given, the same number.
struct Scale {
    sorted: Vec<usize>,
    least_end: usize,
    least_level: i64,
    least_next: usize,
    most_start: usize,
    most_end: usize,
    most_level: i64,
    /// One past the next giver.
    most_next: usize,
}

impl Scale {
    fn new(subscribers: &[usize], counts: &[usize]) -> Scale {
        let mut sorted = subscribers.to_vec();
        sorted.sort_by_key(|member| (counts[*member], *member));
        let (least, most) = (counts[sorted[0]] as i64, counts[sorted[sorted.len() - 1]] as i64);
        Scale {
            least_end: 0,
            least_level: least - 1,
            least_next: 0,
            most_start: sorted.len(),
            most_end: sorted.len(),
            most_level: most + 1,
            most_next: sorted.len(),
            sorted,
        }
    }

    fn load(&self, counts: &[usize], at: usize) -> i64 {
        counts[self.sorted[at]] as i64
    }

    fn spread(&self, counts: &[usize]) -> i64 {
        self.load(counts, self.sorted.len() - 1) - self.load(counts, 0)
    }

    /// The member to give to. It counts as given to.
    fn next_least(&mut self, counts: &[usize]) -> usize {
        if self.least_next >= self.least_end {
            self.least_level += 1;
            while self.least_end < self.sorted.len() && self.load(counts, self.least_end) == self.least_level {
                self.least_end += 1;
            }
            self.least_next = 0;
        }
        self.least_next += 1;
        self.sorted[self.least_next - 1]
    }

    /// The member to take from. It counts as taken from.
    fn next_most(&mut self, counts: &[usize]) -> Option<usize> {
        if self.most_next <= self.most_start {
            if self.most_end <= self.most_start && self.most_start > 0 {
                // Everybody in the range has nothing to give: start below it.
                self.most_level = self.load(counts, self.most_start - 1);
            } else {
                self.most_level -= 1;
            }
            while self.most_start > 0 && self.load(counts, self.most_start - 1) == self.most_level {
                self.most_start -= 1;
            }
            self.most_next = self.most_end;
        }
        self.most_next = self.most_next.checked_sub(1)?;
        Some(self.sorted[self.most_next])
    }

    /// Takes the last giver out of the range: it has no partition of this topic.
    fn exclude_most(&mut self) {
        self.most_end -= 1;
        self.sorted.swap(self.most_next, self.most_end);
    }

    fn is_level(&self) -> bool {
        self.most_level - self.least_level <= 1
    }
}
