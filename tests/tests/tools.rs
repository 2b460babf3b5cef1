//! Apache Kafka's own command line tools, unchanged, against the running broker.

use std::time::Duration;

use odradek_tests::{Node, Tool};

fn topics(node: &Node, args: &[&str]) -> Tool {
    let bootstrap = node.bootstrap();
    let mut all = vec!["--bootstrap-server", &bootstrap];
    all.extend(args);
    Tool::kafka("kafka-topics", &all)
}

fn create(node: &Node, topic: &str, partitions: &str) {
    topics(node, &["--create", "--topic", topic, "--partitions", partitions]).run().ok();
}

#[test]
fn topics_are_created_described_altered_listed_and_deleted() {
    let node = Node::start();
    let made = &["--create", "--topic", "thread", "--partitions", "3", "--config", "retention.ms=600000"];
    topics(&node, made).run().ok().says(&["Created topic thread."]);
    topics(&node, made).run().fails_with("already exists");
    topics(&node, &["--describe", "--topic", "thread"]).run().ok().says(&[
        "PartitionCount: 3",
        "ReplicationFactor: 1",
        "retention.ms=600000",
        "Leader: 1",
        "Isr: 1",
    ]);
    topics(&node, &["--alter", "--topic", "thread", "--partitions", "5"]).run().ok();
    topics(&node, &["--alter", "--topic", "thread", "--partitions", "4"]).run().fails_with("5 partition");
    topics(&node, &["--describe", "--topic", "thread"]).run().ok().says(&["PartitionCount: 5"]);
    topics(&node, &["--create", "--topic", "bad topic"]).run().fails_with("bad topic");
    topics(&node, &["--create", "--topic", "wide", "--replication-factor", "3"]).run().fails_with("replica");
    topics(&node, &["--list"]).run().ok().says(&["thread"]);
    topics(&node, &["--delete", "--topic", "thread"]).run().ok();
    let left = topics(&node, &["--list"]).run().ok().text();
    assert!(!left.contains("thread"), "the topic is still listed: {left}");
}

#[test]
fn configs_of_topics_and_brokers_are_altered_and_described() {
    let node = Node::start();
    let bootstrap = node.bootstrap();
    let configs = |args: &[&str]| {
        let mut all = vec!["--bootstrap-server", bootstrap.as_str()];
        all.extend(args);
        Tool::kafka("kafka-configs", &all)
    };
    create(&node, "spool", "1");
    let spool = ["--entity-type", "topics", "--entity-name", "spool"];
    let with = |extra: &[&'static str]| [&spool[..], extra].concat();
    configs(&with(&["--alter", "--add-config", "retention.ms=12345,cleanup.policy=[compact,delete]"])).run().ok();
    configs(&with(&["--describe"])).run().ok().says(&["retention.ms=12345", "cleanup.policy=compact,delete"]);
    configs(&with(&["--describe", "--all"])).run().ok().says(&["segment.bytes=1073741824", "DEFAULT_CONFIG"]);
    configs(&with(&["--alter", "--delete-config", "retention.ms"])).run().ok();
    let text = configs(&with(&["--describe"])).run().ok().text();
    assert!(!text.contains("retention.ms=12345"), "the override is still there: {text}");
    configs(&with(&["--alter", "--add-config", "retention.ms=soon"])).run().fails_with("retention.ms");
    configs(&with(&["--alter", "--add-config", "no.such.config=1"])).run().fails_with("no.such.config");

    let cluster = ["--entity-type", "brokers", "--entity-default"];
    configs(&[&cluster[..], &["--alter", "--add-config", "log.retention.ms=7200000"]].concat()).run().ok();
    configs(&[&cluster[..], &["--describe"]].concat()).run().ok().says(&["log.retention.ms=7200000"]);
    configs(&with(&["--describe", "--all"]))
        .run()
        .ok()
        .says(&["retention.ms=7200000", "DYNAMIC_DEFAULT_BROKER_CONFIG"]);
    let broker = ["--entity-type", "brokers", "--entity-name", "1"];
    configs(&[&broker[..], &["--describe", "--all"]].concat()).run().ok().says(&["log.dirs=", "STATIC_BROKER_CONFIG"]);
    configs(&[&broker[..], &["--alter", "--add-config", "log.dirs=/x"]].concat()).run().fails_with("log.dirs");
}

#[test]
fn console_clients_carry_keys_values_and_headers() {
    let node = Node::start();
    let bootstrap = node.bootstrap();
    create(&node, "console", "1");
    let lines = "h:1,g:2\tk1\tfirst\nh:3\tk2\tsecond\n";
    Tool::kafka(
        "kafka-console-producer",
        &[
            "--bootstrap-server",
            &bootstrap,
            "--topic",
            "console",
            "--reader-property",
            "parse.key=true",
            "--reader-property",
            "parse.headers=true",
        ],
    )
    .input(lines)
    .run()
    .ok();
    let read = Tool::kafka(
        "kafka-console-consumer",
        &[
            "--bootstrap-server",
            &bootstrap,
            "--topic",
            "console",
            "--partition",
            "0",
            "--offset",
            "earliest",
            "--max-messages",
            "2",
            "--timeout-ms",
            "20000",
            "--formatter-property",
            "print.key=true",
            "--formatter-property",
            "print.headers=true",
            "--formatter-property",
            "print.offset=true",
        ],
    )
    .run()
    .ok();
    assert_eq!(read.text(), "Offset:0\th:1,g:2\tk1\tfirst\nOffset:1\th:3\tk2\tsecond\n");
    Tool::kafka("kafka-get-offsets", &["--bootstrap-server", &bootstrap, "--topic", "console"])
        .run()
        .ok()
        .says(&["console:0:2"]);
    for (time, offset) in [("-1", "2"), ("-2", "0"), ("-3", "1"), ("-4", "0"), ("0", "0"), ("99999999999999", "none")] {
        let args = ["--bootstrap-server", &bootstrap, "--topic", "console", "--time", time];
        let text = Tool::kafka("kafka-get-offsets", &args).run().ok().text();
        let expected = if offset == "none" { String::new() } else { format!("console:0:{offset}") };
        assert_eq!(text.trim(), expected, "--time {time}");
    }
}

#[test]
fn perf_producer_with_every_codec_and_acks() {
    let node = Node::start();
    let bootstrap = format!("bootstrap.servers={}", node.bootstrap());
    create(&node, "perf", "3");
    let run = |props: &[&str], records: &str| {
        let mut args = vec!["--topic", "perf", "--num-records", records, "--record-size", "400", "--throughput", "-1"];
        args.extend(["--command-property", &bootstrap]);
        args.extend(props);
        Tool::kafka("kafka-producer-perf-test", &args).run().ok().says(&[&format!("{records} records sent")]);
    };
    let mut sent = 0;
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        run(&[&format!("compression.type={codec}")], "5000");
        sent += 5000;
    }
    for acks in ["0", "1", "all"] {
        run(&[&format!("acks={acks}"), "enable.idempotence=false"], "5000");
        sent += 5000;
    }
    let args = ["--bootstrap-server", &node.bootstrap(), "--topic", "perf", "--time", "-1"];
    let text = Tool::kafka("kafka-get-offsets", &args).run().ok().text();
    let total: u64 =
        text.lines().map(|l| l.rsplit(':').next().expect("a field").parse::<u64>().expect("a number")).sum();
    assert_eq!(total, sent);
}

