//! What each request is answered.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Uuid;
use bytes::Bytes;
use wire::api_versions_response::{ApiVersion, ApiVersionsResponse};
use wire::create_topics_request::CreateTopicsRequest;
use wire::create_topics_response::{CreatableTopicResult, CreateTopicsResponse};
use wire::delete_topics_request::DeleteTopicsRequest;
use wire::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use wire::header::{RequestHeader, decode_request_header, encode_response_header};
use wire::init_producer_id_response::InitProducerIdResponse;
use wire::list_offsets_request::ListOffsetsRequest;
use wire::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse};
use wire::metadata_request::MetadataRequest;
use wire::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::produce_request::ProduceRequest;
use wire::produce_response::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Segment, Writer};

/// What is answered, and in which versions: those of the load generator and of the harness.
const APIS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 3, 13),
    // Named alone: the load generator looks for it even when it reads nothing.
    (ApiKey::Fetch, 17, 17),
    (ApiKey::ListOffsets, 7, 7),
    (ApiKey::Metadata, 12, 13),
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::CreateTopics, 7, 7),
    (ApiKey::DeleteTopics, 5, 5),
    (ApiKey::InitProducerId, 4, 4),
];

/// The one node.
const NODE: i32 = 1;
/// Partitions of a topic that is created without a number of them, and the most that are believed.
const PARTITIONS: i32 = 1;
const PARTITIONS_MAX: i32 = 100_000;

/// The topics that were created, and what else all cores share; nothing of it is touched by a Produce.
pub struct Topics {
    address: SocketAddr,
    by_name: Mutex<BTreeMap<String, (Uuid, i32)>>,
    next: AtomicI64,
}

impl Topics {
    /// No topics, at an address.
    pub fn new(address: SocketAddr) -> Topics {
        Topics { address, by_name: Mutex::new(BTreeMap::new()), next: AtomicI64::new(1) }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (Uuid, i32)>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// The answer to a frame as it is sent; nothing for a Produce without acknowledgement. An error ends the connection.
pub fn answer(frame: &Bytes, topics: &Topics) -> Result<Vec<Bytes>, String> {
    let mut reader = Reader::new(frame);
    let header = decode_request_header(&mut reader).map_err(|error| error.to_string())?;
    let (key, version) = (header.api().ok_or("an API that is not known")?, header.api_version);
    let served = APIS.iter().any(|(api, min, max)| *api == key && (*min..=*max).contains(&version));
    if !served {
        return Err(format!("{key} version {version} is not answered here"));
    }
    match key {
        ApiKey::Produce => {
            let request: ProduceRequest<'_> = decode(&mut reader, version)?;
            if request.acks == 0 { Ok(Vec::new()) } else { encode(&header, key, &produced(&request)) }
        }
        ApiKey::Metadata => encode(&header, key, &metadata(&decode(&mut reader, version)?, topics)),
        ApiKey::ApiVersions => encode(&header, key, &versions()),
        ApiKey::ListOffsets => encode(&header, key, &offsets(&decode(&mut reader, version)?)),
        ApiKey::CreateTopics => encode(&header, key, &created(&decode(&mut reader, version)?, topics)),
        ApiKey::DeleteTopics => encode(&header, key, &deleted(&decode(&mut reader, version)?, topics)),
        ApiKey::InitProducerId => {
            let given = InitProducerIdResponse { producer_id: topics.next(), ..Default::default() };
            encode(&header, key, &given)
        }
        _ => Err(format!("{key} is not answered here")),
    }
}

fn decode<'a, T: Decode<'a>>(reader: &mut Reader<'a>, version: i16) -> Result<T, String> {
    T::decode(reader, version).map_err(|error| error.to_string())
}

fn encode(header: &RequestHeader<'_>, key: ApiKey, body: &impl Encode) -> Result<Vec<Bytes>, String> {
    let mut writer = Writer::frame();
    encode_response_header(&mut writer, key, header.api_version, header.correlation_id);
    body.encode(&mut writer, header.api_version).map_err(|error| error.to_string())?;
    let parts = writer.finish().into_iter().map(|segment| match segment {
        Segment::Bytes(bytes) => Ok(bytes),
        Segment::External { .. } => Err("an answer of files".to_owned()),
    });
    parts.collect()
}

/// Success for every partition, at an offset that is nobody's.
fn produced<'a>(request: &ProduceRequest<'a>) -> ProduceResponse<'a> {
    let topics = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|part| PartitionProduceResponse { index: part.index, ..Default::default() })
            .collect(),
    });
    ProduceResponse { responses: topics.collect(), ..Default::default() }
}

