//! Edges of the format that generated values do not reach.

use base::Uuid;
use bytes::Bytes;

use crate::api_versions_request::ApiVersionsRequest;
use crate::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use crate::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use crate::metadata_record::MetadataRecord;
use crate::metadata_request::{MetadataRequest, MetadataRequestTopic};
use crate::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::topic_record::TopicRecord;
use crate::{ApiKey, Decode, DecodeErrorKind as Kind, Encode, EncodeError, Reader, Records, Writer};

fn decoded<'a, T: Decode<'a>>(bytes: &'a [u8], version: i16) -> Result<(T, usize), (Kind, u32)> {
    let mut r = Reader::from_slice(bytes);
    let message = T::decode(&mut r, version).map_err(|error| (error.kind, error.position))?;
    Ok((message, r.remaining()))
}

fn encoded<T: Encode>(message: &T, version: i16) -> Result<Bytes, EncodeError> {
    let mut w = Writer::new();
    message.encode(&mut w, version)?;
    Ok(w.into_bytes().expect("no external records"))
}

#[test]
fn strings_and_their_lengths() {
    // ApiVersionsRequest 4 is two compact strings and a tagged section.
    let check = |bytes: &[u8], expect: Result<usize, (Kind, u32)>| {
        assert_eq!(decoded::<ApiVersionsRequest<'_>>(bytes, 4).map(|(_, left)| left), expect, "{bytes:?}");
    };
    check(&[2, b'a', 1, 0], Ok(0));
    check(&[2, b'a', 1, 0, 9, 9], Ok(2));
    check(&[0, 1, 0], Err((Kind::NullNotAllowed, 1)));
    check(&[3, b'a'], Err((Kind::Truncated, 1)));
    check(&[3, 0xc3, 0x28, 1, 0], Err((Kind::InvalidUtf8, 1)));
    check(&[0x81, 0x80, 2], Err((Kind::BadLength, 3)));
    check(&[0xff, 0xff, 0xff, 0xff, 0x0f], Err((Kind::NullNotAllowed, 5)));
    check(&[0xff, 0xff, 0xff, 0xff, 0x1f], Err((Kind::BadVarint, 5)));
    check(&[0x80], Err((Kind::Truncated, 1)));
    // MetadataRequest 1 is an array of classic strings that may be null.
    let check = |bytes: &[u8], expect: Result<Option<usize>, (Kind, u32)>| {
        let count = decoded::<MetadataRequest<'_>>(bytes, 1).map(|(message, _)| message.topics.map(|t| t.len()));
        assert_eq!(count, expect, "{bytes:?}");
    };
    check(&[0xff, 0xff, 0xff, 0xff], Ok(None));
    check(&[0, 0, 0, 0], Ok(Some(0)));
    check(&[0, 0, 0, 1, 0, 1, b'a'], Ok(Some(1)));
    check(&[0xff, 0xff, 0xff, 0xfe], Ok(None));
    check(&[0x7f, 0xff, 0xff, 0xff], Err((Kind::Truncated, 4)));
    check(&[0, 0, 0, 1, 0xff, 0xff], Err((Kind::NullNotAllowed, 6)));
    check(&[0, 0, 0, 1, 0xff, 0xfe], Err((Kind::NullNotAllowed, 6)));
}

#[test]
fn tagged_sections() {
    let check = |tags: &[u8], expect: Result<usize, (Kind, u32)>| {
        let bytes = [&[1, 1], tags].concat();
        assert_eq!(decoded::<ApiVersionsRequest<'_>>(&bytes, 4).map(|(_, left)| left), expect, "{tags:?}");
    };
    check(&[1, 7, 2, 0, 0], Ok(0));
    check(&[2, 7, 0, 8, 1, 0], Ok(0));
    check(&[2, 7, 0, 7, 0], Ok(0));
    check(&[2, 7, 0, 6, 0], Ok(0));
    check(&[1, 7, 2, 0], Err((Kind::Truncated, 5)));
    check(&[0xff, 0xff, 3], Err((Kind::BadLength, 5)));
    check(&[2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0], Ok(0));
}

/// A Fetch request of one partition whose tagged section is the given one.
fn fetch_with_tags(version: i16, tags: &[u8]) -> Vec<u8> {
    let partition = FetchPartition::default();
    let topic = FetchTopic { partitions: vec![partition], ..Default::default() };
    let request = FetchRequest { topics: vec![topic], ..Default::default() };
    let bytes = encoded(&request, version).expect("valid");
    // Behind the partition's section come those of topic and request, the forgotten topics and the rack id.
    let place = bytes.len() - 4 - 1;
    assert_eq!(bytes[place..], [0, 0, 1, 1, 0]);
    [&bytes[..place], tags, &bytes[place + 1..]].concat()
}

#[test]
fn known_tags_keep_to_their_size_and_version() {
    let check = |version, tags: &[u8], expect: Result<i64, Kind>| {
        let bytes = fetch_with_tags(version, tags);
        let got = decoded::<FetchRequest<'_>>(&bytes, version).map(|(m, _)| m.topics[0].partitions[0].high_watermark);
        assert_eq!(got.map_err(|(kind, _)| kind), expect, "{tags:?}");
    };
    check(18, &[0], Ok(i64::MAX));
    check(18, &[1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 9], Ok(9));
    check(18, &[1, 1, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0], Err(Kind::TagSize));
    check(18, &[1, 1, 7, 0, 0, 0, 0, 0, 0, 0], Err(Kind::Truncated));
    check(17, &[1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 9], Err(Kind::TagNotInVersion));
    check(17, &[1, 2, 1, 0], Ok(i64::MAX));
}

#[test]
fn what_a_version_cannot_say_is_an_error_or_dropped() {
    let partition = FetchPartition { last_fetched_epoch: 5, ..Default::default() };
    let strict = FetchRequest {
        topics: vec![FetchTopic { partitions: vec![partition], ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(encoded(&strict, 11), Err(EncodeError::NotInVersion { field: "LastFetchedEpoch", version: 11 }));
    assert!(encoded(&strict, 12).is_ok());
    let partition = FetchPartition { log_start_offset: 5, ..Default::default() };
    let lenient = FetchRequest {
        topics: vec![FetchTopic { partitions: vec![partition], ..Default::default() }],
        ..Default::default()
    };
    assert!(encoded(&lenient, 4).is_ok());
    let all_topics = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(encoded(&all_topics, 0), Err(EncodeError::NullNotAllowed { field: "Topics" }));
    assert!(encoded(&all_topics, 1).is_ok());
    assert!(matches!(encoded(&all_topics, 14), Err(EncodeError::UnsupportedVersion { version: 14, .. })));
    for version in [8, 9] {
        let topic = |length| MetadataRequestTopic { name: Some("n".repeat(length).into()), ..Default::default() };
        let request = |length| MetadataRequest { topics: Some(vec![topic(length)]), ..Default::default() };
        assert!(encoded(&request(32767), version).is_ok());
        assert_eq!(encoded(&request(32768), version), Err(EncodeError::TooLong { length: 32768 }));
    }
}

#[test]
fn records_share_the_frame() {
    let data = PartitionProduceData { index: 3, records: Some(Records::Bytes(Bytes::from(vec![7; 100]))) };
    let topic = TopicProduceData { name: "t".into(), partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest { topic_data: vec![topic], acks: -1, ..Default::default() };
    for version in 3..=12 {
        let frame = encoded(&request, version).expect("valid");
        let mut r = Reader::new(&frame);
        let back = ProduceRequest::decode(&mut r, version).expect("valid");
        assert_eq!(back, request);
        let Some(Records::Bytes(records)) = &back.topic_data[0].partition_data[0].records else { panic!("no records") };
        assert!(frame.as_ptr_range().contains(&records.as_ptr()), "version {version} copies records");
    }
}

#[test]
fn a_chain_of_records_is_one_value() {
    let pieces = vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cde")];
    let response = |records| {
        let partition = PartitionData { records: Some(records), ..Default::default() };
        let topic = FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
        FetchResponse { responses: vec![topic], ..Default::default() }
    };
    let whole = response(Records::Bytes(Bytes::from_static(b"abcde")));
    assert_eq!(encoded(&response(Records::Chain(pieces)), 13), encoded(&whole, 13));
}

#[test]
fn metadata_records_have_a_frame() {
    let topic_id = Uuid::from_u128(1);
    let record = MetadataRecord::from(TopicRecord { name: "ab".into(), topic_id });
    let bytes = record.encode(0).expect("valid");
    assert_eq!(bytes[..6], [1, 2, 0, 3, b'a', b'b']);
    assert_eq!(MetadataRecord::decode(&bytes), Ok((record, 0)));
    let kind = |bytes: &[u8]| MetadataRecord::decode(bytes).expect_err("it is bad").kind;
    assert_eq!(kind(&[2, 2, 0]), Kind::UnknownFrameVersion);
    assert_eq!(kind(&[1, 99, 0]), Kind::UnknownRecordType);
    assert_eq!(kind(&[1, 2, 1, 0, 0]), Kind::UnsupportedVersion);
    assert_eq!(kind(&[1, 0xff, 0xff, 0x7f, 0]), Kind::BadVarint);
    assert_eq!(kind(&[&bytes[..], &[0]].concat()), Kind::TrailingBytes);
    assert_eq!(kind(&bytes[..bytes.len() - 1]), Kind::Truncated);
}

#[test]
fn the_table_of_apis_is_that_of_kafka_4_4() {
    let count = |on: fn(ApiKey) -> bool| ApiKey::ALL.into_iter().filter(|key| on(*key)).count();
    assert_eq!(ApiKey::ALL.len(), 91);
    assert_eq!(count(|key| key.info().on_broker), 79);
    assert_eq!(count(|key| key.info().on_controller), 42);
    let unstable: Vec<ApiKey> =
        ApiKey::ALL.into_iter().filter(|key| key.info().max_stable != key.info().max_unstable).collect();
    assert_eq!(unstable, [ApiKey::InitProducerId]);
    assert_eq!(ApiKey::InitProducerId.info().advertised(), 0..=5);
    assert_eq!(ApiKey::Produce.info().advertised(), 0..=13);
    assert_eq!(ApiKey::Produce.info().min, 3);
    assert_eq!(ApiKey::Fetch.info().advertised(), 4..=18);
    for key in ApiKey::ALL {
        assert_eq!(ApiKey::from_i16(key.code()), Some(key));
        assert_eq!(crate::info(key).key, key);
    }
    assert_eq!(ApiKey::from_i16(4), None);
    assert_eq!(ApiKey::SaslHandshake.info().request_header_version(1), 1);
    assert_eq!(ApiKey::Fetch.info().response_header_version(12), 1);
    assert_eq!(ApiKey::ApiVersions.info().response_header_version(4), 0);
    assert_eq!(ApiKey::ApiVersions.info().request_header_version(4), 2);
}
