//! The pure steps on the path of a request, each as a closure that does it once. Criterion times them, callgrind counts their
//! instructions (`scripts/instruction-counts`).

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use base::{PartitionKey, Uuid};
use bytes::Bytes;
use log::format::index::{OffsetEntry, SparseIndex, TimeEntry};
use log::format::journal::{CommitHeader, Link, RecordHeader, RecordKind, RecordWalk, record_len, seed};
use metadata::{MetadataDelta, MetadataImage, Provenance};
use purgatory::{Limits, Purgatory};
use records::{BatchBuilder, RecordData, ValidationConfig, Validator, crc32c};
use wire::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use wire::metadata_record::MetadataRecord;
use wire::partition_change_record::PartitionChangeRecord;
use wire::partition_record::PartitionRecord;
use wire::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::topic_record::TopicRecord;
use wire::{Decode, Encode, Reader, Records, Writer};

/// One step.
pub struct Case {
    /// Its name in reports and in the record of counts.
    pub name: &'static str,
    /// Prepares it.
    pub make: fn() -> Box<dyn FnMut()>,
}

/// Every step.
pub const CASES: &[Case] = &[
    Case { name: "crc32c-16k", make: crc },
    Case { name: "validate-160-records-of-100-B", make: || validate(160, 100) },
    Case { name: "validate-16-records-of-1-KiB", make: || validate(16, 1024) },
    Case { name: "decode-produce-6-partitions", make: decode_produce },
    Case { name: "encode-fetch-6-partitions", make: encode_fetch },
    Case { name: "encode-journal-record", make: encode_journal_record },
    Case { name: "walk-journal-commit-of-6-records", make: walk_journal_commit },
    Case { name: "index-lookup-by-offset-in-100k", make: || index_lookup(false) },
    Case { name: "index-lookup-by-time-in-100k", make: || index_lookup(true) },
    Case { name: "purgatory-register-wake-cancel-beside-100k", make: purgatory },
    Case { name: "image-delta-of-1-in-100k-partitions", make: image_delta },
];

/// The case of that name.
pub fn case(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

const NOW_MS: i64 = 1_700_000_000_000;
const PARTITIONS: i32 = 6;
/// Waiters and partitions of the large cases.
const MANY: usize = 100_000;

fn batch(records: usize, size: usize) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    let value: Vec<u8> = (0..size).map(|i| (i * 31) as u8).collect();
    for _ in 0..records {
        builder.append(&RecordData { timestamp: NOW_MS, key: None, value: Some(&value), headers: &[] });
    }
    builder.build().expect("a small batch")
}

fn crc() -> Box<dyn FnMut()> {
    let bytes = vec![7u8; 16 << 10];
    Box::new(move || {
        black_box(crc32c(black_box(&bytes)));
    })
}

fn validate(records: usize, size: usize) -> Box<dyn FnMut()> {
    let (bytes, config, mut validator) = (batch(records, size), ValidationConfig::default(), Validator::new());
    Box::new(move || {
        black_box(validator.validate(black_box(&bytes), NOW_MS, &config).expect("a valid batch"));
    })
}

fn decode_produce() -> Box<dyn FnMut()> {
    const VERSION: i16 = 13;
    let records = batch(16, 1024);
    let partition = |index| PartitionProduceData { index, records: Some(Records::Bytes(records.clone())) };
    let topic = TopicProduceData {
        topic_id: Uuid::from_u128(7),
        partition_data: (0..PARTITIONS).map(partition).collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 30_000, topic_data: vec![topic] };
    let mut writer = Writer::new();
    request.encode(&mut writer, VERSION).expect("a valid request");
    let frame = writer.into_bytes().expect("nothing external");
    Box::new(move || {
        let mut reader = Reader::new(black_box(&frame));
        black_box(ProduceRequest::decode(&mut reader, VERSION).expect("the request just encoded"));
    })
}

fn encode_fetch() -> Box<dyn FnMut()> {
    const VERSION: i16 = 17;
    let records = batch(16, 1024);
    let partition = |partition_index| PartitionData {
        partition_index,
        records: Some(Records::Chain(vec![records.clone(); 4])),
        ..PartitionData::default()
    };
    let topic = FetchableTopicResponse {
        topic_id: Uuid::from_u128(7),
        partitions: (0..PARTITIONS).map(partition).collect(),
        ..FetchableTopicResponse::default()
    };
    let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
    Box::new(move || {
        let mut writer = Writer::frame();
        black_box(&response).encode(&mut writer, VERSION).expect("a valid response");
        black_box(writer.finish());
    })
}

const COMMIT: CommitHeader =
    CommitHeader { core: 1, run: 7, generation: 3, sequence: 11, body_len: 0, records: 0, packed: true };
