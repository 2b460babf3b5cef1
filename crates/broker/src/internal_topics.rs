//! The topics that coordinators keep their records in, created when the first client needs one.

use crate::core::DataCore;
use crate::messages::{ControllerCall, CoreReply, CoreRequest};
use base::PartitionIndex;
use config::BrokerConfig;
use metadata::MetadataImage;
use reactor::{Class, spawn};
use std::borrow::Cow;
use std::rc::Rc;
use wire::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Writer};

/// Where groups and committed offsets are.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

/// Version of the CreateTopics request that is sent to the controller.
const CREATE_TOPICS_VERSION: i16 = 7;

/// Time limit given to the controller, in milliseconds.
const CREATE_TIMEOUT_MS: i32 = 30_000;

/// Number of partitions that `__consumer_offsets` has, or will have when it is created (`offsets.topic.num.partitions`).
pub fn consumer_offsets_partitions(image: &MetadataImage, config: &BrokerConfig) -> PartitionIndex {
    match image.topics.by_name(CONSUMER_OFFSETS) {
        Some(topic) => PartitionIndex::try_from(topic.partition_count()).unwrap_or(PartitionIndex::MAX),
        None => config.values.int("offsets.topic.num.partitions"),
    }
}

/// Begins to create `__consumer_offsets` as the `offsets.topic.*` options say, unless this core has begun already. The
/// client retries meanwhile.
pub fn create_consumer_offsets(core: &Rc<DataCore>) {
    if !core.creating.borrow_mut().insert(CONSUMER_OFFSETS.into()) {
        return;
    }
    let core = core.clone();
    spawn(Class::Normal, async move {
        if let Err((error, message)) = create(&core).await {
            let message = message.unwrap_or_default();
            tracing::error!(
                topic = CONSUMER_OFFSETS, %error, message,
                "groups are not served: their topic could not be created; see offsets.topic.replication.factor"
            );
        }
        core.creating.borrow_mut().remove(CONSUMER_OFFSETS);
    })
    .detach();
}

type Failure = (ErrorCode, Option<String>);

async fn create(core: &Rc<DataCore>) -> Result<(), Failure> {
    let body = request(&core.config()).ok_or((ErrorCode::UNKNOWN_SERVER_ERROR, None))?;
    let call = ControllerCall { api: ApiKey::CreateTopics, version: CREATE_TOPICS_VERSION, body, client_id: None };
    let to = core.layout.controller_core;
    let CoreReply::Controller(answer) = core.ask(to, CoreRequest::Controller(Box::new(call))).await.await else {
        unreachable!("a controller call is answered by the controller");
    };
    let body = answer.map_err(|error| (error, None))?;
    let response = CreateTopicsResponse::decode(&mut Reader::new(&body), CREATE_TOPICS_VERSION)
        .map_err(|_| (ErrorCode::UNKNOWN_SERVER_ERROR, None))?;
    for topic in &response.topics {
        // Another core, or another broker, may have been faster.
        if topic.error_code != 0 && topic.error_code != ErrorCode::TOPIC_ALREADY_EXISTS.0 {
            let message = topic.error_message.as_ref().map(|message| message.to_string());
            return Err((ErrorCode(topic.error_code), message));
        }
    }
    Ok(())
}

fn request(config: &BrokerConfig) -> Option<bytes::Bytes> {
    let request = CreateTopicsRequest {
        topics: vec![consumer_offsets(config)],
        timeout_ms: CREATE_TIMEOUT_MS,
        ..CreateTopicsRequest::default()
    };
    let mut w = Writer::new();
    request.encode(&mut w, CREATE_TOPICS_VERSION).ok()?;
    w.into_bytes()
}

/// `__consumer_offsets` as the `offsets.topic.*` options want it.
pub fn consumer_offsets(config: &BrokerConfig) -> CreatableTopic<'static> {
    let values = &config.values;
    let setting = |name, value: String| CreatableTopicConfig { name: Cow::Borrowed(name), value: Some(value.into()) };
    CreatableTopic {
        name: Cow::Borrowed(CONSUMER_OFFSETS),
        num_partitions: values.int("offsets.topic.num.partitions"),
        replication_factor: i16::try_from(values.int("offsets.topic.replication.factor")).unwrap_or(i16::MAX),
        configs: vec![
            setting("cleanup.policy", "compact".to_owned()),
            setting("segment.bytes", values.int("offsets.topic.segment.bytes").to_string()),
            setting("compression.type", "producer".to_owned()),
        ],
        ..CreatableTopic::default()
    }
}
