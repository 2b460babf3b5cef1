//! Power cuts, kills and disk errors at random moments: what was answered is there afterwards, all of it and nothing else
//! than what was asked for.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use base::{Prng, Uuid};
use metadata::{ConfigResource, MetadataImage};
use reactor::sim::{Fault, FaultOn, NodeId, Sim};
use wire::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use wire::delete_topics_response::DeleteTopicsResponse;
use wire::{ApiKey, Decode, Reader};

use super::harness::{Node, config};

/// What the clients were told, kept outside the node.
#[derive(Default)]
struct Told {
    /// Topics whose creation was answered, with the number of their partitions.
    created: BTreeMap<String, (Uuid, usize)>,
    /// Topics whose deletion was answered.
    deleted: BTreeSet<Uuid>,
    /// Topics somebody has begun to delete.
    deleting: BTreeSet<Uuid>,
    /// Every name that was ever asked for.
    asked: BTreeSet<String>,
    starts: usize,
    answers: usize,
}

type Shared = Rc<RefCell<Told>>;

fn check(told: &Told, image: &MetadataImage, seed: u64) {
    for (name, (id, partitions)) in &told.created {
        let topic = image.topics.by_id(*id);
        if told.deleted.contains(id) {
            assert!(topic.is_none(), "seed {seed}: {name} is back although its deletion was answered");
            continue;
        }
        let Some(topic) = topic else {
            assert!(told.deleting.contains(id), "seed {seed}: {name} is lost although its creation was answered");
            continue;
        };
        assert_eq!(topic.partition_count(), *partitions, "seed {seed}: partitions of {name}");
        let value = image.configs.value(&ConfigResource::topic(name), "retention.ms").map(|value| &**value);
        assert_eq!(value, Some("77777"), "seed {seed}: configuration of {name}");
    }
    for topic in image.topics.iter() {
        assert!(told.asked.contains(&*topic.name), "seed {seed}: nobody asked for {}", topic.name);
        assert!(topic.partition_count() > 0, "seed {seed}: {} was created by half", topic.name);
    }
}

async fn create_one(node: &Node, told: &Shared, name: String, partitions: i32) -> Option<Uuid> {
    told.borrow_mut().asked.insert(name.clone());
    let topic = CreatableTopic {
        name: name.as_str().into(),
        num_partitions: partitions,
        replication_factor: 1,
        configs: vec![CreatableTopicConfig { name: "retention.ms".into(), value: Some("77777".into()) }],
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    let answer = node.try_request(ApiKey::CreateTopics, 7, &request).await?;
    let response = CreateTopicsResponse::decode(&mut Reader::new(&answer), 7).expect("a response");
    let result = &response.topics[0];
    assert_eq!(result.error_code, 0, "{result:?}");
    assert!(node.image().topics.by_id(result.topic_id).is_some(), "an answered topic is published");
    let mut told = told.borrow_mut();
    told.answers += 1;
    told.created.insert(name, (result.topic_id, partitions as usize));
    Some(result.topic_id)
}

async fn delete_one(node: &Node, told: &Shared, id: Uuid) -> Option<()> {
    told.borrow_mut().deleting.insert(id);
    let topics = vec![DeleteTopicState { name: None, topic_id: id }];
    let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
    let answer = node.try_request(ApiKey::DeleteTopics, 6, &request).await?;
    let response = DeleteTopicsResponse::decode(&mut Reader::new(&answer), 6).expect("a response");
    assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0]);
    told.borrow_mut().deleted.insert(id);
    Some(())
}

/// Starts the controller, checks what it remembers, and lets clients work on it until the world ends.
async fn live(told: Shared, seed: u64) {
    let more = [
        "internal.metadata.log.segment.bytes=6000",
        "metadata.log.max.record.bytes.between.snapshots=9000",
        "metadata.max.retention.bytes=30000",
    ];
    let node = Rc::new(Node::start(config(&PathBuf::from("/data"), &more)).await);
    check(&told.borrow(), &node.image(), seed);
    let life = {
        let mut told = told.borrow_mut();
        told.starts += 1;
        told.starts
    };
    let client = |client: usize| {
        let (node, told) = (node.clone(), told.clone());
        async move {
            for n in 0.. {
                let name = format!("topic-{life}-{client}-{n}");
                let Some(id) = create_one(&node, &told, name, 1 + (n % 4)).await else { return };
                if reactor::random_u64().is_multiple_of(3) && delete_one(&node, &told, id).await.is_none() {
                    return;
                }
            }
        }
    };
    reactor::join_all((0..3).map(client)).await;
}

fn world(seed: u64) -> (Sim, NodeId, Shared) {
    let mut sim = Sim::new(seed);
    let told = Shared::default();
    let shared = told.clone();
    let node = sim.add_node(1, move || {
        let told = shared.clone();
        move |_| live(told.clone(), seed)
    });
    (sim, node, told)
}

#[test]
fn what_was_answered_survives_power_cuts_and_kills() {
    let mut answers = 0;
    for seed in 0..40 {
        let (mut sim, node, told) = world(seed);
        let prng = &mut Prng::new(seed);
        for _ in 0..8 {
            sim.run_for(Duration::from_micros(500 + prng.below(60_000)));
            if prng.chance(2, 3) {
                sim.crash(node)
            } else {
                sim.kill(node)
            }
            sim.restart(node);
        }
        let starts = told.borrow().starts;
        let up = sim.run_until(Duration::from_secs(20), || told.borrow().starts > starts);
        assert!(up, "seed {seed}: the last start does not end");
        answers += told.borrow().answers;
    }
    assert!(answers > 1_000, "only {answers} requests were answered in all");
}

#[test]
fn a_disk_error_stops_the_controller_and_loses_nothing() {
    let mut stopped = 0;
    for seed in 0..20 {
        let (mut sim, node, told) = world(seed);
        assert!(sim.run_until(Duration::from_secs(20), || told.borrow().answers > 20), "seed {seed}");
        let prng = &mut Prng::new(seed);
        let on = if prng.chance(1, 2) { FaultOn::Write } else { FaultOn::Sync };
        let errno = if prng.chance(1, 2) { 5 } else { 28 };
        sim.inject_fault(node, Fault { path_contains: ".log".to_owned(), on, errno, times: Some(1) });
        // Every client is told that there is no answer, and the node ends by itself.
        assert!(sim.run_until_ended(node, Duration::from_secs(20)), "seed {seed}: a client waits for ever");
        stopped += 1;
        sim.clear_faults(node);
        let (starts, answers) = (told.borrow().starts, told.borrow().answers);
        sim.restart(node);
        let works = || told.borrow().starts > starts && told.borrow().answers > answers + 5;
        assert!(sim.run_until(Duration::from_secs(20), works), "seed {seed}: it does not go on");
    }
    assert_eq!(stopped, 20);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let run = || {
        let (mut sim, node, told) = world(7);
        sim.run_for(Duration::from_millis(20));
        sim.crash(node);
        sim.restart(node);
        sim.run_for(Duration::from_millis(20));
        (sim.trace_hash(), told.borrow().answers)
    };
    assert_eq!(run(), run());
}
