//! What we write, Apache Kafka reads; what it writes, we read: every codec, at several levels and sizes.

mod oracle;

use base::Prng;
use bytes::Bytes;
use oracle::{ask, hex, render, unhex};
use records::{BatchBuilder, Codec, ControlRecordType, RecordData, Scratch, TxnMarker, control_batch};

fn ours(prng: &mut Prng, codec: Codec, level: Option<i32>, count: u64) -> Bytes {
    let mut b = BatchBuilder::new(prng.below(1 << 40) as i64).compression(codec, level).leader_epoch(7);
    if prng.chance(1, 2) {
        b = b.producer(prng.below(1 << 50) as i64, 9, prng.below(1 << 31) as i32).transactional();
    }
    if prng.chance(1, 4) {
        b = b.log_append_time(1_600_000_000_000);
    }
    for i in 0..count {
        let text = format!("value {} ", prng.below(1000)).repeat(prng.below(60) as usize);
        let noise: Vec<u8> = (0..prng.below(300)).map(|_| prng.next_u64() as u8).collect();
        let name = format!("header-{}", prng.below(5));
        let headers = [(name.as_str(), Some(&noise[..])), ("empty", Some(&b""[..])), ("null", None), ("ü", None)];
        b.append(&RecordData {
            timestamp: 1_700_000_000_000 - (i * i % 1000) as i64,
            key: [None, Some(&b""[..]), Some(&noise[..])][prng.below(3) as usize],
            value: [None, Some(text.as_bytes())][prng.below(2) as usize],
            headers: &headers[..prng.below(5) as usize],
        });
    }
    b.build().expect("a batch")
}

#[test]
fn java_reads_what_we_write() {
    let mut prng = Prng::new(42);
    let mut batches = Vec::new();
    for codec in Codec::ALL {
        for level in [None, Some(1), Some(9), Some(17)] {
            for count in [1, 2, 30, 300] {
                batches.push(ours(&mut prng, codec, level, count));
            }
        }
    }
    let marker = TxnMarker { producer_id: 5, producer_epoch: 1, commit: false, coordinator_epoch: 3 };
    batches.push(marker.build(99, 4, 1_700_000_000_000).expect("a marker"));
    let header = [(ControlRecordType::SnapshotFooter, &[0u8, 0, 0][..])];
    batches.push(control_batch(0, 1, 5, &header).expect("a batch"));
    let lines: Vec<String> = batches.iter().enumerate().map(|(i, b)| format!("read #{i} {}", hex(b))).collect();
    let mut scratch = Scratch::new();
    for (i, answer) in ask("reads", &lines).iter().enumerate() {
        assert_eq!(*answer, format!("#{i} {}", render(&batches[i], &mut scratch)), "batch {i}");
    }
}

#[test]
fn we_read_what_java_writes() {
    let mut lines = Vec::new();
    for codec in Codec::ALL {
        let levels: &[i32] = match codec {
            Codec::None | Codec::Snappy => &[i32::MIN],
            Codec::Gzip => &[i32::MIN, 1, 9],
            Codec::Lz4 => &[i32::MIN, 1, 12, 17],
            Codec::Zstd => &[i32::MIN, -5, 1, 19, 22],
        };
        for level in levels {
            for count in [1, 9, 200, 900] {
                lines.push(format!("write #{} {codec} {level} {count}", lines.len()));
            }
        }
    }
    let written: Vec<String> =
        ask("writes", &lines).iter().map(|a| a.split(' ').nth(1).expect("a batch").to_owned()).collect();
    let read: Vec<String> = written.iter().enumerate().map(|(i, batch)| format!("read #{i} {batch}")).collect();
    let mut scratch = Scratch::new();
    for (i, answer) in ask("writes", &read).iter().enumerate() {
        let bytes = Bytes::from(unhex(&written[i]));
        assert_eq!(*answer, format!("#{i} {}", render(&bytes, &mut scratch)), "{}", lines[i]);
    }
}
