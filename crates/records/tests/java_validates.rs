//! What Apache Kafka's produce path says of good, bad and mutated batches, and what it stores, is what we say and store.

mod oracle;

use base::Prng;
use bytes::Bytes;
use oracle::{ask, hex, unhex};
use records::{
    BatchBuilder, Codec, RecordData, RecordError, RecordErrorKind, Scratch, TargetCompression, TimestampType,
    ValidatedBatch, ValidationConfig, Validator, check_produce, crc_of, field, stamp,
};

const NOW: i64 = 1_700_000_000_000;

/// A topic configuration, in Kafka's words and in ours.
struct Setup {
    kafka: &'static str,
    ours: ValidationConfig,
}

fn setups() -> Vec<Setup> {
    let base = || ValidationConfig { topic_partition: "foo-0".into(), ..ValidationConfig::default() };
    let codec = |codec| TargetCompression::Codec { codec, level: None };
    let mut setups = vec![
        Setup { kafka: "config compression.type=producer", ours: base() },
        Setup { kafka: "config cleanup.policy=compact", ours: ValidationConfig { compacted: true, ..base() } },
        Setup {
            kafka: "config message.timestamp.type=LogAppendTime",
            ours: ValidationConfig { timestamp_type: TimestampType::LogAppendTime, ..base() },
        },
        Setup {
            kafka: "config message.timestamp.before.max.ms=1000 message.timestamp.after.max.ms=50",
            ours: ValidationConfig { timestamp_before_max_ms: 1000, timestamp_after_max_ms: 50, ..base() },
        },
        Setup {
            kafka: "config max.message.bytes=300 max.decompressed.message.bytes=90",
            ours: ValidationConfig { batch_bytes_max: 300, record_bytes_max: 90, ..base() },
        },
        Setup {
            kafka: "config cleanup.policy=compact message.timestamp.type=LogAppendTime compression.type=lz4",
            ours: ValidationConfig {
                compacted: true,
                timestamp_type: TimestampType::LogAppendTime,
                compression: codec(Codec::Lz4),
                ..base()
            },
        },
    ];
    for (kafka, target) in [
        ("config compression.type=uncompressed", Codec::None),
        ("config compression.type=gzip", Codec::Gzip),
        ("config compression.type=snappy", Codec::Snappy),
        ("config compression.type=lz4", Codec::Lz4),
        ("config compression.type=zstd", Codec::Zstd),
    ] {
        setups.push(Setup { kafka, ours: ValidationConfig { compression: codec(target), ..base() } });
    }
    setups
}

fn builder(codec: Codec) -> BatchBuilder {
    BatchBuilder::new(0).compression(codec, None)
}

fn batch(codec: Codec, timestamps: &[i64]) -> Vec<u8> {
    let mut b = builder(codec);
    for (i, &timestamp) in timestamps.iter().enumerate() {
        let value = format!("value {i} and {i} again");
        let headers: &[(&str, Option<&[u8]>)] = &[("a", None), ("b", Some(b"x"))];
        b.append(&RecordData {
            timestamp,
            key: (i % 2 == 0).then_some(b"key"),
            value: Some(value.as_bytes()),
            headers: &headers[..i % 3],
        });
    }
    b.build().expect("a batch").to_vec()
}

fn keyed(codec: Codec, count: usize) -> Vec<u8> {
    let mut b = builder(codec);
    for i in 0..count {
        let key = i.to_string();
        b.append(&RecordData { timestamp: NOW - i as i64, key: Some(key.as_bytes()), ..RecordData::default() });
    }
    b.build().expect("a batch").to_vec()
}

