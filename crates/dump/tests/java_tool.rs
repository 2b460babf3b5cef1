//! The same files shown by Apache Kafka's own tool and by this crate: the same lines.

#[path = "../../wire/tests/common/values.rs"]
mod values;

use base::Prng;
use bytes::Bytes;
use dump::{Decoder, Findings, IndexCheck, IndexFile, SegmentDump, SegmentOptions};
use records::{Batch, BatchBuilder, BatchIter, Codec, ControlRecordType, RecordData, TxnMarker, control_batch};
use std::path::{Path, PathBuf};
use std::process::Command;
use values::{Fill, message_bytes, uvarint};
use wiregen::{Kind, Message};

const NOW: i64 = 1_700_000_000_000;
const LOG: &str = "00000000000000000000.log";

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dump-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder");
    dir
}

/// What the tool of Apache Kafka prints.
fn theirs(file: &Path, options: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the checkout");
    let libs =
        std::env::var_os("ODRADEK_KAFKA_LIBS").map_or_else(|| root.join(".cache/kafka-4.4.0/libs"), PathBuf::from);
    assert!(libs.is_dir(), "{} is missing: run scripts/install-peers or set ODRADEK_KAFKA_LIBS", libs.display());
    let output = Command::new("java")
        .args(["-Xmx512m", "-Dfile.encoding=UTF-8", "-cp", &format!("{}/*", libs.display())])
        .args(["org.apache.kafka.tools.DumpLogSegments", "--files"])
        .arg(file)
        .args(options)
        .output()
        .expect("java is on the path");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn ours(file: &Path, options: SegmentOptions) -> String {
    let path = file.to_str().expect("a path in UTF-8");
    let bytes = Bytes::from(std::fs::read(file).expect("the file is there"));
    let name = file.file_name().and_then(|n| n.to_str()).expect("a name");
    let mut out = format!("Dumping {path}\n{}\n", dump::segment_heading(name).expect("a segment"));
    let (mut segment, mut findings) = (SegmentDump::new(path, options), Findings::default());
    for batch in BatchIter::new(bytes.clone()).flatten() {
        segment.batch(&batch, &mut out, &mut findings);
    }
    segment.end(bytes.len() as u64, &mut out);
    out
}

/// The line with its doubles written anew: Java before 19 does not always find the shortest digits.
fn with_short_doubles(line: &str) -> String {
    const FIELD: &str = "\"value\":";
    let Some((before, after)) = line.split_once(FIELD) else { return line.to_owned() };
    let end = after.find([',', '}']).unwrap_or(after.len());
    let number = after[..end].parse::<f64>().map_or(after[..end].to_owned(), |n| n.to_string());
    format!("{before}{FIELD}{number}{}", &after[end..])
}

/// Compares line by line, so that a difference is shown where it is.
fn compare(file: &Path, options: SegmentOptions, flags: &[&str]) {
    let (ours, theirs) = (ours(file, options), theirs(file, flags));
    for (i, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(with_short_doubles(a), with_short_doubles(b), "line {} of {} with {flags:?}", i + 1, file.display());
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{}", file.display());
}

const DEEP: SegmentOptions =
    SegmentOptions { deep: true, contents: false, skip_record_metadata: false, decoder: Decoder::Text };

fn with(decoder: Decoder) -> SegmentOptions {
    SegmentOptions { contents: true, decoder, ..DEEP }
}

/// Batches of every kind, at successive offsets.
fn user_batches() -> Vec<Bytes> {
    let mut batches = Vec::new();
    let mut offset = 0;
    for codec in Codec::ALL {
        let mut b = BatchBuilder::new(offset).compression(codec, None).producer(7, 1, offset as i32).leader_epoch(3);
        for i in 0..5i64 {
            let value = format!("value {i} \u{fc}");
            let headers: &[(&str, Option<&[u8]>)] = &[("a", None), ("b", Some(b"x"))];
            b.append(&RecordData {
                timestamp: NOW + i * 10,
                key: (i % 2 == 0).then_some(&b"key \xff"[..]),
                value: (i % 3 != 1).then_some(value.as_bytes()),
                headers: &headers[..(i % 3) as usize],
            });
        }
        offset = b.next_offset();
        batches.push(b.build().expect("a batch"));
    }
    let mut gap = BatchBuilder::new(offset + 10).log_append_time(NOW + 99).producer(7, 1, 99).transactional();
    gap.append(&RecordData { timestamp: 1, value: Some(b"after a gap"), ..RecordData::default() });
    batches.push(gap.build().expect("a batch"));
    offset += 11;
    let marker = TxnMarker { producer_id: 7, producer_epoch: 1, commit: true, coordinator_epoch: 12 };
    batches.push(marker.build(offset, 3, NOW).expect("a marker"));
    let unknown = [(ControlRecordType::Unknown(9), &b"?"[..])];
    batches.push(control_batch(offset + 1, 3, NOW, &unknown).expect("a batch"));
    let mut empty = BatchBuilder::new(offset + 2);
    empty.end_at(offset + 5);
    batches.push(empty.build().expect("a batch"));
    batches
}

#[test]
fn segments_of_users() {
    let dir = folder("user");
    let file = dir.join(LOG);
    let mut bytes = user_batches().concat();
    let half = bytes[..100].to_vec();
    bytes.extend(half);
    std::fs::write(&file, &bytes).expect("written");
    compare(&file, SegmentOptions::default(), &[]);
    compare(&file, DEEP, &["--deep-iteration"]);
    compare(&file, with(Decoder::Text), &["--print-data-log"]);
    let bare = SegmentOptions { skip_record_metadata: true, ..with(Decoder::Text) };
    compare(&file, bare, &["--print-data-log", "--skip-record-metadata"]);
}

/// The messages of a family of records.
fn family(name: &str) -> Vec<Message> {
    let (_, text) = wire::schemas::RECORDS.into_iter().find(|(family, _)| *family == name).expect("a family");
    wiregen::parse_messages(name, text).expect("the schemas are right")
}

/// A record's key and value.
type KeyValue = (Option<Vec<u8>>, Option<Vec<u8>>);

fn write_log(dir: &Path, records: &[KeyValue]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut offset = 0;
    for chunk in records.chunks(7) {
        let mut b = BatchBuilder::new(offset);
        for (key, value) in chunk {
            b.append(&RecordData { timestamp: NOW, key: key.as_deref(), value: value.as_deref(), headers: &[] });
        }
        offset = b.next_offset();
        bytes.extend(b.build().expect("a batch"));
    }
    let file = dir.join(LOG);
    std::fs::write(&file, bytes).expect("written");
    file
}

#[test]
fn metadata_records_of_every_type_and_version() {
    let mut prng = Prng::new(1);
    let mut records = Vec::new();
    for message in family("metadata") {
        for version in message.versions.lo..=message.versions.hi {
            for fill in [Fill::Least, Fill::Full, Fill::Mixed, Fill::Mixed] {
                let mut value = Vec::new();
                uvarint(1, &mut value);
                uvarint(message.number.expect("numbered") as u32, &mut value);
                uvarint(version as u32, &mut value);
                value.extend(message_bytes(&message, version, fill, &mut prng));
                records.push((None, Some(value)));
            }
        }
    }
    assert!(records.len() > 100, "{}", records.len());
    let file = write_log(&folder("metadata"), &records);
    compare(&file, with(Decoder::ClusterMetadata), &["--cluster-metadata-decoder"]);
}

/// Keys and values of a coordinator's log.
fn coordinator_records(name: &str, prng: &mut Prng) -> Vec<KeyValue> {
    let messages = family(name);
    let mut records = Vec::new();
    for key in messages.iter().filter(|m| m.kind == Kind::Key) {
        let number = key.number.expect("numbered");
        let mut key_bytes = number.to_be_bytes().to_vec();
        key_bytes.extend(message_bytes(key, 0, Fill::Full, prng));
        records.push((Some(key_bytes.clone()), None));
        let value = messages.iter().find(|m| m.kind == Kind::Value && m.number == key.number).expect("a value");
        for version in value.versions.lo..=value.versions.hi {
            for fill in [Fill::Least, Fill::Full, Fill::Mixed] {
                let mut bytes = version.to_be_bytes().to_vec();
                bytes.extend(message_bytes(value, version, fill, prng));
                records.push((Some(key_bytes.clone()), Some(bytes)));
            }
        }
    }
    records.push((Some(vec![0x7f, 0xff, 0, 0]), Some(vec![0, 0])));
    records
}

#[test]
fn records_of_coordinators() {
    let mut prng = Prng::new(2);
    for (name, decoder, flag) in [
        ("group", Decoder::Offsets, "--offsets-decoder"),
        ("txn", Decoder::TransactionLog, "--transaction-log-decoder"),
        ("share", Decoder::ShareGroupState, "--share-group-state-decoder"),
    ] {
        let file = write_log(&folder(name), &coordinator_records(name, &mut prng));
        compare(&file, with(decoder), &[flag]);
    }
}

/// A classic consumer group whose member's bytes are those of the consumer protocol.
#[test]
fn members_of_classic_groups() {
    let mut prng = Prng::new(3);
    let protocol = |name: &str, version: i16, prng: &mut Prng| {
        let message = family("protocol").into_iter().find(|m| m.name == name).expect("a schema");
        let mut bytes = version.to_be_bytes().to_vec();
        bytes.extend(message_bytes(&message, version, Fill::Full, prng));
        bytes
    };
    let mut records = Vec::new();
    for version in 0..4 {
        let mut value = vec![0, 3, 0, 8];
        value.extend(b"consumer\0\0\0\x05\xff\xff\xff\xff");
        value.extend(NOW.to_be_bytes());
        value.extend([0, 0, 0, 1, 0, 1, b'm', 0xff, 0xff, 0, 1, b'c', 0, 1, b'h', 0, 0, 0, 9, 0, 0, 0, 8]);
        for name in ["ConsumerProtocolSubscription", "ConsumerProtocolAssignment"] {
            let bytes = protocol(name, version, &mut prng);
            value.extend((bytes.len() as i32).to_be_bytes());
            value.extend(bytes);
        }
        records.push((Some(vec![0, 2, 0, 1, b'g']), Some(value)));
    }
    let file = write_log(&folder("classic"), &records);
    compare(&file, with(Decoder::Offsets), &["--offsets-decoder"]);
}

#[test]
fn snapshots_of_the_metadata_log() {
    let mut prng = Prng::new(4);
    let control = family("control");
    let mut body = |name: &str| {
        let message = control.iter().find(|m| m.name == name).expect("a schema");
        let mut bytes = message_bytes(message, 0, Fill::Full, &mut prng);
        // The first field says which version the rest has.
        bytes[..2].copy_from_slice(&[0, 0]);
        bytes
    };
    let records = [
        (ControlRecordType::SnapshotHeader, body("SnapshotHeaderRecord")),
        (ControlRecordType::KRaftVersion, body("KRaftVersionRecord")),
        (ControlRecordType::KRaftVoters, body("VotersRecord")),
        (ControlRecordType::LeaderChange, body("LeaderChangeMessage")),
        (ControlRecordType::SnapshotFooter, body("SnapshotFooterRecord")),
    ];
    let records: Vec<_> = records.iter().map(|(kind, value)| (*kind, &value[..])).collect();
    let bytes = control_batch(0, 1, NOW, &records).expect("a batch");
    let dir = folder("snapshot");
    for name in ["bootstrap.checkpoint", "00000000000000000005-0000000002.checkpoint"] {
        let file = dir.join(name);
        std::fs::write(&file, &bytes).expect("written");
        compare(&file, with(Decoder::ClusterMetadata), &["--cluster-metadata-decoder"]);
    }
}

#[test]
fn indexes_and_producer_snapshots() {
    let dir = folder("index");
    let batches: Vec<Batch> = user_batches().iter().map(|b| Batch::parse(b).expect("a batch")).collect();
    let bytes: Bytes = batches.iter().map(|b| b.bytes.clone()).collect::<Vec<_>>().concat().into();
    std::fs::write(dir.join(LOG), &bytes).expect("written");
    let (mut offsets, mut times, mut position) = (Vec::new(), Vec::new(), 0u32);
    for batch in &batches[..6] {
        offsets.extend((batch.header.last_offset() as i32).to_be_bytes());
        offsets.extend(position.to_be_bytes());
        times.extend((batch.header.max_timestamp).to_be_bytes());
        times.extend((batch.header.last_offset() as i32).to_be_bytes());
        position += batch.bytes.len() as u32;
    }
    let mut segment = |at: u64| Batch::parse(&bytes.slice(usize::try_from(at).ok()?..)).ok();
    let mut check = |name: &str, content: &[u8]| {
        let file = dir.join(name);
        std::fs::write(&file, content).expect("written");
        let path = file.to_str().expect("UTF-8");
        let (mut out, mut findings) = (format!("Dumping {path}\n"), Findings::default());
        let index = IndexFile { file: path, bytes: content, base: 0 };
        match name.rsplit('.').next() {
            Some("index") => dump::offset_index(&index, IndexCheck::Show, &mut segment, &mut out, &mut findings),
            Some("timeindex") => {
                dump::time_index(&index, &offsets, IndexCheck::Show, &mut segment, &mut out, &mut findings);
            }
            Some("txnindex") => dump::txn_index(content, &mut out),
            _ => dump::producer_snapshot(path, content, &mut out),
        }
        assert_eq!(out, theirs(&file, &[]), "{name}");
        findings
    };
    assert!(check("00000000000000000000.index", &offsets).is_empty());
    // The fifth to the first batches have the same largest timestamp, which both find out of order.
    assert!(!check("00000000000000000000.timeindex", &times).is_empty());
    let txn =
        |n: i64| [&[0, 0][..], &n.to_be_bytes(), &n.to_be_bytes(), &(n + 5).to_be_bytes(), &n.to_be_bytes()].concat();
    check("00000000000000000000.txnindex", &[txn(1), txn(9)].concat());
    let mut entries = vec![0, 0, 0, 2];
    for (offset, transaction) in [(50i64, 44i64), (-1, -1)] {
        entries.extend([&9i64.to_be_bytes()[..], &[0, 3], &2i32.to_be_bytes(), &offset.to_be_bytes()].concat());
        entries.extend([&5i32.to_be_bytes()[..], &NOW.to_be_bytes(), &(-1i32).to_be_bytes()].concat());
        entries.extend(transaction.to_be_bytes());
    }
    let snapshot = [&[0, 1][..], &records::crc32c(&entries).to_be_bytes(), &entries].concat();
    check("00000000000000000050.snapshot", &snapshot);
}
