//! Record batches as text, and back.
//!
//! A batch is described by words and then by changes, each behind a semicolon: `n=3 ts=1000 codec=gzip; @57 i32 4; nocrc`.
//!
//! Words: `n=COUNT`, `ts=T[,T...]` (the last one goes on; sums such as `1000-5` are allowed), `key=TEXT`, `value=TEXT`
//! (`null`; `TEXT*N` repeats), `headers=COUNT`, `codec=NAME`, `pid=`, `epoch=`, `seq=`, `base=`, and the flags `txn` and
//! `control`.
//! Changes: `@AT TYPE NUMBER` writes into the finished batch, `#AT TYPE NUMBER` into the records before they are compressed
//! (types `i8 i16 i32 i64`, or `hex BYTES`); `tail HEX` adds bytes to the records before they are compressed; `payload HEX`
//! replaces the records, compressed or not; `add HEX` and `cut N` change the end of the batch; `len` sets the length to what
//! it is; `nocrc` leaves the checksum as it was before the changes.
//! Batches are joined by `+`. `empty` is no byte at all, `hex BYTES` is what it says.

use bytes::Bytes;
use records::{BatchBuilder, BatchHeader, BatchIter, Codec, RecordData, Scratch, crc_of, field};
use serde_json::{Value, json};

use super::text;

/// The bytes that `spec` describes.
///
/// # Panics
/// If it describes nothing.
pub fn build(spec: &str) -> Vec<u8> {
    spec.split(" + ").flat_map(|one| one_batch(one.trim())).collect()
}

fn one_batch(spec: &str) -> Vec<u8> {
    if spec == "empty" {
        return Vec::new();
    }
    if let Some(hex) = spec.strip_prefix("hex ") {
        return text::unhex(hex);
    }
    let mut parts = spec.split(';').map(str::trim);
    let (builder, codec) = words(parts.next().unwrap_or_default());
    let changes: Vec<Vec<&str>> = parts.map(|part| part.split_whitespace().collect()).collect();
    let mut batch = builder.build().expect("a batch").to_vec();
    let mut inner = batch.split_off(field::RECORDS);
    let mut payload = None;
    for change in &changes {
        match change[..] {
            [at, ty, value] if at.starts_with('#') => write(&mut inner, at, ty, value),
            ["tail", hex] => inner.extend(text::unhex(hex)),
            ["payload", hex] => payload = Some(text::unhex(hex)),
            ["payload"] => payload = Some(Vec::new()),
            _ => {}
        }
    }
    let mut records = Vec::new();
    match payload {
        Some(payload) => records = payload,
        None => records::compress(codec, None, &inner, &mut records).expect("can be compressed"),
    }
    batch.extend(records);
    batch[22] |= codec.id();
    set_length(&mut batch);
    set_crc(&mut batch);
    for change in &changes {
        match change[..] {
            [at, ty, value] if at.starts_with('@') => write(&mut batch, at, ty, value),
            ["add", hex] => batch.extend(text::unhex(hex)),
            ["cut", n] => batch.truncate(batch.len() - n.parse::<usize>().expect("a number")),
            ["len"] => set_length(&mut batch),
            ["nocrc" | "payload"] | ["tail" | "payload", _] => {}
            [at, _, _] if at.starts_with('#') => {}
            _ => panic!("unknown change {change:?}"),
        }
    }
    if !changes.iter().any(|change| change[0] == "nocrc") && batch.len() > 61 {
        set_crc(&mut batch);
    }
    batch
}

fn set_length(batch: &mut [u8]) {
    let length = (batch.len() - 12) as u32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
}

