//! Random members, random bytes: nothing panics, nobody hangs, and a loaded machine is the one that decided.

use std::collections::BTreeMap;

use base::Prng;
use bytes::Bytes;
use coordinator::Token;

use super::world::{Known, Logged, World, digest, join, replay, subscription};
use crate::{GroupShard, Reply};

/// What a simulated consumer is doing.
enum Doing {
    Nothing,
    Joining(Token),
    Syncing(Token, Known),
    Working(Known),
}

struct Consumer {
    instance: Option<&'static str>,
    id: String,
    doing: Doing,
}

const INSTANCES: [Option<&str>; 6] = [None, None, None, None, Some("i0"), Some("i1")];

fn rejoin(world: &mut World, consumer: &mut Consumer) {
    let mut request = join("g").version(9).member(&consumer.id).protocols(&[("range", &subscription(&["t0"]))]);
    if let Some(instance) = consumer.instance {
        request = request.instance(instance);
    }
    consumer.doing = Doing::Joining(request.send(world));
}

fn step(world: &mut World, consumer: &mut Consumer) {
    match std::mem::replace(&mut consumer.doing, Doing::Nothing) {
        Doing::Nothing => rejoin(world, consumer),
        Doing::Joining(token) => match world.joined(token) {
            None => consumer.doing = Doing::Joining(token),
            Some(response) if response.error_code == 0 => {
                let leads = response.leader == response.member_id && !response.skip_assignment;
                consumer.id = response.member_id.to_string();
                let known = Known { id: consumer.id.clone(), generation: response.generation_id, leads };
                let ids: Vec<String> = response.members.iter().map(|member| member.member_id.to_string()).collect();
                let assignments: Vec<(&str, &[u8])> = ids.iter().map(|id| (&**id, id.as_bytes())).collect();
                let token = world.sync("g", &known, if leads { &assignments } else { &[] });
                consumer.doing = Doing::Syncing(token, known);
            }
            Some(response) if response.error_code == wire::ErrorCode::MEMBER_ID_REQUIRED.code() => {
                consumer.id = response.member_id.to_string();
            }
            Some(_) => consumer.id.clear(),
        },
        Doing::Syncing(token, known) => match world.answer(token) {
            None => consumer.doing = Doing::Syncing(token, known),
            Some(Reply::SyncGroup(response)) if response.error_code == 0 => {
                let own = *response.assignment == *known.id.as_bytes() || response.assignment.is_empty();
                // A static member has the assignment of the id it replaced.
                assert!(own || consumer.instance.is_some(), "{known:?} got another one's assignment");
                consumer.doing = Doing::Working(known);
            }
            Some(_) => {}
        },
        Doing::Working(known) => {
            let error = world.heartbeat("g", &known.id, known.generation);
            match error.code() {
                0 => consumer.doing = Doing::Working(known),
                code if code == wire::ErrorCode::UNKNOWN_MEMBER_ID.code() => consumer.id.clear(),
                _ => {}
            }
        }
    }
}

/// Where the group rests, the loaded machine must be the same as the deciding one.
fn check_at_rest(world: &World) {
    if matches!(world.state("g"), "Stable") {
        world.check_replay();
    }
}

#[test]
fn members_come_and_go_while_the_broker_crashes() {
    for seed in 0..60 {
        let mut world = World::new();
        let mut prng = Prng::new(seed);
        let mut consumers: Vec<Consumer> = INSTANCES
            .iter()
            .map(|instance| Consumer { instance: *instance, id: String::new(), doing: Doing::Nothing })
            .collect();
        for _ in 0..300 {
            let index = prng.below(consumers.len() as u64) as usize;
            let consumer = &mut consumers[index];
            match prng.below(40) {
                0 => {
                    // The process dies and comes back without its id.
                    consumer.id.clear();
                    consumer.doing = Doing::Nothing;
                }
                1 => {
                    world.leave("g", &[(&consumer.id.clone(), consumer.instance)]);
                    consumer.doing = Doing::Nothing;
                }
                2 if prng.chance(1, 3) => {
                    world.restart();
                    // Connections are gone with the broker.
                    for consumer in &mut consumers {
                        if !matches!(consumer.doing, Doing::Working(_)) {
                            consumer.doing = Doing::Nothing;
                        }
                    }
                }
                3..6 => world.pass_ms(prng.below(8_000)),
                _ => step(&mut world, consumer),
            }
            check_at_rest(&world);
        }
        settle(seed, &mut world, &mut consumers);
    }
}

