//! Single requests with exact expectations, each first checked against Apache Kafka.

use bytes::{Bytes, BytesMut};
use odradek_tests::client::{self, batch, batch_at, now_ms, produce_request};
use odradek_tests::{Client, FetchLimits, Node};
use records::Codec;
use std::process::Command;
use wire::api_versions_request::ApiVersionsRequest;
use wire::api_versions_response::ApiVersionsResponse;
use wire::describe_log_dirs_request::DescribeLogDirsRequest;
use wire::describe_log_dirs_response::DescribeLogDirsResponse;
use wire::{ApiKey, ErrorCode};

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    let body = client::encode(
        &ApiVersionsRequest {
            client_software_name: "x".into(),
            client_software_version: "1".into(),
            ..Default::default()
        },
        4,
    );
    let answer = client.raw().request(18, 99, true, &body).expect("an answer");
    // Error 35, one entry: key 18 with its range, and nothing behind it.
    assert_eq!(answer[..2], 35i16.to_be_bytes());
    assert_eq!(answer[2..6], 1i32.to_be_bytes());
    assert_eq!(answer[6..8], 18i16.to_be_bytes());
    assert_eq!(answer.len(), 12, "a version 0 body of one entry");
    let max = i16::from_be_bytes([answer[10], answer[11]]);
    assert_eq!(max, 5);
    let request = ApiVersionsRequest {
        client_software_name: "x".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let answer: ApiVersionsResponse = client.call(ApiKey::ApiVersions, 4, &request);
    assert_eq!(ErrorCode(answer.error_code), ErrorCode::NONE);
    let range = |key: i16| answer.api_keys.iter().find(|k| k.api_key == key).map(|k| (k.min_version, k.max_version));
    assert_eq!(range(0), Some((0, 13)), "older librdkafka compresses only when Produce 0 is listed");
    assert_eq!(range(1), Some((4, 18)));
    if let Some(init) = range(22) {
        assert_eq!(init, (0, 5), "version 6 is unstable");
    }
    let finalized = answer.finalized_features.iter().map(|f| (f.name.as_ref(), f.max_version_level));
    assert!(finalized.clone().any(|f| f == ("metadata.version", 33)), "{:?}", finalized.collect::<Vec<_>>());
    assert!(answer.finalized_features_epoch >= 0);
}

#[test]
fn a_wrong_software_name_is_an_invalid_request() {
    let node = Node::start();
    let request = ApiVersionsRequest {
        client_software_name: "-bad name".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let answer: ApiVersionsResponse = Client::connect(&node).call(ApiKey::ApiVersions, 4, &request);
    assert_eq!(ErrorCode(answer.error_code), ErrorCode::INVALID_REQUEST);
}

#[test]
fn fetch_gives_whole_batches_from_any_offset() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("t", 1, &[]);
    for base in [0, 10] {
        let produced = client.produce("t", 0, batch(10, b"value").build().expect("a batch"));
        assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, base));
    }
    let all = [(0, 9), (10, 19)];
    for (offset, expected) in
        [(0, &all[..]), (5, &all[..]), (9, &all[..]), (10, &all[1..]), (15, &all[1..]), (19, &all[1..])]
    {
        let fetched = client.fetch("t", 0, offset, FetchLimits::default());
        assert_eq!((fetched.error, fetched.batches().as_slice()), (ErrorCode::NONE, expected), "from {offset}");
        assert_eq!((fetched.high_watermark, fetched.log_start), (20, 0));
    }
    let idle = FetchLimits { max_wait_ms: 100, ..FetchLimits::default() };
    let at_end = client.fetch("t", 0, 20, idle);
    assert_eq!((at_end.error, at_end.records.len()), (ErrorCode::NONE, 0));
    for outside in [21, -1] {
        assert_eq!(client.fetch("t", 0, outside, idle).error, ErrorCode::OFFSET_OUT_OF_RANGE, "from {outside}");
    }
    assert_eq!(client.fetch("t", 1, 0, idle).error, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn the_first_batch_is_returned_however_large() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("big", 1, &[("max.message.bytes", "10000000")]);
    let large = batch(1, &vec![7; 5 << 20]).build().expect("a batch");
    for base in 0..2 {
        assert_eq!(client.produce("big", 0, large.clone()).base_offset, base);
    }
    let tiny = FetchLimits { max_bytes: 1, partition_max_bytes: 1, ..FetchLimits::default() };
    assert_eq!(client.fetch("big", 0, 0, tiny).batches(), [(0, 0)]);
    let one_and_a_half = FetchLimits { partition_max_bytes: 8 << 20, ..FetchLimits::default() };
    let fetched = client.fetch("big", 0, 0, one_and_a_half);
    assert!(fetched.records.len() <= 8 << 20, "the limit of the partition holds beyond the first batch");
}

