//! A million and more real lines go in through real clients with every codec and come out, through another client, byte for byte.

use std::fs;
use std::time::Duration;

use odradek_tests::{Node, Tool};

const LIMIT: Duration = Duration::from_secs(300);

/// 1.3 million words from the two dictionaries that `scripts/install-peers` installs.
fn words() -> Vec<u8> {
    let mut text = Vec::new();
    for list in ["american-english-insane", "british-english-insane"] {
        let path = format!("/usr/share/dict/{list}");
        text.extend(fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}; run scripts/install-peers")));
    }
    assert!(text.iter().filter(|b| **b == b'\n').count() > 1_000_000);
    text
}

fn same(read: &[u8], sent: &[u8], how: &str) {
    assert_eq!(read.len(), sent.len(), "{how}: another number of bytes");
    assert!(read == sent, "{how}: the bytes differ");
}

/// Reads what kcat wrote.
fn read_by_console_consumer(node: &Node, topic: &str, sent: &[u8], how: &str) {
    let lines = sent.iter().filter(|b| **b == b'\n').count().to_string();
    let args = [
        "--bootstrap-server",
        &node.bootstrap(),
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        &lines,
        "--timeout-ms",
        "30000",
    ];
    let read = Tool::kafka("kafka-console-consumer", &args).limit(LIMIT).run().ok();
    same(&read.stdout, sent, &format!("{how}, read by kafka-console-consumer"));
}

/// Reads what the console producer wrote.
fn read_by_kcat(node: &Node, topic: &str, sent: &[u8], how: &str) {
    let args = ["-b", &node.bootstrap(), "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"];
    let read = Tool::kcat(&args).limit(LIMIT).run().ok();
    same(&read.stdout, sent, &format!("{how}, read by kcat"));
}

#[test]
fn a_million_lines_through_the_console_producer() {
    let node = Node::start();
    let text = words();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("java-{codec}");
        let args = ["--bootstrap-server", &node.bootstrap(), "--topic", &topic, "--compression-codec", codec];
        Tool::kafka("kafka-console-producer", &args).input(text.clone()).limit(LIMIT).run().ok();
        read_by_kcat(&node, &topic, &text, &format!("kafka-console-producer with {codec}"));
    }
}

#[test]
fn a_million_lines_through_kcat() {
    let node = Node::start();
    let text = words();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("kcat-{codec}");
        let create = ["--bootstrap-server", &node.bootstrap(), "--create", "--topic", &topic];
        Tool::kafka("kafka-topics", &create).run().ok();
        let args = ["-b", &node.bootstrap(), "-P", "-t", &topic, "-p", "0", "-z", codec];
        Tool::kcat(&args).input(text.clone()).limit(LIMIT).run().ok();
        read_by_console_consumer(&node, &topic, &text, &format!("kcat with {codec}"));
    }
}