fn set_crc(batch: &mut [u8]) {
    let crc = crc_of(batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn write(bytes: &mut [u8], at: &str, ty: &str, value: &str) {
    let at: usize = at[1..].parse().expect("a position");
    let new = match ty {
        "i8" => (sum(value) as i8).to_be_bytes().to_vec(),
        "i16" => (sum(value) as i16).to_be_bytes().to_vec(),
        "i32" => (sum(value) as i32).to_be_bytes().to_vec(),
        "i64" => sum(value).to_be_bytes().to_vec(),
        "hex" => text::unhex(value),
        _ => panic!("unknown type {ty}"),
    };
    bytes[at..at + new.len()].copy_from_slice(&new);
}

/// A number, or a sum of two.
fn sum(value: &str) -> i64 {
    let number = |text: &str| text.parse::<i64>().unwrap_or_else(|_| panic!("{value} is no number"));
    match value[1..].find(['+', '-']) {
        None => number(value),
        Some(at) => number(&value[..=at]) + number(value[at + 1..].trim_start_matches('+')),
    }
}

fn words(text: &str) -> (BatchBuilder, Codec) {
    let (mut n, mut times, mut key, mut value, mut headers) = (1usize, vec![0i64], some("k"), some("v"), 0usize);
    let (mut codec, mut pid, mut epoch, mut seq, mut base) = (Codec::None, -1i64, -1i16, -1i32, 0i64);
    let (mut txn, mut control) = (false, false);
    for word in text.split_whitespace() {
        let (name, what) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "n" => n = what.parse().expect("a count"),
            "ts" => times = what.split(',').map(sum).collect(),
            "key" => key = some(what),
            "value" => value = some(what),
            "headers" => headers = what.parse().expect("a count"),
            "codec" => codec = Codec::from_name(what).unwrap_or_else(|| panic!("no codec {what}")),
            "pid" => pid = what.parse().expect("a producer id"),
            "epoch" => epoch = what.parse().expect("an epoch"),
            "seq" => seq = what.parse().expect("a sequence"),
            "base" => base = what.parse().expect("an offset"),
            "txn" => txn = true,
            "control" => control = true,
            _ => panic!("unknown word {word} in {text}"),
        }
    }
    let mut builder = BatchBuilder::new(base);
    if pid >= 0 {
        builder = builder.producer(pid, epoch, seq);
    }
    if txn {
        builder = builder.transactional();
    }
    if control {
        builder = builder.control();
    }
    let headers = vec![("h", Some(&b"1"[..])); headers];
    for i in 0..n {
        let timestamp = times[i.min(times.len() - 1)];
        builder.append(&RecordData { timestamp, key: key.as_deref(), value: value.as_deref(), headers: &headers });
    }
    (builder, codec)
}

fn some(text: &str) -> Option<Vec<u8>> {
    if text == "null" {
        return None;
    }
    match text.split_once('*') {
        Some((part, n)) => Some(part.repeat(n.parse().expect("a number of repetitions")).into_bytes()),
        None => Some(text.as_bytes().to_vec()),
    }
}

/// The most bytes that a dumped batch may decompress to.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;

/// The whole batches of a fetch answer. Apache Kafka cuts the last batch where the limit falls and Odradek leaves it out;
/// clients must ignore it, so it is not shown. A compressed batch is shown by its records, because the broker may have
/// compressed it.
pub fn dump(bytes: &[u8]) -> Value {
    let mut batches = Vec::new();
    let mut scratch = Scratch::new();
    for batch in BatchIter::new(Bytes::copy_from_slice(bytes)) {
        let Ok(batch) = batch else { break };
        let header: BatchHeader = batch.header;
        let is_append_time = header.attributes.0 & 8 != 0;
        let max_timestamp = if is_append_time { json!("time") } else { json!(header.max_timestamp) };
        let mut records = Vec::new();
        match batch.records(&mut scratch, DECOMPRESSED_BYTES_MAX) {
            Ok(iter) => records.extend(iter.map(|record| match record {
                Ok(record) => {
                    format!("{}:{}", text::hex(record.key.unwrap_or(b"-")), short(record.value.unwrap_or(b"-")))
                }
                Err(error) => error.to_string(),
            })),
            Err(error) => records.push(error.to_string()),
        }
        batches.push(json!({
            "base": header.base_offset, "epoch": header.leader_epoch, "attributes": header.attributes.0,
            "last_delta": header.last_offset_delta, "first_timestamp": header.base_timestamp,
            "max_timestamp": max_timestamp, "pid": header.producer_id, "producer_epoch": header.producer_epoch,
            "sequence": header.base_sequence, "count": header.record_count, "records": records,
            "crc_fits": crc_of(&bytes[..header.size()]) == header.crc || batch.verify_crc().is_ok(),
        }));
    }
    Value::Array(batches)
}

fn short(bytes: &[u8]) -> String {
    if bytes.len() > 32 { format!("{} bytes", bytes.len()) } else { text::hex(bytes) }
}