#[test]
fn a_long_poll_ends_when_data_comes_or_time_is_up() {
    let node = Node::start();
    let (mut reader, mut writer) = (Client::connect(&node), Client::connect(&node));
    writer.create_topic("poll", 1, &[]);
    let short = FetchLimits { max_wait_ms: 50, ..FetchLimits::default() };
    assert_eq!(reader.fetch("poll", 0, 0, short).records.len(), 0);
    let long = std::thread::spawn(move || {
        let wait = FetchLimits { max_wait_ms: 15_000, ..FetchLimits::default() };
        reader.fetch("poll", 0, 0, wait).batches()
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(writer.produce("poll", 0, batch(3, b"x").build().expect("a batch")).error, ErrorCode::NONE);
    assert_eq!(long.join().expect("the reader"), [(0, 2)]);
}

#[test]
fn list_offsets_finds_the_first_record_at_or_after_a_time() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    let base = now_ms() - 100_000;
    for codec in Codec::ALL {
        let topic = format!("time-{}", codec.name());
        client.create_topic(&topic, 1, &[]);
        let times = [2, 4, 6, 8].map(|t| base + t);
        let built = batch_at(&times, b"value").compression(codec, None).build().expect("a batch");
        assert_eq!(client.produce(&topic, 0, built).error, ErrorCode::NONE);
        let out_of_order = batch_at(&[base + 20, base + 12, base + 16], b"value").compression(codec, None);
        assert_eq!(client.produce(&topic, 0, out_of_order.build().expect("a batch")).base_offset, 4);
        let expected =
            [(1, 0, 2), (2, 0, 2), (3, 1, 4), (5, 2, 6), (7, 3, 8), (8, 3, 8), (9, 4, 20), (12, 4, 20), (20, 4, 20)];
        for (at, offset, timestamp) in expected {
            let found = client.list_offset(&topic, 0, base + at);
            assert_eq!(found, (ErrorCode::NONE, base + timestamp, offset), "{topic}: time {at}");
        }
        assert_eq!(client.list_offset(&topic, 0, base + 21), (ErrorCode::NONE, -1, -1), "{topic}: no match");
        assert_eq!(client.list_offset(&topic, 0, -1), (ErrorCode::NONE, -1, 7), "{topic}: latest");
        assert_eq!(client.list_offset(&topic, 0, -2), (ErrorCode::NONE, -1, 0), "{topic}: earliest");
        assert_eq!(client.list_offset(&topic, 0, -3), (ErrorCode::NONE, base + 20, 4), "{topic}: maximum timestamp");
    }
}

#[test]
fn wrong_batches_are_refused_and_leave_nothing() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("strict", 1, &[]);
    client.create_topic("compacted", 1, &[("cleanup.policy", "compact")]);
    let good = batch(3, b"value").build().expect("a batch");
    let garble = |at: usize, with: &[u8], fix_crc: bool| -> Bytes {
        let mut bytes = BytesMut::from(&good[..]);
        bytes[at..at + with.len()].copy_from_slice(with);
        if fix_crc {
            let crc = records::crc_of(&bytes);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        bytes.freeze()
    };
    let cases: [(&str, Bytes, ErrorCode); 8] = [
        ("a flipped byte", garble(70, &[0xff], false), ErrorCode::CORRUPT_MESSAGE),
        ("magic 3", garble(16, &[3], false), ErrorCode::CORRUPT_MESSAGE),
        ("too many records claimed", garble(57, &4i32.to_be_bytes(), true), ErrorCode::INVALID_RECORD),
        ("no records", garble(57, &0i32.to_be_bytes(), true), ErrorCode::INVALID_RECORD),
        ("last offset delta off by one", garble(23, &3i32.to_be_bytes(), true), ErrorCode::INVALID_RECORD),
        ("a record longer than the batch", garble(61, &[0x7f], true), ErrorCode::INVALID_RECORD),
        ("a control batch", garble(21, &0x20i16.to_be_bytes(), true), ErrorCode::INVALID_RECORD),
        ("two batches", [&good[..], &good[..]].concat().into(), ErrorCode::INVALID_RECORD),
    ];
    for (what, bytes, error) in cases {
        let produced = client.produce("strict", 0, bytes);
        assert_eq!((produced.error, produced.base_offset), (error, -1), "{what}: {:?}", produced.message);
    }
    let mut keyless = records::BatchBuilder::new(0);
    for key in [Some(&b"a"[..]), None, Some(b"c")] {
        keyless.append(&records::RecordData { timestamp: now_ms(), key, value: Some(b"v"), headers: &[] });
    }
    let produced = client.produce("compacted", 0, keyless.build().expect("a batch"));
    assert_eq!((produced.error, produced.record_errors.as_slice()), (ErrorCode::INVALID_RECORD, &[1][..]));
    let future = batch_at(&[now_ms(), now_ms() + 7_200_000], b"v").build().expect("a batch");
    let produced = client.produce("strict", 0, future);
    assert_eq!((produced.error, produced.record_errors.as_slice()), (ErrorCode::INVALID_TIMESTAMP, &[1][..]));
    assert_eq!(client.produce("strict", 0, good).base_offset, 0, "nothing of the above was kept");
}

#[test]
fn an_oversized_batch_in_a_pipeline_fails_alone() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("t", 1, &[]);
    let (small, large) =
        (batch(1, b"v").build().expect("a batch"), batch(1, &vec![1; 2 << 20]).build().expect("a batch"));
    for bytes in [&small, &large, &small] {
        client.send(ApiKey::Produce, 11, &produce_request("t", 0, bytes.clone(), -1));
    }
    let errors: Vec<_> = (0..3).map(|_| client.produced()).map(|p| (p.error, p.base_offset)).collect();
    assert_eq!(errors, [(ErrorCode::NONE, 0), (ErrorCode::MESSAGE_TOO_LARGE, -1), (ErrorCode::NONE, 1)]);
}