#[test]
fn cluster_tools_describe_the_node() {
    let node = Node::start();
    let bootstrap = node.bootstrap();
    create(&node, "seen", "2");
    let server = ["--bootstrap-server", bootstrap.as_str()];
    let on = |tool: &str, args: &[&str]| Tool::kafka(tool, &[&server[..], args].concat()).run().ok();
    on("kafka-broker-api-versions", &[]).says(&["Produce(0): 0 to 13 [usable: 13]", "Fetch(1): 4 to 18 [usable: 18]"]);
    on("kafka-metadata-quorum", &["describe", "--status"]).says(&[
        "ClusterId:              MkU3OEVBNTcwNTJENDM2Qg",
        "LeaderId:               1",
        "MaxFollowerLag:         0",
    ]);
    on("kafka-metadata-quorum", &["describe", "--replication"]).says(&["Leader"]);
    on("kafka-features", &["describe"]).says(&["Feature: metadata.version", "FinalizedVersionLevel: 4.4-IV2"]);
    on("kafka-log-dirs", &["--describe"]).says(&["\"partition\":\"seen-1\"", "\"error\":null"]);
    let cluster = |verb: &str| Tool::kafka("kafka-cluster", &[&[verb], &server[..]].concat()).run().ok();
    cluster("cluster-id").says(&["MkU3OEVBNTcwNTJENDM2Qg"]);
    cluster("list-endpoints").says(&["127.0.0.1"]);
    on("kafka-verifiable-producer", &["--topic", "seen", "--max-messages", "500", "--acks", "-1"])
        .says(&["\"sent\":500", "\"acked\":500"]);
}

#[test]
fn end_to_end_latency_runs() {
    let node = Node::start();
    let args = [
        "--bootstrap-server",
        &node.bootstrap(),
        "--topic",
        "e2e",
        "--num-records",
        "200",
        "--producer-acks",
        "all",
        "--record-size",
        "100",
    ];
    let said = Tool::kafka("kafka-e2e-latency", &args).limit(Duration::from_secs(180)).run();
    assert!(said.text().contains("Avg latency:"), "no result: {} {}", said.text(), said.stderr);
}

#[test]
fn records_are_deleted_and_leaders_elected() {
    let node = Node::start();
    let bootstrap = node.bootstrap();
    create(&node, "cut", "1");
    let lines: String = (0..10).map(|n| format!("{n}\n")).collect();
    let to = ["--bootstrap-server", bootstrap.as_str()];
    let on = |tool: &str, args: &[&str]| Tool::kafka(tool, &[&to[..], args].concat());
    on("kafka-console-producer", &["--topic", "cut"]).input(lines).run().ok();
    let file = node.scratch().join("plan.json");
    let file = file.to_str().expect("a plain path");
    std::fs::write(file, r#"{"version":1,"partitions":[{"topic":"cut","partition":0,"offset":4}]}"#).expect("a file");
    on("kafka-delete-records", &["--offset-json-file", file]).run().ok().says(&["cut-0", "low_watermark: 4"]);
    on("kafka-get-offsets", &["--topic", "cut", "--time", "-2"]).run().ok().says(&["cut:0:4"]);
    std::fs::write(file, r#"{"version":1,"partitions":[{"topic":"cut","partition":0,"offset":11}]}"#).expect("a file");
    on("kafka-delete-records", &["--offset-json-file", file]).run().ok().says(&["OffsetOutOfRangeException"]);
    on("kafka-leader-election", &["--election-type", "preferred", "--topic", "cut", "--partition", "0"])
        .run()
        .ok()
        .says(&["Valid replica already elected for partitions cut-0"]);
    let plan = r#"{"version":1,"partitions":[{"topic":"cut","partition":0,"replicas":[1]}]}"#;
    std::fs::write(file, plan).expect("a file");
    on("kafka-reassign-partitions", &["--reassignment-json-file", file, "--execute"]).run().ok();
    let verify = on("kafka-reassign-partitions", &["--reassignment-json-file", file, "--verify"]);
    verify.run().ok().says(&["Reassignment of partition cut-0 is completed"]);
}
