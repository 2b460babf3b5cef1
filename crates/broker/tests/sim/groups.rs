//! Groups of both protocols while the broker dies again and again: no acknowledged commit is lost or goes back, no partition
//! has two owners, and in the end each has one.

use crate::client::{Client, decode};
use crate::known::Known;
use crate::members::{FLIPPING, Kind, MIXED, Member, PARTITIONS, SESSION_MS, TOPIC, fetch_offsets};
use crate::{LIMIT, PORT, add_broker, seeds};
use base::{CoreId, Prng, TopicId};
use broker::Layout;
use reactor::sim::{NodeId, Sim};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::rc::Rc;
use std::time::Duration;
use wire::ApiKey;
use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use wire::update_features_response::UpdateFeaturesResponse;

/// Short timeouts, so that much happens in little time. The session is that of `SESSION_MS`.
const OPTIONS: &[(&str, &str)] = &[
    ("offsets.topic.num.partitions", "2"),
    ("offsets.topic.replication.factor", "1"),
    ("group.initial.rebalance.delay.ms", "100"),
    ("group.min.session.timeout.ms", "1000"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "3000"),
    ("group.consumer.min.heartbeat.interval.ms", "100"),
    ("group.consumer.heartbeat.interval.ms", "300"),
];
const UPDATE_FEATURES_VERSION: i16 = 1;
/// Version of CreateTopics with topic ids.
const CREATE_TOPICS_VERSION: i16 = 7;

/// The members of each group.
const GROUPS: [(&str, &[Kind]); 4] = [
    ("classic", &[Kind::Classic, Kind::Classic, Kind::Classic]),
    ("consumer", &[Kind::Consumer, Kind::Regex, Kind::Consumer]),
    (MIXED, &[Kind::Classic, Kind::Consumer, Kind::Classic]),
    (FLIPPING, &[Kind::Classic, Kind::Consumer]),
];

async fn prepare(addr: SocketAddr) -> TopicId {
    async fn once(addr: SocketAddr) -> io::Result<TopicId> {
        let mut client = Client::connect(addr).await?;
        let topic = CreatableTopic {
            name: TOPIC.into(),
            num_partitions: PARTITIONS,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..CreateTopicsRequest::default() };
        let body = client.ask(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &request).await?;
        let response: CreateTopicsResponse<'_> = decode(&body, CREATE_TOPICS_VERSION)?;
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
        let id = response.topics[0].topic_id;
        // A directory that was not formatted begins with features of level 0.
        let groups = FeatureUpdateKey { feature: "group.version".into(), max_version_level: 1, ..Default::default() };
        let request = UpdateFeaturesRequest { feature_updates: vec![groups], timeout_ms: 30_000, ..Default::default() };
        let body = client.ask(ApiKey::UpdateFeatures, UPDATE_FEATURES_VERSION, &request).await?;
        let response: UpdateFeaturesResponse<'_> = decode(&body, UPDATE_FEATURES_VERSION)?;
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        Ok(id)
    }
    loop {
        if let Ok(id) = once(addr).await {
            return id;
        }
        reactor::sleep(Duration::from_millis(5)).await;
    }
}

async fn check_offsets(addr: SocketAddr, known: Rc<RefCell<Known>>) {
    let all: Vec<i32> = (0..PARTITIONS).collect();
    for (group, _) in GROUPS {
        loop {
            if let Ok(mut client) = Client::connect(addr).await
                && let Ok(Some(_)) = fetch_offsets(&mut client, &known, group, &all).await
            {
                break;
            }
            reactor::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn end_life(sim: &mut Sim, broker: NodeId, prng: &mut Prng, durability: &str) {
    match (prng.below(4), durability) {
        (0, _) => {
            sim.stop(broker);
            assert!(sim.run_until_ended(broker, LIMIT), "seed {}: the broker does not stop", sim.seed());
        }
        (1, _) | (_, "written") => sim.kill(broker),
        _ => sim.crash(broker),
    }
    sim.restart(broker);
}

/// Some lives that end by force while members come and go, then quiet; gives the hash of all that happened.
pub fn story(seed: u64) -> u64 {
    let mut prng = Prng::new(seed);
    let mut sim = Sim::new(seed);
    let data_cores = 1 + prng.below(2) as u16;
    let controller_core = if prng.chance(1, 2) { CoreId(data_cores) } else { CoreId(0) };
    // What was only written survives a kill but no power cut.
    let durability = if prng.chance(1, 3) { "written" } else { "durable" };
    let broker = add_broker(&mut sim, Layout { data_cores, controller_core }, durability, OPTIONS);
    let clients = sim.add_client();
    let addr = SocketAddr::new(sim.ip(broker), PORT);
    let topic_id = sim.run(clients, LIMIT, prepare(addr));
    let known = Rc::new(RefCell::new(Known::default()));
    let mut members = Vec::new();
    for (group, kinds) in GROUPS {
        for kind in kinds {
            let number = members.len() as u64;
            let mut member = Member::new(addr, group, *kind, &known, seed * 100 + number);
            member.instance = prng.chance(1, 3).then(|| format!("instance-{number}"));
            member.topic_id = topic_id;
            member.steady = group == MIXED && *kind == Kind::Consumer;
            members.push(sim.spawn(clients, CoreId(0), member.live()));
        }
    }
    for _ in 0..4 {
        let longest = [50_000, 1_000_000, 12_000_000][prng.below(3) as usize];
        sim.run_for(Duration::from_micros(prng.below(longest)));
        end_life(&mut sim, broker, &mut prng, durability);
    }
    known.borrow_mut().calm = true;
    let complete = || known.borrow().map().len() == GROUPS.len() * PARTITIONS as usize;
    // Who paused or went away last has to come back, and those who will not come back have to be given up.
    sim.run_for(Duration::from_millis(5 * SESSION_MS));
    assert!(sim.run_until(LIMIT, complete), "seed {seed}: {:?}", known.borrow().map());
    let before = known.borrow().map();
    sim.kill(broker);
    sim.restart(broker);
    sim.run_for(Duration::from_millis(2 * SESSION_MS));
    assert_eq!(known.borrow().map(), before, "seed {seed}: members carry on after a restart");
    sim.run(clients, LIMIT, check_offsets(addr, known.clone()));
    members.into_iter().for_each(|member| member.abort());
    let known = known.borrow();
    assert!(known.commits > 0 && known.takes > 0, "seed {seed}: nothing happened");
    sim.trace_hash()
}

/// Each core of the machine tells some of the stories.
#[test]
fn groups_survive_any_end_of_the_broker() {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for nth in 0..threads {
            scope.spawn(move || {
                for seed in seeds(100).skip(nth).step_by(threads) {
                    println!("seed {seed}");
                    story(seed);
                }
            });
        }
    });
}

#[test]
fn a_seed_tells_the_same_story_of_groups_twice() {
    assert_eq!(story(3), story(3));
}
