//! Which brokers hold a new partition: racks and brokers in turn, so that replicas, leaders and racks are even.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BrokerId, Prng};

/// A broker that can take replicas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UsableBroker {
    pub(crate) id: BrokerId,
    pub(crate) rack: Option<Arc<str>>,
    pub(crate) fenced: bool,
}

/// Brokers of one kind in one rack, handed out in turn: each partition begins one further.
#[derive(Clone, Debug, Default)]
struct Ring {
    brokers: Vec<BrokerId>,
    offset: usize,
    used: usize,
    /// Number of the partition for which `used` counts.
    partition: usize,
}

impl Ring {
    fn next(&mut self, partition: usize) -> Option<BrokerId> {
        if self.brokers.is_empty() {
            return None;
        }
        if self.partition != partition {
            self.partition = partition;
            self.used = 0;
            self.offset = (self.offset + 1) % self.brokers.len();
        }
        if self.used == self.brokers.len() {
            return None;
        }
        let broker = self.brokers[(self.used + self.offset) % self.brokers.len()];
        self.used += 1;
        Some(broker)
    }
}

#[derive(Clone, Debug, Default)]
struct Rack {
    unfenced: Ring,
    fenced: Ring,
}

/// Deals replicas of one request's partitions.
#[derive(Debug)]
pub(crate) struct Placer<'p> {
    prng: &'p mut Prng,
    racks: Vec<Rack>,
    total: usize,
    unfenced: usize,
    /// Partitions dealt so far.
    partition: usize,
    /// Partitions dealt since the last shuffle.
    since_shuffle: usize,
    first_rack: usize,
}

