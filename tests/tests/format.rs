//! `odradek format` against Apache Kafka's own StorageTool: the same files, the same records, the same refusals; and a broker
//! of either kind starts on what the other's tool formatted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use odradek_tests::{Node, NodeConfig, Peer, Tool};
use records::{BatchIter, RecordIter};
use wire::control_record::ControlRecord;
use wire::metadata_record::MetadataRecord;

const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qg";
const DYNAMIC: &str = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n\
                       listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
                       controller.listener.names=CONTROLLER\n";

/// The same properties with fixed voters.
fn fixed() -> String {
    DYNAMIC.replace("controller.quorum.bootstrap.servers=", "controller.quorum.voters=1@")
}

/// A folder for one tool, with a properties file that names directories in it.
fn folder(properties: &str, directories: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("odradek-format-").tempdir().expect("a temporary folder");
    let directories = directories.replace('@', folder.path().to_str().expect("a plain path"));
    let file = folder.path().join("server.properties");
    fs::write(&file, format!("{properties}{directories}\n")).expect("properties can be written");
    (folder, file)
}

fn args<'a>(file: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["format", "-t", CLUSTER, "-c", file.to_str().expect("a plain path")], more].concat()
}

/// Everything a formatted folder holds, with what differs from run to run taken out.
fn seen(folder: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(&path).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("below the folder").display().to_string();
            let bytes = fs::read(&path).expect("a readable file");
            let text = match path.extension().and_then(|extension| extension.to_str()) {
                Some("checkpoint") => {
                    records_of(bytes, fs::metadata(&path).expect("readable").permissions().readonly())
                }
                _ if name.ends_with("meta.properties") => entries_of(&bytes),
                _ => continue,
            };
            seen.insert(name, text);
        }
    }
    let ids: Vec<String> = seen
        .values()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("directory.id="))
        .map(str::to_owned)
        .collect();
    for text in seen.values_mut() {
        for (number, id) in ids.iter().enumerate() {
            *text = text.replace(id, &format!("ID{number}"));
        }
    }
    seen
}

fn entries_of(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn records_of(bytes: Vec<u8>, read_only: bool) -> String {
    let mut text = format!("read-only: {read_only}\n");
    for batch in BatchIter::new(Bytes::from(bytes)) {
        let batch = batch.expect("a valid batch");
        let header = &batch.header;
        writeln!(
            text,
            "batch at {} epoch {} attributes {:?} count {} producer {}/{}/{}",
            header.base_offset,
            header.leader_epoch,
            header.attributes,
            header.record_count,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence
        )
        .expect("string");
        for record in RecordIter::new(header, batch.payload()) {
            let record = record.expect("a valid record");
            let value = record.value.expect("a value");
            let shown = if header.is_control() {
                format!("{:?}", ControlRecord::decode(record.key.expect("a key"), value).expect("a control record"))
            } else {
                assert_eq!(record.key, None);
                format!("{:?}", MetadataRecord::decode(value).expect("a metadata record"))
            };
            // The time of formatting is the one number that may differ.
            let times = without_number(&shown, "last_contained_log_timestamp: ");
            writeln!(text, "  {times}").expect("string");
        }
    }
    text
}

/// `text` with the number behind `field` taken out.
fn without_number(text: &str, field: &str) -> String {
    match text.split_once(field) {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}{field}-{rest}")
        }
        None => text.to_owned(),
    }
}

#[test]
fn both_tools_write_the_same() {
    let broker = "process.roles=broker\nnode.id=2\ncontroller.quorum.voters=1@localhost:9093\n\
                  listeners=PLAINTEXT://localhost:9092\ncontroller.listener.names=CONTROLLER\n";
    let controller = "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n\
                      listeners=CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n";
    let advertised = format!("{DYNAMIC}advertised.listeners=PLAINTEXT://a:1,CONTROLLER://c.example:7\n");
    let given = "1@localhost:9093:JEXY6aqzQY-32P5TStzaFg,2@b.example:9093:MvDxzVmcRsaTz33bUuRU6A";
    let others = "3@localhost:9093:JEXY6aqzQY-32P5TStzaFg";
    let (one, two, apart) = ("log.dirs=@/a", "log.dirs=@/b,@/a", "log.dirs=@/a,@/b\nmetadata.log.dir=@/m");
    let cases: [(&str, &str, &[&str]); 13] = [
        (&fixed(), one, &[]),
        (&fixed(), two, &[]),
        (&fixed(), apart, &["-r", "4.2-IV1"]),
        (&fixed(), one, &["-r", "3.3-IV3"]),
        (&fixed(), one, &["-f", "share.version=1", "-f", "eligible.leader.replicas.version=0"]),
        (&fixed(), one, &["-f", "metadata.version=30"]),
        (DYNAMIC, two, &["--standalone"]),
        (&advertised, one, &["-s"]),
        (DYNAMIC, one, &["--no-initial-controllers"]),
        (DYNAMIC, one, &["--initial-controllers", given]),
        (DYNAMIC, one, &["-I", others]),
        (broker, two, &[]),
        (controller, one, &[]),
    ];
    for (properties, directories, more) in cases {
        let (ours, file) = folder(properties, directories);
        Tool::odradek(&args(&file, more)).run().ok();
        let (theirs, file) = folder(properties, directories);
        Tool::kafka("kafka-storage", &args(&file, more)).run().ok();
        assert_eq!(seen(ours.path()), seen(theirs.path()), "{properties}{directories} {more:?}");
    }
}

