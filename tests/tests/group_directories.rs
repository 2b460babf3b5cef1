//! Groups in a data directory that changes hands: what one broker wrote into `__consumer_offsets`, Odradek or Apache Kafka,
//! the other shows and goes on with, and Kafka's own tool reads every record of it.

use std::fs;
use std::thread;

use odradek_tests::{Node, NodeConfig, Peer, Tool};

/// Groups that are left behind, and the one that is not.
const KEPT: [&str; 3] = ["gd-classic", "gd-consumer", "gd-offsets"];
const DELETED: &str = "gd-deleted";
/// Partition of `__consumer_offsets` that takes records of a kind that nobody knows.
const STRANGE_PARTITION: &str = "5";

fn config(peer: Peer) -> NodeConfig {
    // Members must not expire while the directory changes hands.
    let properties = [
        ("group.consumer.session.timeout.ms", "300000"),
        ("group.consumer.max.session.timeout.ms", "300000"),
        ("group.max.session.timeout.ms", "600000"),
    ];
    NodeConfig { peer, properties: properties.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec() }
}

/// What `kafka-consumer-groups` shows of all groups, the lines of each report in order.
fn shown(node: &Node) -> Vec<String> {
    let reports: [&[&str]; 4] = [
        &["--list", "--state", "--type"],
        &["--describe", "--all-groups", "--offsets"],
        &["--describe", "--all-groups", "--members", "--verbose"],
        &["--describe", "--all-groups", "--state"],
    ];
    let bootstrap = node.bootstrap();
    let each = reports.map(|report| {
        let bootstrap = bootstrap.clone();
        thread::spawn(move || {
            let args = [&["--bootstrap-server", &bootstrap], report].concat();
            let text = Tool::kafka("kafka-consumer-groups", &args).run().ok().text();
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            let mut lines: Vec<String> = text.lines().map(words).filter(|line| !line.is_empty()).collect();
            lines.sort_unstable();
            lines
        })
    });
    each.into_iter().flat_map(|report| report.join().expect("a report")).collect()
}

/// Kafka's own tool reads every record: it names the type of each and puts its fields out.
fn check_with_dump_log(node: &Node, writer: Peer) {
    let mut files = Vec::new();
    for entry in fs::read_dir(node.data_dir()).expect("the folder can be listed") {
        let dir = entry.expect("an entry").path();
        let name = dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.starts_with("__consumer_offsets-") && name != format!("__consumer_offsets-{STRANGE_PARTITION}") {
            let segments = fs::read_dir(&dir).expect("the folder can be listed").map(|e| e.expect("an entry").path());
            let logs = segments.filter(|path| path.extension().is_some_and(|e| e == "log"));
            files.extend(logs.map(|path| path.to_str().expect("a plain path").to_owned()));
        }
    }
    assert_eq!(files.len(), 49, "one segment of each partition but one");
    let said = Tool::kafka("kafka-dump-log", &["--offsets-decoder", "--files", &files.join(",")]).run().ok();
    let text = format!("{}{}", said.text(), said.stderr);
    let records: Vec<&str> =
        text.lines().filter(|line| line.contains("keySize:") || line.starts_with("| offset")).collect();
    assert!(records.len() > 30, "{text}");
    for record in &records {
        let is_read = record.contains("key: {\"type\"")
            && (record.contains("payload: {") || record.contains("payload: <DELETE>"));
        assert!(is_read, "kafka-dump-log cannot read: {record}");
    }
    for kind in [0, 1, 2, 3, 4, 5, 6, 7, 8, 16] {
        let named = format!("\"type\":\"{kind}\"");
        let named = [named.as_str(), &format!("\"type\":{kind},")];
        // Only Apache Kafka 4.0 writes the partitions that a group saw.
        if kind == 4 && matches!(writer, Peer::OldKafka(_)) {
            continue;
        }
        let expected = kind != 0 && kind != 4;
        let found = records.iter().any(|record| named.iter().any(|name| record.contains(name)));
        assert_eq!(found, expected, "records of type {kind}: {}", records.join("\n"));
    }
    for bad in ["Exception", "isvalid: false", "Mismatch"] {
        assert!(!text.contains(bad), "kafka-dump-log says {bad:?}: {text}");
    }
}

fn there_and_back(first: Peer, second: Peer) {
    let mut node = Node::start_config(config(first));
    let bootstrap = node.bootstrap();
    Tool::java("GroupState.java", &[&bootstrap]).run().ok().says(&["left behind"]);
    let before = shown(&node);
    let text = before.join("\n");
    for group in KEPT {
        assert!(text.contains(group), "{group} is missing: {text}");
    }
    assert!(!text.contains(DELETED), "{text}");
    for line in ["gd-offsets gd-b 1 6 0 -6 - - -", "gd-classic Classic Stable", "gd-consumer Consumer Stable"] {
        assert!(before.iter().any(|shown| shown == line), "{line:?} is missing: {text}");
    }
    let strange = ["-b", &bootstrap, "-P", "-t", "__consumer_offsets", "-p", STRANGE_PARTITION, "-K", ":"];
    // Only under this name a client may write there.
    Tool::kcat(&[&strange[..], &["-X", "client.id=__admin_client"]].concat()).input("zz-key:value\n").run().ok();
    node.stop();
    check_with_dump_log(&node, first);
    for peer in [second, first] {
        node.hand_to(peer);
        node.run();
        assert_eq!(shown(&node), before, "shown by {peer:?}");
        if peer == Peer::Odradek {
            assert!(node.log().contains("a record of unknown type is skipped"), "{}", node.log());
        }
        node.stop();
    }
    check_with_dump_log(&node, first);
}

#[test]
fn apache_kafka_goes_on_with_the_groups_of_odradek_and_back() {
    there_and_back(Peer::under_test(), Peer::Kafka);
}

#[test]
fn odradek_goes_on_with_the_groups_of_apache_kafka_and_back() {
    there_and_back(Peer::Kafka, Peer::under_test());
}

#[test]
fn odradek_goes_on_with_the_groups_of_apache_kafka_4_0_and_back() {
    there_and_back(Peer::OldKafka("4.0.2"), Peer::under_test());
}
