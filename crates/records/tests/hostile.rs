//! Mutated and cut-off batches through every reader: nothing panics, nothing loops, nothing grows past its bound.

use allocation_counter::measure;
use base::Prng;
use bytes::Bytes;
use records::{
    Batch, BatchBuilder, BatchHeader, BatchIter, Codec, ControlRecordType, EndTxnMarker, RecordData, Scratch,
    TargetCompression, ValidationConfig, Validator, check_produce, crc_of, field,
};

const NOW: i64 = 1_700_000_000_000;
/// Decompressed bytes allowed here: far more than any sample has.
const LIMIT: usize = 256 << 10;
/// A window of 64 KiB, the largest block of LZ4 and what vectors round up to.
const HELD_BYTES_MAX: usize = (64 << 10) + 2 * (4 << 20) + 2 * LIMIT + (64 << 10);

fn sample(prng: &mut Prng, codec: Codec) -> Vec<u8> {
    let mut b = BatchBuilder::new(0).compression(codec, None).producer(1, 2, i32::MAX - 2);
    for i in 0..1 + prng.below(40) {
        let value = format!("{i} ").repeat(prng.below(100) as usize);
        let headers: &[(&str, Option<&[u8]>)] = &[("x", Some(b"1")), ("y", None)];
        b.append(&RecordData {
            timestamp: NOW - prng.below(1000) as i64,
            key: prng.chance(2, 3).then_some(b"key"),
            value: prng.chance(4, 5).then_some(value.as_bytes()),
            headers: &headers[..prng.below(3) as usize],
        });
    }
    b.build().expect("a batch").to_vec()
}