#[test]
fn both_tools_refuse_the_same() {
    let one = "log.dirs=@/a";
    let cases: [(&str, &[&str], &str); 7] = [
        (
            DYNAMIC,
            &[],
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following",
        ),
        (
            &fixed(),
            &["-s"],
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers",
        ),
        (&fixed(), &["-r", "9.9"], "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3"),
        (
            &fixed(),
            &["-f", "nope=1"],
            "Unsupported feature: nope. Supported features are: eligible.leader.replicas.version",
        ),
        (&fixed(), &["-f", "group.version=7"], "No feature:group.version with feature level 7"),
        (
            &fixed(),
            &["-f", "kraft.version=1"],
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty",
        ),
        (
            DYNAMIC,
            &["-s", "-f", "kraft.version=0"],
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty",
        ),
    ];
    for (properties, more, said) in cases {
        let (_ours, file) = folder(properties, one);
        Tool::odradek(&args(&file, more)).run().fails_with(said);
        Tool::kafka("kafka-storage", &args(&file, more)).run().fails_with(said);
    }
}

#[test]
fn formatted_directories_are_left_alone() {
    let (ours, file) = folder(&fixed(), "log.dirs=@/a");
    Tool::odradek(&args(&file, &[])).run().ok();
    let before = seen(ours.path());
    Tool::odradek(&args(&file, &[])).run().fails_with("is already formatted. Use --ignore-formatted");
    Tool::kafka("kafka-storage", &args(&file, &[])).run().fails_with("is already formatted. Use --ignore-formatted");
    Tool::odradek(&args(&file, &["-g"])).run().ok().says(&["All of the log directories are already formatted."]);
    let other = ["format", "-t", "another", "-g", "-c", file.to_str().expect("a plain path")];
    Tool::odradek(&other).run().fails_with("Invalid cluster.id in: ");
    Tool::odradek(&args(&file, &["--add-scram", "SCRAM-SHA-256=[name=a,password=b]"]))
        .run()
        .fails_with("not supported");
    assert_eq!(seen(ours.path()), before);
    let info = ["info", "-c", file.to_str().expect("a plain path")];
    let ours = Tool::odradek(&info).run().ok().says(&[CLUSTER, "node.id=1, version=1"]);
    let directory = ours.text().lines().find(|line| line.starts_with("  ")).map(str::to_owned).expect("a directory");
    Tool::kafka("kafka-storage", &info).run().ok().says(&[&directory, CLUSTER]);
}

/// Name and finalized level in a line of `kafka-features describe`.
fn level_of(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix("Feature: ")?.split_whitespace();
    let name = words.next()?;
    words.find(|word| *word == "FinalizedVersionLevel:")?;
    Some((name, words.next()?))
}

/// A node of one kind on what the other's tool formatted, with a fixed or a dynamic quorum.
fn starts_on_the_others(runs: Peer, formats: Peer, dynamic: bool) {
    let mut node = Node::prepare(NodeConfig { peer: runs, properties: Vec::new() });
    let file = node.properties_file();
    if dynamic {
        let text = fs::read_to_string(&file).expect("readable");
        let text = text.replace("controller.quorum.voters=1@", "controller.quorum.bootstrap.servers=");
        fs::write(&file, text).expect("writable");
    }
    let args = args(&file, if dynamic { &["--standalone"] } else { &[] });
    match formats {
        Peer::Odradek => Tool::odradek(&args).run().ok(),
        _ => Tool::kafka("kafka-storage", &args).run().ok(),
    };
    // A second start of Odradek reads what the first one wrote; Kafka's own is not what is tested.
    let starts = if runs == Peer::Odradek { 2 } else { 1 };
    for _ in 0..starts {
        node.run();
        let features = ["--bootstrap-server", &node.bootstrap(), "describe"];
        let said = Tool::kafka("kafka-features", &features).run().ok().text();
        let levels: Vec<(&str, &str)> = said.lines().filter_map(level_of).collect();
        let want = [
            ("eligible.leader.replicas.version", "1"),
            ("group.version", "1"),
            ("kraft.version", if dynamic { "1" } else { "0" }),
            ("metadata.version", "4.4-IV2"),
            ("share.version", "2"),
            ("streams.version", "1"),
            ("transaction.version", "2"),
        ];
        assert_eq!(levels, want, "{said}");
        node.stop();
    }
}

#[test]
fn kafka_starts_on_what_odradek_formatted() {
    starts_on_the_others(Peer::Kafka, Peer::Odradek, false);
    starts_on_the_others(Peer::Kafka, Peer::Odradek, true);
}

#[test]
fn odradek_starts_on_what_kafka_formatted() {
    starts_on_the_others(Peer::Odradek, Peer::Kafka, false);
    starts_on_the_others(Peer::Odradek, Peer::Kafka, true);
}
