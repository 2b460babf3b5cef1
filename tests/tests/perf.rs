//! `odradek perf` against a whole broker: what it says it sent is there, what it says it read was sent, and nothing hangs.

use odradek_tests::{Node, NodeConfig, Peer, Tool};
use serde_json::Value;

/// Runs `odradek perf` with a JSON result, which must be a success.
fn perf(node: &Node, line: &str) -> Value {
    let file = node.scratch().join("perf.json");
    let bootstrap = node.bootstrap();
    let mut args = vec!["perf"];
    args.extend(line.split_whitespace());
    args.extend(["--quiet", "--bootstrap-server", &bootstrap, "--json", file.to_str().expect("a plain path")]);
    Tool::odradek(&args).run().ok();
    let text = std::fs::read_to_string(&file).expect("the result was written");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("`{line}` writes no JSON: {e}"))
}

fn count(result: &Value, side: &str, what: &str) -> u64 {
    result[side][what].as_u64().unwrap_or_else(|| panic!("{side}.{what} is missing in {result}"))
}

#[test]
fn what_is_sent_is_read_in_every_form() {
    let node = Node::start();
    for (i, settings) in [
        "--acks 0",
        "--acks 1 --producers 3 --batch-size 1",
        "--acks all --record-size 1k --batches-per-request 4",
        "--idempotent --producers 2",
        "--compression zstd --payload text --rate 20k --linger-ms 3",
        "--compression lz4 --rate 20k --spread record --linger-ms 10 --batches-per-request 4",
        "--idempotent --rate 20k --in-flight 1 --topics 3",
    ]
    .iter()
    .enumerate()
    {
        let line = format!("produce --topic form-{i} --create --partitions 4 --records 5001 {settings}");
        let pid = node.pid();
        let sent = perf(&node, &format!("{line} --watch-pid {pid}"));
        assert_eq!(count(&sent, "sent", "records"), 5001, "{settings}");
        assert!(sent["watched"]["rss_bytes"].as_u64() > Some(0), "{settings}: {}", sent["watched"]);
        assert!(sent["sent"]["latency"]["count"].as_u64() == Some(5001), "{settings}");
        let topics = if settings.contains("--topics") { "--topics 3" } else { "" };
        // What nobody acknowledged may become readable a moment later.
        let end = if settings.contains("--acks 0") { "--records 5001 --duration 20s" } else { "--stop-at-end" };
        let read = perf(&node, &format!("consume --topic form-{i} {topics} --consumers 2 --check-crc {end}"));
        assert_eq!(count(&read, "read", "records"), 5001, "{settings}");
        assert_eq!(read["invalid_batches"], 0, "{settings}");
    }
}

#[test]
fn the_way_from_producer_to_consumer_is_timed_for_every_reader() {
    let node = Node::start();
    let line =
        "e2e --topic way --create --partitions 3 --rate 5k --records 2000 --record-size 64 --fanout 3 --consumers 2";
    let found = perf(&node, line);
    assert_eq!((count(&found, "sent", "records"), count(&found, "read", "records")), (2000, 6000));
    assert_eq!(found["read"]["latency"]["count"], 6000);
    let of = |side: &str, what: &str| found[side]["latency"][what].as_u64().expect("a latency");
    assert!(of("read", "p50_us") > 0 && of("read", "max_us") >= of("read", "p99_us"));
}

#[test]
fn topics_are_deleted_where_that_is_asked_for() {
    let node = Node::start();
    let found = perf(&node, "produce --topic gone --topics 2 --create --delete --records 10");
    assert!(found["metadata_us"].as_u64() > Some(0));
    let bootstrap = node.bootstrap();
    Tool::odradek(&["perf", "consume", "--topic", "gone-1", "--records", "1", "--bootstrap-server", &bootstrap])
        .run()
        .fails_with("does not exist");
}

#[test]
fn the_idle_are_held_and_told() {
    let node = Node::start();
    let found = perf(&node, "idle --topic idle --create --partitions 2 --connections 30 --consumers 5 --duration 1s");
    assert_eq!(found["connections_made"]["count"], 30);
    assert_eq!(found["broken_connections"], 0);
}

