//! Members that join, change their mind, pause, crash and leave, while the broker crashes too.

use std::collections::{BTreeMap, BTreeSet};

use base::{Prng, TopicId};

use super::*;

/// A consumer as Kafka's client behaves: it gives up at once, later, or never, and takes what it is told to.
struct Consumer {
    id: String,
    instance: Option<String>,
    epoch: i32,
    topics: Vec<&'static str>,
    owns: BTreeSet<(u8, i32)>,
    /// What it shall have; what it owns beyond that is to be given up.
    shall: BTreeSet<(u8, i32)>,
    paused: bool,
    /// It has to say everything with its next heartbeat.
    says_all: bool,
}

const TOPICS: [&[&str]; 3] = [&["t0", "t1"], &["t0", "t1", "t2"], &["t2"]];

impl Consumer {
    fn new(prng: &mut Prng, number: u64) -> Consumer {
        Consumer {
            id: format!("m{number}"),
            instance: prng.chance(1, 3).then(|| format!("i{number}")),
            epoch: 0,
            topics: TOPICS[prng.below(3) as usize].to_vec(),
            owns: BTreeSet::new(),
            shall: BTreeSet::new(),
            paused: false,
            says_all: true,
        }
    }

    fn beat(&self, epoch: i32) -> Beat {
        let beat = if epoch == 0 {
            join(&self.id, &self.topics)
        } else if self.says_all {
            let mut owns: BTreeMap<u8, Vec<i32>> = BTreeMap::new();
            self.owns.iter().for_each(|(topic, partition)| owns.entry(*topic).or_default().push(*partition));
            let owns: Vec<(u8, &[i32])> = owns.iter().map(|(topic, partitions)| (*topic, &partitions[..])).collect();
            beat(&self.id, epoch).topics(&self.topics).owns(&owns)
        } else {
            beat(&self.id, epoch)
        };
        match &self.instance {
            Some(instance) => beat.instance(instance),
            None => beat,
        }
    }

    fn abandon(&mut self) {
        (self.epoch, self.says_all) = (0, true);
        self.owns.clear();
        self.shall.clear();
    }

    /// One heartbeat. Its answer may be lost.
    fn live(&mut self, world: &mut World, prng: &mut Prng, said: &str) {
        if prng.chance(1, 2) && self.owns != self.shall {
            self.owns.retain(|partition| self.shall.contains(partition));
            self.owns.extend(&self.shall);
            self.says_all = true;
        }
        let answer = self.beat(self.epoch).send_unchecked(world);
        if prng.chance(1, 10) {
            self.says_all = true;
            return;
        }
        match answer.error {
            ErrorCode::NONE => {
                assert!(answer.epoch >= self.epoch, "{said}: {} went back to {}", self.id, answer.epoch);
                self.epoch = answer.epoch;
                self.says_all = false;
                if let Some(assignment) = answer.assignment {
                    let pairs = assignment.into_iter().flat_map(|(t, ps)| ps.into_iter().map(move |p| (t, p)));
                    self.shall = pairs.collect();
                    if self.owns != self.shall && self.owns.is_subset(&self.shall) {
                        self.owns = self.shall.clone();
                        self.says_all = true;
                    }
                }
            }
            ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::GROUP_ID_NOT_FOUND => {
                self.abandon();
            }
            // It died and came back before its session ended.
            ErrorCode::UNRELEASED_INSTANCE_ID => {}
            error => panic!("{said}: {} got {error:?}: {}", self.id, answer.message),
        }
    }
}