/// When faults stop, everybody works in one generation within a few rebalances.
fn settle(seed: u64, world: &mut World, consumers: &mut [Consumer]) {
    for _ in 0..200 {
        for consumer in &mut *consumers {
            step(world, consumer);
        }
        world.pass_ms(1_000);
    }
    let mut generations: BTreeMap<i32, usize> = BTreeMap::new();
    for consumer in consumers.iter() {
        let Doing::Working(known) = &consumer.doing else { panic!("seed {seed}: somebody does not work") };
        *generations.entry(known.generation).or_insert(0) += 1;
    }
    assert_eq!(generations.len(), 1, "seed {seed}: {generations:?}");
    assert_eq!(world.state("g"), "Stable", "seed {seed}");
}

#[test]
fn offsets_that_were_acknowledged_or_told_are_never_taken_back() {
    for seed in 0..200 {
        let mut world = World::new();
        let mut prng = Prng::new(seed);
        let (mut next, mut known) = (0, -1);
        let mut commits: Vec<(Token, i64)> = Vec::new();
        let mut fetches: Vec<Token> = Vec::new();
        for _ in 0..60 {
            match prng.below(8) {
                0 => world.hold = true,
                1 => world.release(),
                2 => {
                    world.restart();
                    commits.clear();
                    fetches.clear();
                }
                3..6 => {
                    commits.push((world.send_commit("g", next), next));
                    next += 1;
                }
                _ => fetches.push(world.send_fetch("g")),
            }
            commits.retain(|(token, offset)| {
                let acknowledged = world.answer(*token).is_some();
                if acknowledged {
                    known = known.max(*offset);
                }
                !acknowledged
            });
            fetches.retain(|token| match world.answer(*token) {
                Some(Reply::OffsetFetch(response)) => {
                    known = known.max(response.topics[0].partitions[0].committed_offset);
                    false
                }
                _ => true,
            });
            let held = world.shell.machine().offsets.get("g", "t0", 0).map_or(-1, |committed| committed.offset());
            assert!(held >= known, "seed {seed}: {known} was told, {held} is there");
        }
    }
}

#[test]
fn damaged_records_are_survived() {
    let mut world = World::new();
    let blob = subscription(&["t0", "t1"]);
    world.stable(&[join("g").instance("i").protocols(&[("range", &blob)]), join("g").protocols(&[("range", &blob)])]);
    let intact = world.log.clone();
    for seed in 0..3_000 {
        let mut prng = Prng::new(seed);
        let mut shard = GroupShard::new();
        for (offset, logged) in intact.iter().enumerate() {
            let Logged::Record(producer, key, value) = logged else { continue };
            let damage = |prng: &mut Prng, bytes: &Bytes| {
                let mut bytes = bytes.to_vec();
                for _ in 0..prng.below(4) {
                    if !bytes.is_empty() {
                        let at = prng.below(bytes.len() as u64) as usize;
                        bytes[at] = prng.next_u64() as u8;
                    }
                }
                if prng.chance(1, 4) {
                    bytes.truncate(prng.below(bytes.len() as u64 + 1) as usize);
                }
                Bytes::from(bytes)
            };
            let key = if prng.chance(1, 3) { damage(&mut prng, key) } else { key.clone() };
            let value = value.as_ref().map(|value| damage(&mut prng, value));
            replay(&mut shard, offset as i64, &Logged::Record(*producer, key, value));
        }
        // Whatever was understood is a state that can be told.
        assert!(!digest(&shard).is_empty(), "seed {seed}");
    }
}

#[test]
fn hostile_subscriptions_join_like_any_other() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let mut blob = subscription(&["t0", "t1"]);
        for _ in 0..1 + prng.below(6) {
            let at = prng.below(blob.len() as u64) as usize;
            blob[at] = prng.next_u64() as u8;
        }
        if prng.chance(1, 2) {
            blob.truncate(prng.below(blob.len() as u64 + 1) as usize);
        }
        let mut world = World::new();
        world.stable(&[join("g").protocols(&[("range", &blob)])]);
        world.restart();
        assert_eq!(world.state("g"), "Stable", "seed {seed}");
    }
}
