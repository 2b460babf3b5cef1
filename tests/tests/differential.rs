//! The same request to Apache Kafka and to Odradek: the decoded answers are the same, or a line of the cases says why not.
//! The cases are in `differential/`, one file for each subject; `ODRADEK_DIFFER=fetch,produce` runs only these.

use std::collections::BTreeMap;
use std::fs;

use odradek_tests::differ::bed::{Bed, Report};
use odradek_tests::differ::{schema, script};
use odradek_tests::peers;
use serde_json::Value;
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
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cases"));
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
        let (kafka, served) = bed.ask("ApiVersions", 0, &serde_json::json!({}));
        every_version_has_a_case(bed.report(), &served);
        versions_are_kafkas_or_have_a_reason(&ranges(&kafka), &ranges(&served));
    }
}

fn every_version_has_a_case(report: &Report, served: &Value) {
    for (code, (_, max)) in ranges(served) {
        let key = ApiKey::from_i16(code).expect("a known API");
        let (name, _) = schema::all().iter().find(|(_, api)| api.key == key).expect("a schema");
        for version in key.info().min..=max {
            let is_covered = report.covered.contains_key(&(name.clone(), version));
            assert!(is_covered, "no case for {name} v{version}");
        }
    }
}

/// Lowest and highest version by key.
type Ranges = BTreeMap<i16, (i16, i16)>;

fn ranges(answer: &Value) -> Ranges {
    let number = |api: &Value, name: &str| i16::try_from(api[name].as_i64().expect("a number")).expect("a small one");
    let range = |api| (number(api, "ApiKey"), (number(api, "MinVersion"), number(api, "MaxVersion")));
    answer["ApiKeys"].as_array().expect("the APIs").iter().map(range).collect()
}

/// Why an API that Apache Kafka 4.4 lists is not listed here. A line goes when its API is served.
const NOT_SERVED: [(&[i16], &str); 7] = [
    (&[17, 29, 30, 31, 36, 38, 39, 40, 41, 50, 51], "security is not there yet"),
    (&[24, 25, 26, 27, 28, 65, 66], "transactions are not there yet"),
    (&[34], "several log directories are not there yet"),
    (&[48, 49], "quotas are not there yet"),
    (&[76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92], "share groups are not there yet"),
    (&[80, 81, 94], "the quorum has one voter"),
    (&[88, 89, 93], "streams groups are not there yet"),
];

/// Compares what both advertise with what Apache Kafka advertised since 4.0: a client that worked with any of these releases
/// finds each of its versions, or the reason why not stands above.
fn versions_are_kafkas_or_have_a_reason(kafka: &Ranges, odradek: &Ranges) {
    let table =
        fs::read_to_string(peers::root().join("tests/tests/differential/api_versions.table")).expect("the table");
    let mut recorded = Ranges::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let key: i16 = columns[0].parse().expect("a key");
        for (release, column) in ["4.0", "4.1", "4.2", "4.3", "4.4"].iter().zip(&columns[2..]) {
            let Some((min, max)) = column.split_once('-').filter(|(min, _)| !min.is_empty()) else { continue };
            let (min, max): (i16, i16) = (min.parse().expect("a version"), max.parse().expect("a version"));
            if *release == "4.4" {
                recorded.insert(key, (min, max));
            }
            match odradek.get(&key) {
                // What came after a release is served as well, and what it had is still there.
                Some(range) => assert!(range.0 <= min && range.1 >= max, "{line}: {range:?} lacks what {release} has"),
                None => assert!(NOT_SERVED.iter().any(|(keys, _)| keys.contains(&key)), "{line}: nobody says why not"),
            }
        }
    }
    assert_eq!(&recorded, kafka, "the column of 4.4 is what Apache Kafka 4.4.0 answers");
    for (key, range) in odradek {
        assert_eq!(kafka.get(key), Some(range), "key {key}: the range is that of Apache Kafka 4.4.0");
    }
}
