//! Directories that go to and fro between Apache Kafka 4.4.0 and this controller core.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Uuid;
use common::lifecycle::{BrokerIdentity, BrokerLifecycle};
use common::{CLUSTER_ID, Home, tool};
use metadata::{Endpoint, MetadataDelta, MetadataImage};
use quorum::{ControllerHandle, Publisher, Quorum, RequestContext};
use reactor::{Class, block_on};
use wire::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::{ApiKey, Encode, Writer};

#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Arc<MetadataImage>>>);

impl Publisher for Kept {
    async fn publish(&self, image: Arc<MetadataImage>, _: Arc<MetadataDelta>) {
        *self.0.borrow_mut() = image;
    }
}

async fn create_topics(handle: &ControllerHandle, names: &[&str]) {
    let topics = names.iter().map(|name| CreatableTopic {
        name: (*name).into(),
        num_partitions: 3,
        replication_factor: 1,
        configs: vec![CreatableTopicConfig { name: "retention.ms".into(), value: Some("1234567".into()) }],
        ..CreatableTopic::default()
    });
    let request = CreateTopicsRequest { topics: topics.collect(), ..CreateTopicsRequest::default() };
    let mut writer = Writer::new();
    request.encode(&mut writer, 7).expect("encodable");
    let context = RequestContext { principal: "User:test".to_owned(), client_id: None };
    let body = writer.into_bytes().unwrap_or_default();
    handle.request(context, ApiKey::CreateTopics, 7, body).await.expect("an answer");
}

/// Runs the controller core with one broker on the directory, creates topics and stops in order.
fn run_odradek(home: &Home, topics: &'static [&'static str]) -> Arc<MetadataImage> {
    let (config, directory, port) = (home.config(), home.directory_id(), home.port());
    block_on(async move {
        let kept = Kept::default();
        let (quorum, handle) = Quorum::start(config, kept.clone()).await.expect("starts");
        let task = reactor::spawn(Class::Normal, quorum.run());
        let known = kept.0.borrow().cluster.broker(1).map_or(-1, |broker| broker.epoch);
        let listener = Endpoint { name: "PLAINTEXT".into(), host: "localhost".into(), port, security_protocol: 0 };
        let identity = BrokerIdentity {
            id: 1,
            cluster_id: CLUSTER_ID.to_owned(),
            incarnation_id: Uuid::from_u128(u128::from(reactor::random_u64()) | 1 << 100),
            listeners: vec![listener],
            rack: None,
            log_dirs: vec![directory],
            previous_epoch: known,
        };
        let broker = BrokerLifecycle::register(handle.clone(), &identity).await.expect("registered");
        let offset = kept.0.borrow().provenance.last_offset;
        assert!(!broker.heartbeat(offset, false, vec![]).await.expect("answered").fenced);
        create_topics(&handle, topics).await;
        let image = kept.0.borrow().clone();
        reactor::sleep(Duration::from_millis(100)).await;
        assert!(broker.shut_down(image.provenance.last_offset, Duration::from_secs(5)).await.expect("answered"));
        handle.stop().await;
        task.await.expect("a clean end");
        image
    })
}

fn files(home: &Home, suffix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(home.metadata()).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(suffix))
        .collect();
    names.sort();
    names
}

fn describe_topics(home: &Home) -> String {
    tool("org.apache.kafka.tools.TopicCommand", &["--bootstrap-server", &home.bootstrap(), "--describe"])
}

/// Kafka formats, this core runs, Kafka's tool reads what it wrote, Kafka runs, this core runs again.
fn to_and_fro(dynamic: bool) {
    let home = Home::formatted(dynamic, "metadata.log.max.record.bytes.between.snapshots=1500\n");
    let image = run_odradek(&home, &["ours-1", "ours-2"]);
    assert_eq!(image.topics.len(), 2);
    assert_eq!(image.features.level("kraft.version"), i16::from(dynamic));
    let log = home.dump("00000000000000000000.log");
    for text in ["LeaderChange", "FEATURE_LEVEL_RECORD", "REGISTER_CONTROLLER_RECORD", "REGISTER_BROKER_RECORD"] {
        assert!(log.contains(text), "{text} in\n{log}");
    }
    assert!(log.contains(r#""name":"ours-1""#) && log.contains("isvalid: true"));
    assert!(!log.contains("isvalid: false") && !log.contains("Could not"), "{log}");
    for index in files(&home, "index") {
        let text = home.dump(&index);
        assert!(!text.contains("Mismatch") && !text.contains("Found"), "{index}:\n{text}");
    }
    let snapshots: Vec<String> =
        files(&home, ".checkpoint").into_iter().filter(|name| !name.starts_with("00000000000000000000-")).collect();
    assert!(!snapshots.is_empty(), "a snapshot was due");
    for snapshot in &snapshots {
        let text = home.dump(snapshot);
        assert!(text.contains("SnapshotHeader") && text.contains("SnapshotFooter"), "{text}");
        assert_eq!(text.contains("KRaftVoters"), dynamic, "{text}");
    }

    let kafka = home.start_kafka();
    let described = describe_topics(&home);
    for topic in ["ours-1", "ours-2"] {
        assert!(described.contains(&format!("Topic: {topic}\tTopicId: ")), "{described}");
    }
    assert!(described.contains("retention.ms=1234567"), "{described}");
    let create = ["--create", "--topic", "theirs", "--partitions", "2"];
    tool("org.apache.kafka.tools.TopicCommand", &[&["--bootstrap-server", &home.bootstrap()][..], &create].concat());
    kafka.stop();

    let image = run_odradek(&home, &["ours-3"]);
    let names: Vec<String> = image.topics.iter().map(|topic| topic.name.to_string()).collect();
    assert_eq!(names, ["ours-1", "ours-2", "ours-3", "theirs"]);
    let led = image.topics.iter().all(|topic| topic.partitions().all(|(_, partition)| partition.leader == 1));
    assert!(led, "every partition has its leader back");
}

#[test]
fn a_directory_with_static_voters_goes_to_and_fro() {
    to_and_fro(false);
}

#[test]
fn a_standalone_directory_goes_to_and_fro() {
    to_and_fro(true);
}