struct Story {
    world: World,
    prng: Prng,
    consumers: Vec<Consumer>,
    next: u64,
    last_epoch: i32,
    said: String,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut prng = Prng::new(seed);
        let interval = [0, 1000, 3000][prng.below(3) as usize];
        let world = World::with(&format!("group.consumer.assignment.interval.ms={interval}"));
        let said = format!("seed {seed}");
        Story { world, prng, consumers: Vec::new(), next: 0, last_epoch: 0, said }
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.consumers.len() as u64;
        (count > 0).then(|| self.prng.below(count) as usize)
    }

    fn step(&mut self) {
        match self.prng.below(40) {
            0 | 1 if self.consumers.len() < 8 => {
                self.consumers.push(Consumer::new(&mut self.prng, self.next));
                self.next += 1;
            }
            2 => {
                if let Some(at) = self.pick() {
                    self.consumers[at].paused ^= true;
                }
            }
            3 => {
                if let Some(at) = self.pick() {
                    let consumer = self.consumers.remove(at);
                    if consumer.epoch > 0 && self.prng.chance(1, 2) {
                        let epoch = if consumer.instance.is_some() && self.prng.chance(1, 2) { -2 } else { -1 };
                        consumer.beat(epoch).send_unchecked(&mut self.world);
                    }
                    if consumer.instance.is_some() && self.prng.chance(1, 2) {
                        // A restart under another member id.
                        let mut again = Consumer::new(&mut self.prng, self.next);
                        again.instance = consumer.instance;
                        self.consumers.push(again);
                        self.next += 1;
                    }
                }
            }
            4 => {
                if let Some(at) = self.pick() {
                    self.consumers[at].topics = TOPICS[self.prng.below(3) as usize].to_vec();
                    self.consumers[at].says_all = true;
                }
            }
            5 => {
                // What is loaded is what was there.
                self.world.check_replay();
                self.world.restart();
            }
            6 => self.world.pass_ms(self.prng.below(50_000)),
            7 if self.prng.chance(1, 4) => {
                let id = topic_id(100 + self.prng.below(100) as u8);
                if self.world.image.topics.by_id(id).is_none() {
                    self.world.delete_topic("t1", Some(id));
                }
            }
            _ => {
                if let Some(at) = self.pick().filter(|at| !self.consumers[*at].paused) {
                    self.consumers[at].live(&mut self.world, &mut self.prng, &self.said);
                }
                self.world.pass_ms(self.prng.below(1_500));
            }
        }
        self.check();
    }

    fn check(&mut self) {
        check_owners(&self.world);
        if let Some(Group::Consumer(group)) = self.world.shell.machine().groups.get(GROUP) {
            assert!(group.epoch >= self.last_epoch, "{}: the group's epoch went back", self.said);
            assert!(group.assignment_epoch <= group.epoch, "{}", self.said);
            self.last_epoch = group.epoch;
        }
        // What a member still owns after it was fenced does not count: it cannot know.
        let known: BTreeSet<String> = match self.world.shell.machine().groups.get(GROUP) {
            Some(Group::Consumer(group)) => group.members().map(|(id, _)| id.to_string()).collect(),
            _ => BTreeSet::new(),
        };
        let mut owners: BTreeMap<(u8, i32), &str> = BTreeMap::new();
        for consumer in self.consumers.iter().filter(|consumer| known.contains(&consumer.id) && consumer.epoch > 0) {
            for partition in &consumer.owns {
                let other = owners.insert(*partition, &consumer.id);
                assert_eq!(other, None, "{}: {partition:?} is owned by {} as well", self.said, consumer.id);
            }
        }
    }

    /// Faults stop; everybody lives on until nothing changes any more.
    fn settle(&mut self) {
        self.consumers.iter_mut().for_each(|consumer| consumer.paused = false);
        for _ in 0..60 {
            for consumer in &mut self.consumers {
                consumer.live(&mut self.world, &mut self.prng, &self.said);
            }
            self.world.pass_ms(4_000);
            self.check();
        }
        // Lost answers may have left a client behind; nothing is lost now.
        let mut never = Prng::new(1);
        for _ in 0..20 {
            for consumer in &mut self.consumers {
                consumer.live(&mut self.world, &mut never, &self.said);
            }
        }
        check(&self.world);
        if self.consumers.is_empty() {
            return;
        }
        assert_eq!(self.world.group_state().0, "Stable", "{}", self.said);
        let Some(Group::Consumer(group)) = self.world.shell.machine().groups.get(GROUP) else { panic!("a group") };
        let mut owned: Vec<(TopicId, i32)> =
            group.members().flat_map(|(_, m)| m.assigned.partitions().iter()).collect();
        owned.sort_unstable();
        let topics = ["t0", "t1", "t2"].iter().filter(|name| self.consumers.iter().any(|c| c.topics.contains(name)));
        let mut wanted: Vec<(TopicId, i32)> = topics
            .map(|name| self.world.image.topics.by_name(name).expect("a topic").id)
            .flat_map(|id| (0..3).map(move |partition| (id, partition)))
            .collect();
        wanted.sort_unstable();
        assert_eq!(owned, wanted, "{}", self.said);
    }
}

#[test]
fn whatever_happens_every_partition_has_one_owner_in_the_end() {
    for seed in 0..300 {
        let mut story = Story::new(seed);
        for _ in 0..120 {
            story.step();
        }
        story.settle();
    }
}