fn mutate(prng: &mut Prng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + prng.below(3) {
        let at = prng.below(bytes.len() as u64) as usize;
        match prng.below(4) {
            0 => bytes[at] ^= 1 << prng.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][prng.below(5) as usize],
            2 => {
                let end = (at + 4).min(bytes.len());
                let lie = [0, -1, i32::MAX, i32::MIN, prng.next_u64() as i32][prng.below(5) as usize];
                bytes[at..end].copy_from_slice(&lie.to_be_bytes()[..end - at]);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    if bytes.len() >= field::RECORDS && prng.chance(9, 10) {
        let crc = crc_of(bytes);
        bytes[field::CRC..field::CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }
}

fn read_everything(bytes: &Bytes, scratch: &mut Scratch) {
    let _ = BatchHeader::parse(bytes).map(|h| (h.size(), h.last_offset(), h.next_offset(), h.last_sequence()));
    let _ = check_produce(9, bytes);
    let mut iter = BatchIter::new(bytes.clone());
    for batch in iter.by_ref().flatten() {
        read_batch(&batch, scratch);
    }
    assert!(iter.position() <= bytes.len());
}

fn read_batch(batch: &Batch, scratch: &mut Scratch) {
    let _ = batch.verify_crc();
    let mut seen = 0;
    if let Ok(records) = batch.records(scratch, LIMIT) {
        for record in records.flatten() {
            let _ = ControlRecordType::parse(record.key.unwrap_or_default());
            let _ = EndTxnMarker::parse(record.value.unwrap_or_default());
            assert_eq!(record.headers.iter().count(), record.headers.len());
            seen += record.size;
        }
    }
    assert!(seen <= LIMIT, "{seen}");
    let _ = batch.find_timestamp(NOW - 300, 3, scratch, LIMIT);
    let _ = batch.max_timestamp_record(scratch, LIMIT);
    assert!(scratch.held_bytes() <= HELD_BYTES_MAX, "{}", scratch.held_bytes());
}

#[test]
fn mutated_batches_do_no_harm() {
    let configs: Vec<ValidationConfig> = [TargetCompression::Producer]
        .into_iter()
        .chain(Codec::ALL.map(|codec| TargetCompression::Codec { codec, level: None }))
        .map(|compression| ValidationConfig { compression, decompressed_bytes_max: LIMIT, ..Default::default() })
        .collect();
    let (mut scratch, mut validator) = (Scratch::new(), Validator::new());
    for seed in 0..6000 {
        let mut prng = Prng::new(seed);
        let codec = Codec::ALL[prng.below(5) as usize];
        let mut bytes = sample(&mut prng, codec);
        mutate(&mut prng, &mut bytes);
        let bytes = Bytes::from(bytes);
        read_everything(&bytes, &mut scratch);
        let config = &configs[prng.below(configs.len() as u64) as usize];
        let mut outcome = None;
        let taken = measure(|| outcome = Some(validator.validate(&bytes, NOW, config)));
        assert!(taken.bytes_max <= HELD_BYTES_MAX as u64, "seed {seed}: {}", taken.bytes_max);
        if let Some(Ok(valid)) = outcome {
            let stored = Batch::parse(&valid.bytes).expect("what is accepted is a batch");
            assert_eq!(stored.header, valid.header, "seed {seed}");
            stored.verify_crc().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let records = stored.records(&mut scratch, LIMIT).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let read = records.filter(|r| r.as_ref().is_ok_and(|r| r.size > 0)).count();
            assert_eq!(read as i32, stored.header.record_count, "seed {seed}");
        }
        assert!(validator.held_bytes() <= HELD_BYTES_MAX, "seed {seed}: {}", validator.held_bytes());
    }
}

#[test]
fn noise_is_no_batch() {
    let mut scratch = Scratch::new();
    for seed in 0..3000 {
        let mut prng = Prng::new(seed);
        let mut bytes: Vec<u8> = (0..prng.below(200)).map(|_| prng.next_u64() as u8).collect();
        if bytes.len() > field::MAGIC && prng.chance(3, 4) {
            bytes[field::MAGIC] = 2;
            let length = (bytes.len() - field::LOG_OVERHEAD) as i32;
            bytes[field::BATCH_LENGTH..field::LEADER_EPOCH].copy_from_slice(&length.to_be_bytes());
        }
        read_everything(&Bytes::from(bytes), &mut scratch);
    }
}

/// What is produced all day is looked at without allocating: the count does not depend on the number of records.
#[test]
fn good_batches_cost_no_allocation_per_record() {
    let mut validator = Validator::new();
    let config = ValidationConfig::default();
    for codec in Codec::ALL {
        let mut allocations = Vec::new();
        // The first one warms the validator's tables up.
        for records in [500, 1, 500] {
            let mut b = BatchBuilder::new(0).compression(codec, None);
            for i in 0..records {
                let headers: &[(&str, Option<&[u8]>)] = &[("x", Some(b"1"))];
                b.append(&RecordData { timestamp: NOW + i, key: Some(b"k"), value: Some(&[1; 90]), headers });
            }
            let bytes = b.build().expect("a batch");
            let taken = measure(|| assert!(validator.validate(&bytes, NOW, &config).is_ok()));
            allocations.push(taken.count_total);
        }
        assert_eq!(allocations[1], allocations[2], "{codec}: {allocations:?}");
        assert!(allocations[2] <= 3, "{codec}: {allocations:?}");
    }
}

/// A megabyte that stands for gigabytes is refused after the limit, in memory that does not grow with it.
#[test]
fn a_bomb_is_refused_within_its_limit() {
    let zeros = vec![0u8; 64 << 20];
    for codec in [Codec::Gzip, Codec::Zstd, Codec::Lz4] {
        let mut b = BatchBuilder::new(0).compression(codec, None);
        b.append(&RecordData { timestamp: NOW, key: Some(b"k"), value: Some(&zeros), headers: &[] });
        let bytes = b.build().expect("a batch");
        let mut validator = Validator::new();
        let loose = ValidationConfig { decompressed_bytes_max: 65 << 20, ..Default::default() };
        assert!(validator.validate(&bytes, NOW, &loose).is_ok(), "{codec}");
        assert!(validator.held_bytes() <= HELD_BYTES_MAX, "{codec}: {}", validator.held_bytes());
        let tight = ValidationConfig { decompressed_bytes_max: LIMIT, ..Default::default() };
        assert!(validator.validate(&bytes, NOW, &tight).is_err(), "{codec}");
    }
}
