//! Allocations of small requests, counted on a broker that runs on the real machine: what grows here costs every small
//! request, and shows on no test of behaviour.

use base::{CoreId, Uuid};
use broker::assembly::{run_core, seats};
use broker::{Endpoint, FormattedDir, Layout, Setup};
use config::{BrokerConfig, Properties};
use reactor::{CountingAlloc, Runtime, RuntimeConfig};
use records::{BatchBuilder, RecordData};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use wire::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::header::{self, RequestHeader};
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::metadata_request::MetadataRequest;
use wire::metadata_response::MetadataResponse;
use wire::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::produce_response::ProduceResponse;
use wire::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use wire::update_features_response::UpdateFeaturesResponse;
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Records, Writer};

#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

/// Connections that each have one request in flight, and the partitions they write to.
const CONNECTIONS: usize = 16;
/// Data cores: with two of them, half of the requests are for the other core's partitions.
const CORES: u16 = 2;
/// Looks, ten milliseconds apart, whether a group is served.
const TRIES_MAX: usize = 3_000;
/// Rounds before counting begins: tables and buffers have their size by then.
const WARM_UP_ROUNDS: usize = 200;
/// Rounds that are counted.
const ROUNDS: usize = 500;
/// Allocations a request may take on average, its share of commits and of what runs by the clock included. What they are for:
/// decoding and encoding (four), the request's own future, now and then a buffer to receive into or to answer from.
const PRODUCE_ALLOCATIONS_MAX: f64 = 8.0;
/// The same of a heartbeat that says nothing new: the future of one that waits for the other core, and a share of buffers.
const HEARTBEAT_ALLOCATIONS_MAX: f64 = 2.0;

fn config(dir: &str) -> BrokerConfig {
    let mut properties = Properties::new();
    for (name, value) in [
        ("node.id", "1"),
        ("process.roles", "broker,controller"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://localhost:9093"),
        ("controller.listener.names", "CONTROLLER"),
        ("log.dirs", dir),
        ("odradek.durability", "written"),
        ("odradek.journal.file.bytes", "4194304"),
        ("offsets.topic.replication.factor", "1"),
        ("group.consumer.assignment.interval.ms", "0"),
    ] {
        properties.set(name, value);
    }
    BrokerConfig::from_properties(properties).expect("a valid configuration")
}

fn ask<Q: Encode>(stream: &mut TcpStream, api: ApiKey, version: i16, request: &Q) {
    let mut w = Writer::frame();
    let client_id = Some("counts".into());
    let head = RequestHeader { api_key: api.code(), api_version: version, correlation_id: 7, client_id };
    header::encode_request_header(&mut w, &head).expect("a header");
    request.encode(&mut w, version).expect("a request of its version");
    stream.write_all(&w.into_bytes().expect("a request is in memory")).expect("the broker reads");
}

fn answer<T>(stream: &mut TcpStream, api: ApiKey, version: i16, look: impl FnOnce(&mut Reader<'_>) -> T) -> T {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).expect("the broker answers");
    let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
    stream.read_exact(&mut frame).expect("the broker answers");
    let mut reader = Reader::from_slice(&frame);
    assert_eq!(header::decode_response_header(&mut reader, api, version).expect("a header"), 7);
    look(&mut reader)
}

/// Makes the topic and waits until it is known, which it is when its creation is answered.
fn create_topic(stream: &mut TcpStream) -> Uuid {
    let topic = CreatableTopic {
        name: "t".into(),
        num_partitions: CONNECTIONS as i32,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    ask(
        stream,
        ApiKey::CreateTopics,
        7,
        &CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..CreateTopicsRequest::default() },
    );
    answer(stream, ApiKey::CreateTopics, 7, |_| ());
    ask(stream, ApiKey::Metadata, 12, &MetadataRequest { topics: None, ..MetadataRequest::default() });
    answer(stream, ApiKey::Metadata, 12, |reader| {
        let known = MetadataResponse::decode(reader, 12).expect("an answer of its version");
        known.topics.iter().find(|topic| topic.name.as_deref() == Some("t")).expect("the topic").topic_id
    })
}

/// Every connection sends one request with one record, then every answer is read.
fn round(streams: &mut [TcpStream], topic_id: Uuid, batch: &bytes::Bytes) {
    for (index, stream) in streams.iter_mut().enumerate() {
        let records = Some(Records::Bytes(batch.clone()));
        let partition = PartitionProduceData { index: index as i32, records };
        let topic = TopicProduceData { topic_id, partition_data: vec![partition], ..TopicProduceData::default() };
        let request =
            ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..ProduceRequest::default() };
        ask(stream, ApiKey::Produce, 13, &request);
    }
    for stream in streams {
        answer(stream, ApiKey::Produce, 13, |reader| {
            let answer = ProduceResponse::decode(reader, 13).expect("an answer of its version");
            assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE.0);
        });
    }
}

/// A heartbeat of the only member of the group of each connection; gives the epoch they have come to.
fn heartbeats(streams: &mut [TcpStream], epoch: i32) -> i32 {
    for (index, stream) in streams.iter_mut().enumerate() {
        let joins = epoch == 0;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: format!("group {index}").into(),
            member_id: format!("member {index}").into(),
            member_epoch: epoch,
            rebalance_timeout_ms: if joins { 30_000 } else { -1 },
            subscribed_topic_names: joins.then(|| vec!["t".into()]),
            topic_partitions: joins.then(Vec::new),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        ask(stream, ApiKey::ConsumerGroupHeartbeat, 1, &request);
    }
    let epochs = streams.iter_mut().map(|stream| {
        answer(stream, ApiKey::ConsumerGroupHeartbeat, 1, |reader| {
            let answer = ConsumerGroupHeartbeatResponse::decode(reader, 1).expect("an answer of its version");
            assert_eq!(answer.error_code, ErrorCode::NONE.0, "{:?}", answer.error_message);
            answer.member_epoch
        })
    });
    epochs.min().expect("there are connections")
}

