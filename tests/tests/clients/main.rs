//! Every common client library, unchanged, on one broker: what each writes, every other reads, record for record; groups
//! share and resume; topics and configs are administered. `ODRADEK_TEST_CLIENTS=sarama,kafkajs` runs some of them. The table in the README is made of it.

mod agent;
mod groups;
mod matrix;
mod mixed;
mod records;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use odradek_tests::{Client, Node, Peer};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::matrix::Done;
use crate::records::{Lines, PARTITIONS, ROW, ROW_MIDDLE, ROW_RECORDS, ROW_TIME, Record};

/// One topic of one client: how it is written.
struct Topic {
    name: String,
    codec: String,
    idempotent: bool,
}

fn topics_of(agent: &Agent) -> Vec<Topic> {
    let features = &agent.features;
    let mut topics: Vec<Topic> = features
        .codecs
        .iter()
        .map(|codec| {
            let name = format!("{}-{codec}", agent.name);
            Topic { name, codec: codec.clone(), idempotent: features.idempotence }
        })
        .collect();
    if features.plain && features.idempotence {
        topics.push(Topic { name: format!("{}-plain", agent.name), codec: "none".to_owned(), idempotent: false });
    }
    topics
}

/// Runs `act` for each client in a thread of its own. All run to their end before the first failure is passed on.
fn each<T: Send>(agents: &mut [Agent], act: impl Fn(&mut Agent) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let running: Vec<_> = agents.iter_mut().map(|agent| scope.spawn(|| act(agent))).collect();
        let ended: Vec<_> = running.into_iter().map(|one| one.join()).collect();
        ended.into_iter().map(|one| one.expect("a client failed, see above")).collect()
    })
}

fn file(node: &Node, agent: &Agent, about: &str) -> PathBuf {
    node.scratch().join(format!("{}-{about}.jsonl", agent.name))
}

/// Every client writes its topics; gives what must be read.
fn write_all(node: &Node, agents: &mut [Agent]) -> Lines {
    let mut wire = Client::connect(node);
    for agent in agents.iter() {
        for topic in topics_of(agent) {
            // The record of 1 MiB and its batch; times long past.
            wire.create_topic(&topic.name, PARTITIONS, &[("max.message.bytes", "4194304"), ("retention.ms", "-1")]);
        }
    }
    each(agents, |agent| {
        let records = records::records(&agent.features.lacks);
        let path = file(node, agent, "written");
        records::write(&path, &records);
        let mut expected = Lines::new();
        for Topic { name, codec, idempotent } in topics_of(agent) {
            let ask =
                json!({ "cmd": "produce", "topic": name, "codec": codec, "idempotent": idempotent, "file": path });
            assert_eq!(agent.ask(&ask)["records"], records.len());
            expected.extend(records::expected(&name, &records));
        }
        expected
    })
    .into_iter()
    .flatten()
    .collect()
}

/// Every client writes a record of 10 MiB, and reads its own and its neighbour's.
fn exchange_huge(node: &Node, agents: &mut [Agent]) {
    exchange(node, agents, "huge", 1, &records::huge());
}

/// Every client writes a topic of as many partitions as one commonly has, and reads its own and its neighbour's whole.
fn exchange_wide(node: &Node, agents: &mut [Agent]) {
    exchange(node, agents, "wide", records::WIDE_PARTITIONS, &records::wide());
}

/// Every client writes `records` to a topic of its own, and reads its own and its neighbour's.
fn exchange(node: &Node, agents: &mut [Agent], what: &str, partitions: i32, records: &[Record]) {
    let path = node.scratch().join(format!("{what}.jsonl"));
    records::write(&path, records);
    let names: Vec<&str> = agents.iter().map(|agent| agent.name).collect();
    let topic = |name: &str| format!("{name}-{what}");
    let mut wire = Client::connect(node);
    for name in &names {
        wire.create_topic(&topic(name), partitions, &[("max.message.bytes", "16777216"), ("retention.ms", "-1")]);
    }
    settle(names.len() * usize::try_from(partitions).expect("a number"));
    each(agents, |agent| {
        let idempotent = agent.features.idempotence;
        let topic = topic(agent.name);
        agent
            .ask(&json!({ "cmd": "produce", "topic": topic, "codec": "none", "idempotent": idempotent, "file": path }));
    });
    each(agents, |agent| {
        let at = names.iter().position(|name| *name == agent.name).expect("a client");
        for name in [agent.name, names[(at + 1) % names.len()]] {
            let start = json!({ "offset": 0 });
            let expected = records::expected(&topic(name), records);
            let parts = expected.iter().map(|((topic, at), lines)| (part(topic, *at, &start, lines.len()), &lines[..]));
            read_parts(node, agent, &format!("as {what}"), parts.collect());
        }
    });
}

/// Has a client read `parts` and compares with the `expected` lines behind each start.
fn read_parts(node: &Node, agent: &mut Agent, about: &str, parts: Vec<(Value, &[Value])>) {
    let path = file(node, agent, about);
    let asked: Vec<&Value> = parts.iter().map(|(part, _)| part).collect();
    agent.ask(&json!({ "cmd": "consume", "parts": asked, "file": path }));
    let found = records::read(&path);
    let empty = Vec::new();
    for (part, expected) in parts {
        let name = part["topic"].as_str().expect("a name").to_owned();
        let partition = i32::try_from(part["partition"].as_i64().expect("a number")).expect("a partition");
        let found = found.get(&(name.clone(), partition)).unwrap_or(&empty);
        compare(agent, about, &name, found, expected);
    }
}