/// Bytes of the batches of one record.
const BODY_BYTES: usize = 16 << 10;

fn journal_record(partition: i32) -> RecordHeader {
    RecordHeader {
        kind: RecordKind::Append,
        key: PartitionKey { topic_id: Uuid::from_bytes([7; 16]), partition },
        leader_epoch: 5,
        base_offset: 1000,
        end_offset: 1016,
        link: Link::After(0x5eed),
        body_len: BODY_BYTES as u32,
    }
}

fn encode_journal_record() -> Box<dyn FnMut()> {
    let (header, seed) = (journal_record(3), seed(COMMIT.run, COMMIT.sequence));
    Box::new(move || {
        black_box(black_box(&header).encode(black_box(seed)));
    })
}

fn walk_journal_commit() -> Box<dyn FnMut()> {
    let len = record_len(BODY_BYTES);
    let commit = CommitHeader { body_len: (len * PARTITIONS as usize) as u32, records: PARTITIONS as u32, ..COMMIT };
    let mut body = vec![0; commit.body_len as usize];
    for partition in 0..PARTITIONS {
        let header = journal_record(partition).encode(seed(commit.run, commit.sequence));
        body[len * partition as usize..][..header.len()].copy_from_slice(&header);
    }
    Box::new(move || {
        let mut walk = RecordWalk::new(black_box(&commit), &body);
        while let Some(record) = walk.next_record().expect("a whole commit") {
            black_box(record);
        }
    })
}

/// An entry every 4 KiB, as of a segment of 400 MB.
fn index_lookup(by_time: bool) -> Box<dyn FnMut()> {
    let mut index = SparseIndex::default();
    for i in 0..MANY as i32 {
        index.push_offset(OffsetEntry { relative: i * 4 + 3, position: i * 4096 });
        index.push_time(TimeEntry { timestamp: NOW_MS + i64::from(i), relative: i * 4 + 3 });
    }
    let mut turn = 0;
    Box::new(move || {
        turn = (turn + 7919) % MANY as i64;
        if by_time {
            black_box(index.floor_time(black_box(NOW_MS + turn)).expect("it is covered"));
        } else {
            black_box(index.floor(black_box(turn * 4 + 3)).expect("it is covered"));
        }
    })
}

fn purgatory() -> Box<dyn FnMut()> {
    let mut waiting = Purgatory::new(Limits { waiters_max: 2 * MANY as u32, watches_max: 4 * MANY as u32 });
    for i in 0..MANY as u64 {
        waiting.register([i], (i + 1) * 1_000_000, ()).expect("there is room");
    }
    let (mut turn, mut woken) = (0, Vec::new());
    Box::new(move || {
        turn = (turn + 7919) % MANY as u64;
        let token = waiting.register([turn], 500_000_000, ()).expect("there is room");
        woken.clear();
        waiting.wake(&turn, &mut woken);
        black_box(&woken);
        waiting.cancel(token).expect("it waits");
    })
}

fn image_delta() -> Box<dyn FnMut()> {
    const PER_TOPIC: i32 = 100;
    let topic = |i: usize| Uuid::from_u128(1 + i as u128);
    let mut delta = MetadataDelta::new(Arc::new(MetadataImage::default()));
    let mut replay = |record: MetadataRecord<'static>| delta.replay(&record).expect("a record that fits");
    for i in 0..MANY / PER_TOPIC as usize {
        replay(TopicRecord { name: Cow::Owned(format!("topic-{i}")), topic_id: topic(i) }.into());
        for partition_id in 0..PER_TOPIC {
            let partition = PartitionRecord {
                partition_id,
                topic_id: topic(i),
                replicas: vec![1, 2, 3],
                isr: vec![1, 2, 3],
                leader: 1,
                directories: vec![Uuid::from_u128(9); 3],
                ..PartitionRecord::default()
            };
            replay(partition.into());
        }
    }
    delta.finish(Provenance::default());
    let (image, mut turn) = (Arc::clone(delta.image()), 0);
    Box::new(move || {
        turn = (turn + 7919) % MANY;
        let change = PartitionChangeRecord {
            topic_id: topic(turn / PER_TOPIC as usize),
            partition_id: turn as i32 % PER_TOPIC,
            isr: Some(vec![1, 2]),
            ..PartitionChangeRecord::default()
        };
        let mut delta = MetadataDelta::new(Arc::clone(&image));
        delta.replay(&change.into()).expect("the partition exists");
        delta.finish(Provenance::default());
        black_box(delta.image());
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_and_has_a_name_of_its_own() {
        for (i, one) in CASES.iter().enumerate() {
            let mut step = (one.make)();
            (0..3).for_each(|_| step());
            assert!(CASES[..i].iter().all(|other| other.name != one.name), "{} twice", one.name);
        }
    }
}
