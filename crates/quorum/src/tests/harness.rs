//! A controller core in a temporary directory, with a publisher that keeps what it is given.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Uuid;
use bytes::Bytes;
use config::{BrokerConfig, Properties};
use metadata::{Endpoint, MetadataDelta, MetadataImage};
use reactor::{Class, Task};
use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::{ApiKey, Decode, Encode, Reader, Writer};

use super::lifecycle::{BrokerIdentity, BrokerLifecycle};
use crate::{ControllerHandle, Publisher, Quorum, QuorumConfig, QuorumError, RequestContext, RequestFailure};

/// Keeps every image, and checks that deltas follow each other.
#[derive(Clone, Default)]
pub(super) struct Kept(Rc<RefCell<Arc<MetadataImage>>>);

impl Kept {
    pub(super) fn image(&self) -> Arc<MetadataImage> {
        self.0.borrow().clone()
    }
}

impl Publisher for Kept {
    async fn publish(&self, image: Arc<MetadataImage>, delta: Arc<MetadataDelta>) {
        assert_eq!(**delta.base(), *self.image(), "a delta starts where the last one ended");
        assert_eq!(image, *delta.image());
        // A publisher takes its time: the quorum has to wait for it.
        reactor::yield_now().await;
        *self.0.borrow_mut() = image;
    }
}

/// Settings of a single node; `more` are lines of its properties file.
pub(super) fn config(dir: &Path, more: &[&str]) -> QuorumConfig {
    let mut text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n\
         listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs={}\n",
        dir.display()
    );
    more.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    let properties = Properties::parse(text.as_bytes()).expect("properties");
    let broker = BrokerConfig::from_properties(properties).expect("a valid configuration");
    QuorumConfig::new(&broker, "test-cluster", Uuid::from_u128(0xd1d1_0000_4000_8000_0000_0000_0000_0001))
}

pub(super) fn metadata_dir(dir: &Path) -> PathBuf {
    dir.join("__cluster_metadata-0")
}

/// A running controller and its one broker.
pub(super) struct Node {
    pub(super) handle: ControllerHandle,
    pub(super) kept: Kept,
    pub(super) broker: BrokerLifecycle,
    task: Task<Result<(), QuorumError>>,
}

impl Node {
    pub(super) async fn start(config: QuorumConfig) -> Node {
        let kept = Kept::default();
        let (quorum, handle) = Quorum::start(config, kept.clone()).await.expect("the quorum starts");
        let task = reactor::spawn(Class::Normal, quorum.run());
        let broker = BrokerLifecycle::register(handle.clone(), &identity(&kept)).await.expect("registered");
        let beat = broker.heartbeat(kept.image().provenance.last_offset, false, vec![]).await.expect("answered");
        assert!(!beat.fenced, "a broker that has applied its registration serves");
        Node { handle, kept, broker, task }
    }

    pub(super) fn image(&self) -> Arc<MetadataImage> {
        self.kept.image()
    }

    /// Stops in order.
    pub(super) async fn stop(self) {
        let offset = self.image().provenance.last_offset;
        assert!(self.broker.shut_down(offset, Duration::from_secs(10)).await.expect("answered"));
        self.handle.stop().await;
        self.task.await.expect("a clean end");
    }

    /// Stops as a crash would: nothing more is written.
    pub(super) fn abandon(self) {
        self.task.abort();
    }

    pub(super) async fn request<Q: Encode>(&self, api: ApiKey, version: i16, request: &Q) -> Bytes {
        self.try_request(api, version, request).await.expect("an answer")
    }

    /// As [`Node::request`]; `None` when the controller has stopped.
    pub(super) async fn try_request<Q: Encode>(&self, api: ApiKey, version: i16, request: &Q) -> Option<Bytes> {
        let mut writer = Writer::new();
        request.encode(&mut writer, version).expect("encodable");
        let body = writer.into_bytes().unwrap_or_default();
        let context = RequestContext { principal: "User:test".to_owned(), client_id: None };
        match self.handle.request(context, api, version, body).await {
            Ok(answer) => Some(answer),
            Err(RequestFailure::Stopped) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates topics with one replica; gives their error codes.
    pub(super) async fn create(&self, names: &[&str], partitions: i32) -> Vec<i16> {
        let topics = names.iter().map(|name| CreatableTopic {
            name: (*name).into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        });
        let request = CreateTopicsRequest { topics: topics.collect(), ..CreateTopicsRequest::default() };
        let answer = self.request(ApiKey::CreateTopics, 7, &request).await;
        let response = CreateTopicsResponse::decode(&mut Reader::new(&answer), 7).expect("a response");
        response.topics.iter().map(|topic| topic.error_code).collect()
    }
}

fn identity(kept: &Kept) -> BrokerIdentity {
    let random = (u128::from(reactor::random_u64()) << 64) | u128::from(reactor::random_u64());
    let endpoint = Endpoint { name: "PLAINTEXT".into(), host: "localhost".into(), port: 9092, security_protocol: 0 };
    BrokerIdentity {
        id: 1,
        cluster_id: "test-cluster".to_owned(),
        incarnation_id: Uuid::from_u128(random),
        listeners: vec![endpoint],
        rack: None,
        log_dirs: vec![Uuid::from_u128(0x1234_0000_4000_8000_0000_0000_0000_0001)],
        previous_epoch: kept.image().cluster.broker(1).map_or(-1, |broker| broker.epoch),
    }
}