#[test]
fn acks_0_has_no_answer_and_an_error_closes_the_connection() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("t", 1, &[]);
    let good = batch(1, b"v").build().expect("a batch");
    client.send(ApiKey::Produce, 11, &produce_request("t", 0, good.clone(), 0));
    // The next answer on the connection belongs to the next request.
    assert_eq!(client.produce("t", 0, good.clone()).base_offset, 1);
    client.send(ApiKey::Produce, 11, &produce_request("missing", 0, good, 0));
    assert!(client.raw().is_closed_by_peer());
    let answer: wire::produce_response::ProduceResponse = {
        let mut client = Client::connect(&node);
        client.call(ApiKey::Produce, 11, &produce_request("t", 0, batch(1, b"v").build().expect("a batch"), 5))
    };
    let error = answer.responses[0].partition_responses[0].error_code;
    assert_eq!(ErrorCode(error), ErrorCode::INVALID_REQUIRED_ACKS);
}

#[test]
fn log_append_time_is_stamped_by_the_broker() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    for codec in Codec::ALL {
        let before = now_ms();
        let built = batch_at(&[1, 2, 3], b"v").compression(codec, None).build().expect("a batch");
        let produced = client.produce("stamped", 0, built);
        assert_eq!(produced.error, ErrorCode::NONE, "{codec:?}");
        assert!(produced.log_append_time >= before, "{codec:?}: {}", produced.log_append_time);
        let fetched = client.fetch("stamped", 0, produced.base_offset, FetchLimits::default());
        let header = records::BatchHeader::parse(&fetched.records).expect("a batch");
        assert_eq!(header.max_timestamp, produced.log_append_time, "{codec:?}");
        assert_eq!(header.attributes.0 & 8, 8, "{codec:?}: the timestamp type is append time");
        assert_eq!(records::crc_of(&fetched.records[..header.size()]), header.crc, "{codec:?}");
    }
}