fn fix_crc(bytes: &mut [u8]) {
    if bytes.len() >= field::RECORDS {
        let crc = crc_of(bytes);
        bytes[field::CRC..field::CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }
}

fn patched(mut bytes: Vec<u8>, at: usize, patch: &[u8]) -> Vec<u8> {
    bytes[at..at + patch.len()].copy_from_slice(patch);
    fix_crc(&mut bytes);
    bytes
}

/// Named batches whose fate is worth knowing.
fn table() -> Vec<(String, Vec<u8>)> {
    let mut cases: Vec<(String, Vec<u8>)> = Vec::new();
    for codec in Codec::ALL {
        let mut add = |name: &str, bytes: Vec<u8>| cases.push((format!("{codec}: {name}"), bytes));
        let good = batch(codec, &[NOW - 3, NOW - 1, NOW - 2]);
        add("good", good.clone());
        add("keyed", keyed(codec, 5));
        add("many", keyed(codec, 400));
        add("no timestamps", batch(codec, &[-1, -1]));
        add("old and new", batch(codec, &[0, NOW, NOW + 51, NOW - 1001, NOW + 3_600_001, -1]));
        add("extreme", batch(codec, &[i64::MAX, 5]));
        add("base offset 5", patched(good.clone(), field::BASE_OFFSET, &5i64.to_be_bytes()));
        add("leader epoch", patched(good.clone(), field::LEADER_EPOCH, &77i32.to_be_bytes()));
        for count in [-1i32, 0, 2, 4, i32::MAX] {
            let bytes = patched(good.clone(), field::RECORD_COUNT, &count.to_be_bytes());
            add(&format!("count {count}"), bytes.clone());
            let delta = count.wrapping_sub(1).to_be_bytes();
            add(&format!("count {count} and delta"), patched(bytes, field::LAST_OFFSET_DELTA, &delta));
        }
        for delta in [i32::MIN, -1, 0, 1, 3, i32::MAX] {
            let bytes = patched(good.clone(), field::LAST_OFFSET_DELTA, &delta.to_be_bytes());
            add(&format!("last offset delta {delta}"), bytes);
        }
        for length in [-1i32, 0, 13, 14, 30, 48, 49, good.len() as i32 - 13, good.len() as i32 - 11, i32::MAX] {
            let bytes = patched(good.clone(), field::BATCH_LENGTH, &length.to_be_bytes());
            add(&format!("length {length}"), bytes);
        }
        for magic in [-1i8, 0, 1, 3] {
            add(&format!("magic {magic}"), patched(good.clone(), field::MAGIC, &[magic as u8]));
        }
        let bits = i16::from(codec.id());
        for (name, flag) in
            [("control", 0x20), ("transactional", 0x10), ("append time", 8), ("horizon", 0x40), ("reserved", 0x80)]
        {
            add(name, patched(good.clone(), field::ATTRIBUTES, &(bits | flag).to_be_bytes()));
        }
        let wrong_max = patched(good.clone(), field::MAX_TIMESTAMP, &(NOW + 9).to_be_bytes());
        add("wrong max timestamp", wrong_max);
        let both = patched(good.clone(), field::ATTRIBUTES, &(bits | 0x80 | 8).to_be_bytes());
        add("append time, reserved, max -1", patched(both, field::MAX_TIMESTAMP, &(-1i64).to_be_bytes()));
        add("wrong codec", patched(good.clone(), field::ATTRIBUTES, &((bits + 1) % 5).to_be_bytes()));
        add("unknown codec", patched(good.clone(), field::ATTRIBUTES, &6i16.to_be_bytes()));
        add("producer, no sequence", patched(good.clone(), field::PRODUCER_ID, &9i64.to_be_bytes()));
        let mut damaged = good.clone();
        *damaged.last_mut().expect("not empty") ^= 0x40;
        add("damaged", damaged);
        add("twice", [&good[..], &good[..]].concat());
        add("and a half", [&good[..], &good[..20]].concat());
        add("and 11 bytes", [&good[..], &[0; 11]].concat());
        add("and zeroes", [&good[..], &[0; 40]].concat());
        add("half", good[..good.len() / 2].to_vec());
        add("header only", good[..field::RECORDS].to_vec());
        add("16 bytes", good[..16].to_vec());
        add("nothing", Vec::new());
    }
    for (name, body) in raw_records() {
        for codec in Codec::ALL {
            cases.push((format!("{codec}: raw {name}"), raw_batch(codec, &body)));
        }
    }
    cases
}

/// Record bytes no builder would make; each stands for two records.
fn raw_records() -> Vec<(&'static str, Vec<u8>)> {
    let good: &[u8] = &[0x0c, 0, 0, 0, 0x01, 0x01, 0x00];
    let second: &[u8] = &[0x0c, 0, 0, 2, 0x01, 0x01, 0x00];
    let with = |tail: &[u8]| [good, tail].concat();
    vec![
        ("good", with(second)),
        ("offset delta 5", with(&[0x0c, 0, 0, 10, 0x01, 0x01, 0x00])),
        ("offset delta -1", with(&[0x0c, 0, 0, 1, 0x01, 0x01, 0x00])),
        ("offset delta 0", with(good)),
        ("attributes", with(&[0x0c, 0x7f, 0, 2, 0x01, 0x01, 0x00])),
        ("size too small", with(&[0x0a, 0, 0, 2, 0x01, 0x01, 0x00])),
        ("size too large", with(&[0x0e, 0, 0, 2, 0x01, 0x01, 0x00])),
        ("size larger, content follows", with(&[0x0e, 0, 0, 2, 0x01, 0x01, 0x00, 0])),
        ("size 0", with(&[0x00])),
        ("size negative", with(&[0x01])),
        ("size huge", with(&[0xfe, 0xff, 0xff, 0xff, 0x0f])),
        ("size of six bytes", with(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00])),
        ("size not minimal", with(&[0x8c, 0x00, 0, 0, 2, 0x01, 0x01, 0x00])),
        ("key too long", with(&[0x0c, 0, 0, 2, 0x7e, 0x01, 0x00])),
        ("key length -3", with(&[0x0c, 0, 0, 2, 0x05, 0x01, 0x00])),
        ("value too long", with(&[0x0c, 0, 0, 2, 0x01, 0x7e, 0x00])),
        ("headers negative", with(&[0x0c, 0, 0, 2, 0x01, 0x01, 0x01])),
        ("headers too many", with(&[0x0c, 0, 0, 2, 0x01, 0x01, 0x7e])),
        ("header key negative", with(&[0x10, 0, 0, 2, 0x01, 0x01, 0x02, 0x01, 0x01])),
        ("header key not UTF-8", with(&[0x14, 0, 0, 2, 0x01, 0x01, 0x02, 0x04, 0xff, 0xfe, 0x01])),
        ("trailing byte", [good, second, &[0]].concat()),
        ("one record", good.to_vec()),
        ("three records", [good, second, second].concat()),
        ("nothing", Vec::new()),
    ]
}

