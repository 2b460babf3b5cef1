//! A typed client on the project's own codec: one request, one decoded answer. For tests that need exact control of versions,
//! offsets, sequences and limits.

use base::Uuid;
use bytes::Bytes;
use records::{BatchBuilder, BatchHeader, RecordData};
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Records, Writer};

use crate::node::{Node, Peer};
use crate::raw::Raw;

/// A connection that speaks whole messages.
pub struct Client {
    raw: Raw,
}

impl Client {
    /// Connects to `node`.
    pub fn connect(node: &Node) -> Client {
        Client { raw: node.raw() }
    }

    /// Sends `request` in `version` and decodes the answer, which must have no byte left over. The frame is leaked, so that the
    /// answer can be kept; tests are short.
    pub fn call<A: Decode<'static>>(&mut self, key: ApiKey, version: i16, request: &impl Encode) -> A {
        self.send(key, version, request);
        self.receive(key, version)
    }

    /// Sends `request` and does not wait.
    pub fn send(&mut self, key: ApiKey, version: i16, request: &impl Encode) {
        let flexible = key.info().is_flexible(version);
        self.raw.send_request(key as i16, version, flexible, &encode(request, version)).expect("the broker reads");
    }

    /// Receives and decodes the answer to a request sent before.
    pub fn receive<A: Decode<'static>>(&mut self, key: ApiKey, version: i16) -> A {
        let frame: &'static Bytes = Box::leak(Box::new(Bytes::from(self.raw.recv_frame().expect("an answer"))));
        let mut reader = Reader::new(frame);
        wire::header::decode_response_header(&mut reader, key, version).expect("a response header");
        let answer = A::decode(&mut reader, version).unwrap_or_else(|e| panic!("{key:?} v{version}: {e}"));
        assert_eq!(reader.remaining(), 0, "{key:?} v{version}: bytes left behind the answer");
        answer
    }

    /// The connection itself.
    pub fn raw(&mut self) -> &mut Raw {
        &mut self.raw
    }

    /// Creates a topic with settings and returns its id.
    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        use wire::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
        use wire::create_topics_response::CreateTopicsResponse;
        let configs =
            configs.iter().map(|(k, v)| CreatableTopicConfig { name: (*k).into(), value: Some((*v).into()) }).collect();
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..CreateTopicsRequest::default() };
        let answer: CreateTopicsResponse = self.call(ApiKey::CreateTopics, 7, &request);
        let topic = &answer.topics[0];
        assert_eq!(ErrorCode(topic.error_code), ErrorCode::NONE, "{name}: {:?}", topic.error_message);
        if Peer::under_test() == Peer::Kafka {
            // The original answers before its partitions can be used; Odradek does not.
            std::thread::sleep(std::time::Duration::from_millis(700));
        }
        topic.topic_id
    }

    /// Produces `batch` to one partition by name with acks=all (version 11) and returns what the broker said of it.
    pub fn produce(&mut self, topic: &str, partition: i32, batch: Bytes) -> Produced {
        self.send(ApiKey::Produce, 11, &produce_request(topic, partition, batch, -1));
        self.produced()
    }

    /// The answer to one earlier produce request of version 11.
    pub fn produced(&mut self) -> Produced {
        let answer: wire::produce_response::ProduceResponse = self.receive(ApiKey::Produce, 11);
        let part = &answer.responses[0].partition_responses[0];
        Produced {
            error: ErrorCode(part.error_code),
            base_offset: part.base_offset,
            log_append_time: part.log_append_time_ms,
            record_errors: part.record_errors.iter().map(|e| e.batch_index).collect(),
            message: part.error_message.as_ref().map(|m| m.to_string()),
        }
    }

    /// Fetches one partition by name (version 12) without a session.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64, limits: FetchLimits) -> Fetched {
        use wire::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
        let part = FetchPartition {
            partition,
            fetch_offset: offset,
            partition_max_bytes: limits.partition_max_bytes,
            ..FetchPartition::default()
        };
        let request = FetchRequest {
            max_wait_ms: limits.max_wait_ms,
            min_bytes: limits.min_bytes,
            max_bytes: limits.max_bytes,
            session_epoch: -1,
            topics: vec![FetchTopic { topic: topic.into(), partitions: vec![part], ..FetchTopic::default() }],
            ..FetchRequest::default()
        };
        let answer: wire::fetch_response::FetchResponse = self.call(ApiKey::Fetch, 12, &request);
        assert_eq!(ErrorCode(answer.error_code), ErrorCode::NONE);
        let part = &answer.responses[0].partitions[0];
        Fetched {
            error: ErrorCode(part.error_code),
            high_watermark: part.high_watermark,
            log_start: part.log_start_offset,
            records: bytes_of(part.records.as_ref()),
        }
    }

    /// ListOffsets (version 7) of one partition: error, timestamp, offset.
    pub fn list_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> (ErrorCode, i64, i64) {
        use wire::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
        let part = ListOffsetsPartition { partition_index: partition, timestamp, ..ListOffsetsPartition::default() };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic { name: topic.into(), partitions: vec![part] }],
            ..ListOffsetsRequest::default()
        };
        let answer: wire::list_offsets_response::ListOffsetsResponse = self.call(ApiKey::ListOffsets, 7, &request);
        let part = &answer.topics[0].partitions[0];
        (ErrorCode(part.error_code), part.timestamp, part.offset)
    }
}