#[test]
fn a_repeated_batch_is_answered_with_its_first_offset_even_after_a_kill() {
    let mut node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("once", 1, &[]);
    let sequence = |s: i32, epoch: i16| batch(2, b"v").producer(4711, epoch, s).build().expect("a batch");
    for i in 0..6 {
        let produced = client.produce("once", 0, sequence(2 * i, 0));
        assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, i64::from(2 * i)));
    }
    for i in 1..6 {
        let produced = client.produce("once", 0, sequence(2 * i, 0));
        assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, i64::from(2 * i)), "repeat of batch {i}");
    }
    let gap = client.produce("once", 0, sequence(14, 0));
    assert_eq!(gap.error, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    node.kill();
    node.run();
    let mut client = Client::connect(&node);
    for i in 1..6 {
        let produced = client.produce("once", 0, sequence(2 * i, 0));
        assert_eq!(
            (produced.error, produced.base_offset),
            (ErrorCode::NONE, i64::from(2 * i)),
            "batch {i} after a kill"
        );
    }
    assert_eq!(client.produce("once", 0, sequence(12, 0)).base_offset, 12);
    assert_eq!(client.produce("once", 0, sequence(5, 1)).error, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(client.produce("once", 0, sequence(0, 1)).base_offset, 14);
    assert_eq!(client.produce("once", 0, sequence(14, 0)).error, ErrorCode::INVALID_PRODUCER_EPOCH);
}

#[test]
fn a_new_topic_is_usable_at_once_on_every_connection() {
    let node = Node::start_with(&[("odradek.cores", "4")]);
    let mut admin = Client::connect(&node);
    let mut others: Vec<Client> = (0..8).map(|_| Client::connect(&node)).collect();
    for i in 0..200 {
        let name = format!("fresh-{i}");
        admin.create_topic(&name, 3, &[]);
        let other = &mut others[i % 8];
        let produced = other.produce(&name, (i % 3) as i32, batch(1, b"v").build().expect("a batch"));
        assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, 0), "{name}");
    }
}

#[test]
fn a_topic_made_again_is_another_topic() {
    use wire::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
    use wire::delete_topics_response::DeleteTopicsResponse;
    use wire::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
    use wire::fetch_response::FetchResponse;
    let node = Node::start();
    let mut client = Client::connect(&node);
    let first = client.create_topic("again", 1, &[]);
    client.produce("again", 0, batch(5, b"old").build().expect("a batch"));
    let topics = vec![DeleteTopicState { name: None, topic_id: first }];
    let request = DeleteTopicsRequest { topics, timeout_ms: 10_000, ..DeleteTopicsRequest::default() };
    let answer: DeleteTopicsResponse = client.call(ApiKey::DeleteTopics, 6, &request);
    assert_eq!(ErrorCode(answer.responses[0].error_code), ErrorCode::NONE);
    assert_eq!(answer.responses[0].name.as_deref(), Some("again"));
    let second = client.create_topic("again", 1, &[]);
    assert_ne!(first, second);
    let mut fetch = |topic_id| {
        let part = FetchPartition { partition_max_bytes: 1 << 20, ..FetchPartition::default() };
        let topics = vec![FetchTopic { topic_id, partitions: vec![part], ..FetchTopic::default() }];
        let request = FetchRequest { max_bytes: 1 << 20, session_epoch: -1, topics, ..FetchRequest::default() };
        let answer: FetchResponse = client.call(ApiKey::Fetch, 13, &request);
        let part = &answer.responses[0].partitions[0];
        (ErrorCode(part.error_code), part.high_watermark)
    };
    assert_eq!(fetch(first).0, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(fetch(second), (ErrorCode::NONE, 0), "the new topic begins at 0");
}

#[test]
fn log_directories_tell_the_space_of_their_volume() {
    let node = Node::start();
    let mut client = Client::connect(&node);
    client.create_topic("sized", 1, &[]);
    for version in 1..=5 {
        let request = DescribeLogDirsRequest { topics: None };
        let answer: DescribeLogDirsResponse = client.call(ApiKey::DescribeLogDirs, version, &request);
        let [dir] = &answer.results[..] else { panic!("one directory: {answer:?}") };
        assert_eq!(ErrorCode(dir.error_code), ErrorCode::NONE);
        assert!(dir.topics.iter().any(|topic| topic.name == "sized"), "{dir:?}");
        if version < 4 {
            assert_eq!((dir.total_bytes, dir.usable_bytes), (-1, -1), "version {version} has no such fields");
            continue;
        }
        // What df says; what is used changes meanwhile, the size does not.
        let df = Command::new("df").args(["-B1", "--output=size"]).arg(node.data_dir()).output().expect("df runs");
        let size = String::from_utf8(df.stdout).expect("a number").lines().last().map(|line| line.trim().to_owned());
        assert_eq!(size, Some(dir.total_bytes.to_string()), "version {version}");
        assert!(dir.usable_bytes > 0 && dir.usable_bytes <= dir.total_bytes, "{dir:?}");
    }
}