fn raw_batch(codec: Codec, body: &[u8]) -> Vec<u8> {
    let mut bytes = keyed(codec, 2)[..field::RECORDS].to_vec();
    records::compress(codec, None, body, &mut bytes).expect("compresses");
    let length = (bytes.len() - field::LOG_OVERHEAD) as i32;
    patched(bytes, field::BATCH_LENGTH, &length.to_be_bytes())
}

/// What we do with a produce request's records.
fn ours(validator: &mut Validator, bytes: &Bytes, config: &ValidationConfig) -> Result<ValidatedBatch, RecordError> {
    check_produce(9, bytes)?;
    validator.validate(bytes, NOW, config)
}

/// The oracle's answer to `append`, taken apart.
#[derive(Debug)]
enum Theirs {
    Ok { base: i64, max_timestamp: i64, stored: Bytes },
    Error { name: String, record_errors: Vec<(i32, String)>, message: String },
}

fn theirs(answer: &str) -> Theirs {
    let text = |hex: &str| String::from_utf8(unhex(hex)).expect("UTF-8");
    let words: Vec<&str> = answer.split(' ').filter(|w| !w.is_empty()).skip(1).collect();
    if words[0] == "ok" {
        let number = |w: &str| w.parse().expect("a number");
        let stored = Bytes::from(unhex(words[3]));
        return Theirs::Ok { base: number(words[1]), max_timestamp: number(words[2]), stored };
    }
    let (message, errors) = words[2..].split_last().expect("a message");
    let record_errors = errors.iter().map(|e| {
        let (index, hex) = e.split_once('=').expect("index=text");
        (index.parse().expect("a number"), text(hex))
    });
    Theirs::Error { name: words[1].to_owned(), record_errors: record_errors.collect(), message: text(message) }
}

fn kind_name(kind: RecordErrorKind) -> &'static str {
    match kind {
        RecordErrorKind::CorruptMessage => "CORRUPT_MESSAGE",
        RecordErrorKind::MessageTooLarge => "MESSAGE_TOO_LARGE",
        RecordErrorKind::InvalidTimestamp => "INVALID_TIMESTAMP",
        RecordErrorKind::UnsupportedForMessageFormat => "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        RecordErrorKind::UnsupportedCompressionType => "UNSUPPORTED_COMPRESSION_TYPE",
        RecordErrorKind::InvalidRecord => "INVALID_RECORD",
    }
}

/// A rendered batch without the fourth field of its records.
fn without_sizes(rendered: &str) -> String {
    let record =
        |r: &str| r.splitn(5, ',').enumerate().filter(|f| f.0 != 3).map(|f| f.1.to_owned()).collect::<Vec<_>>();
    rendered.split(" | ").map(|r| record(r).join(",")).collect::<Vec<_>>().join(" | ")
}

