//! Groups whose members are of different clients: of the classic protocol, of the consumer protocol, and of both.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use odradek_tests::{Client, Node};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::records::{self, Record};

/// Partitions of the topic: each number of members up to six divides it or nearly so.
const PARTITIONS: i32 = 12;
/// Records written to each partition after each change of the membership.
const RECORDS: usize = 2;
/// How long a group may take to settle. A safety net, not a measurement.
const SETTLE_LIMIT: Duration = Duration::from_secs(90);

/// Members by client and protocol, in the order of joining. Clients of a classic group must have an assignor in common; those
/// here have `range` without being told so. kafka-go has it too, but no Java leader can read its subscription, which claims a version
/// whose fields it does not have.
const GROUPS: [(&str, &[(&str, &str)]); 3] = [
    (
        "mixed-classic",
        &[
            ("java-4.4", "classic"),
            ("confluent-kafka", "classic"),
            ("kafka-python", "classic"),
            ("sarama", "classic"),
            ("java-2.8", "classic"),
            ("java-3.9", "classic"),
        ],
    ),
    (
        "mixed-consumer",
        &[
            ("confluent-kafka", "consumer"),
            ("java-4.4", "consumer"),
            ("franz-go", "consumer"),
            ("java-3.9", "consumer"),
            ("platformatic-kafka", "consumer"),
            ("rdkafka", "consumer"),
        ],
    ),
    (
        "mixed-both",
        &[
            ("java-2.8", "classic"),
            ("kafka-python", "classic"),
            ("confluent-kafka", "consumer"),
            ("java-4.4", "consumer"),
        ],
    ),
];

/// Tells the story of each group.
pub fn share_mixed(node: &Node, agents: &mut [Agent]) {
    for (topic, members) in GROUPS {
        if !members.iter().all(|(client, _)| agents.iter().any(|agent| agent.name == *client)) {
            // Not every client was asked for.
            continue;
        }
        Client::connect(node).create_topic(topic, PARTITIONS, &[("retention.ms", "-1")]);
        Story { agents, topic, members, scratch: node.scratch(), acts: 0, written: Vec::new(), ever: Vec::new() }
            .tell();
    }
}

struct Story<'a> {
    agents: &'a mut [Agent],
    topic: &'static str,
    members: &'static [(&'static str, &'static str)],
    scratch: &'a Path,
    acts: usize,
    written: Vec<Record>,
    /// What was read by members that left, as (partition, offset).
    ever: Vec<(i64, i64)>,
}

impl Story<'_> {
    fn tell(&mut self) {
        for joined in 0..self.members.len() {
            let (client, protocol) = self.members[joined];
            self.ask(client, &json!({
                "cmd": "join", "member": self.topic, "group": self.topic, "protocol": protocol, "topics": [self.topic],
            }));
            self.act(&self.members[..=joined]);
        }
        for gone in 0..self.members.len() {
            let (client, _) = self.members[gone];
            let path = self.scratch.join(format!("{}-by-{client}.jsonl", self.topic));
            self.ask(client, &json!({ "cmd": "leave", "member": self.topic, "file": path }));
            self.ever.extend(records::places(client, self.topic, &records::read(&path), &self.written));
            if gone + 1 < self.members.len() {
                self.act(&self.members[gone + 1..]);
            }
        }
        let each = i64::try_from(self.acts * RECORDS).expect("few");
        let all: BTreeSet<_> =
            (0..i64::from(PARTITIONS)).flat_map(|p| (0..each).map(move |offset| (p, offset))).collect();
        assert_eq!(self.ever.iter().copied().collect::<BTreeSet<_>>(), all, "{}: all is read", self.topic);
    }

    /// The members share the partitions fairly, and read what is written then.
    fn act(&mut self, members: &[(&'static str, &'static str)]) {
        let all: BTreeSet<i64> = (0..i64::from(PARTITIONS)).collect();
        let most = all.len().div_ceil(members.len());
        self.settle("partitions are shared", members, |looks| {
            let numbers: Vec<i64> = looks.iter().flat_map(parts).collect();
            numbers.len() == all.len()
                && numbers.iter().copied().collect::<BTreeSet<_>>() == all
                && looks.iter().all(|look| parts(look).len() <= most)
        });
        let path = self.scratch.join(format!("{}-{}.jsonl", self.topic, self.acts));
        let records = records::spread(RECORDS * all.len(), PARTITIONS);
        records::write(&path, &records);
        self.written.extend(records);
        let produce =
            json!({ "cmd": "produce", "topic": self.topic, "codec": "none", "idempotent": false, "file": path });
        self.ask(members[0].0, &produce);
        self.acts += 1;
        let end = self.acts * RECORDS;
        self.settle("all is read", members, |looks| {
            (0..PARTITIONS).all(|part| looks.iter().any(|look| look["ends"][part.to_string()] == end))
        });
    }

    fn settle(&mut self, what: &str, members: &[(&'static str, &'static str)], is: impl Fn(&[Value]) -> bool) {
        let started = Instant::now();
        loop {
            let look = json!({ "cmd": "look", "member": self.topic });
            let looks: Vec<Value> = members.iter().map(|(client, _)| self.ask(client, &look)).collect();
            if is(&looks) {
                return;
            }
            assert!(started.elapsed() < SETTLE_LIMIT, "{} of {members:?}: {what}: {looks:?}", self.topic);
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn ask(&mut self, client: &str, ask: &Value) -> Value {
        self.agents.iter_mut().find(|agent| agent.name == client).expect("a client under test").ask(ask)
    }
}

fn parts(look: &Value) -> Vec<i64> {
    look["partitions"].as_array().into_iter().flatten().map(|part| part[1].as_i64().expect("a number")).collect()
}
