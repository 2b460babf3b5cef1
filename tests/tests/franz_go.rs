//! franz-go's own tests, unmodified: those of `pkg/kgo` talk to a broker at `KGO_SEEDS`, those of `pkg/kadm` need none. What
//! passes stands in `tests/clients/go/franz-go-passes.txt`, which may only grow; `ODRADEK_UPDATE=1` adds to it.
//!
//! Left out are TestTxnEtl, which waits for ever for a coordinator of transactions, and the tests of share groups.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use odradek_tests::{Node, Tool, peers};

/// Records that each of the larger tests writes and reads; 500,000 is franz-go's own number.
const RECORDS: &str = "10000";

/// The names `package/Test` of what passed.
fn passed(node: &Node, package: &str) -> BTreeSet<String> {
    let mut tests = Command::new(peers::installed(&format!("clients/go/{package}.test")));
    tests.env("KGO_SEEDS", node.bootstrap()).env("KGO_LOG_LEVEL", "none").env("KGO_TEST_RF", "1");
    tests.env("KGO_TEST_RECORDS", RECORDS).env("KGO_TEST_MAX_TOPIC_PARTS", "3");
    let args =
        ["-test.v", "-test.parallel", "4", "-test.timeout", "280s", "-test.skip", "^TestTxnEtl$|^TestShareGroup"];
    let said = Tool::command(tests, &args).in_dir(node.scratch()).limit(Duration::from_secs(300)).run();
    let text = said.text();
    let names: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--- PASS: "))
        .filter_map(|line| line.split_whitespace().next())
        .map(|name| format!("{package}/{name}"))
        .collect();
    let failed: Vec<&str> = text.lines().filter(|line| line.contains("--- FAIL") || line.contains("panic:")).collect();
    println!("{package}: {} passed; failed: {failed:?}", names.len());
    if said.code != Some(0) {
        println!("{text}\n{}", said.stderr);
    }
    names
}

#[test]
fn what_passed_once_passes() {
    let node = Node::start();
    let passed: BTreeSet<String> = ["kgo", "kadm"].iter().flat_map(|package| passed(&node, package)).collect();
    let file = peers::root().join("tests/clients/go/franz-go-passes.txt");
    let listed: BTreeSet<String> = fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
    let lost: Vec<&String> = listed.difference(&passed).collect();
    assert!(lost.is_empty(), "listed and do not pass any more: {lost:?}");
    let new: Vec<&String> = passed.difference(&listed).collect();
    println!("pass and are not listed: {new:?}");
    if std::env::var_os("ODRADEK_UPDATE").is_some() {
        let lines: Vec<&str> = passed.iter().map(String::as_str).collect();
        fs::write(file, lines.join("\n") + "\n").expect("the list can be written");
    }
}
