//! A controller in memory.

use crate::assembly::Setup;
use crate::controller_client::ControllerAccess;
use crate::messages::ControllerCall;
use crate::publisher::CorePublisher;
use base::Uuid;
use bytes::Bytes;
use metadata::{MetadataDelta, MetadataImage, Provenance};
use quorum::Publisher;
use reactor::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use wire::allocate_producer_ids_response::AllocateProducerIdsResponse;
use wire::broker_heartbeat_response::BrokerHeartbeatResponse;
use wire::broker_registration_change_record::BrokerRegistrationChangeRecord;
use wire::broker_registration_request::BrokerRegistrationRequest;
use wire::broker_registration_response::BrokerRegistrationResponse;
use wire::create_topics_request::CreateTopicsRequest;
use wire::create_topics_response::{CreatableTopicResult, CreateTopicsResponse};
use wire::feature_level_record::FeatureLevelRecord;
use wire::metadata_record::MetadataRecord;
use wire::partition_record::PartitionRecord;
use wire::register_broker_record::{BrokerEndpoint, RegisterBrokerRecord};
use wire::topic_record::TopicRecord;
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Writer};

struct State {
    setup: Arc<Setup>,
    publisher: CorePublisher,
    image: RefCell<Arc<MetadataImage>>,
    turn: Semaphore,
    ids: Cell<i64>,
}

/// See the module.
pub struct StandIn(Rc<State>);

impl StandIn {
    /// An empty one.
    pub fn new(setup: Arc<Setup>, publisher: CorePublisher) -> StandIn {
        StandIn(Rc::new(State {
            setup,
            publisher,
            image: RefCell::default(),
            turn: Semaphore::new(1),
            ids: Cell::new(0),
        }))
    }
}

impl ControllerAccess for StandIn {
    fn request(&self, call: ControllerCall) -> Pin<Box<dyn Future<Output = Result<Bytes, ErrorCode>>>> {
        let state = self.0.clone();
        Box::pin(async move {
            let _turn = state.turn.acquire().await;
            state.serve(call).await
        })
    }
}

fn encode<M: Encode>(message: &M, version: i16) -> Result<Bytes, ErrorCode> {
    let mut w = Writer::new();
    message.encode(&mut w, version).map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
    w.into_bytes().ok_or(ErrorCode::UNKNOWN_SERVER_ERROR)
}

impl State {
    async fn commit(&self, records: Vec<MetadataRecord<'_>>) {
        let mut delta = MetadataDelta::new(self.image.borrow().clone());
        let last_offset = self.image.borrow().provenance.last_offset + records.len() as i64;
        for record in &records {
            delta.replay(record).expect("own records fit");
        }
        delta.finish(Provenance { last_offset, last_epoch: 1, last_timestamp_ms: 0 });
        let image = delta.image().clone();
        *self.image.borrow_mut() = image.clone();
        self.publisher.publish(image, Arc::new(delta)).await;
    }

    async fn serve(&self, call: ControllerCall) -> Result<Bytes, ErrorCode> {
        let mut r = Reader::new(&call.body);
        let v = call.version;
        match call.api {
            ApiKey::BrokerRegistration => {
                let request = BrokerRegistrationRequest::decode(&mut r, v).map_err(|_| ErrorCode::INVALID_REQUEST)?;
                let end_points = request.listeners.iter().map(|l| BrokerEndpoint {
                    name: l.name.clone(),
                    host: l.host.clone(),
                    port: l.port,
                    security_protocol: l.security_protocol,
                });
                self.commit(vec![
                    MetadataRecord::FeatureLevel(FeatureLevelRecord {
                        name: "metadata.version".into(),
                        feature_level: 33,
                    }),
                    MetadataRecord::RegisterBroker(RegisterBrokerRecord {
                        broker_id: request.broker_id,
                        incarnation_id: request.incarnation_id,
                        broker_epoch: 1,
                        end_points: end_points.collect(),
                        log_dirs: request.log_dirs.clone(),
                        ..RegisterBrokerRecord::default()
                    }),
                ])
                .await;
                encode(&BrokerRegistrationResponse { broker_epoch: 1, ..Default::default() }, v)
            }
            ApiKey::BrokerHeartbeat => {
                let id = self.setup.config.node_id;
                if self.image.borrow().cluster.broker(id).is_some_and(|broker| broker.fenced) {
                    let change = BrokerRegistrationChangeRecord {
                        broker_id: id,
                        broker_epoch: 1,
                        fenced: -1,
                        ..Default::default()
                    };
                    self.commit(vec![MetadataRecord::BrokerRegistrationChange(change)]).await;
                }
                let response = BrokerHeartbeatResponse {
                    is_caught_up: true,
                    is_fenced: false,
                    should_shut_down: true,
                    ..Default::default()
                };
                encode(&response, v)
            }
            ApiKey::CreateTopics => {
                let request = CreateTopicsRequest::decode(&mut r, v).map_err(|_| ErrorCode::INVALID_REQUEST)?;
                let mut topics = Vec::new();
                for topic in &request.topics {
                    topics.push(self.create(&topic.name, topic.num_partitions).await);
                }
                encode(&CreateTopicsResponse { topics, ..Default::default() }, v)
            }
            ApiKey::AllocateProducerIds => {
                let first = self.ids.replace(self.ids.get() + 1000);
                let response = AllocateProducerIdsResponse {
                    producer_id_start: first,
                    producer_id_len: 1000,
                    ..Default::default()
                };
                encode(&response, v)
            }
            _ => Err(ErrorCode::UNSUPPORTED_VERSION),
        }
    }

    async fn create(&self, name: &str, partitions: i32) -> CreatableTopicResult<'static> {
        let mut result = CreatableTopicResult { name: name.to_owned().into(), ..Default::default() };
        if self.image.borrow().topics.by_name(name).is_some() {
            result.error_code = ErrorCode::TOPIC_ALREADY_EXISTS.0;
            return result;
        }
        let mut bits = u128::from(reactor::random_u64()) << 64 | u128::from(reactor::random_u64());
        let topic_id = loop {
            match Uuid::from_random_bits(bits) {
                Some(id) => break id,
                None => bits += 1 << 70,
            }
        };
        let count = if partitions < 1 { self.setup.config.topics.partitions as i32 } else { partitions };
        let id = self.setup.config.node_id;
        let mut records = vec![MetadataRecord::Topic(TopicRecord { name: name.to_owned().into(), topic_id })];
        records.extend((0..count).map(|partition_id| {
            MetadataRecord::Partition(PartitionRecord {
                partition_id,
                topic_id,
                replicas: vec![id],
                isr: vec![id],
                leader: id,
                leader_epoch: 0,
                partition_epoch: 0,
                directories: vec![self.setup.dirs[0].id],
                ..Default::default()
            })
        }));
        self.commit(records).await;
        result.topic_id = topic_id;
        result.num_partitions = count;
        result.replication_factor = 1;
        result
    }
}