/// Lets consumer groups be used: the directory was not formatted with their feature.
fn finalize_group_version(stream: &mut TcpStream) {
    let update = FeatureUpdateKey {
        feature: "group.version".into(),
        max_version_level: 1,
        upgrade_type: 1,
        ..FeatureUpdateKey::default()
    };
    let request =
        UpdateFeaturesRequest { timeout_ms: 30_000, feature_updates: vec![update], ..UpdateFeaturesRequest::default() };
    ask(stream, ApiKey::UpdateFeatures, 2, &request);
    answer(stream, ApiKey::UpdateFeatures, 2, |reader| {
        let answer = UpdateFeaturesResponse::decode(reader, 2).expect("an answer of its version");
        assert_eq!(answer.error_code, ErrorCode::NONE.0, "{:?}", answer.error_message);
    });
}

/// Makes the topic of the coordinator, and waits until every group's home core serves it.
fn groups_are_served(streams: &mut [TcpStream]) {
    for (index, stream) in streams.iter_mut().enumerate() {
        let served = (0..TRIES_MAX).any(|_| {
            let keys = vec![format!("group {index}").into()];
            let request = FindCoordinatorRequest { coordinator_keys: keys, ..FindCoordinatorRequest::default() };
            ask(stream, ApiKey::FindCoordinator, 6, &request);
            answer(stream, ApiKey::FindCoordinator, 6, |_| ());
            // Says that there is no such member, once its group is loaded.
            let group_id = format!("group {index}").into();
            let request = HeartbeatRequest { group_id, member_id: "m".into(), ..HeartbeatRequest::default() };
            ask(stream, ApiKey::Heartbeat, 4, &request);
            let heard = answer(stream, ApiKey::Heartbeat, 4, |reader| {
                HeartbeatResponse::decode(reader, 4).expect("an answer of its version").error_code
            });
            std::thread::sleep(std::time::Duration::from_millis(10));
            heard == ErrorCode::UNKNOWN_MEMBER_ID.0
        });
        assert!(served, "group {index} is not served");
    }
}

/// Allocations a request, on average.
fn allocations(mut round: impl FnMut()) -> f64 {
    (0..WARM_UP_ROUNDS).for_each(|_| round());
    let before = CountingAlloc::count();
    (0..ROUNDS).for_each(|_| round());
    (CountingAlloc::count() - before) as f64 / (ROUNDS * CONNECTIONS) as f64
}

fn start(path: &str) -> (Runtime, SocketAddr) {
    let (tell, told) = channel();
    let layout = Layout { data_cores: CORES, controller_core: CoreId(0) };
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let id = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
    let setup = Arc::new(Setup {
        config: Arc::new(config(path)),
        cluster_id: "MkU3OEVBNTcwNTJENDM2Qk".into(),
        dirs: vec![FormattedDir { path: path.into(), id }],
        metadata_dir_id: id,
        endpoints: vec![Endpoint { name: "PLAINTEXT".into(), addr: any_port }],
        metrics_addr: None,
        layout,
        on_ready: Box::new(move |endpoints| tell.send(endpoints[0].addr).expect("the test waits")),
    });
    let (seats, counts) = (seats(layout), setup.connection_counts());
    let runtime = Runtime::start(RuntimeConfig::with_cores(usize::from(CORES)), move |core| {
        let (setup, counts, seats) = (setup.clone(), counts.clone(), seats.clone());
        async move { run_core(core, setup, counts, seats.take(core)).await.expect("the broker runs") }
    })
    .expect("two rings");
    (runtime, told.recv().expect("the broker starts"))
}

/// One test, because all threads of the process are counted.
#[test]
fn small_requests_take_few_allocations() {
    CountingAlloc::exempt_this_thread();
    let dir = tempfile::tempdir().expect("a directory");
    let (runtime, addr) = start(dir.path().to_str().expect("a name in UTF-8"));
    let mut streams: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| TcpStream::connect(addr).expect("the broker listens")).collect();
    streams.iter().for_each(|stream| stream.set_nodelay(true).expect("an option of TCP"));
    let topic_id = create_topic(&mut streams[0]);
    let mut builder = BatchBuilder::new(0);
    builder.append(&RecordData { value: Some(&[7; 100]), timestamp: 1, ..RecordData::default() });
    let batch = builder.build().expect("a batch");
    let produce = allocations(|| round(&mut streams, topic_id, &batch));

    finalize_group_version(&mut streams[0]);
    groups_are_served(&mut streams);
    let epoch = heartbeats(&mut streams, 0);
    let heartbeat = allocations(|| assert_eq!(heartbeats(&mut streams, epoch), epoch));

    runtime.stop_handle().stop();
    runtime.join();
    println!("{produce:.2} allocations a Produce, {heartbeat:.2} a ConsumerGroupHeartbeat");
    assert!(
        produce <= PRODUCE_ALLOCATIONS_MAX,
        "{produce:.2} allocations a Produce, {PRODUCE_ALLOCATIONS_MAX} are allowed"
    );
    assert!(
        heartbeat <= HEARTBEAT_ALLOCATIONS_MAX,
        "{heartbeat:.2} allocations a heartbeat, {HEARTBEAT_ALLOCATIONS_MAX} are allowed"
    );
}