impl<'p> Placer<'p> {
    /// A placer over `brokers`. The start is random, so that small topics do not all begin on the same broker.
    pub(crate) fn new(brokers: impl IntoIterator<Item = UsableBroker>, prng: &'p mut Prng) -> Placer<'p> {
        let mut by_name: BTreeMap<Option<Arc<str>>, Rack> = BTreeMap::new();
        let (mut total, mut unfenced) = (0, 0);
        for broker in brokers {
            let rack = by_name.entry(broker.rack).or_default();
            total += 1;
            unfenced += usize::from(!broker.fenced);
            let ring = if broker.fenced { &mut rack.fenced } else { &mut rack.unfenced };
            ring.brokers.push(broker.id);
        }
        let mut racks: Vec<Rack> = by_name.into_values().collect();
        for ring in racks.iter_mut().flat_map(|rack| [&mut rack.unfenced, &mut rack.fenced]) {
            ring.brokers.sort_unstable();
            ring.offset = random_index(prng, ring.brokers.len());
        }
        let first_rack = random_index(prng, racks.len());
        Placer { prng, racks, total, unfenced, partition: 0, since_shuffle: 0, first_rack }
    }

    /// Checks once per request that `replication_factor` can be had at all.
    ///
    /// # Errors
    /// Kafka's text of the reason.
    pub(crate) fn check(&self, replication_factor: i16) -> Result<usize, String> {
        let Some(wanted) = usize::try_from(replication_factor).ok().filter(|wanted| *wanted > 0) else {
            return Err(format!(
                "Invalid replication factor {replication_factor}: the replication factor must be positive."
            ));
        };
        if self.unfenced == 0 {
            return Err("All brokers are currently fenced.".to_owned());
        }
        if wanted > self.total {
            return Err(format!(
                "The target replication factor of {wanted} cannot be reached because only {} broker(s) are registered or \
                 some brokers have all their log directories cordoned.",
                self.total
            ));
        }
        Ok(wanted)
    }

    /// Replicas of the next partition, leader first: an unfenced broker, then one broker of each rack in turn. `wanted`
    /// comes from [`Placer::check`].
    pub(crate) fn place(&mut self, wanted: usize) -> Vec<BrokerId> {
        assert!(self.unfenced > 0 && wanted <= self.total, "{wanted} replicas on {} brokers", self.total);
        // After as many partitions as there are leaders the pattern would repeat itself.
        if self.since_shuffle == self.unfenced && self.unfenced > 1 {
            self.shuffle();
            self.since_shuffle = 0;
        }
        let count = self.racks.len();
        self.first_rack %= count;
        let mut replicas = Vec::with_capacity(wanted);
        let mut leader_rack = self.first_rack;
        loop {
            if let Some(leader) = self.racks[leader_rack].unfenced.next(self.partition) {
                replicas.push(leader);
                break;
            }
            leader_rack = (leader_rack + 1) % count;
        }
        // The rack that gave the leader is passed over once, so that the next replica lies elsewhere.
        let mut passed = false;
        let mut rack = self.first_rack;
        while replicas.len() < wanted {
            if rack == leader_rack && !passed {
                passed = true;
            } else {
                let Rack { unfenced, fenced } = &mut self.racks[rack];
                replicas.extend(unfenced.next(self.partition).or_else(|| fenced.next(self.partition)));
            }
            rack = (rack + 1) % count;
        }
        self.partition += 1;
        self.since_shuffle += 1;
        self.first_rack += 1;
        replicas
    }

    fn shuffle(&mut self) {
        let mut racks = std::mem::take(&mut self.racks);
        shuffle(self.prng, &mut racks);
        for rack in &mut racks {
            shuffle(self.prng, &mut rack.unfenced.brokers);
            shuffle(self.prng, &mut rack.fenced.brokers);
        }
        self.racks = racks;
    }
}

fn random_index(prng: &mut Prng, len: usize) -> usize {
    if len == 0 { 0 } else { prng.below(len as u64) as usize }
}

fn shuffle<T>(prng: &mut Prng, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, prng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(id: BrokerId, rack: Option<&str>, fenced: bool) -> UsableBroker {
        UsableBroker { id, rack: rack.map(Arc::from), fenced }
    }

    #[test]
    fn replicas_are_distinct_and_leaders_even() {
        for seed in 0..50 {
            let mut prng = Prng::new(seed);
            let brokers = (0..6).map(|id| broker(id, Some(["a", "b", "c"][id as usize % 3]), false));
            let mut placer = Placer::new(brokers, &mut prng);
            let wanted = placer.check(3).expect("possible");
            let mut leaders = [0; 6];
            for _ in 0..12 {
                let replicas = placer.place(wanted);
                leaders[replicas[0] as usize] += 1;
                let racks: std::collections::BTreeSet<_> = replicas.iter().map(|id| id % 3).collect();
                assert_eq!(racks.len(), 3, "seed {seed}: one replica in each rack, not {replicas:?}");
            }
            assert!(leaders.iter().all(|count| (1..=3).contains(count)), "seed {seed}: {leaders:?}");
        }
    }

    #[test]
    fn fenced_brokers_follow_but_do_not_lead() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let brokers = [broker(1, None, true), broker(2, None, false), broker(3, None, true)];
            let mut placer = Placer::new(brokers, &mut prng);
            let wanted = placer.check(3).expect("possible");
            for _ in 0..5 {
                let mut replicas = placer.place(wanted);
                assert_eq!(replicas[0], 2);
                replicas.sort_unstable();
                assert_eq!(replicas, [1, 2, 3]);
            }
        }
    }

    #[test]
    fn what_cannot_be_had_is_said_as_kafka_does() {
        let mut prng = Prng::new(1);
        let one = || [broker(1, None, false)];
        let cases = [
            (one().to_vec(), 0, "Invalid replication factor 0: the replication factor must be positive."),
            (
                one().to_vec(),
                2,
                "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some \
                 brokers have all their log directories cordoned.",
            ),
            (vec![broker(1, None, true)], 1, "All brokers are currently fenced."),
            (vec![], 1, "All brokers are currently fenced."),
        ];
        for (brokers, factor, text) in cases {
            assert_eq!(Placer::new(brokers, &mut prng).check(factor), Err(text.to_owned()));
        }
    }
}