/// Why the two differ, or nothing.
fn difference(ours: &Result<ValidatedBatch, RecordError>, theirs: &Theirs, scratch: &mut Scratch) -> Option<String> {
    match (ours, theirs) {
        (Ok(ours), Theirs::Ok { base, max_timestamp, stored }) => {
            let mut bytes = ours.bytes.to_vec();
            stamp(&mut bytes, *base, 0);
            if ours.max_timestamp != *max_timestamp {
                return Some(format!("max timestamp {} {max_timestamp}", ours.max_timestamp));
            }
            if bytes == *stored {
                return None;
            }
            // Compressors differ; what they compress must not. Kafka writes records anew when it converts a batch, with
            // the shortest lengths and in proper UTF-8, where we keep their bytes; so sizes are not compared.
            let (a, b) = (oracle::render(&Bytes::from(bytes), scratch), oracle::render(stored, scratch));
            (!ours.rewritten || without_sizes(&a) != without_sizes(&b)).then(|| format!("stored:\n  {a}\n  {b}"))
        }
        // Kafka trips over these; we refuse them.
        (Err(_), Theirs::Error { name, .. }) if name == "UNKNOWN_SERVER_ERROR" => None,
        (Err(ours), Theirs::Error { name, record_errors, message }) => {
            if kind_name(ours.kind) != name || ours.record_errors != *record_errors {
                return Some("other errors".to_owned());
            }
            (!record_errors.is_empty() && ours.message != *message).then(|| "other message".to_owned())
        }
        _ => Some("one accepts, one refuses".to_owned()),
    }
}

/// Where we refuse what Kafka stores, or goes on to find other faults in: sizes that lie inside a compressed batch that is
/// not converted, and LZ4 copies from no distance, of which its C decoder makes something.
fn is_stricter_on_purpose(batch: &[u8], ours: &Result<ValidatedBatch, RecordError>) -> bool {
    let compressed = batch.get(field::ATTRIBUTES + 1).is_some_and(|bits| bits & 7 != 0);
    let lies = ["exceeds its content", "exceeds the record", "cut off or too long", "end too early", "than bytes"];
    let Err(error) = ours else { return false };
    let lies = lies.iter().any(|text| error.message.contains(text)) || error.message.contains("valid match offset");
    compressed && error.kind == RecordErrorKind::InvalidRecord && lies
}

fn compare(name: &str, setups: &[Setup], cases: &[(String, Vec<u8>)]) {
    let mut lines = Vec::new();
    for setup in setups {
        lines.push(setup.kafka.to_owned());
        lines.extend(cases.iter().enumerate().map(|(i, (_, bytes))| format!("append #{i} 9 {}", hex(bytes))));
    }
    let answers = ask(name, &lines);
    let (mut validator, mut scratch) = (Validator::new(), Scratch::new());
    let (mut differences, mut stricter, mut accepted) = (Vec::new(), 0, 0);
    for (setup, answers) in setups.iter().zip(answers.chunks(cases.len())) {
        for ((case, bytes), answer) in cases.iter().zip(answers) {
            let ours = ours(&mut validator, &Bytes::copy_from_slice(bytes), &setup.ours);
            let theirs = theirs(answer);
            accepted += usize::from(ours.is_ok());
            if let Some(difference) = difference(&ours, &theirs, &mut scratch) {
                if is_stricter_on_purpose(bytes, &ours) {
                    stricter += 1;
                    continue;
                }
                let (ours, theirs) = (format!("{ours:.200?}"), format!("{theirs:.200?}"));
                differences.push(format!("{} / {case}: {difference}\n  {ours}\n  {theirs}", setup.kafka));
            }
        }
    }
    let shown: Vec<_> = differences.iter().take(20).map(String::as_str).collect();
    assert!(differences.is_empty(), "{} differences, among them\n{}", differences.len(), shown.join("\n"));
    assert!(accepted > 0, "nothing was accepted: the cases prove nothing");
    assert!(stricter * 20 < answers.len(), "{stricter} of {} refused on purpose", answers.len());
}

#[test]
fn the_table() {
    compare("table", &setups(), &table());
}

#[test]
fn mutated_batches() {
    let mut prng = Prng::new(20_26);
    let mut cases = Vec::new();
    for codec in Codec::ALL {
        let good = batch(codec, &[NOW, NOW - 5, NOW + 7, NOW, NOW, NOW - 500]);
        for i in 0..250 {
            let mut bytes = good.clone();
            for _ in 0..=prng.below(2) {
                // Not the producer's fields: what they lead to is the producer state's business.
                let spared = field::PRODUCER_ID..field::RECORD_COUNT;
                let at = prng.below(bytes.len() as u64) as usize;
                if !spared.contains(&at) && !(field::BATCH_LENGTH..field::LEADER_EPOCH).contains(&at) {
                    bytes[at] = [prng.next_u64() as u8, bytes[at] ^ (1 << prng.below(8))][prng.below(2) as usize];
                }
            }
            fix_crc(&mut bytes);
            cases.push((format!("{codec} mutation {i}"), bytes));
        }
    }
    compare("mutated", &setups()[..8], &cases);
}