/// Groups, commits and a restart, with either broker.
fn groups_and_commits(peer: Peer) {
    let mut node = Node::start_config(NodeConfig { peer, ..NodeConfig::default() });
    let pid = node.pid();
    for protocol in ["classic", "consumer"] {
        let line = format!(
            "group --topic members --create --partitions 6 --protocol {protocol} --group-prefix {protocol} --groups 2 --members 4 \
             --heartbeat-interval 100ms --connections 3 --duration 1s --roll 2 --watch-pid {pid}"
        );
        let found = perf(&node, &line);
        assert!(found["start"]["seconds"].as_f64() > Some(0.0), "{protocol}: {}", found["start"]);
        assert!(found["start"]["joins"].as_u64() >= Some(8), "{protocol}: {}", found["start"]);
        assert_eq!(found["roll"]["steps_ms"].as_array().map(Vec::len), Some(2), "{protocol}");
        assert!(found["roll"]["joins"].as_u64() >= Some(8), "{protocol}: {}", found["roll"]);
        assert!(count(&found, "sent", "requests") > 0 && found["sent"]["errors"] == serde_json::json!({}), "{found}");
        assert_eq!(found["sent"]["latency"]["count"], found["sent"]["requests"], "{protocol}");
        assert!(found["rss_stable_bytes"].as_u64() > Some(0) && found["rss_before_bytes"].as_u64() > Some(0));
    }
    let paced = perf(&node, "group --topic members --group-prefix paced --members 3 --rate 50 --duration 1s");
    // A member whose own heartbeat is on its way when the next is due has none to send.
    assert_eq!(count(&paced, "sent", "requests") + count(&paced, "sent", "unsent_records"), 50);
    let eager =
        "group --topic members --group-prefix eager --duration 0 --group-config consumer.assignment.interval.ms=0";
    assert_eq!(perf(&node, eager)["start"]["joins"], 10);
    let about = ["--bootstrap-server", &node.bootstrap(), "--describe", "--group", "eager-0"];
    Tool::kafka("kafka-configs", &about).run().ok().says(&["consumer.assignment.interval.ms=0"]);

    let most = perf(&node, "commit --topic members --groups 5 --partitions-per-commit 3 --duration 1s");
    assert_eq!(count(&most, "sent", "records"), 3 * count(&most, "sent", "requests"));
    let paced = perf(&node, "commit --topic members --groups 5 --rate 40 --duration 1s");
    assert_eq!((count(&paced, "sent", "requests"), count(&paced, "sent", "unsent_records")), (40, 0));
    let filled = perf(&node, "commit --topic members --group-prefix many --fill 500");
    assert_eq!(count(&filled, "sent", "records"), 500);
    node.stop();
    node.run();
    let loaded = perf(&node, "commit --topic members --group-prefix many --check 500");
    assert_eq!(loaded["commits"], 500);
    assert!(loaded["loaded_s"].as_f64() > Some(0.0));
    let bootstrap = node.bootstrap();
    let line = "perf commit --topic members --group-prefix none --check 7";
    let args: Vec<&str> = line.split_whitespace().chain(["--bootstrap-server", &bootstrap]).collect();
    Tool::odradek(&args).run().fails_with("7 commits are missing");
}

#[test]
fn groups_are_held_and_offsets_committed() {
    groups_and_commits(Peer::Odradek);
}

#[test]
fn groups_are_held_and_offsets_committed_on_kafka() {
    groups_and_commits(Peer::Kafka);
}

#[test]
fn what_cannot_be_done_is_said_at_once() {
    let node = Node::start();
    let bootstrap = node.bootstrap();
    let run = |line: &str, server: &str| {
        let mut args = vec!["perf"];
        args.extend(line.split_whitespace());
        args.extend(["--bootstrap-server", server]);
        Tool::odradek(&args).run()
    };
    run("produce --records 10 --topic absent", &bootstrap).fails_with("does not exist");
    run("produce --records 10 --topic absent", &bootstrap).fails_with("does not exist");
    run("produce", &bootstrap).fails_with("--records or --duration");
    run("produce --records 10 --create --topic ../up", &bootstrap).fails_with("INVALID_TOPIC_EXCEPTION");
    run("produce --records 10 --create --topic odd --topic-config retention.ms=soon", &bootstrap)
        .fails_with("INVALID_CONFIG");
    run("produce --records 10", "127.0.0.1:1").fails_with("127.0.0.1:1");
    run("produce --records 10 --create --topic large --record-size 2m", &bootstrap).fails_with("MESSAGE_TOO_LARGE");
}

#[test]
fn the_end_of_the_broker_is_not_the_end_of_the_result() {
    let mut node = Node::start();
    let bootstrap = node.bootstrap();
    let args = ["perf", "produce", "--create", "--duration", "4s", "--quiet", "--bootstrap-server", &bootstrap];
    let running = std::thread::spawn({
        let args = args.map(str::to_owned);
        move || Tool::odradek(&args.each_ref().map(String::as_str)).run()
    });
    // Killed when records are there, however long that takes.
    let reading = ["perf", "consume", "--records", "1", "--duration", "1s", "--bootstrap-server", &bootstrap];
    loop {
        let text = Tool::odradek(&reading).run().text();
        if text.starts_with("read ") && !text.starts_with("read 0 ") {
            break;
        }
    }
    node.kill();
    let said = running.join().expect("the tool ends").fails_with("connections broke");
    assert!(said_rate(&said.text()), "{}", said.text());
}

fn said_rate(text: &str) -> bool {
    text.contains("records/s") && text.contains("acknowledged after")
}

#[test]
fn the_harness_computes_what_it_should() {
    let folder = odradek_tests::peers::root().join("benches/bench");
    let run = std::process::Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-p", "tests.py", "-s"])
        .arg(folder)
        .output()
        .expect("python3 runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
