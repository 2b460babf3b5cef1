//! Groups of two members of one client: they share the partitions, one leaves, the other takes over, the group resumes.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use odradek_tests::{Client, Node};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::records::{self, Record};

/// Partitions of a group's topic.
const PARTITIONS: i32 = 4;
/// Records written before each act of the story.
const RECORDS: usize = 40;
/// How long a group may take to settle. A safety net, not a measurement.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// The group story of each client in each of its protocols.
pub fn share_all(node: &Node, agents: &mut [Agent]) {
    let mut wire = Client::connect(node);
    for agent in agents.iter() {
        for protocol in &agent.features.protocols {
            // The records' times are long past.
            let keep = [("retention.ms", "-1")];
            wire.create_topic(&format!("{}-{protocol}-group", agent.name), PARTITIONS, &keep);
        }
    }
    crate::each(agents, |agent| {
        for protocol in agent.features.protocols.clone() {
            let topic = format!("{}-{protocol}-group", agent.name);
            Story { agent: &mut *agent, topic, scratch: node.scratch(), protocol, written: Vec::new() }.tell();
        }
    });
}

struct Story<'a> {
    agent: &'a mut Agent,
    protocol: String,
    topic: String,
    scratch: &'a Path,
    written: Vec<Record>,
}

type Ids = BTreeSet<(i64, i64)>;

impl Story<'_> {
    fn tell(&mut self) {
        let first = self.write(0);
        self.join("a");
        self.settle("one member has it all", |looks| parts(&looks[0]) == 4 && read_to(looks, 1), &["a"]);
        self.join("b");
        self.settle("both have half", |looks| parts(&looks[0]) == 2 && parts(&looks[1]) == 2, &["a", "b"]);
        let second = self.write(1);
        self.settle("both read", |looks| read_to(looks, 2), &["a", "b"]);
        let by_a = self.leave("a");
        let third = self.write(2);
        self.settle("the other takes over", |looks| parts(&looks[0]) == 4 && read_to(looks, 3), &["b"]);
        let by_b = self.leave("b");
        let all: Ids = first.iter().chain(&second).chain(&third).copied().collect();
        assert_eq!(&by_a | &by_b, all, "{}: all is read once or more", self.topic);
        assert_eq!((&second & &by_a).len(), RECORDS / 2, "{}: the first reads its half", self.topic);
        assert!((&second & &by_b).len() >= RECORDS / 2, "{}: the second reads its half", self.topic);
        let fourth = self.write(3);
        self.join("c");
        self.settle("it resumes", |looks| read_to(looks, 4), &["c"]);
        assert_eq!(self.leave("c"), fourth, "{}: from the committed offsets on", self.topic);
    }

    /// Writes records and gives their places.
    fn write(&mut self, act: usize) -> Ids {
        let path = self.scratch.join(format!("{}-{act}.jsonl", self.topic));
        let records = records::spread(RECORDS, PARTITIONS);
        records::write(&path, &records);
        let ask = json!({ "cmd": "produce", "topic": self.topic, "codec": "none", "idempotent": false, "file": path });
        self.agent.ask(&ask);
        self.written.extend(records);
        let each = i64::try_from(RECORDS).expect("few") / i64::from(PARTITIONS);
        let from = each * i64::try_from(act).expect("few");
        (0..i64::from(PARTITIONS)).flat_map(|part| (from..from + each).map(move |offset| (part, offset))).collect()
    }

    fn join(&mut self, member: &str) {
        let group = format!("group-{}", self.topic);
        self.agent.ask(&json!({
            "cmd": "join", "member": member, "group": group, "protocol": self.protocol, "topics": [self.topic],
        }));
    }

    fn looks(&mut self, members: &[&str]) -> Vec<Value> {
        members.iter().map(|member| self.agent.ask(&json!({ "cmd": "look", "member": member }))).collect()
    }

    fn settle(&mut self, what: &str, is: impl Fn(&[Value]) -> bool, members: &[&str]) {
        let started = Instant::now();
        loop {
            let looks = self.looks(members);
            if is(&looks) {
                return;
            }
            assert!(started.elapsed() < SETTLE_LIMIT, "{}: {what}: {looks:?}", self.topic);
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The member commits and leaves; gives the places of what it has read.
    fn leave(&mut self, member: &str) -> Ids {
        let path = self.scratch.join(format!("{}-by-{member}.jsonl", self.topic));
        self.agent.ask(&json!({ "cmd": "leave", "member": member, "file": path }));
        records::places(self.agent.name, &self.topic, &records::read(&path), &self.written).into_iter().collect()
    }
}

fn parts(look: &Value) -> usize {
    look["partitions"].as_array().map_or(0, Vec::len)
}

/// True when the records of so many acts are read, each partition by whichever member.
fn read_to(looks: &[Value], acts: u64) -> bool {
    let end = acts * RECORDS as u64 / u64::from(PARTITIONS.unsigned_abs());
    (0..PARTITIONS).all(|part| looks.iter().any(|look| look["ends"][part.to_string()] == end))
}
