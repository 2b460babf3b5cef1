//! Creating topics because a client asked for their metadata (`auto.create.topics.enable`).
//!
//! As in Kafka, the request that named the topic is answered UNKNOWN_TOPIC_OR_PARTITION at once, which is retriable; the
//! topic is created in the background and found by the retry.

use crate::call::Call;
use crate::internal_topics;
use crate::messages::ControllerCall;
use crate::topology;
use config::BrokerConfig;
use reactor::{Class, spawn};
use std::borrow::Cow;
use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::{ApiKey, Encode, Writer};

/// Version of the CreateTopics request that is sent to the controller.
pub const CREATE_TOPICS_VERSION: i16 = 7;

/// Time limit given to the controller, in milliseconds.
const CREATE_TIMEOUT_MS: i32 = 30_000;

/// Topics one core may be creating at once; more are left to the client's retry.
const CREATING_MAX: usize = 1000;

/// Begins to create those of `names` that may be topics and are not being created already.
pub fn start<'n>(call: &Call, names: impl Iterator<Item = &'n str>) {
    let core = &call.core;
    if !core.config().topics.auto_create {
        return;
    }
    let mut creating = core.creating.borrow_mut();
    let fresh = names.filter(|name| topology::is_valid_topic_name(name));
    let mut started = Vec::new();
    for name in fresh {
        if creating.len() < CREATING_MAX && creating.insert(name.into()) {
            started.push(name.to_owned());
        }
    }
    drop(creating);
    if started.is_empty() {
        return;
    }
    let core = core.clone();
    let client_id = call.client_id().map(Into::into);
    spawn(Class::Normal, async move {
        let config = core.config();
        let topics = started.iter().map(|name| topic(&config, name)).collect();
        if let Some(controller_call) = create_call(topics, client_id)
            && let Err(error) = core.ask_controller(controller_call).await
        {
            tracing::warn!(topics = ?started, %error, "auto-creation failed");
        }
        let mut creating = core.creating.borrow_mut();
        for name in &started {
            creating.remove(name.as_str());
        }
    })
    .detach();
}

fn topic<'n>(config: &BrokerConfig, name: &'n str) -> CreatableTopic<'n> {
    if name == internal_topics::CONSUMER_OFFSETS {
        return internal_topics::consumer_offsets(config);
    }
    CreatableTopic {
        name: Cow::Borrowed(name),
        // The controller puts its `num.partitions` and `default.replication.factor` in.
        num_partitions: -1,
        replication_factor: -1,
        ..CreatableTopic::default()
    }
}

/// CreateTopics for the controller; `None` if the request cannot be encoded.
pub fn create_call(topics: Vec<CreatableTopic<'_>>, client_id: Option<Box<str>>) -> Option<ControllerCall> {
    let request = CreateTopicsRequest { topics, timeout_ms: CREATE_TIMEOUT_MS, ..CreateTopicsRequest::default() };
    let mut w = Writer::new();
    request.encode(&mut w, CREATE_TOPICS_VERSION).ok()?;
    let body = w.into_bytes()?;
    Some(ControllerCall { api: ApiKey::CreateTopics, version: CREATE_TOPICS_VERSION, body, client_id })
}
