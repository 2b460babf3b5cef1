//! The records that every client writes, and what every other client must read of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use odradek_tests::Tool;
use serde_json::{Value, json};

/// Partitions of each topic: odd records, one of 1 MiB, and a long row with times.
pub const PARTITIONS: i32 = 3;
/// The partition of the long row.
pub const ROW: i32 = 2;
/// Records in the row: more than the smallest batches hold, few enough to be quick.
pub const ROW_RECORDS: i64 = 60;
/// An offset within the row.
pub const ROW_MIDDLE: i64 = 23;
/// A time between those of two records of the row.
pub const ROW_TIME: i64 = FIRST_TIME + 40_500;

/// Partitions of a wide topic: what one topic commonly has at most.
pub const WIDE_PARTITIONS: i32 = 500;
/// Records in each partition of a wide topic: two, so that they have an order.
const WIDE_RECORDS: i32 = 2;

/// Kinds of records that not every client has.
pub const NULL_HEADER: &str = "null header value";
pub const NULL_BOTH: &str = "null key and value";

/// Time of the first record: in the past, so that no clock can have made it.
const FIRST_TIME: i64 = 1_700_000_000_000;
/// Longer values are told by their hash.
const SHOWN_BYTES: usize = 256;

/// One record as it is written.
#[derive(Clone, Debug)]
pub struct Record {
    partition: i32,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    needs: Option<&'static str>,
}

fn odd(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> Record {
    Record {
        partition: 0,
        timestamp: FIRST_TIME,
        key: key.map(<[u8]>::to_vec),
        value: value.map(<[u8]>::to_vec),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect(),
        needs: None,
    }
}

/// All records, without those that need what a client lacks.
pub fn records(lacks: &[String]) -> Vec<Record> {
    let binary: Vec<u8> = (0..=255).collect();
    let many: Vec<(String, Option<Vec<u8>>)> = (0..40).map(|n| (format!("h{n}"), Some(vec![b'v'; n]))).collect();
    let repeated: [(&str, Option<&[u8]>); 4] =
        [("a", Some(b"1")), ("a", Some(b"2")), ("a", Some(b"1")), ("empty", Some(b""))];
    let mut all = vec![
        odd(Some(b"key"), Some(b"value"), &[]),
        odd(None, Some(b"without a key"), &[]),
        odd(Some(b"without a value"), None, &[]),
        odd(Some(b""), Some(b""), &[]),
        odd(Some(b"empty value"), Some(b""), &[]),
        odd(Some(b""), Some(b"empty key"), &[]),
        Record { needs: Some(NULL_BOTH), ..odd(None, None, &[]) },
        odd(Some(b"repeated headers"), Some(b"x"), &repeated),
        Record { needs: Some(NULL_HEADER), ..odd(Some(b"null header"), Some(b"x"), &[("n", None)]) },
        odd(Some(b"names"), Some("größe".as_bytes()), &[("größe", Some("süß".as_bytes())), ("", Some(b"no name"))]),
        odd(Some(&binary), Some(&binary), &[("binary", Some(&binary))]),
        Record { headers: many, ..odd(Some(b"many headers"), Some(b"x"), &[]) },
    ];
    for (at, record) in all.iter_mut().enumerate() {
        record.timestamp += i64::try_from(at).expect("few records");
    }
    all.push(Record { partition: 1, value: Some(text(1 << 20)), ..odd(Some(b"one MiB"), None, &[]) });
    for n in 0..ROW_RECORDS {
        // Every tenth is a little older than the one before it.
        let back = if n % 10 == 9 { 1_500 } else { 0 };
        let (key, value) = (format!("k{}", n % 7), format!("value {n}"));
        let record = odd(Some(key.as_bytes()), Some(value.as_bytes()), &[]);
        all.push(Record { partition: ROW, timestamp: FIRST_TIME + n * 1_000 - back, ..record });
    }
    all.retain(|record| record.needs.is_none_or(|need| !lacks.iter().any(|lack| lack == need)));
    all
}

/// One record of 10 MiB.
pub fn huge() -> Vec<Record> {
    vec![Record { value: Some(text(10 << 20)), ..odd(Some(b"ten MiB"), None, &[]) }]
}

/// A few records for each partition of a wide topic, each unlike any other.
pub fn wide() -> Vec<Record> {
    let places = (0..WIDE_RECORDS).flat_map(|turn| (0..WIDE_PARTITIONS).map(move |partition| (turn, partition)));
    places
        .map(|(turn, partition)| {
            let (key, value) = (format!("p{partition}"), format!("record {turn} of {partition}"));
            Record { partition, ..odd(Some(key.as_bytes()), Some(value.as_bytes()), &[]) }
        })
        .collect()
}

/// So many bytes that are neither random nor all alike.
fn text(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|n| b"odradek "[(n % 8) as usize] ^ u8::from(n.is_multiple_of(997))).collect()
}

