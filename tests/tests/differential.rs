//! The same request to Apache Kafka and to Odradek: the decoded answers are the same, or a line of the cases says why not.
//! The cases are in `differential/`, one file for each subject; `ODRADEK_DIFFER=fetch,produce` runs only these.

use std::fs;

use odradek_tests::differ::bed::Bed;
use odradek_tests::differ::{schema, script};
use odradek_tests::peers;
use wire::ApiKey;

/// What both brokers are started with: one partition of offsets, so that the log of groups is quickly there.
const PROPERTIES: [(&str, &str); 3] = [
    ("offsets.topic.num.partitions", "1"),
    ("group.min.session.timeout.ms", "1000"),
    ("max.incremental.fetch.session.cache.slots", "1000"),
];

/// The whole comparison is worth its name above this.
const CASES_MIN: usize = 400;

#[test]
fn every_answer_is_kafkas_or_has_a_reason() {
    let folder = peers::root().join("tests/tests/differential");
    let mut files: Vec<_> = fs::read_dir(&folder).expect("the cases").map(|entry| entry.expect("one").path()).collect();
    files.sort();
    let only = std::env::var("ODRADEK_DIFFER").unwrap_or_default();
    let mut bed = Bed::start(&PROPERTIES);
    for file in &files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        if only.is_empty() || only.split(',').any(|one| one == name) {
            let started = std::time::Instant::now();
            let before = bed.report().exchanges;
            bed.run(&script::parse(&name, &fs::read_to_string(file).expect("readable")));
            println!("{name}: {} exchanges in {:?}", bed.report().exchanges - before, started.elapsed());
        }
    }
    let report = bed.report();
    println!("{} cases, {} exchanges", report.cases, report.exchanges);
    for (reason, times) in &report.reasons {
        println!("on purpose, {times} times: {reason}");
    }
    let found = &report.differences;
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    if only.is_empty() {
        assert!(report.cases >= CASES_MIN, "only {} cases", report.cases);
        let served = bed.ask("ApiVersions", 0, &serde_json::json!({})).1;
        for api in served["ApiKeys"].as_array().expect("the APIs") {
            let key = api["ApiKey"].as_i64().and_then(|key| i16::try_from(key).ok()).and_then(ApiKey::from_i16);
            let key = key.expect("a known API");
            let (name, _) = schema::all().iter().find(|(_, api)| api.key == key).expect("a schema");
            let info = key.info();
            for version in info.min..=api["MaxVersion"].as_i64().expect("a version") as i16 {
                let is_covered = bed.report().covered.contains_key(&(name.clone(), version));
                assert!(is_covered, "no case for {name} v{version}");
            }
        }
    }
}
