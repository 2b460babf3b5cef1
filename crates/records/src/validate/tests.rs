use super::*;
use crate::{BatchBuilder, RecordData};

const NOW: i64 = 1_700_000_000_000;

fn config() -> ValidationConfig {
    ValidationConfig { topic_partition: "foo-0".into(), ..ValidationConfig::default() }
}

fn batch(codec: Codec, timestamps: &[i64]) -> Bytes {
    let mut b = BatchBuilder::new(0).compression(codec, None);
    for &timestamp in timestamps {
        b.append(&RecordData { timestamp, key: Some(b"k"), value: Some(&[7; 50]), headers: &[] });
    }
    b.build().unwrap()
}

/// Changes a batch and makes its checksum right again.
fn change(bytes: &Bytes, f: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut bytes = bytes.to_vec();
    f(&mut bytes);
    let crc = crc_of(&bytes);
    bytes[field::CRC..field::CRC + 4].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(bytes)
}

fn kind(records: &Bytes, config: &ValidationConfig) -> Option<RecordErrorKind> {
    validate(records, NOW, config).err().map(|e| e.kind)
}

#[test]
fn a_good_batch_is_kept_as_it_is() {
    for codec in Codec::ALL {
        let bytes = batch(codec, &[NOW - 5, NOW, NOW - 3]);
        let valid = validate(&bytes, NOW, &config()).unwrap();
        assert!(!valid.rewritten && valid.bytes.as_ptr() == bytes.as_ptr(), "{codec}");
        assert_eq!((valid.max_timestamp, valid.offset_delta_of_max_timestamp), (NOW, 2));
    }
}

#[test]
fn header_lies_are_refused() {
    use RecordErrorKind::*;
    let good = batch(Codec::None, &[NOW; 3]);
    let patch = |at: usize, bytes: &[u8]| change(&good, |b| b[at..at + bytes.len()].copy_from_slice(bytes));
    let cases: Vec<(&str, Bytes, RecordErrorKind)> = vec![
        ("nothing", Bytes::new(), InvalidRecord),
        ("cut off", good.slice(..good.len() - 1), InvalidRecord),
        ("two batches", Bytes::from([&good[..], &good[..]].concat()), InvalidRecord),
        ("corrupt tail", Bytes::from([&good[..], &[0; 20]].concat()), CorruptMessage),
        ("magic 1", patch(field::MAGIC, &[1]), InvalidRecord),
        ("magic 3", patch(field::MAGIC, &[3]), CorruptMessage),
        ("length 13", patch(field::BATCH_LENGTH, &13i32.to_be_bytes()), CorruptMessage),
        ("length 20", patch(field::BATCH_LENGTH, &20i32.to_be_bytes()).slice(..32), CorruptMessage),
        ("negative length", patch(field::BATCH_LENGTH, &(-1i32).to_be_bytes()), CorruptMessage),
        ("base offset", patch(field::BASE_OFFSET, &1i64.to_be_bytes()), InvalidRecord),
        ("count 0", patch(field::RECORD_COUNT, &0i32.to_be_bytes()), InvalidRecord),
        ("count -1", patch(field::RECORD_COUNT, &(-1i32).to_be_bytes()), InvalidRecord),
        ("count 2", patch(field::RECORD_COUNT, &2i32.to_be_bytes()), InvalidRecord),
        ("delta -1", patch(field::LAST_OFFSET_DELTA, &(-1i32).to_be_bytes()), InvalidRecord),
        ("delta max", patch(field::LAST_OFFSET_DELTA, &i32::MAX.to_be_bytes()), InvalidRecord),
        ("control", patch(field::ATTRIBUTES, &0x20i16.to_be_bytes()), InvalidRecord),
        ("codec 7", patch(field::ATTRIBUTES, &7i16.to_be_bytes()), UnsupportedCompressionType),
        ("gzip that is none", patch(field::ATTRIBUTES, &1i16.to_be_bytes()), InvalidRecord),
        ("producer without sequence", patch(field::PRODUCER_ID, &5i64.to_be_bytes()), InvalidRecord),
        ("record size", patch(field::RECORDS, &[0x7e]), InvalidRecord),
        ("negative record size", patch(field::RECORDS, &[0x01]), InvalidRecord),
    ];
    for (name, bytes, expect) in cases {
        assert_eq!(kind(&bytes, &config()), Some(expect), "{name}");
    }
    let mut damaged = good.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(kind(&Bytes::from(damaged), &config()), Some(CorruptMessage));
}

