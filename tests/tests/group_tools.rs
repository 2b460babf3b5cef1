//! Apache Kafka's tools for consumer groups, unchanged, with both group protocols.

use std::time::Duration;

use odradek_tests::{Node, Tool};

const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

struct On<'n> {
    bootstrap: String,
    _node: &'n Node,
}

impl On<'_> {
    fn of(node: &Node) -> On<'_> {
        On { bootstrap: node.bootstrap(), _node: node }
    }

    fn tool(&self, name: &str, args: &[&str]) -> Tool {
        let mut all = vec!["--bootstrap-server", self.bootstrap.as_str()];
        all.extend(args);
        Tool::kafka(name, &all).limit(Duration::from_secs(90))
    }

    fn topic(&self, topic: &str, partitions: &str, lines: usize) {
        self.tool("kafka-topics", &["--create", "--topic", topic, "--partitions", partitions]).run().ok();
        let text: String = (0..lines).map(|n| format!("{topic}-{n}\n")).collect();
        // Small batches, so that the lines spread over the partitions.
        let args = ["--topic", topic, "--command-property", "batch.size=1", "--command-property", "linger.ms=0"];
        self.tool("kafka-console-producer", &args).input(text).run().ok();
    }

    fn consume(&self, topic: &str, group: &str, protocol: &str, messages: usize) -> Vec<String> {
        let (protocol, count) = (format!("group.protocol={protocol}"), messages.to_string());
        let mut args = vec!["--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", "20000"];
        args.extend(["--max-messages", &count, "--command-property", &protocol]);
        let text = self.tool("kafka-console-consumer", &args).run().ok().text();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn groups(&self, args: &[&str]) -> Tool {
        self.tool("kafka-consumer-groups", args)
    }

    /// Rows of `--describe --offsets`: topic, partition, committed offset, log end offset, lag.
    fn offsets(&self, group: &str) -> Vec<[String; 5]> {
        let text = self.groups(&["--describe", "--group", group, "--offsets"]).run().ok().text();
        let mut rows: Vec<[String; 5]> = text
            .lines()
            .filter(|line| line.starts_with(group))
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                [1, 2, 3, 4, 5].map(|at| words[at].to_owned())
            })
            .collect();
        rows.sort();
        rows
    }

    fn committed(&self, group: &str) -> i64 {
        self.offsets(group).iter().map(|row| row[2].parse::<i64>().expect("an offset")).sum()
    }
}

#[test]
fn console_consumers_share_a_group_and_go_on_where_they_stopped() {
    let node = Node::start();
    let on = On::of(&node);
    on.topic("thread", "3", 20);
    let expected = {
        let mut lines: Vec<String> = (0..20).map(|n| format!("thread-{n}")).collect();
        lines.sort();
        lines
    };
    for protocol in PROTOCOLS {
        let group = format!("spool-{protocol}");
        assert_eq!(on.consume("thread", &group, protocol, 20), expected, "{protocol}");
        assert_eq!(on.committed(&group), 20, "{protocol}");
    }
    on.tool("kafka-console-producer", &["--topic", "thread"]).input("more\n").run().ok();
    for protocol in PROTOCOLS {
        let group = format!("spool-{protocol}");
        assert_eq!(on.consume("thread", &group, protocol, 1), ["more"], "{protocol}");
    }
}