/// The limits of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// `max_wait_ms`.
    pub max_wait_ms: i32,
    /// `min_bytes`.
    pub min_bytes: i32,
    /// `max_bytes`.
    pub max_bytes: i32,
    /// `partition_max_bytes`.
    pub partition_max_bytes: i32,
}

impl Default for FetchLimits {
    fn default() -> FetchLimits {
        FetchLimits { max_wait_ms: 500, min_bytes: 1, max_bytes: 50 << 20, partition_max_bytes: 1 << 20 }
    }
}

/// What the broker said of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Produced {
    /// The partition's error.
    pub error: ErrorCode,
    /// Offset of the first record.
    pub base_offset: i64,
    /// -1 unless the topic stamps append time.
    pub log_append_time: i64,
    /// Indexes of the records at fault.
    pub record_errors: Vec<i32>,
    /// The error's text.
    pub message: Option<String>,
}

/// What a fetch of one partition gave.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The partition's error.
    pub error: ErrorCode,
    /// High watermark.
    pub high_watermark: i64,
    /// Log start offset.
    pub log_start: i64,
    /// Whole batches, perhaps a cut one at the end.
    pub records: Bytes,
}

impl Fetched {
    /// First and last offset of each whole batch.
    pub fn batches(&self) -> Vec<(i64, i64)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.records.len() {
            let header = BatchHeader::parse(&self.records[at..]).expect("a whole batch header");
            let size = usize::try_from(header.batch_length).expect("a length") + 12;
            assert!(at + size <= self.records.len(), "the batch at {} is cut", header.base_offset);
            found.push((header.base_offset, header.base_offset + i64::from(header.last_offset_delta)));
            at += size;
        }
        found
    }
}

/// The body of `message`.
pub fn encode(message: &impl Encode, version: i16) -> Vec<u8> {
    let mut writer = Writer::new();
    message.encode(&mut writer, version).unwrap_or_else(|e| panic!("cannot encode v{version}: {e}"));
    let mut body = Vec::new();
    for segment in writer.finish() {
        match segment {
            wire::Segment::Bytes(bytes) => body.extend_from_slice(&bytes),
            wire::Segment::External { .. } => panic!("a request has no external bytes"),
        }
    }
    body
}

fn bytes_of(records: Option<&Records>) -> Bytes {
    match records {
        None => Bytes::new(),
        Some(Records::Bytes(bytes)) => bytes.clone(),
        Some(other) => panic!("decoding gives one piece, not {other:?}"),
    }
}

/// A produce request of one batch.
pub fn produce_request(
    topic: &str,
    partition: i32,
    batch: Bytes,
    acks: i16,
) -> wire::produce_request::ProduceRequest<'_> {
    use wire::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
    let part = PartitionProduceData { index: partition, records: Some(Records::Bytes(batch)) };
    let topic = TopicProduceData { name: topic.into(), partition_data: vec![part], ..TopicProduceData::default() };
    ProduceRequest { acks, timeout_ms: 10_000, topic_data: vec![topic], ..ProduceRequest::default() }
}

/// An uncompressed batch of `values` with the given timestamps.
pub fn batch_at(timestamps: &[i64], value: &[u8]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(0);
    for timestamp in timestamps {
        builder.append(&RecordData { timestamp: *timestamp, key: Some(b"k"), value: Some(value), headers: &[] });
    }
    builder
}

/// A batch of `count` records stamped with the present time.
pub fn batch(count: usize, value: &[u8]) -> BatchBuilder {
    batch_at(&vec![now_ms(); count], value)
}

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("fits")
}