fn versions() -> ApiVersionsResponse<'static> {
    let api =
        |(key, min, max): &(ApiKey, i16, i16)| ApiVersion { api_key: key.code(), min_version: *min, max_version: *max };
    ApiVersionsResponse { api_keys: APIS.iter().map(api).collect(), ..Default::default() }
}

/// Offset 0 of every partition, begin or end: nothing is ever kept.
fn offsets<'a>(request: &ListOffsetsRequest<'a>) -> ListOffsetsResponse<'a> {
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|part| ListOffsetsPartitionResponse {
                partition_index: part.partition_index,
                offset: 0,
                ..Default::default()
            })
            .collect(),
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

fn metadata<'a>(request: &MetadataRequest<'a>, topics: &'a Topics) -> MetadataResponse<'a> {
    let all = topics.all();
    let told = |name: Cow<'a, str>| {
        let Some((topic_id, partitions)) = all.get(name.as_ref()).copied() else {
            let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
            return MetadataResponseTopic { name: Some(name), error_code, ..Default::default() };
        };
        let partition = |partition_index| MetadataResponsePartition {
            partition_index,
            leader_id: NODE,
            leader_epoch: 0,
            replica_nodes: vec![NODE],
            isr_nodes: vec![NODE],
            ..Default::default()
        };
        let partitions = (0..partitions).map(partition).collect();
        MetadataResponseTopic { name: Some(name), topic_id, partitions, ..Default::default() }
    };
    let asked = request.topics.iter().flatten().filter_map(|topic| topic.name.clone());
    let broker = MetadataResponseBroker {
        node_id: NODE,
        host: topics.address.ip().to_string().into(),
        port: i32::from(topics.address.port()),
        rack: None,
    };
    MetadataResponse {
        brokers: vec![broker],
        controller_id: NODE,
        topics: asked.map(told).collect(),
        ..Default::default()
    }
}

fn created<'a>(request: &CreateTopicsRequest<'a>, topics: &Topics) -> CreateTopicsResponse<'a> {
    let mut all = topics.all();
    let made = request.topics.iter().map(|topic| {
        let partitions = if topic.num_partitions == -1 { PARTITIONS } else { topic.num_partitions };
        let name = topic.name.clone();
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            let error_code = ErrorCode::INVALID_PARTITIONS.code();
            return CreatableTopicResult { name, error_code, ..Default::default() };
        }
        // Distinct while the process runs, and never one of the reserved ids.
        let topic_id = Uuid::from_u128((1 << 64) | u128::from(topics.next().unsigned_abs()));
        all.insert(name.to_string(), (topic_id, partitions));
        CreatableTopicResult { name, topic_id, num_partitions: partitions, replication_factor: 1, ..Default::default() }
    });
    CreateTopicsResponse { topics: made.collect(), ..Default::default() }
}

