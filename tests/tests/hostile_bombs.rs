//! Batches that claim few bytes and inflate to many. The broker looks into compressed batches always, and compresses them
//! anew where a topic says so; neither may cost memory or time without bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use odradek_tests::client::now_ms;
use odradek_tests::{Client, Watch};
use records::{BatchBuilder, Codec, RecordData, field};
use wire::ErrorCode;

/// Bytes that a batch may inflate to, as the broker has it.
const INFLATED_BYTES_MAX: usize = 128 << 20;
/// Growth of the resident set at any moment, KiB: on each of two cores one batch inflated, and beside it its records
/// numbered anew, to be compressed again.
const GROWTH_KIB_MAX: u64 = 2 * 2 * (INFLATED_BYTES_MAX as u64 >> 10) + 96 * 1024;

/// A batch whose records have `bytes` of zeros together, in pieces of at most `piece`.
fn zeros(codec: Codec, bytes: usize, piece: usize) -> Bytes {
    let value = vec![0; piece];
    let mut builder = BatchBuilder::new(0).compression(codec, None);
    for _ in 0..bytes / piece {
        builder.append(&RecordData { timestamp: now_ms(), key: Some(b"k"), value: Some(&value), headers: &[] });
    }
    builder.build().expect("a batch")
}

/// A batch of one record whose headers have `bytes` of zeros together.
fn headers(codec: Codec, bytes: usize, piece: usize) -> Bytes {
    let value = vec![0; piece];
    let headers = vec![("h", Some(&value[..])); bytes / piece];
    let mut builder = BatchBuilder::new(0).compression(codec, None);
    builder.append(&RecordData { timestamp: now_ms(), key: Some(b"k"), value: Some(b"v"), headers: &headers });
    builder.build().expect("a batch")
}

/// What a topic makes of compressed batches.
const TOPICS: [(&str, &[(&str, &str)]); 5] = [
    ("as-it-comes", &[]),
    ("plain", &[("compression.type", "uncompressed")]),
    ("lz4", &[("compression.type", "lz4")]),
    ("compacted", &[("cleanup.policy", "compact")]),
    ("stamped", &[("message.timestamp.type", "LogAppendTime")]),
];

#[test]
fn batches_that_inflate() {
    let mut watch = Watch::start(&[("odradek.cores", "2"), ("message.max.bytes", "33554432")]);
    for (topic, configs) in TOPICS {
        watch.client.create_topic(topic, 1, configs);
    }
    let over = INFLATED_BYTES_MAX + (8 << 20);
    let done = AtomicBool::new(false);
    let node = &watch.node;
    let highest = thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut highest = 0;
            while !done.load(Ordering::Relaxed) {
                highest = highest.max(node.rss_kib());
                thread::sleep(Duration::from_millis(5));
            }
            highest
        });
        let mut client = Client::connect(node);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let rows = [
                ("one record", zeros(codec, over, over)),
                ("records of 1 MiB", zeros(codec, over, 1 << 20)),
                ("headers of 1 MiB", headers(codec, over, 1 << 20)),
            ];
            for (what, batch) in rows {
                for (topic, _) in TOPICS {
                    let produced = client.produce(topic, 0, batch.clone());
                    let expected = [ErrorCode::INVALID_RECORD, ErrorCode::MESSAGE_TOO_LARGE];
                    assert!(expected.contains(&produced.error), "{codec} {what} to {topic}: {produced:?}");
                }
            }
            println!("{codec}: {} bytes of zeros in {} bytes are refused", over, zeros(codec, over, 1 << 20).len());
        }
        done.store(true, Ordering::Relaxed);
        sampler.join().expect("the sampler does not panic")
    });
    let grown = highest.saturating_sub(watch.rss_kib);
    println!("at most {grown} KiB more than before, allowed are {GROWTH_KIB_MAX}");
    assert!(grown <= GROWTH_KIB_MAX, "the broker grew by {grown} KiB");
    watch.check_alive("bombs");
}

#[test]
fn headers_in_compressed_batches_that_lie() {
    let mut watch = Watch::start(&[]);
    for (topic, configs) in TOPICS {
        watch.client.create_topic(topic, 1, configs);
    }
    // The fields of a record behind its size: attributes, timestamp, offset, key and value are in order, the headers are not.
    let lies: [(&str, &[u8]); 8] = [
        ("a negative count", &[0x01]),
        ("a count without headers", &[0x02]),
        ("two billion headers", &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        ("a key of no length", &[0x02, 0x01, 0x02, b'v']),
        ("a key longer than the record", &[0x02, 0x7e, b'k', 0x02, b'v']),
        ("a key of two billion bytes", &[0x02, 0xfe, 0xff, 0xff, 0xff, 0x0f, b'k']),
        ("a value longer than the record", &[0x02, 0x02, b'k', 0x7e, b'v']),
        ("bytes behind the last header", &[0x02, 0x02, b'k', 0x02, b'v', 0, 0, 0]),
    ];
    for (what, lie) in lies {
        let record = [&[0, 0, 0, 0x02, b'k', 0x02, b'v'][..], lie].concat();
        // A size in zigzag form, in one byte.
        let size = u8::try_from(record.len() * 2).expect("a small record");
        let payload = [&[size][..], &record].concat();
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let batch = with_payload(codec, &payload);
            for (topic, _) in TOPICS {
                let produced = watch.client.produce(topic, 0, batch.clone());
                assert_eq!(produced.error, ErrorCode::INVALID_RECORD, "{what}, {codec} to {topic}: {produced:?}");
            }
        }
    }
    watch.check("headers that lie");
}

/// A batch of one record whose records section, before compression, is `payload`.
fn with_payload(codec: Codec, payload: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(0).compression(codec, None);
    builder.append(&RecordData { timestamp: now_ms(), key: Some(b"k"), value: Some(b"v"), headers: &[] });
    let mut bytes = builder.build().expect("a batch")[..field::RECORDS].to_vec();
    records::compress(codec, None, payload, &mut bytes).expect("bytes that can be compressed");
    let length = i32::try_from(bytes.len() - field::LOG_OVERHEAD).expect("a small batch");
    bytes[field::BATCH_LENGTH..field::BATCH_LENGTH + 4].copy_from_slice(&length.to_be_bytes());
    let crc = records::crc_of(&bytes);
    bytes[field::CRC..field::CRC + 4].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(bytes)
}
