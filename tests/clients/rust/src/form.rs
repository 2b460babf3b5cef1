//! The form in which records are told: one JSON object a line, as ../../README.md says.

use std::collections::HashMap;
use std::fs;
use std::io::Write;

use base64::prelude::{BASE64_STANDARD, Engine};
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Values longer than this are told by their hash, so that answers stay readable.
const SHOWN_BYTES: usize = 256;

/// What a command gives, or the text of its error.
pub type Said = Result<Value, Box<dyn std::error::Error>>;

/// A record to be produced.
pub struct Record {
    pub partition: i32,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// The text of a field that must be there.
pub fn text<'a>(ask: &'a Value, name: &str) -> &'a str {
    ask[name].as_str().unwrap_or_else(|| panic!("no {name}"))
}

/// The number of a field that must be there.
pub fn number(ask: &Value, name: &str) -> i64 {
    ask[name].as_i64().unwrap_or_else(|| panic!("no {name}"))
}

/// A partition's number.
pub fn partition(ask: &Value) -> i32 {
    number(ask, "partition").try_into().expect("a partition")
}

fn show(data: Option<&[u8]>) -> Value {
    match data {
        None => Value::Null,
        Some(data) if data.len() <= SHOWN_BYTES => BASE64_STANDARD.encode(data).into(),
        Some(data) => {
            let hex: String = Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{hex}").into()
        }
    }
}

fn unshow(text: &Value) -> Option<Vec<u8>> {
    text.as_str().map(|text| BASE64_STANDARD.decode(text).expect("base64"))
}

/// The records of a file.
pub fn read_records(path: &str) -> Vec<Record> {
    let text = fs::read_to_string(path).expect("the records can be read");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines
        .map(|line| Record {
            partition: partition(&line),
            timestamp: number(&line, "timestamp"),
            key: unshow(&line["key"]),
            value: unshow(&line["value"]),
            headers: line["headers"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|pair| (pair[0].as_str().expect("a name").to_owned(), unshow(&pair[1])))
                .collect(),
        })
        .collect()
}

/// Writes what was read.
pub fn write_records(path: &str, records: &[Value]) -> Said {
    let mut out = std::io::BufWriter::new(fs::File::create(path)?);
    for record in records {
        writeln!(out, "{record}")?;
    }
    out.flush()?;
    Ok(json!({ "records": records.len() }))
}

/// One message as the test reads it.
pub fn told(message: &BorrowedMessage) -> Value {
    let headers: Vec<Value> = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter().map(|header| json!([header.key, show(header.value)])).collect::<Vec<_>>())
        .collect();
    json!({
        "topic": message.topic(), "partition": message.partition(), "offset": message.offset(),
        "timestamp": message.timestamp().to_millis(), "headers": headers,
        "key": show(message.key()), "value": show(message.payload()),
    })
}

/// What an assigned read still has to see: partitions, each up to its end offset.
pub struct Missing {
    ends: HashMap<(String, i32), i64>,
    /// What was seen.
    pub records: Vec<Value>,
}

impl Missing {
    /// All of the parts of a `consume`.
    pub fn of(parts: &[Value]) -> Missing {
        let ends = parts.iter().map(|part| ((text(part, "topic").to_owned(), partition(part)), number(part, "end")));
        Missing { ends: ends.collect(), records: Vec::new() }
    }

    /// Keeps a record that lies before its partition's end.
    pub fn take(&mut self, message: &BorrowedMessage) {
        let name = (message.topic().to_owned(), message.partition());
        let Some(end) = self.ends.get(&name).copied().filter(|end| message.offset() < *end) else { return };
        self.records.push(told(message));
        if message.offset() == end - 1 {
            self.ends.remove(&name);
        }
    }

    /// True when every partition was read to its end.
    pub fn done(&self) -> bool {
        self.ends.is_empty()
    }
}
