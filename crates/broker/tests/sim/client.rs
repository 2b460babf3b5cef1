//! A client that speaks just enough of the protocol, on a simulated node.

use bytes::{Bytes, BytesMut};
use reactor::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use wire::fetch_response::FetchResponse;
use wire::header::{self, RequestHeader};
use wire::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::produce_response::ProduceResponse;
use wire::{ApiKey, Decode, Encode, ErrorCode, Message, Reader, Records, Segment, Writer};

/// Versions spoken: the last ones with topic names.
const PRODUCE_VERSION: i16 = 12;
const FETCH_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 7;

/// One connection.
pub struct Client {
    stream: TcpStream,
    received: BytesMut,
    correlation_id: i32,
}

fn broken(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Client {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> io::Result<Client> {
        Ok(Client { stream: TcpStream::connect(addr).await?, received: BytesMut::new(), correlation_id: 0 })
    }

    /// One request and its response.
    pub async fn ask<Q: Encode>(&mut self, api: ApiKey, version: i16, request: &Q) -> io::Result<Bytes> {
        self.correlation_id += 1;
        let mut w = Writer::frame();
        let head = RequestHeader {
            api_key: api.code(),
            api_version: version,
            correlation_id: self.correlation_id,
            client_id: Some("sim".into()),
        };
        header::encode_request_header(&mut w, &head).expect("a header");
        request.encode(&mut w, version).expect("a request of its version");
        let pieces = w.finish().into_iter().map(|segment| match segment {
            Segment::Bytes(bytes) => bytes,
            Segment::External { .. } => unreachable!("requests hold their bytes"),
        });
        self.stream.send_all(pieces.collect()).await?;
        let frame = self.next_frame().await?;
        let mut reader = Reader::new(&frame);
        let id = header::decode_response_header(&mut reader, api, version).map_err(|_| broken("header"))?;
        assert_eq!(id, self.correlation_id, "responses come in order");
        let at = reader.position();
        Ok(frame.slice(at..))
    }

    async fn next_frame(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(prefix) = self.received.first_chunk::<4>() {
                let len = i32::from_be_bytes(*prefix) as usize;
                if self.received.len() >= 4 + len {
                    return Ok(self.received.split_to(4 + len).freeze().slice(4..));
                }
            }
            let mut buf = std::mem::take(&mut self.received);
            buf.reserve(64 << 10);
            let (result, buf) = self.stream.recv(buf).await;
            self.received = buf;
            if result? == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// Creates topics; gives the error code of each.
    pub async fn create_topics(&mut self, topics: &[(&str, i32)]) -> io::Result<Vec<ErrorCode>> {
        let topic = |(name, partitions): &(&'static str, i32)| CreatableTopic {
            name: (*name).into(),
            num_partitions: *partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let topics: Vec<(&'static str, i32)> =
            topics.iter().map(|(name, n)| (&*Box::leak(Box::<str>::from(*name)), *n)).collect();
        let request = CreateTopicsRequest {
            topics: topics.iter().map(topic).collect(),
            timeout_ms: 30_000,
            ..CreateTopicsRequest::default()
        };
        let body = self.ask(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &request).await?;
        let response: CreateTopicsResponse<'_> = decode(&body, CREATE_TOPICS_VERSION)?;
        Ok(response.topics.iter().map(|topic| ErrorCode(topic.error_code)).collect())
    }

    /// Appends one batch with acks=all: its base offset, or the error.
    pub async fn produce(&mut self, topic: &str, partition: i32, batch: Bytes) -> io::Result<Result<i64, ErrorCode>> {
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: topic.into(),
                partition_data: vec![PartitionProduceData { index: partition, records: Some(Records::Bytes(batch)) }],
                ..TopicProduceData::default()
            }],
            ..ProduceRequest::default()
        };
        let body = self.ask(ApiKey::Produce, PRODUCE_VERSION, &request).await?;
        let response: ProduceResponse<'_> = decode(&body, PRODUCE_VERSION)?;
        let answer = &response.responses[0].partition_responses[0];
        Ok(match ErrorCode(answer.error_code) {
            ErrorCode::NONE => Ok(answer.base_offset),
            error => Err(error),
        })
    }

    /// Reads batches of one partition from `offset` on: the bytes, and the high watermark.
    pub async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> io::Result<Result<(Bytes, i64), ErrorCode>> {
        let request = FetchRequest {
            max_wait_ms: 100,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: topic.into(),
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: offset,
                    partition_max_bytes: 64 << 10,
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        let body = self.ask(ApiKey::Fetch, FETCH_VERSION, &request).await?;
        let response: FetchResponse<'_> = decode(&body, FETCH_VERSION)?;
        let answer = &response.responses[0].partitions[0];
        Ok(match (ErrorCode(answer.error_code), &answer.records) {
            (ErrorCode::NONE, Some(Records::Bytes(bytes))) => Ok((bytes.clone(), answer.high_watermark)),
            (ErrorCode::NONE, _) => Ok((Bytes::new(), answer.high_watermark)),
            (error, _) => Err(error),
        })
    }
}

/// Reads a response.
pub fn decode<'a, M: Decode<'a> + Message>(body: &'a Bytes, version: i16) -> io::Result<M> {
    let mut reader = Reader::new(body);
    let message = M::decode(&mut reader, version).map_err(|_| broken(M::NAME))?;
    reader.finish().map_err(|_| broken(M::NAME))?;
    Ok(message)
}
