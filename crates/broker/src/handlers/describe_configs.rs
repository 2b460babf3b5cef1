//! DescribeConfigs (key 32): every option of a topic, a broker, a group or a client metrics subscription, with its value
//! and where that comes from.
//!
//! Versions: 1 synonyms and the source of a value (KIP-226); 2 quota rule; 3 types and documentation (KIP-569); 4
//! flexible.
//! Gaps: a broker has one logger, `root`.

use crate::call::{Answer, Call};
use crate::topology::{is_valid_topic_name, missing_topic_error};
use config::{ConfigEntry, ConfigError, ResourceKind, Wanted};
use metadata::{ConfigResource, ConfigResourceType, MetadataImage};
use std::borrow::Cow;
use std::sync::Arc;
use wire::ErrorCode;
use wire::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};

type Described = Result<Vec<ConfigEntry>, (ErrorCode, Option<String>)>;

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let request: DescribeConfigsRequest<'_> = call.decode()?;
    let image = call.core.image();
    let results = request.resources.iter().map(|resource| {
        let names: Option<Vec<&str>> =
            resource.configuration_keys.as_ref().map(|keys| keys.iter().map(AsRef::as_ref).collect());
        let wanted = Wanted {
            names: names.as_deref(),
            synonyms: request.include_synonyms,
            documentation: request.include_documentation,
        };
        result(resource, describe(call, &image, resource, wanted))
    });
    let response = DescribeConfigsResponse { results: results.collect(), ..DescribeConfigsResponse::default() };
    call.respond(&response)
}

fn describe(
    call: &Call,
    image: &MetadataImage,
    resource: &DescribeConfigsResource<'_>,
    wanted: Wanted<'_>,
) -> Described {
    let name = resource.resource_name.as_ref();
    let invalid = |text: String| (ErrorCode::INVALID_REQUEST, Some(text));
    let layered = call.core.layered();
    let overrides = |kind| image.configs.overrides(&ConfigResource { kind, name: Arc::from(name) });
    let checked = |entries: Result<Vec<ConfigEntry>, ConfigError>| {
        entries.map_err(|error| (ErrorCode::INVALID_CONFIG, Some(error.to_string())))
    };
    match ResourceKind::from_wire(resource.resource_type) {
        Some(ResourceKind::Topic) => match image.topics.by_name(name) {
            Some(_) => checked(layered.describe_topic(overrides(ConfigResourceType::Topic), wanted)),
            None if is_valid_topic_name(name) => Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None)),
            None => Err((missing_topic_error(name), controller::reason_invalid(name))),
        },
        Some(ResourceKind::Broker) if name.is_empty() => Ok(layered.describe_broker_default(wanted)),
        Some(ResourceKind::Broker) => match name.parse::<i32>() {
            Ok(id) if id == call.core.node.id => Ok(layered.describe_broker(wanted)),
            Ok(_) => {
                let own = call.core.node.id;
                Err(invalid(format!("Unexpected broker id, expected {own} or empty string, but received {name}")))
            }
            Err(_) => Err(invalid(format!("Broker id must be an integer, but it is: {name}"))),
        },
        Some(ResourceKind::BrokerLogger) => match name.parse::<i32>() {
            Ok(id) if id == call.core.node.id => {
                Ok(config::describe_loggers(&[("root", level(&layered.current.own.log_level))], wanted))
            }
            Ok(_) => Err(invalid(format!("Unexpected broker id, expected {} but received {name}", call.core.node.id))),
            Err(_) if name.is_empty() => Err(invalid("Broker id must not be empty".into())),
            Err(_) => Err(invalid(format!("Broker id must be an integer, but it is: {name}"))),
        },
        Some(ResourceKind::ClientMetrics) if name.is_empty() => {
            Err(invalid("Client metrics subscription name must not be empty".into()))
        }
        Some(ResourceKind::ClientMetrics) => {
            checked(config::describe_client_metrics(overrides(ConfigResourceType::ClientMetrics), wanted))
        }
        Some(ResourceKind::Group) if name.is_empty() => Err(invalid("Group name must not be empty".into())),
        Some(ResourceKind::Group) => checked(layered.describe_group(overrides(ConfigResourceType::Group), wanted)),
        None => Err(invalid(format!("Unsupported resource type: {}", resource.resource_type))),
    }
}

/// The names of Kafka's log levels.
fn level(own: &str) -> &'static str {
    match own.to_ascii_lowercase().as_str() {
        "error" => "ERROR",
        "warn" => "WARN",
        "debug" => "DEBUG",
        "trace" => "TRACE",
        _ => "INFO",
    }
}

fn result<'r>(resource: &DescribeConfigsResource<'r>, described: Described) -> DescribeConfigsResult<'r> {
    let mut result = DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..DescribeConfigsResult::default()
    };
    match described {
        Ok(entries) => result.configs = entries.into_iter().map(entry).collect(),
        Err((error, message)) => {
            result.error_code = error.0;
            // Where Kafka says nothing, the message is empty rather than null.
            result.error_message = Some(Cow::Owned(message.unwrap_or_default()));
        }
    }
    result
}

fn entry(entry: ConfigEntry) -> DescribeConfigsResourceResult<'static> {
    let config_type = entry.kind_wire_id();
    let synonym = |one: config::ConfigSynonym| DescribeConfigsSynonym {
        name: Cow::Owned(one.name),
        value: one.value.map(Cow::Owned),
        source: one.source as i8,
    };
    DescribeConfigsResourceResult {
        name: Cow::Owned(entry.name),
        value: entry.value.map(Cow::Owned),
        read_only: entry.read_only,
        config_source: entry.source as i8,
        is_sensitive: entry.sensitive,
        synonyms: entry.synonyms.into_iter().map(synonym).collect(),
        config_type,
        documentation: entry.documentation.map(Cow::Owned),
    }
}