#[test]
fn an_incomplete_batch_behind_a_whole_one_is_dropped() {
    let good = batch(Codec::None, &[NOW]);
    let tail = Bytes::from([&good[..], &good[..30]].concat());
    let valid = validate(&tail, NOW, &config()).unwrap();
    assert_eq!(valid.bytes, good);
}

#[test]
fn more_or_fewer_records_than_counted() {
    for codec in Codec::ALL {
        let good = batch(codec, &[NOW; 3]);
        for count in [2i32, 4] {
            let bytes = change(&good, |b| {
                b[field::RECORD_COUNT..field::RECORD_COUNT + 4].copy_from_slice(&count.to_be_bytes());
                b[field::LAST_OFFSET_DELTA..field::LAST_OFFSET_DELTA + 4].copy_from_slice(&(count - 1).to_be_bytes());
            });
            assert_eq!(kind(&bytes, &config()), Some(RecordErrorKind::InvalidRecord), "{codec} {count}");
        }
    }
}

#[test]
fn size_limits() {
    let bytes = batch(Codec::None, &[NOW]);
    let exact = ValidationConfig { batch_bytes_max: bytes.len(), ..config() };
    assert_eq!(kind(&bytes, &exact), None);
    let less = ValidationConfig { batch_bytes_max: bytes.len() - 1, ..config() };
    assert_eq!(kind(&bytes, &less), Some(RecordErrorKind::MessageTooLarge));
    let packed = batch(Codec::Zstd, &[NOW; 1000]);
    let limited = ValidationConfig { decompressed_bytes_max: 10_000, ..config() };
    assert_eq!(kind(&packed, &limited), Some(RecordErrorKind::InvalidRecord));
    let limited = ValidationConfig { record_bytes_max: 40, ..config() };
    assert_eq!(kind(&packed, &limited), Some(RecordErrorKind::InvalidRecord));
    // Kafka applies that limit only where it decompresses.
    assert_eq!(kind(&bytes, &limited), None);
}

#[test]
fn compacted_topics_need_keys_and_say_which() {
    let compacted = ValidationConfig { compacted: true, ..config() };
    for codec in Codec::ALL {
        let mut b = BatchBuilder::new(0).compression(codec, None);
        for key in [Some(&b"k"[..]), None, Some(b"")] {
            b.append(&RecordData { timestamp: NOW, key, value: None, headers: &[] });
        }
        let error = validate(&b.build().unwrap(), NOW, &compacted).unwrap_err();
        assert_eq!(error.kind, RecordErrorKind::InvalidRecord);
        let text = "Compacted topic cannot accept message without key in topic partition foo-0";
        assert_eq!(error.record_errors, [(1, text.to_owned())]);
        assert_eq!(
            error.message,
            format!(
                "One or more records have been rejected due to 1 record errors in total, and only showing the first \
                 three errors at most: [RecordError(batchIndex=1, message='{text}')]"
            )
        );
    }
}

#[test]
fn record_errors_are_bounded_but_counted() {
    let compacted = ValidationConfig { compacted: true, ..config() };
    let mut b = BatchBuilder::new(0).compression(Codec::Zstd, None);
    for _ in 0..RECORD_ERRORS_MAX + 10 {
        b.append(&RecordData { timestamp: NOW, ..RecordData::default() });
    }
    let error = validate(&b.build().unwrap(), NOW, &compacted).unwrap_err();
    assert_eq!(error.record_errors.len(), RECORD_ERRORS_MAX);
    assert!(error.message.contains("due to 1010 record errors"), "{}", error.message);
}

