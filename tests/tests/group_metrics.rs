//! What the broker counts about groups stands in its metrics under Apache Kafka's names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use odradek_tests::ports::free_port;
use odradek_tests::{Node, NodeConfig, Peer, Tool};

/// All metrics, as they are served.
fn served(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("metrics are served");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// Group metrics by name and the label that is not common to all, summed over the cores.
fn scrape(port: u16) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for line in served(port).lines().filter(|line| line.starts_with("kafka_")) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').expect("labels");
        let own = |label: &&str| !label.starts_with("core=") && !label.starts_with("durability=");
        let own: Vec<&str> = labels.trim_end_matches('}').split(',').filter(own).collect();
        let short = name.trim_start_matches("kafka_server_group_coordinator_metrics_");
        let short = short.trim_start_matches("kafka_coordinator_group_groupmetadatamanager_");
        *found.entry(format!("{short} {}", own.join(","))).or_default() += value.parse::<f64>().expect("a number");
    }
    found
}

#[test]
fn memory_of_the_process_is_told() {
    let port = free_port();
    let properties = vec![("odradek.metrics.listener".to_owned(), format!("127.0.0.1:{port}"))];
    let _node = Node::start_config(NodeConfig { peer: Peer::Odradek, properties });
    let text = served(port);
    let of = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing: {text}")).parse().expect("a number")
    };
    let (resident, allocated) = (of("process_resident_memory_bytes"), of("odradek_allocated_bytes"));
    assert!(allocated > 100_000.0 && allocated < resident, "{allocated} bytes allocated, {resident} resident");
}

#[test]
fn groups_are_counted() {
    let port = free_port();
    let listener = format!("127.0.0.1:{port}");
    let properties = vec![("odradek.metrics.listener".to_owned(), listener)];
    let mut node = Node::start_config(NodeConfig { peer: Peer::Odradek, properties });
    let bootstrap = node.bootstrap();
    let server = ["--bootstrap-server", &bootstrap];
    Tool::kafka("kafka-topics", &[&server[..], &["--create", "--topic", "t", "--partitions", "3"]].concat()).run().ok();
    Tool::kcat(&["-b", &bootstrap, "-P", "-t", "t", "-p", "0"]).input("a\nb\n").run().ok();
    Tool::kcat(&["-b", &bootstrap, "-G", "classic", "-X", "auto.offset.reset=earliest", "-e", "-q", "t"]).run().ok();
    let consume = ["--topic", "t", "--group", "new", "--max-messages", "2", "--from-beginning"];
    let protocol = ["--command-property", "group.protocol=consumer"];
    Tool::kafka("kafka-console-consumer", &[&server[..], &consume, &protocol].concat()).run().ok();
    let reset = ["--reset-offsets", "--group", "set", "--topic", "t", "--to-earliest", "--execute"];
    Tool::kafka("kafka-consumer-groups", &[&server[..], &reset].concat()).run().ok();
    let before = scrape(port);
    let forget = ["--delete-offsets", "--group", "set", "--topic", "t:1"];
    Tool::kafka("kafka-consumer-groups", &[&server[..], &forget].concat()).run().ok();

    let after = scrape(port);
    let value = |name: &str| *after.get(name).unwrap_or_else(|| panic!("{name} is missing: {after:?}"));
    for (name, expected) in [
        ("num_partitions state=\"active\"", 50.0),
        ("num_partitions state=\"loading\"", 0.0),
        ("num_partitions state=\"failed\"", 0.0),
        ("group_count protocol=\"classic\"", 2.0),
        ("group_count protocol=\"consumer\"", 1.0),
        ("consumer_group_count state=\"empty\"", 1.0),
        ("consumer_group_count state=\"stable\"", 0.0),
        ("numgroups ", 2.0),
        ("numgroupsempty ", 2.0),
        ("numgroupsstable ", 0.0),
        ("group_completed_rebalance_count ", 1.0),
        ("offset_deletion_count ", 1.0),
        ("offset_expiration_count ", 0.0),
    ] {
        assert_eq!(value(name), expected, "{name}: {after:?}");
    }
    assert_eq!(value("numoffsets ") + 1.0, before["numoffsets "]);
    assert!(value("offset_commit_count ") >= before["numoffsets "], "{after:?}");
    assert!(value("consumer_group_rebalance_count ") >= 1.0, "{after:?}");
    node.stop();
    node.run();
    let deadline = 100;
    let loaded = (0..deadline).any(|_| {
        thread::sleep(Duration::from_millis(100));
        scrape(port).get("num_partitions state=\"active\"") == Some(&50.0)
    });
    let again = scrape(port);
    assert!(loaded && again["offset_commit_count "] == 0.0, "what is loaded is not counted: {again:?}");
    assert_eq!(again["numoffsets "], after["numoffsets "]);
}

#[test]
fn groups_are_loaded_once_at_each_start() {
    let mut node = Node::start_config(NodeConfig { peer: Peer::Odradek, properties: Vec::new() });
    let bootstrap = node.bootstrap();
    Tool::kcat(&["-b", &bootstrap, "-P", "-t", "t", "-p", "0"]).input("a\nb\n").run().ok();
    for group in ["one", "two", "three"] {
        Tool::kcat(&["-b", &bootstrap, "-G", group, "-X", "auto.offset.reset=earliest", "-e", "-q", "t"]).run().ok();
    }
    for end in [Node::kill, Node::stop] {
        let told = node.log().len();
        end(&mut node);
        node.run();
        let server = ["--bootstrap-server", &node.bootstrap(), "--describe", "--all-groups"];
        Tool::kafka("kafka-consumer-groups", &server).run().ok();
        let log = node.log();
        let lines: Vec<&str> = log[told..].lines().filter(|line| line.contains("groups are loaded")).collect();
        let partitions: BTreeSet<Option<&str>> =
            lines.iter().map(|line| line.split_whitespace().find(|word| word.starts_with("partition="))).collect();
        assert!(!lines.is_empty() && lines.len() == partitions.len(), "loaded more than once: {lines:#?}");
    }
}
