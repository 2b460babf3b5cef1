use super::*;
use base::Prng;
use bytes::Bytes;
use records::{BatchBuilder, RecordData};

fn batch(base: Offset, records: usize, len: usize, timestamp: i64) -> AppendBatch {
    let mut builder = BatchBuilder::new(0);
    let value = vec![7; len];
    for _ in 0..records {
        builder.append(&RecordData { timestamp, value: Some(&value), ..RecordData::default() });
    }
    let bytes = builder.build().unwrap();
    let header = BatchHeader::parse(&bytes).unwrap();
    AppendBatch { bytes, header, base_offset: base, leader_epoch: 0 }
}

#[test]
fn reasons_to_roll() {
    let roomy = LogConfig { segment_bytes: 10_000, segment_ms: 1000, segment_index_bytes: 800, ..LogConfig::default() };
    let tight = LogConfig { segment_index_bytes: 40, ..roomy.clone() };
    let mut segment = Segment::planned(100, Link::Start, 5000);
    let full = |segment: &Segment, b: &AppendBatch, config: &LogConfig, jitter: i64, now: i64| {
        segment.is_full(&b.header, b.base_offset, config, jitter, now)
    };
    let huge = batch(100, 1, 20_000, 0);
    assert!(!full(&segment, &huge, &roomy, 0, 9000), "an empty segment takes anything");
    let far = batch(100 + (1 << 31) - 1, 2, 10, 0);
    assert!(full(&segment, &far, &roomy, 0, 0), "offsets must fit 31 bits");
    segment.append(&batch(100, 1, 5000, 2000), 1000, 0, |_, _| {});
    for (b, config, jitter, now, expect) in [
        (batch(101, 1, 100, 2000), &roomy, 0, 0, false),
        (batch(101, 1, 4900, 2000), &roomy, 0, 0, true),
        (batch(101, 1, 100, 3000), &roomy, 0, 0, false),
        (batch(101, 1, 100, 3001), &roomy, 0, 0, true),
        (batch(101, 1, 100, 2901), &roomy, 100, 0, true),
        (batch(101, 1, 100, 0), &roomy, 0, 1 << 40, false),
        (batch(101 + (1 << 31), 1, 100, 2000), &roomy, 0, 0, true),
    ] {
        assert_eq!(full(&segment, &b, config, jitter, now), expect, "{b:?} jitter {jitter} now {now}");
    }
    for i in 0..3 {
        segment.append(&batch(101 + i, 1, 1200, 2000 + i), 1000, 0, |_, _| {});
    }
    assert_eq!((segment.index.offset_count(), segment.index.time_count()), (3, 3));
    assert!(!full(&segment, &batch(104, 1, 10, 2000), &roomy, 0, 0));
    assert!(full(&segment, &batch(104, 1, 10, 2000), &tight, 0, 0), "the time index has no room for the last entry");
    // Records without timestamps age by the wall clock.
    let mut timeless = Segment::planned(0, Link::Start, 5000);
    timeless.append(&batch(0, 1, 10, -1), 1000, 0, |_, _| {});
    assert!(!full(&timeless, &batch(1, 1, 10, -1), &roomy, 0, 6000));
    assert!(full(&timeless, &batch(1, 1, 10, -1), &roomy, 0, 6001));
}

/// Reads from memory against a list of batches, with gaps in the offsets as a compacted leader has them.
#[test]
fn reads_agree_with_a_list_of_batches() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let mut segment = Segment::planned(50, Link::Start, 0);
        let mut model: Vec<(Offset, Offset, Bytes)> = Vec::new();
        let interval = prng.below(3000) as u32;
        let mut next = 50;
        for _ in 0..prng.below(80) {
            next += if prng.chance(1, 5) { prng.below(20) as i64 } else { 0 };
            let b = batch(next, 1 + prng.below(5) as usize, prng.below(900) as usize, 0);
            segment.append(&b, interval, 0, |_, _| {});
            let last = b.base_offset + i64::from(b.header.last_offset_delta);
            model.push((next, last, b.bytes));
            next = last + 1;
        }
        for _ in 0..300 {
            let request = ReadRequest {
                from: 50 + prng.below((next - 49) as u64) as i64,
                max_bytes: prng.below(20_000) as usize,
                min_one_batch: prng.chance(1, 2),
                upper: 50 + prng.below((next - 40) as u64) as i64,
            };
            let got = match segment.read_tail(&request, || false) {
                TailRead::Found { chunks, len, first_offset, next_offset } => {
                    assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), len);
                    Some((first_offset, next_offset, len))
                }
                TailRead::Nothing => None,
                TailRead::Cold => {
                    assert!(model.is_empty());
                    None
                }
            };
            let mut expect: Option<(Offset, Offset, usize)> = None;
            for (base, last, bytes) in model.iter().skip_while(|(_, last, _)| *last < request.from) {
                let len = expect.map_or(0, |(_, _, len)| len) + bytes.len();
                let first = expect.is_none() && request.min_one_batch;
                if *last >= request.upper || (len > request.max_bytes && !first) {
                    break;
                }
                expect = Some((expect.map_or(*base, |(first, _, _)| first), last + 1, len));
            }
            let (got_end, expect_end) = (got.map(|g| g.1), expect.map(|e| e.1));
            assert_eq!(got.map(|g| (g.0, g.2)), expect.map(|e| (e.0, e.2)), "seed {seed} {request:?}");
            // Behind a gap the end may be named by the batch that follows it.
            assert!(got_end >= expect_end && got_end.is_none_or(|end| end <= next), "seed {seed} {request:?}");
        }
    }
}