/// The first offset of the row whose record is as old as `time` or younger: what ListOffsets answers.
pub fn row_offset_at(time: i64) -> i64 {
    let row = records(&[]).into_iter().filter(|record| record.partition == ROW);
    let at = row.map(|record| record.timestamp).position(|timestamp| timestamp >= time);
    i64::try_from(at.expect("the row reaches the time")).expect("few records")
}

/// Writes the records for an agent to produce.
pub fn write(path: &Path, records: &[Record]) {
    let mut text = String::new();
    for record in records {
        let headers: Vec<Value> =
            record.headers.iter().map(|(name, data)| json!([name, data.as_deref().map(base64)])).collect();
        let line = json!({
            "partition": record.partition, "timestamp": record.timestamp, "headers": headers,
            "key": record.key.as_deref().map(base64), "value": record.value.as_deref().map(base64),
        });
        writeln!(text, "{line}").expect("a String");
    }
    fs::write(path, text).expect("the records can be written");
}

/// The lines of one partition by offset.
pub type Lines = BTreeMap<(String, i32), Vec<Value>>;

/// What a client must read of `topic` when `records` were written to it, by partition.
pub fn expected(topic: &str, records: &[Record]) -> Lines {
    let mut lines = Lines::new();
    for record in records {
        let part = lines.entry((topic.to_owned(), record.partition)).or_default();
        let headers: Vec<Value> =
            record.headers.iter().map(|(name, data)| json!([name, data.as_deref().map(show)])).collect();
        part.push(json!({
            "topic": topic, "partition": record.partition, "offset": part.len(), "timestamp": record.timestamp,
            "headers": headers, "key": record.key.as_deref().map(show), "value": record.value.as_deref().map(show),
        }));
    }
    lines
}

/// A line as a client tells it that gives empty bytes as null.
pub fn blurred(line: &Value) -> Value {
    let blur = |value: &mut Value| {
        if value == "" {
            *value = Value::Null;
        }
    };
    let mut line = line.clone();
    blur(&mut line["key"]);
    blur(&mut line["value"]);
    line["headers"].as_array_mut().into_iter().flatten().for_each(|header| blur(&mut header[1]));
    line
}

/// What a client wrote down of what it read, by partition, in the order of reading.
pub fn read(path: &Path) -> Lines {
    let mut lines = Lines::new();
    for line in fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).lines() {
        let record: Value = serde_json::from_str(line).expect("a line of JSON");
        let partition = i32::try_from(record["partition"].as_i64().expect("a number")).expect("a partition");
        let topic = record["topic"].as_str().expect("a name").to_owned();
        lines.entry((topic, partition)).or_default().push(record);
    }
    lines
}

fn show(data: &[u8]) -> String {
    if data.len() <= SHOWN_BYTES {
        return base64(data);
    }
    let said = Tool::sh("sha256sum").input(data).run().ok().text();
    format!("sha256:{}", said.split_whitespace().next().expect("a hash"))
}

fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(data.len().div_ceil(3) * 4);
    for chunk in data.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// `count` records in turn over the partitions, for a group to share.
pub fn spread(count: usize, partitions: i32) -> Vec<Record> {
    let turn = (0..partitions).cycle().take(count).enumerate();
    turn.map(|(n, partition)| {
        let (key, value) = (format!("k{n}"), format!("value {n}"));
        Record { partition, ..odd(Some(key.as_bytes()), Some(value.as_bytes()), &[("n", Some(key.as_bytes()))]) }
    })
    .collect()
}

/// The places, as (partition, offset), of what a member of `client` read of `topic`; each record must be as it was written.
pub fn places(client: &str, topic: &str, found: &Lines, written: &[Record]) -> Vec<(i64, i64)> {
    let expected = expected(topic, written);
    let number = |record: &Value, name: &str| record[name].as_i64().expect("a number");
    let mut places = Vec::new();
    for (part, lines) in found {
        for line in lines {
            let offset = number(line, "offset");
            let at = usize::try_from(offset).expect("an offset");
            assert_eq!(*line, expected[part][at], "{client} reads {topic} as a member");
            places.push((i64::from(part.1), offset));
        }
    }
    places
}
