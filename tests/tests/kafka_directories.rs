//! One data directory, two brokers in turn: what Odradek wrote Apache Kafka serves, and the other way round, record for record.
//! Also with older releases of Apache Kafka, whose feature levels stay what they are.

use std::fs;
use std::path::{Path, PathBuf};

use odradek_tests::{Node, NodeConfig, Peer, Tool};

const TOPICS: [&str; 2] = ["mixed", "compact-keys"];

fn config(peer: Peer) -> NodeConfig {
    let properties = [("log.segment.bytes", "1048576"), ("log.index.interval.bytes", "1024")];
    NodeConfig { peer, properties: properties.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec() }
}

fn state(node: &Node, command: &str) -> String {
    let args = [command, &node.bootstrap(), TOPICS[0], TOPICS[1]];
    Tool::java("DirectoryState.java", &args).run().ok().text()
}

/// Several segments of every codec, keys and headers, settings and offsets of groups, from two kinds of client.
fn fill(node: &Node) {
    let bootstrap = node.bootstrap();
    state(node, "fill");
    let args = ["-b", &bootstrap, "-P", "-t", TOPICS[1], "-p", "0", "-K", ":", "-H", "colour=red", "-H", "colour=blue"];
    Tool::kcat(&args).input("a:1\nb:2\na:3\n").run().ok();
    read_as_group(node);
}

/// A group reads to the end and commits that.
fn read_as_group(node: &Node) {
    let read = ["-b", &node.bootstrap(), "-G", "read", "-X", "auto.offset.reset=earliest", "-e", "-q", TOPICS[1]];
    Tool::kcat(&read).run().ok();
}

/// Everything a client can see: feature levels, settings of the brokers, offsets of groups, and of the topics ids, settings and
/// every record with offset, timestamp, key, headers and value.
fn seen(node: &Node) -> Vec<String> {
    let mut all: Vec<String> = state(node, "show").lines().map(str::to_owned).collect();
    for part in [
        "metadata.version",
        "log.retention.ms=123456789",
        "cleanup.policy=compact",
        "offset of read compact-keys-0",
        "set mixed-0 7",
    ] {
        assert!(all.iter().any(|line| line.contains(part)), "{part} is not shown: {all:?}");
    }
    for topic in TOPICS {
        let format = "%p %o %T %k %h %S %s\n";
        let args = ["-b", &node.bootstrap(), "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", format];
        let mut lines: Vec<String> = Tool::kcat(&args).run().ok().text().lines().map(str::to_owned).collect();
        lines.sort();
        all.extend(lines);
    }
    all
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("the folder can be listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Kafka's own dump tool reads every file with deep iteration and finds nothing wrong.
fn check_with_dump_log(dir: &Path) {
    let of = |kinds: &[&str], within: &str| -> String {
        let all = files(dir).into_iter().filter(|path| {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            let folder = path.parent().and_then(Path::file_name).and_then(|f| f.to_str()).unwrap_or_default();
            kinds.contains(&extension) && folder.starts_with(within)
        });
        all.map(|p| p.to_str().expect("a plain path").to_owned()).collect::<Vec<_>>().join(",")
    };
    for topic in TOPICS {
        let data = of(&["log", "index", "timeindex", "snapshot"], topic);
        assert!(data.contains(".index") && data.contains(".log"), "no segments of {topic}: {data}");
        let said = Tool::kafka("kafka-dump-log", &["--deep-iteration", "--files", &data]).run().ok();
        let text = format!("{}{}", said.text(), said.stderr);
        for bad in ["Mismatch", "isvalid: false", "Found timestamp mismatch", "out of order", "Exception", "invalid"] {
            assert!(!text.contains(bad), "kafka-dump-log finds {bad:?} in {topic}: {text}");
        }
    }
    let metadata = of(&["log", "checkpoint"], "__cluster_metadata");
    let said = Tool::kafka("kafka-dump-log", &["--cluster-metadata-decoder", "--files", &metadata]).run().ok();
    said.says(&["REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"]);
}

/// What `first` wrote `second` serves, and `first` again. Apache Kafka is killed at last, and Odradek recovers what it left; what
/// Odradek leaves when it is killed is for Odradek alone.
fn there_and_back(first: Peer, second: Peer) {
    let mut node = Node::start_config(config(first));
    fill(&node);
    let mut expected = seen(&node);
    assert!(expected.len() > 15_000);
    node.stop();
    check_with_dump_log(&node.data_dir());
    for peer in [second, first] {
        node.hand_to(peer);
        node.run();
        assert_eq!(seen(&node), expected, "served by {peer:?}");
        let args = ["-b", &node.bootstrap(), "-P", "-t", TOPICS[1], "-p", "0", "-K", ":"];
        Tool::kcat(&args).input(format!("{peer:?}:more\n")).run().ok();
        read_as_group(&node);
        let now = seen(&node);
        assert_eq!(now.len(), expected.len() + 1, "{peer:?} took one record");
        let moved = now.iter().filter(|line| line.starts_with("offset of read") && !expected.contains(line)).count();
        assert_eq!(moved, 1, "{peer:?} took a commit");
        expected = now;
        if peer == first && first != Peer::Odradek {
            node.kill();
            node.hand_to(second);
            node.run();
            assert_eq!(seen(&node), expected, "served by {second:?} after {first:?} was killed");
        }
        node.stop();
    }
    check_with_dump_log(&node.data_dir());
}

#[test]
fn apache_kafka_serves_what_odradek_wrote_and_back() {
    there_and_back(Peer::under_test(), Peer::Kafka);
}

#[test]
fn odradek_serves_what_apache_kafka_wrote_and_back() {
    there_and_back(Peer::Kafka, Peer::under_test());
}

#[test]
fn odradek_serves_what_apache_kafka_4_0_wrote_and_back() {
    there_and_back(Peer::OldKafka("4.0.2"), Peer::under_test());
}

#[test]
fn odradek_serves_what_apache_kafka_3_9_wrote_and_back() {
    there_and_back(Peer::OldKafka("3.9.2"), Peer::under_test());
}
