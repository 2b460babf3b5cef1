//! The topics that coordinators keep their records in, created when the first client needs one.

use crate::auto_create::{self, CREATE_TOPICS_VERSION};
use crate::core::DataCore;
use base::PartitionIndex;
use config::BrokerConfig;
use metadata::MetadataImage;
use reactor::{Class, spawn};
use std::borrow::Cow;
use std::rc::Rc;
use wire::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::create_topics_response::CreateTopicsResponse;
use wire::{Decode, ErrorCode, Reader};

/// Where groups and committed offsets are.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

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
    let call = auto_create::create_call(vec![consumer_offsets(&core.config())], None);
    let call = call.ok_or((ErrorCode::UNKNOWN_SERVER_ERROR, None))?;
    let body = core.ask_controller(call).await.map_err(|error| (error, None))?;
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