fn compare(agent: &Agent, about: &str, topic: &str, found: &[Value], expected: &[Value]) {
    for (found, expected) in found.iter().zip(expected) {
        let expected = if agent.features.blurs { records::blurred(expected) } else { expected.clone() };
        assert_eq!(*found, expected, "{} reads {topic} {about}", agent.name);
    }
    assert_eq!(found.len(), expected.len(), "{} reads {topic} {about}", agent.name);
}

fn part(topic: &str, partition: i32, from: &Value, end: usize) -> Value {
    json!({ "topic": topic, "partition": partition, "from": from, "end": end })
}

/// Every client reads what all have written: from the start, from an offset and from a time.
fn read_all(node: &Node, agents: &mut [Agent], expected: &Lines) {
    let from_time = records::row_offset_at(ROW_TIME);
    assert!(0 < from_time && from_time < ROW_RECORDS, "the time lies within the row");
    each(agents, |agent| {
        let start = json!({ "offset": 0 });
        let whole = expected.iter().map(|((topic, at), lines)| (part(topic, *at, &start, lines.len()), &lines[..]));
        read_parts(node, agent, "from the start", whole.collect());
        let starts = [
            ("from an offset", json!({ "offset": ROW_MIDDLE }), ROW_MIDDLE),
            ("from a time", json!({ "timestamp": ROW_TIME }), from_time),
        ];
        for (about, from, at) in starts {
            let rows = expected.iter().filter(|((_, partition), _)| *partition == ROW);
            let at = usize::try_from(at).expect("an offset");
            let rows = rows.map(|((topic, _), lines)| (part(topic, ROW, &from, lines.len()), &lines[at..]));
            read_parts(node, agent, about, rows.collect());
        }
    });
}

/// The original answers before its metadata has the change, the later the more partitions are new; Odradek does not.
fn settle(partitions: usize) {
    if Peer::under_test() == Peer::Kafka {
        thread::sleep(Duration::from_secs(5 + partitions as u64 / 50));
    }
}

/// Every client that can creates, describes and deletes a topic.
fn administer_all(agents: &mut [Agent]) {
    each(agents, |agent| {
        let topic = format!("{}-made", agent.name);
        let configs = json!({ "retention.ms": "123456", "cleanup.policy": "delete" });
        agent.ask(&json!({ "cmd": "create", "topic": topic, "partitions": 5, "configs": configs }));
        settle(5);
        let about = agent.ask(&json!({ "cmd": "describe", "topic": topic }));
        assert_eq!(about["partitions"], 5, "{}: {about}", agent.name);
        assert_eq!(about["configs"]["retention.ms"], "123456", "{}: {about}", agent.name);
        assert_eq!(about["configs"]["max.message.bytes"], "1048588", "{}: {about}", agent.name);
        let left = agent.ask(&json!({ "cmd": "delete", "topic": topic }));
        // The original may list it a moment longer.
        assert!(left["left"] == false || Peer::under_test() == Peer::Kafka, "{}: {left}", agent.name);
    });
}

fn done_by(agent: &Agent) -> Vec<&'static str> {
    let features = &agent.features;
    matrix::COLUMNS
        .into_iter()
        .filter(|column| match *column {
            "idempotent" => features.idempotence,
            "empty is not null" => !features.blurs,
            "null header value" | "null key and value" => !features.lacks.iter().any(|lack| lack == column),
            "assign" => features.assign,
            "classic group" => features.protocols.iter().any(|protocol| protocol == "classic"),
            "consumer group" => features.protocols.iter().any(|protocol| protocol == "consumer"),
            "none" | "gzip" | "snappy" | "lz4" | "zstd" => features.codecs.iter().any(|codec| codec == column),
            _ => true,
        })
        .collect()
}

/// Starts all agents at once: the Java ones compile themselves.
fn start_all(node: &Node) -> Vec<Agent> {
    let bootstrap = node.bootstrap();
    thread::scope(|scope| {
        let bootstrap = &bootstrap;
        let start = |name| scope.spawn(move || Agent::start(name, bootstrap));
        let starting: Vec<_> = agent::wanted().into_iter().map(start).collect();
        starting.into_iter().map(|one| one.join().expect("a client starts")).collect()
    })
}

/// Runs one act of the test and says how long it took.
fn act<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    println!("{what}: {:.1} s", started.elapsed().as_secs_f64());
    result
}

#[test]
fn every_client_reads_what_every_client_writes() {
    // The broker tells members of the consumer protocol how often to ask; the default of 5 s makes long stories.
    let often = [("group.consumer.min.heartbeat.interval.ms", "400"), ("group.consumer.heartbeat.interval.ms", "400")];
    let node = Node::start_with(&often);
    let mut agents = act("agents start", || start_all(&node));
    let expected = act("all write", || write_all(&node, &mut agents));
    act("all read all", || read_all(&node, &mut agents, &expected));
    act("a record of 10 MiB", || exchange_huge(&node, &mut agents));
    act("500 partitions", || exchange_wide(&node, &mut agents));
    act("groups of one client", || groups::share_all(&node, &mut agents));
    act("groups of several clients", || mixed::share_mixed(&node, &mut agents));
    act("topics and configs", || administer_all(&mut agents));
    let mut done = Done::new();
    for agent in &agents {
        done.extend(done_by(agent).into_iter().map(|column| (agent.name, column)));
    }
    let clients: Vec<_> = agents.iter().map(|agent| (agent.name, agent.features.clone())).collect();
    matrix::check(&clients, &done);
}
