//! The options of topics, brokers, groups and client metrics subscriptions, described and altered by Apache Kafka's admin
//! client: the scenario of crates/config/tests/oracle, whose answers a broker of Apache Kafka gave, on a running broker.

use std::fs;

use odradek_tests::{Node, NodeConfig, Tool, peers};

/// Commands that the client answers by itself, and those about loggers, whose levels cannot be changed while the broker runs.
const LOCAL: [&str; 3] = ["value ", "start ", "alter BROKER_LOGGER "];

/// Options that a node of the test kit sets by itself.
const OF_THE_KIT: [&str; 6] =
    ["process.roles", "node.id", "controller.quorum.voters", "listeners", "controller.listener.names", "log.dirs"];

#[test]
fn options_are_described_and_altered_as_kafkas() {
    let oracle = peers::root().join("crates/config/tests/oracle");
    let scenario = fs::read_to_string(oracle.join("scenario.txt")).expect("the scenario");
    let recorded = fs::read_to_string(oracle.join("kafka.txt")).expect("the answers");
    let properties: Vec<(String, String)> = scenario
        .lines()
        .filter_map(|line| line.strip_prefix("static "))
        .map(|pair| pair.split_once('=').expect("static KEY=VALUE"))
        .filter(|(name, _)| !OF_THE_KIT.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let node = Node::start_config(NodeConfig { properties, ..NodeConfig::default() });
    let commands: String = scenario.lines().filter(|line| !local(line)).map(|line| format!("{line}\n")).collect();
    let file = node.scratch().join("scenario.txt");
    fs::write(&file, commands).expect("a writable folder");
    let args = [file.to_str().expect("a plain path"), &node.bootstrap()];
    let said = Tool::java("../../scripts/config-facts/ConfigOracle.java", &args).run().ok().text();
    let want = answers(&recorded);
    let got = answers(&said);
    assert_eq!(want.len(), got.len(), "commands answered");
    let mut differences = Vec::new();
    for ((command, want), (_, got)) in want.iter().zip(&got) {
        differences
            .extend(want.iter().filter(|line| !got.contains(line)).map(|line| format!("{command}\n  kafka {line}")));
        differences
            .extend(got.iter().filter(|line| !want.contains(line)).map(|line| format!("{command}\n  here  {line}")));
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn local(line: &str) -> bool {
    LOCAL.iter().any(|command| line.strip_prefix("> ").unwrap_or(line).starts_with(command))
}

/// Commands and the lines they were answered with, without those that say where this node is.
fn answers(text: &str) -> Vec<(String, Vec<String>)> {
    let mut answers: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if line.starts_with("> ") {
            answers.push((line.to_owned(), Vec::new()));
            continue;
        }
        let name = line.split('=').next().unwrap_or_default();
        let here = OF_THE_KIT.contains(&name) || name.starts_with("odradek.") || KIT_ONLY.contains(&name);
        if !here {
            answers.last_mut().expect("a command comes first").1.push(line.to_owned());
        }
    }
    answers.retain(|(command, _)| !local(command));
    answers
}

/// Options that the test kit sets and the scenario does not.
const KIT_ONLY: [&str; 7] = [
    "advertised.listeners",
    "group.initial.rebalance.delay.ms",
    "streams.initial.rebalance.delay.ms",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
];
