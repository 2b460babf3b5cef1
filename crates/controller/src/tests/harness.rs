//! A controller and what the tests ask it.

use std::sync::Arc;

use base::{BrokerId, Now, Offset, Prng, Uuid};
use bytes::Bytes;
use config::{BrokerConfig, LayeredConfig, Properties};
use metadata::{MetadataImage, PartitionRegistration, VersionedRecord, features};
use wire::broker_heartbeat_request::BrokerHeartbeatRequest;
use wire::broker_heartbeat_response::BrokerHeartbeatResponse;
use wire::broker_registration_request::{BrokerRegistrationRequest, Feature, Listener};
use wire::broker_registration_response::BrokerRegistrationResponse;
use wire::create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::feature_level_record::FeatureLevelRecord;
use wire::{ApiKey, Decode, Encode, Reader, Writer};

use crate::{Controller, ControllerConfig, Decision, Env};

/// A controller whose decisions are committed as soon as they are made.
pub(super) struct World {
    pub(super) controller: Controller,
    pub(super) now: Now,
    prng: Prng,
    end: Offset,
    /// Records of the last decision.
    pub(super) written: Vec<VersionedRecord<'static>>,
}

/// The log directory of a broker.
pub(super) fn directory(id: BrokerId) -> Uuid {
    Uuid::from_u128(0xd000 + id as u128)
}

impl World {
    /// A controller at the newest metadata version; with eligible leader replicas or without.
    pub(super) fn new(elr: bool) -> World {
        World::with_properties(elr, "")
    }

    pub(super) fn with_properties(elr: bool, more: &str) -> World {
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n\
             listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
             controller.listener.names=CONTROLLER\nlog.dirs=/nowhere\n{more}\n"
        );
        let properties = Properties::parse(text.as_bytes()).expect("properties");
        let config = LayeredConfig::new(BrokerConfig::from_properties(properties).expect("valid"));
        let now = Now { mono_ns: 1_000_000_000, wall_ms: 1_000 };
        let config = ControllerConfig {
            node_id: 1,
            combined: false,
            cluster_id: "cluster".to_owned(),
            voter_ids: vec![1],
            config,
        };
        let mut controller = Controller::new(config, Arc::default(), now);
        let mut bootstrap = vec![level(features::METADATA_VERSION, 33)];
        if elr {
            bootstrap.push(level(features::ELR_VERSION, 1));
        }
        controller.activate(now);
        let decision = controller.activation_records(bootstrap).expect("activates");
        let mut world = World { controller, now, prng: Prng::new(1), end: 1, written: Vec::new() };
        world.commit(decision);
        world
    }

    pub(super) fn commit<R>(&mut self, decision: Decision<R>) -> R {
        for (record, version) in &decision.records {
            let bytes = record.encode(*version).expect("encodable in its version");
            let (decoded, _) = wire::metadata_record::MetadataRecord::decode(&bytes).expect("decodable");
            self.controller.replay(self.end, &decoded).expect("applicable");
            self.end += 1;
        }
        self.written = decision.records;
        decision.response
    }

    pub(super) fn image(&self) -> Arc<MetadataImage> {
        self.controller.image().clone()
    }

    pub(super) fn ask<Q: Encode>(&mut self, api: ApiKey, version: i16, request: &Q) -> Bytes {
        let mut writer = Writer::new();
        request.encode(&mut writer, version).expect("encodable");
        let body = writer.into_bytes().unwrap_or_default();
        let env = Env { now: self.now, next_offset: self.end, kraft_version: 0 };
        let decision = self.controller.handle(env, &mut self.prng, api, version, &body).expect("served");
        self.commit(decision)
    }

    /// Registers a broker anew; `previous` is the epoch it remembers from a clean stop.
    pub(super) fn register(&mut self, id: BrokerId, incarnation: u128, previous: i64) -> BrokerRegistrationResponse {
        let feature = |f: &features::FeatureSupport| Feature {
            name: f.name.into(),
            min_supported_version: f.min,
            max_supported_version: f.max,
        };
        let request = BrokerRegistrationRequest {
            broker_id: id,
            cluster_id: "cluster".into(),
            incarnation_id: Uuid::from_u128(incarnation),
            listeners: vec![Listener { name: "PLAINTEXT".into(), host: "h".into(), port: 1, security_protocol: 0 }],
            features: features::SUPPORTED.iter().map(feature).collect(),
            log_dirs: vec![directory(id)],
            previous_broker_epoch: previous,
            ..BrokerRegistrationRequest::default()
        };
        let answer = self.ask(ApiKey::BrokerRegistration, 4, &request);
        BrokerRegistrationResponse::decode(&mut Reader::new(&answer), 4).expect("a response")
    }

    pub(super) fn epoch(&self, id: BrokerId) -> i64 {
        self.controller.image().cluster.broker(id).expect("registered").epoch
    }

    pub(super) fn beat(
        &mut self,
        id: BrokerId,
        set: impl FnOnce(&mut BrokerHeartbeatRequest),
    ) -> BrokerHeartbeatResponse {
        let mut request = BrokerHeartbeatRequest {
            broker_id: id,
            broker_epoch: self.epoch(id),
            current_metadata_offset: self.end - 1,
            cordoned_log_dirs: Some(vec![]),
            ..BrokerHeartbeatRequest::default()
        };
        set(&mut request);
        let answer = self.ask(ApiKey::BrokerHeartbeat, 2, &request);
        BrokerHeartbeatResponse::decode(&mut Reader::new(&answer), 2).expect("a response")
    }

    /// Registers brokers 1 to `count` and lets them serve.
    pub(super) fn with_brokers(mut self, count: BrokerId) -> World {
        for id in 1..=count {
            assert_eq!(self.register(id, 100 + id as u128, -1).error_code, 0);
            assert!(!self.beat(id, |_| {}).is_fenced);
        }
        self
    }

    /// Lets `ms` pass in which only the brokers of `alive` are heard from.
    pub(super) fn pass(&mut self, ms: u64, alive: &[BrokerId]) {
        for _ in 0..ms / 1_000 {
            self.now = self.now.plus_ms(1_000);
            for id in alive {
                self.beat(*id, |_| {});
            }
            while let Some(decision) = self.controller.tick(self.now) {
                self.commit(decision);
            }
        }
    }

    /// Creates a topic of one partition on these replicas.
    pub(super) fn topic(&mut self, name: &str, replicas: &[BrokerId]) {
        let assignment = CreatableReplicaAssignment { partition_index: 0, broker_ids: replicas.to_vec() };
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![assignment],
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        let answer = self.ask(ApiKey::CreateTopics, 7, &request);
        let response = CreateTopicsResponse::decode(&mut Reader::new(&answer), 7).expect("a response");
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0]);
    }

    /// The only partition of a topic.
    pub(super) fn partition(&self, name: &str) -> PartitionRegistration {
        let image = self.image();
        let topic = image.topics.by_name(name).expect("a topic");
        PartitionRegistration::clone(topic.partition(0).expect("a partition"))
    }
}

fn level(name: &'static str, feature_level: i16) -> VersionedRecord<'static> {
    (FeatureLevelRecord { name: name.into(), feature_level }.into(), 0)
}
