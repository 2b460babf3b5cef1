//! Damaged files are shown as far as they go: nothing panics, nothing loops.

#[path = "../../wire/tests/common/values.rs"]
mod values;

use base::Prng;
use bytes::Bytes;
use dump::{Decoder, Findings, IndexCheck, IndexFile, SegmentDump, SegmentOptions};
use records::{Batch, BatchBuilder, BatchIter, ControlRecordType, RecordData, control_batch};
use values::{Fill, message_bytes, uvarint};
use wiregen::Kind;

const DECODERS: [Decoder; 6] = [
    Decoder::Text,
    Decoder::Offsets,
    Decoder::TransactionLog,
    Decoder::ClusterMetadata,
    Decoder::RemoteLogMetadata,
    Decoder::ShareGroupState,
];

fn mutate(prng: &mut Prng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + prng.below(3) {
        let Some(last) = bytes.len().checked_sub(1) else { return };
        let at = prng.below(last as u64 + 1) as usize;
        match prng.below(3) {
            0 => bytes[at] = prng.next_u64() as u8,
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][prng.below(5) as usize],
            _ => bytes.truncate(at),
        }
    }
}

fn dump_with(decoder: Decoder) -> SegmentDump<'static> {
    SegmentDump::new("0.log", SegmentOptions { deep: true, contents: true, skip_record_metadata: false, decoder })
}

fn show(batch: &Bytes, segment: &mut SegmentDump<'_>) -> String {
    let (mut out, mut findings) = (String::new(), Findings::default());
    for batch in BatchIter::new(batch.clone()).flatten() {
        segment.batch(&batch, &mut out, &mut findings);
    }
    segment.end(batch.len() as u64, &mut out);
    let _ = findings.text();
    out
}

#[test]
fn damaged_contents() {
    let mut prng = Prng::new(7);
    let mut dumps = DECODERS.map(dump_with);
    for (family, text) in wire::schemas::RECORDS {
        for message in wiregen::parse_messages(family, text).expect("the schemas are right") {
            for _ in 0..12 {
                let version = message.versions.hi;
                let body = message_bytes(&message, version, Fill::Mixed, &mut prng);
                let number = message.number.unwrap_or_default();
                let mut value = Vec::new();
                if family == "metadata" {
                    uvarint(1, &mut value);
                }
                if message.kind == Kind::Record {
                    uvarint(number as u32, &mut value);
                    uvarint(version as u32, &mut value);
                } else {
                    value.extend(version.to_be_bytes());
                }
                value.extend(body);
                mutate(&mut prng, &mut value);
                let mut key = number.to_be_bytes().to_vec();
                key.extend(&value);
                let mut b = BatchBuilder::new(0);
                b.append(&RecordData { timestamp: 0, key: Some(&key), value: Some(&value), headers: &[] });
                let bytes = b.build().expect("a batch");
                for segment in &mut dumps {
                    assert!(show(&bytes, segment).contains("| offset: 0"));
                }
            }
        }
    }
}

#[test]
fn damaged_control_records_and_batches() {
    let mut segment = dump_with(Decoder::Text);
    for seed in 0..2000 {
        let mut prng = Prng::new(seed);
        let mut value: Vec<u8> = (0..prng.below(40)).map(|_| prng.next_u64() as u8).collect();
        value.splice(0..0, [0, 0]);
        let kind = ControlRecordType::from_id(prng.below(9) as i16);
        let bytes = control_batch(0, 0, 0, &[(kind, &value)]).expect("a batch");
        let mut damaged = bytes.to_vec();
        mutate(&mut prng, &mut damaged);
        let _ = show(&Bytes::from(damaged), &mut segment);
        assert!(show(&bytes, &mut segment).contains("isControl: true"), "seed {seed}");
    }
}

#[test]
fn damaged_indexes_and_checkpoints() {
    let mut b = BatchBuilder::new(i64::MAX - 100);
    b.append(&RecordData { timestamp: i64::MAX, ..RecordData::default() });
    let batch = Batch::parse(&b.build().expect("a batch")).expect("a batch");
    for seed in 0..3000 {
        let mut prng = Prng::new(seed);
        let bytes: Vec<u8> = (0..prng.below(120)).map(|_| prng.next_u64() as u8).collect();
        let (mut out, mut findings) = (String::new(), Findings::default());
        let mut segment = |at: u64| (at < 100_000).then(|| batch.clone());
        for check in [IndexCheck::Show, IndexCheck::VerifyOnly, IndexCheck::SanityOnly] {
            let base = [0, i64::MAX - 1][prng.below(2) as usize];
            let index = IndexFile { file: "f", bytes: &bytes, base };
            dump::offset_index(&index, check, &mut segment, &mut out, &mut findings);
            dump::time_index(&index, &bytes, check, &mut segment, &mut out, &mut findings);
        }
        dump::txn_index(&bytes, &mut out);
        let mut snapshot = [&[0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0x80; 46]].concat();
        let crc = records::crc32c(&snapshot[6..]);
        snapshot[2..6].copy_from_slice(&crc.to_be_bytes());
        if prng.chance(1, 2) {
            mutate(&mut prng, &mut snapshot);
        }
        dump::producer_snapshot("f", &snapshot, &mut out);
        for name in ["leader-epoch-checkpoint", "cleaner-offset-checkpoint", "quorum-state"] {
            assert!(dump::text_file(name, &bytes, &mut out));
        }
    }
}