#[test]
fn groups_are_listed_described_reset_and_deleted() {
    let node = Node::start();
    let on = On::of(&node);
    on.topic("wool", "2", 10);
    for protocol in PROTOCOLS {
        let group = format!("loom-{protocol}");
        on.consume("wool", &group, protocol, 10);
    }
    let names = PROTOCOLS.map(|protocol| format!("loom-{protocol}"));
    let names = names.each_ref().map(String::as_str);
    on.groups(&["--list"]).run().ok().says(&names);
    let kinds = on.groups(&["--list", "--type"]).run().ok();
    for line in kinds.text().lines().filter(|line| line.starts_with("loom-")) {
        let kind = line.split_whitespace().nth(1).expect("a type").to_lowercase();
        assert!(line.starts_with(&format!("loom-{kind}")), "{line}");
    }
    on.groups(&["--list", "--state", "Empty"]).run().ok().says(&names);
    let stable = on.groups(&["--list", "--state", "Stable"]).run().ok().text();
    assert!(!stable.contains("loom-"), "{stable}");
    on.tool("kafka-groups", &["--list"]).run().ok().says(&names).says(&["Classic"]);
    for protocol in PROTOCOLS {
        let group = format!("loom-{protocol}");
        let about = ["--group", group.as_str()];
        let with = |extra: &[&'static str]| [&about[..], extra].concat();
        on.groups(&with(&["--describe", "--state"])).run().ok().says(&["Empty"]);
        let members = on.groups(&with(&["--describe", "--members", "--verbose"])).run().ok();
        assert!(format!("{}{}", members.text(), members.stderr).contains("has no active members"), "{members:?}");
        // The producer chooses partitions by chance: the tool brings offsets that are out of a partition's range back into it.
        let ends: Vec<i64> = on.offsets(&group).iter().map(|row| row[3].parse().expect("an offset")).collect();
        assert_eq!(ends.iter().sum::<i64>(), 10, "{ends:?}");
        // From a partition's end: where the reset puts its committed offset.
        type Reset = fn(i64) -> i64;
        let resets: [(&[&str], Reset); 6] = [
            (&["--shift-by", "-2"], |end| (end - 2).max(0)),
            (&["--to-offset", "3"], |end| end.min(3)),
            (&["--to-datetime", "2020-01-01T00:00:00.000"], |_| 0),
            (&["--to-latest"], |end| end),
            (&["--by-duration", "P1D"], |_| 0),
            (&["--shift-by", "100"], |end| end),
        ];
        for (how, expected) in resets {
            let sum: i64 = ends.iter().map(|end| expected(*end)).sum();
            let args = [&about[..], &["--reset-offsets", "--topic", "wool", "--execute"], how].concat();
            on.groups(&args).run().ok();
            assert_eq!(on.committed(&group), sum, "{protocol} {how:?}");
        }
        let dry = on.groups(&with(&["--reset-offsets", "--all-topics", "--to-earliest", "--export", "--dry-run"]));
        dry.run().ok().says(&["wool,0,0"]);
        on.groups(&with(&["--delete-offsets", "--topic", "wool:0"])).run().ok().says(&["Successful"]);
        let left = on.offsets(&group);
        assert_eq!(left.iter().filter(|row| row[2] != "-").count(), 1, "{left:?}");
        on.groups(&with(&["--delete"])).run().ok().says(&["successful"]);
        // The tool prints the error and exits with 0.
        for (what, said) in [("--describe", "not found"), ("--delete", "could not be deleted")] {
            let output = on.groups(&[&about[..], &[what]].concat()).run();
            let text = format!("{}{}", output.text(), output.stderr);
            assert!(text.contains(said), "{protocol} {what}: {text}");
        }
    }
    let listed = on.groups(&["--list"]).run().ok().text();
    assert!(!listed.contains("loom-"), "{listed}");
}

#[test]
fn perf_and_verifiable_consumers_run() {
    let node = Node::start();
    let on = On::of(&node);
    on.tool("kafka-topics", &["--create", "--topic", "perf", "--partitions", "4"]).run().ok();
    let bootstrap = format!("bootstrap.servers={}", node.bootstrap());
    let mut args = vec!["--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1"];
    args.extend(["--command-property", &bootstrap]);
    Tool::kafka("kafka-producer-perf-test", &args).run().ok();
    for protocol in PROTOCOLS {
        let property = format!("group.protocol={protocol}");
        let args = ["--topic", "perf", "--num-records", "20000", "--command-property", &property, "--hide-header"];
        let said = on.tool("kafka-consumer-perf-test", &args).run().ok().text();
        let count = said.lines().find_map(|line| line.split(", ").nth(4)?.parse::<u64>().ok());
        assert!(count.is_some_and(|count| count >= 20_000), "{protocol}: {said}");
        let group = format!("checked-{protocol}");
        let args = ["--topic", "perf", "--group-id", &group, "--group-protocol", protocol, "--max-messages", "2000"];
        let said = on
            .tool("kafka-verifiable-consumer", &[&args[..], &["--reset-policy", "earliest"]].concat())
            .run()
            .ok()
            .text();
        assert!(said.contains("\"name\":\"partitions_assigned\""), "{protocol}: {said}");
        assert!(said.contains("\"name\":\"offsets_committed\"") && said.contains("\"success\":true"), "{said}");
        assert_eq!(on.committed(&group), 2000, "{protocol}");
    }
}

#[test]
fn kcat_consumes_as_a_member() {
    let node = Node::start();
    let on = On::of(&node);
    on.topic("cat", "3", 30);
    let bootstrap = node.bootstrap();
    let args = ["-b", &bootstrap, "-G", "cats", "-X", "auto.offset.reset=earliest", "-c", "30", "-q", "cat"];
    let mut lines: Vec<String> = Tool::kcat(&args).run().ok().text().lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected: Vec<String> = (0..30).map(|n| format!("cat-{n}")).collect();
    expected.sort();
    assert_eq!(lines, expected);
    on.groups(&["--describe", "--group", "cats", "--state"]).run().ok().says(&["cats"]);
}

#[test]
fn end_to_end_latency_succeeds() {
    let node = Node::start();
    let on = On::of(&node);
    on.tool("kafka-topics", &["--create", "--topic", "e2e", "--partitions", "1"]).run().ok();
    let args = ["--topic", "e2e", "--num-records", "200", "--producer-acks", "all", "--record-size", "100"];
    on.tool("kafka-e2e-latency", &args).run().ok().says(&["Avg latency:"]);
}
