//! How long the validation of a batch takes: `cargo bench -p odradek-records`.

use bytes::Bytes;
use records::{BatchBuilder, Codec, RecordData, ValidationConfig, Validator, crc_of};
use std::hint::black_box;
use std::time::Instant;

const NOW: i64 = 1_700_000_000_000;
/// Bytes of all values of a batch.
const BATCH_BYTES: usize = 16 << 10;

fn batch(codec: Codec, record_bytes: usize) -> Bytes {
    let mut b = BatchBuilder::new(0).compression(codec, None).producer(1, 0, 0);
    for i in 0..BATCH_BYTES / record_bytes {
        let text = format!("{{\"id\":{},\"name\":\"item {}\",\"price\":{}}}", i * 7919, i % 13, i * i % 1009);
        let value: Vec<u8> = text.bytes().cycle().take(record_bytes).collect();
        b.append(&RecordData { timestamp: NOW + i as i64, key: None, value: Some(&value), headers: &[] });
    }
    b.build().expect("a batch")
}

/// The best of some rounds, in nanoseconds a call: what the code costs when nothing else runs.
fn measure(mut f: impl FnMut()) -> f64 {
    const ROUNDS: usize = 101;
    const CALLS: u32 = 500;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| f());
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[0]
}

fn main() {
    let config = ValidationConfig::default();
    let mut validator = Validator::new();
    println!("{:>6} {:>8} {:>8} {:>10} {:>10} {:>6}", "codec", "record", "batch", "ns/batch", "of it crc", "MB/s");
    for codec in Codec::ALL {
        for record_bytes in [1024, 100] {
            let bytes = batch(codec, record_bytes);
            let whole = measure(|| {
                black_box(validator.validate(black_box(&bytes), NOW, &config)).expect("valid");
            });
            let crc = measure(|| {
                black_box(crc_of(black_box(&bytes)));
            });
            let rate = BATCH_BYTES as f64 / whole * 1000.0;
            println!("{codec:>6} {record_bytes:>8} {:>8} {whole:>10.0} {crc:>10.0} {rate:>6.0}", bytes.len());
        }
    }
}