#[test]
fn timestamps_out_of_range() {
    let strict = ValidationConfig { timestamp_before_max_ms: 1000, timestamp_after_max_ms: 500, ..config() };
    for codec in Codec::ALL {
        let bytes = batch(codec, &[NOW, NOW - 1000, NOW - 1001, NOW + 500, NOW + 501, -1]);
        let error = validate(&bytes, NOW, &strict).unwrap_err();
        assert_eq!(error.kind, RecordErrorKind::InvalidTimestamp);
        assert_eq!(error.record_errors.iter().map(|e| e.0).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(
            error.record_errors[0].1,
            format!(
                "Timestamp {} of message with offset 2 is out of range. The timestamp should be within [{}, {}]",
                NOW - 1001,
                NOW - 1000,
                NOW + 500
            )
        );
    }
}

#[test]
fn log_append_time_is_set_and_refused_from_producers() {
    let append = ValidationConfig { timestamp_type: TimestampType::LogAppendTime, ..config() };
    for codec in Codec::ALL {
        let valid = validate(&batch(codec, &[1, 2]), NOW, &append).unwrap();
        assert!(valid.rewritten);
        let stored = Batch::parse(&valid.bytes).unwrap();
        stored.verify_crc().unwrap();
        assert_eq!(stored.header, valid.header);
        assert_eq!(stored.header.attributes.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!((stored.header.max_timestamp, valid.max_timestamp), (NOW, NOW));
        let error = validate(&valid.bytes, NOW, &append).unwrap_err();
        assert_eq!(error.kind, RecordErrorKind::InvalidTimestamp);
        assert_eq!(error.record_errors.len(), 2);
    }
}

#[test]
fn a_wrong_max_timestamp_is_corrected() {
    for codec in Codec::ALL {
        let good = batch(codec, &[NOW - 9, NOW - 8]);
        let bytes = change(&good, |b| {
            b[field::MAX_TIMESTAMP..field::MAX_TIMESTAMP + 8].copy_from_slice(&77i64.to_be_bytes());
        });
        let valid = validate(&bytes, NOW, &config()).unwrap();
        assert!(valid.rewritten);
        assert_eq!(valid.bytes, good, "{codec}");
    }
}

#[test]
fn conversion_recompresses_only_into_another_codec() {
    let mut scratch = Scratch::new();
    for source in Codec::ALL {
        for target in Codec::ALL {
            let convert = TargetCompression::Codec { codec: target, level: None };
            let config = ValidationConfig { compression: convert, ..config() };
            let bytes = batch(source, &[NOW - 2, NOW - 1, NOW - 3]);
            let valid = validate(&bytes, NOW, &config).unwrap();
            assert_eq!(valid.rewritten, source != target, "{source} {target}");
            let stored = Batch::parse(&valid.bytes).unwrap();
            stored.verify_crc().unwrap();
            assert_eq!(stored.header.attributes.codec(), Ok(target));
            assert_eq!((stored.header.max_timestamp, valid.offset_delta_of_max_timestamp), (NOW - 1, 2));
            let times: Vec<_> = stored.records(&mut scratch, 1000).unwrap().map(|r| r.unwrap().timestamp).collect();
            assert_eq!(times, [NOW - 2, NOW - 1, NOW - 3]);
        }
    }
}

#[test]
fn records_larger_than_the_window_are_walked() {
    let value: Vec<u8> = (0..300_000u32).map(|i| ((i >> 3) ^ (i >> 9)) as u8).collect();
    let headers: &[(&str, Option<&[u8]>)] = &[("big", Some(&value)), ("null", None)];
    for codec in Codec::ALL {
        let mut b = BatchBuilder::new(0).compression(codec, None);
        b.append(&RecordData { timestamp: NOW, key: Some(b"k"), value: Some(&value), headers: &[] });
        b.append(&RecordData { timestamp: NOW + 1, key: None, value: Some(b"v"), headers });
        b.append(&RecordData { timestamp: NOW, key: Some(&value), value: None, headers: &[] });
        let bytes = b.build().unwrap();
        let valid = validate(&bytes, NOW, &config()).unwrap();
        assert_eq!(valid.max_timestamp, NOW + 1, "{codec}");
        let compacted = ValidationConfig { compacted: true, ..config() };
        assert_eq!(validate(&bytes, NOW, &compacted).unwrap_err().record_errors[0].0, 1);
    }
}

#[test]
fn coordinators_may_write_what_clients_may_not() {
    let mut b = BatchBuilder::new(40).control().transactional().producer(9, 1, -1);
    b.append(&RecordData { timestamp: NOW, key: Some(&[0, 0, 0, 1]), value: Some(&[0; 6]), headers: &[] });
    let bytes = b.build().unwrap();
    assert_eq!(kind(&bytes, &config()), Some(RecordErrorKind::InvalidRecord));
    let gzip = TargetCompression::Codec { codec: Codec::Gzip, level: None };
    let own = ValidationConfig { origin: AppendOrigin::Coordinator, compression: gzip, ..config() };
    assert!(!validate(&bytes, NOW, &own).unwrap().rewritten);
}

#[test]
fn versions_of_produce() {
    let zstd = batch(Codec::Zstd, &[NOW]);
    assert_eq!(check_produce(6, &zstd).unwrap_err().kind, RecordErrorKind::UnsupportedCompressionType);
    assert_eq!(check_produce(7, &zstd).unwrap().record_count, 1);
    let two = Bytes::from([&zstd[..], &zstd[..]].concat());
    assert_eq!(check_produce(9, &two).unwrap_err().kind, RecordErrorKind::InvalidRecord);
    assert_eq!(check_produce(9, &zstd.slice(..50)).unwrap_err().kind, RecordErrorKind::InvalidRecord);
}