fn deleted<'a>(request: &DeleteTopicsRequest<'a>, topics: &Topics) -> DeleteTopicsResponse<'a> {
    let mut all = topics.all();
    let gone = request.topic_names.iter().map(|name| {
        all.remove(name.as_ref());
        DeletableTopicResult { name: Some(name.clone()), ..Default::default() }
    });
    DeleteTopicsResponse { responses: gone.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::header::{decode_response_header, encode_request_header};

    use super::*;
    use wire::create_topics_request::CreatableTopic;
    use wire::metadata_request::MetadataRequestTopic;
    use wire::produce_request::{PartitionProduceData, TopicProduceData};

    fn ask(topics: &Topics, key: ApiKey, version: i16, body: &impl Encode) -> Result<Bytes, String> {
        let mut writer = Writer::new();
        let header =
            RequestHeader { api_key: key.code(), api_version: version, correlation_id: 7, client_id: Some("t".into()) };
        encode_request_header(&mut writer, &header).expect("a valid header");
        body.encode(&mut writer, version).expect("a valid request");
        let frame = writer.into_bytes().expect("requests are in memory");
        Ok(answer(&frame, topics)?.concat().into())
    }

    fn told<'a, T: Decode<'a>>(frame: &'a Bytes, key: ApiKey, version: i16) -> T {
        let mut reader = Reader::new(frame);
        let length = reader.i32().expect("a length");
        assert_eq!(length as usize, frame.len() - 4);
        assert_eq!(decode_response_header(&mut reader, key, version), Ok(7));
        T::decode(&mut reader, version).expect("a valid answer")
    }

    fn topics() -> Topics {
        Topics::new("127.0.0.1:9092".parse().expect("an address"))
    }

    #[test]
    fn what_is_created_is_told_and_written_to_with_success() {
        let (topics, name) = (topics(), "a");
        let topic = CreatableTopic { name: name.into(), num_partitions: 3, ..Default::default() };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let frame = ask(&topics, ApiKey::CreateTopics, 7, &request).expect("an answer");
        let id = told::<CreateTopicsResponse<'_>>(&frame, ApiKey::CreateTopics, 7).topics[0].topic_id;

        let wanted = ["a", "b"].map(|name| MetadataRequestTopic { name: Some(name.into()), ..Default::default() });
        let request = MetadataRequest { topics: Some(wanted.to_vec()), ..Default::default() };
        let frame = ask(&topics, ApiKey::Metadata, 13, &request).expect("an answer");
        let said: MetadataResponse<'_> = told(&frame, ApiKey::Metadata, 13);
        assert_eq!((said.brokers[0].port, said.topics[0].topic_id, said.topics[0].partitions.len()), (9092, id, 3));
        assert_eq!(said.topics[1].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());

        for (acks, parts) in [(0, 0), (1, 2), (-1, 2)] {
            let partition = |index| PartitionProduceData { index, records: None };
            let data = TopicProduceData {
                topic_id: id,
                partition_data: vec![partition(2), partition(0)],
                ..Default::default()
            };
            let request = ProduceRequest { acks, topic_data: vec![data], ..Default::default() };
            let frame = ask(&topics, ApiKey::Produce, 13, &request).expect("an answer");
            if parts == 0 {
                assert!(frame.is_empty());
                continue;
            }
            let said: ProduceResponse<'_> = told(&frame, ApiKey::Produce, 13);
            let told = &said.responses[0].partition_responses;
            assert_eq!(said.responses[0].topic_id, id);
            assert_eq!(told.iter().map(|p| (p.index, p.error_code)).collect::<Vec<_>>(), [(2, 0), (0, 0)]);
        }

        let request = DeleteTopicsRequest { topic_names: vec![name.into()], ..Default::default() };
        ask(&topics, ApiKey::DeleteTopics, 5, &request).expect("an answer");
        assert!(topics.all().is_empty());
    }

    #[test]
    fn what_is_not_answered_ends_the_connection() {
        let topics = topics();
        let request = MetadataRequest::default();
        assert!(ask(&topics, ApiKey::Metadata, 9, &request).is_err());
        assert!(answer(&Bytes::from_static(&[0, 1]), &topics).is_err());
        assert!(answer(&Bytes::from_static(&[0, 1, 0, 17, 0, 0, 0, 1, 255, 255, 0]), &topics).is_err());
    }
}
