//! Requests of both protocols with whatever in them, in any order: nothing panics, indexes and replay stay right, and no
//! partition ever has two owners.

use base::Prng;
use wire::leave_group_request::MemberIdentity;

use super::*;
use crate::tests::world::{Join, join as classic_join, subscription};

const IDS: [&str; 5] = ["", "a", "b", "c", "d"];
const INSTANCES: [&str; 3] = ["i", "j", ""];
const REGEXES: [&str; 6] = ["", "t.*", "t[01]", "[", "x", "t0|t2"];
const TOPICS: [&[&str]; 5] = [&[], &["t0"], &["t0", "t1"], &["t2", "t0", "t0"], &["gone"]];

struct Chaos {
    world: World,
    prng: Prng,
}

impl Chaos {
    fn new(seed: u64) -> Chaos {
        let mut prng = Prng::new(seed);
        let interval = [0, 1000][prng.below(2) as usize];
        let world = World::with(&format!(
            "group.consumer.assignment.interval.ms={interval}\ngroup.initial.rebalance.delay.ms=0\n\
             group.consumer.max.size=4\ngroup.max.size=4"
        ));
        Chaos { world, prng }
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.prng.below(of.len() as u64) as usize]
    }

    fn maybe(&mut self) -> bool {
        self.prng.chance(1, 2)
    }

    /// The epoch a member is in, mostly; otherwise anything.
    fn epoch(&mut self, member: &str) -> i32 {
        let known = match self.world.shell.machine().groups.get(GROUP) {
            Some(Group::Consumer(group)) => group.member(member).map(|member| member.epoch),
            Some(Group::Classic(group)) => Some(group.generation),
            None => None,
        };
        match self.prng.below(8) {
            0 => -1,
            1 => -2,
            2 => self.prng.below(6) as i32 - 3,
            3 | 4 => 0,
            _ => known.unwrap_or(0),
        }
    }

    fn owns(&mut self, member: &str) -> Vec<(u8, Vec<i32>)> {
        let Some(Group::Consumer(group)) = self.world.shell.machine().groups.get(GROUP) else { return Vec::new() };
        let Some(member) = group.member(member) else { return Vec::new() };
        let all = member.assigned.iter().chain(member.revoking.iter()).map(|(topic, partition, _)| (topic, partition));
        let number = |topic| (0..=u8::MAX).find(|n| topic_id(*n) == topic).unwrap_or_default();
        let mut owns: Vec<(u8, Vec<i32>)> = all.map(|(topic, partition)| (number(topic), vec![partition])).collect();
        match self.prng.below(4) {
            0 => owns.clear(),
            1 => owns.push((0, vec![-1, i32::MAX, 0])),
            2 => owns.retain(|_| self.prng.chance(1, 2)),
            _ => {}
        }
        owns
    }

    fn beat(&mut self) {
        let member = self.one(&IDS);
        let epoch = self.epoch(member);
        let mut request =
            if epoch == 0 && self.prng.chance(3, 4) { join(member, &["t0"]) } else { beat(member, epoch) };
        if self.maybe() {
            request = request.topics(self.one(&TOPICS));
        }
        if self.prng.chance(1, 3) {
            request = request.regex(self.one(&REGEXES));
        }
        if self.prng.chance(1, 3) {
            request = request.instance(self.one(&INSTANCES));
        }
        if epoch != 0 && self.maybe() {
            let owns = self.owns(member);
            let owns: Vec<(u8, &[i32])> = owns.iter().map(|(topic, partitions)| (*topic, &partitions[..])).collect();
            request = request.owns(&owns);
        }
        if self.prng.chance(1, 6) {
            let assignor = self.one(&["range", "uniform", "none"]);
            request = request.with(|request| request.server_assignor = Some(assignor.into()));
        }
        request.version = self.prng.below(2) as i16;
        request.send_unchecked(&mut self.world);
    }

    fn classic(&mut self) {
        let member = self.one(&IDS);
        let mut join: Join = classic_join(GROUP).version(self.one(&[0, 3, 4, 5, 9])).member(member);
        if self.prng.chance(1, 3) {
            join = join.instance(self.one(&INSTANCES));
        }
        let mut blob = subscription(self.one(&TOPICS));
        match self.prng.below(6) {
            0 => blob.truncate(self.prng.below(blob.len() as u64) as usize),
            1 => {
                blob[1] = 1;
                blob.extend([0, 0, 0, 1, 0, 2, b't', b'0', 0, 0, 0, 1, 0, 0, 0, 1]);
            }
            2 => blob[1] = 9,
            _ => {}
        }
        let protocol = self.one(&["range", "range", "sticky"]);
        join = join.protocols(&[(protocol, &blob)]);
        let token = join.send(&mut self.world);
        drop(self.world.answer(token));
    }

    fn classic_follow_up(&mut self) {
        let member = self.one(&IDS);
        let generation = self.epoch(member);
        match self.prng.below(3) {
            0 => {
                self.world.heartbeat(GROUP, member, generation);
            }
            1 => {
                let known = crate::tests::world::Known { id: member.to_owned(), generation, leads: false };
                let blob = [0, 0, 0, 0, 0, 1, 0, 2, b't', b'0', 0, 0, 0, 1, 0, 0, 0, 1, 255, 255, 255, 255];
                let assignments: &[(&str, &[u8])] = if self.maybe() { &[("a", &blob), ("b", &blob)] } else { &[] };
                let token = self.world.sync(GROUP, &known, assignments);
                drop(self.world.answer(token));
            }
            _ => {
                let instance = self.maybe().then(|| self.one(&INSTANCES).into());
                let members =
                    vec![MemberIdentity { member_id: member.into(), group_instance_id: instance, reason: None }];
                let request = wire::leave_group_request::LeaveGroupRequest {
                    group_id: GROUP.into(),
                    members,
                    ..Default::default()
                };
                self.world.ask(Request::LeaveGroup { request: &request, version: 3 });
            }
        }
    }

    fn step(&mut self) {
        match self.prng.below(24) {
            0 => self.world.restart(),
            1 => {
                let ms = self.prng.below(60_000);
                self.world.pass_ms(ms);
            }
            2 => {
                let id = topic_id(100 + self.prng.below(100) as u8);
                if self.world.image.topics.by_id(id).is_none() {
                    self.world.delete_topic("t1", Some(id));
                }
            }
            3 => {
                self.world.ask(Request::DeleteGroup { group_id: GROUP });
            }
            4..=7 => self.classic(),
            8..=12 => self.classic_follow_up(),
            _ => self.beat(),
        }
        let ms = self.prng.below(1_200);
        self.world.pass_ms(ms);
        check_owners(&self.world);
    }

    /// A group of the consumer protocol is all in its records, whatever it is doing.
    fn check_replay(&self, said: &str) {
        let digest = |shard: &crate::GroupShard| match shard.groups.get(GROUP) {
            Some(Group::Consumer(group)) => Some(group.digest()),
            _ => None,
        };
        assert_eq!(digest(self.world.shell.machine()), digest(&self.world.loaded()), "{said}");
    }
}

#[test]
fn whatever_is_said_in_whatever_order_the_group_stays_sound() {
    let (mut consumer, mut mixed) = (0, 0);
    for seed in 0..200 {
        let mut chaos = Chaos::new(seed);
        for step in 0..150 {
            chaos.step();
            if let Some(Group::Consumer(group)) = chaos.world.shell.machine().groups.get(GROUP) {
                consumer += 1;
                mixed += usize::from(group.classic_members() > 0 && group.classic_members() < group.len());
            }
            if step % 25 == 24 {
                chaos.check_replay(&format!("seed {seed} step {step}"));
            }
        }
    }
    assert!(consumer > 5_000 && mixed > 1_000, "{consumer} steps in consumer groups, {mixed} of them mixed");
}
