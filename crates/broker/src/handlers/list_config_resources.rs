//! ListConfigResources (key 74): what has, or can have, dynamic configuration (KIP-1142).
//!
//! Versions: 0 client metrics subscriptions only (KIP-714); 1 kinds to list; none means all.
//! Gaps: none.

use crate::call::{Answer, Call};
use crate::topology;
use metadata::{ConfigResourceType, MetadataImage};
use std::borrow::Cow;
use std::collections::HashSet;
use wire::ErrorCode;
use wire::list_config_resources_request::ListConfigResourcesRequest;
use wire::list_config_resources_response::{ConfigResource, ListConfigResourcesResponse};

/// Kinds of version 0.
const V0_KINDS: [ConfigResourceType; 1] = [ConfigResourceType::ClientMetrics];
/// Kinds from version 1 on.
const KINDS: [ConfigResourceType; 5] = [
    ConfigResourceType::Topic,
    ConfigResourceType::Broker,
    ConfigResourceType::BrokerLogger,
    ConfigResourceType::ClientMetrics,
    ConfigResourceType::Group,
];

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: ListConfigResourcesRequest = call.decode()?;
    let served: &[ConfigResourceType] = if call.version == 0 { &V0_KINDS } else { &KINDS };
    let asked: Option<Vec<ConfigResourceType>> = match request.resource_types.as_slice() {
        [] => Some(served.to_vec()),
        codes => codes.iter().map(|code| ConfigResourceType::from_code(*code)).collect(),
    };
    let Some(mut asked) = asked else {
        let error_code = ErrorCode::UNSUPPORTED_VERSION.0;
        return call.respond(&ListConfigResourcesResponse { error_code, ..ListConfigResourcesResponse::default() });
    };
    let mut named = HashSet::new();
    asked.retain(|kind| named.insert(kind.code()));
    let image = call.core.image();
    let mut config_resources = Vec::new();
    for kind in asked {
        let resource = |name: Cow<'_, str>| ConfigResource {
            resource_name: Cow::Owned(name.into_owned()),
            resource_type: kind.code(),
        };
        config_resources.extend(names(&image, call.listener(), kind).into_iter().map(resource));
    }
    call.respond(&ListConfigResourcesResponse { config_resources, ..ListConfigResourcesResponse::default() })
}

fn names<'i>(image: &'i MetadataImage, listener: &'i str, kind: ConfigResourceType) -> Vec<Cow<'i, str>> {
    match kind {
        ConfigResourceType::Topic => image.topics.iter().map(|topic| Cow::Borrowed(topic.name.as_ref())).collect(),
        ConfigResourceType::Broker | ConfigResourceType::BrokerLogger => {
            topology::nodes(image, listener, false).map(|node| Cow::Owned(node.broker.id.to_string())).collect()
        }
        ConfigResourceType::ClientMetrics | ConfigResourceType::Group => {
            image.configs.names(kind).map(|name| Cow::Borrowed(name.as_ref())).collect()
        }
    }
}
