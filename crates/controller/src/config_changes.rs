//! AlterConfigs and IncrementalAlterConfigs: topics, brokers, the default of all brokers, groups, client metrics.
//!
//! What Kafka divides between the broker that takes the request (its form, and whether that broker could live with the
//! result) and the controller (what is written) is done here in that order.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use config::{AlterOp, Change, ConfigError, ResourceKind, Written};
use metadata::{ConfigResource, ConfigResourceType, VersionedRecord};
use wire::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource as LegacyResource};
use wire::alter_configs_response::{AlterConfigsResourceResponse as LegacyResult, AlterConfigsResponse};
use wire::clear_elr_record::ClearElrRecord;
use wire::config_record::ConfigRecord;
use wire::incremental_alter_configs_request::{AlterConfigsResource, IncrementalAlterConfigsRequest};
use wire::incremental_alter_configs_response::{AlterConfigsResourceResponse, IncrementalAlterConfigsResponse};
use wire::{ErrorCode, Str};

use crate::controller::{Controller, Decision, RECORDS_PER_REQUEST_MAX};
use crate::elections::too_many_changes;
use crate::error::{ApiError, code_and_message};
use crate::names::reason_invalid;

const MIN_ISR: &str = "min.insync.replicas";
const CORDONED: &str = "cordoned.log.dirs";

type Records = Vec<VersionedRecord<'static>>;

/// Type and name of a resource.
type Named<'r> = (i8, Str<'r>);

/// Error code and message for one resource.
type Outcome = (i16, Option<Str<'static>>);

impl Controller {
    /// IncrementalAlterConfigs (KIP-339): each resource by itself succeeds or fails.
    pub(crate) fn incremental_alter_configs<'r>(
        &mut self,
        request: &IncrementalAlterConfigsRequest<'r>,
    ) -> Result<Decision<IncrementalAlterConfigsResponse<'r>>, ApiError> {
        let named = |r: &AlterConfigsResource<'r>| (r.resource_type, r.resource_name.clone());
        let (records, outcomes) = self.alter_each(&request.resources, named, Controller::alter_incrementally);
        let responses = request.resources.iter().zip(outcomes);
        let responses = responses.map(|(resource, (error_code, error_message))| AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        });
        let responses = responses.collect();
        let records = self.finish_changes(records, request.validate_only)?;
        Ok(Decision::new(records, IncrementalAlterConfigsResponse { throttle_time_ms: 0, responses }))
    }

    /// AlterConfigs: a resource has what is named afterwards and nothing else.
    pub(crate) fn alter_configs<'r>(
        &mut self,
        request: &AlterConfigsRequest<'r>,
    ) -> Result<Decision<AlterConfigsResponse<'r>>, ApiError> {
        let named = |r: &LegacyResource<'r>| (r.resource_type, r.resource_name.clone());
        let (records, outcomes) = self.alter_each(&request.resources, named, Controller::alter_wholly);
        let responses = request.resources.iter().zip(outcomes);
        let responses = responses.map(|(resource, (error_code, error_message))| LegacyResult {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        });
        let responses = responses.collect();
        let records = self.finish_changes(records, request.validate_only)?;
        Ok(Decision::new(records, AlterConfigsResponse { throttle_time_ms: 0, responses }))
    }

    /// What both APIs share: `alter` says what one resource changes or why it may not; a resource that the request names
    /// more than once may not. Gives the records of all that succeeded and one error code and message a resource.
    fn alter_each<'r, R>(
        &mut self,
        resources: &[R],
        named: impl Fn(&R) -> Named<'r>,
        alter: impl Fn(&mut Controller, &R) -> Result<Records, ApiError>,
    ) -> (Records, Vec<Outcome>) {
        let repeated = repeated(resources.iter().map(&named));
        let mut records = Records::new();
        let mut outcomes = Vec::with_capacity(resources.len());
        for resource in resources {
            let outcome = match repeated.contains(&named(resource)) {
                true => Err(once_only()),
                false => alter(self, resource),
            };
            let outcome = outcome.map(|mut written| records.append(&mut written));
            outcomes.push(code_and_message(&outcome));
        }
        (records, outcomes)
    }

    fn alter_incrementally(&mut self, resource: &AlterConfigsResource<'_>) -> Result<Records, ApiError> {
        let delete = AlterOp::Delete as i8;
        let missing = |c: &wire::incremental_alter_configs_request::AlterableConfig<'_>| {
            c.config_operation != delete && c.value.is_none()
        };
        config::check_request(resource.configs.iter().map(|c| (&*c.name, missing(c))))?;
        let (kind, target) = resource_of(resource.resource_type, &resource.resource_name)?;
        let mut changes = Vec::with_capacity(resource.configs.len());
        for config in &resource.configs {
            let op = AlterOp::from_wire(config.config_operation).ok_or_else(|| {
                let text = format!("Unknown operations type {}", config.config_operation);
                ApiError::new(ErrorCode::INVALID_REQUEST, text)
            })?;
            changes.push(Change { name: &config.name, op, value: config.value.as_deref() });
        }
        match kind {
            // No logger of this process can be changed by its name.
            ResourceKind::BrokerLogger => {
                config::check_logger_changes(&[], &changes)?;
                return Ok(Records::new());
            }
            ResourceKind::Broker => {
                let per_broker = self.names_this_broker(&target.name)?;
                let layered = self.layered();
                let after = layered.broker_options_after(per_broker, &changes)?;
                layered.check_broker_change(per_broker, &after)?;
            }
            ResourceKind::ClientMetrics | ResourceKind::Group => refuse_list_changes(&changes)?,
            ResourceKind::Topic => {}
        }
        self.change_configs(&target, &changes, false)
    }

    fn alter_wholly(&mut self, resource: &LegacyResource<'_>) -> Result<Records, ApiError> {
        config::check_request(resource.configs.iter().map(|c| (&*c.name, c.value.is_none())))?;
        let (kind, target) = resource_of(resource.resource_type, &resource.resource_name)?;
        let wanted: Vec<(&str, &str)> =
            resource.configs.iter().filter_map(|c| Some((&*c.name, c.value.as_deref()?))).collect();
        match kind {
            ResourceKind::BrokerLogger => {
                let text = format!("Unknown resource type {}", resource.resource_type);
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, text));
            }
            ResourceKind::Broker => {
                let per_broker = self.names_this_broker(&target.name)?;
                let after: HashMap<String, String> =
                    wanted.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
                self.layered().check_broker_change(per_broker, &after)?;
            }
            _ => {}
        }
        let image = self.image().clone();
        let written = config::replacement(kind, image.configs.overrides(&target), &wanted)?;
        self.write_configs(kind, &target, written, false)
    }

    /// Records of an incremental change; `newly_created` is the configuration of a topic that is not there yet.
    pub(crate) fn change_configs(
        &mut self,
        target: &ConfigResource,
        changes: &[Change<'_>],
        newly_created: bool,
    ) -> Result<Records, ApiError> {
        let kind = kind_of(target.kind);
        let image = self.image().clone();
        let none = metadata::Overrides::default();
        let current = if newly_created { &none } else { image.configs.overrides(target) };
        let written = config::incremental(kind, current, changes)?;
        self.write_configs(kind, target, written, newly_created)
    }

    fn write_configs(
        &mut self,
        kind: ResourceKind,
        target: &ConfigResource,
        written: Written,
        newly_created: bool,
    ) -> Result<Records, ApiError> {
        for (name, value) in &written {
            self.check_option(target, name, value.as_deref())?;
        }
        if kind == ResourceKind::Topic
            && !target.name.is_empty()
            && let Some(text) = reason_invalid(&target.name)
        {
            return Err(ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, text));
        }
        let image = self.image().clone();
        let none = metadata::Overrides::default();
        let before = if newly_created { &none } else { image.configs.overrides(target) };
        let after = config::applied(before, &written);
        self.layered().check_resource(kind, &target.name, before, &after)?;
        if !newly_created {
            self.check_exists(target)?;
        }
        let record = |(name, value): (String, Option<String>)| {
            let record = ConfigRecord {
                resource_type: target.kind.code(),
                resource_name: Cow::Owned(target.name.to_string()),
                name: Cow::Owned(name),
                value: value.map(Cow::Owned),
            };
            (record.into(), 0)
        };
        Ok(written.into_iter().map(record).collect())
    }

    /// Options whose change depends on features of the cluster.
    fn check_option(&self, target: &ConfigResource, name: &str, value: Option<&str>) -> Result<(), ApiError> {
        if target.kind != ConfigResourceType::Broker {
            return Ok(());
        }
        let invalid = |text: &'static str| Err(ApiError::new(ErrorCode::INVALID_CONFIG, text));
        if name == MIN_ISR && self.image().features.elr_enabled() {
            if !target.name.is_empty() {
                return invalid("Broker-level min.insync.replicas cannot be altered while ELR is enabled.");
            }
            if value.is_none() {
                return invalid("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.");
            }
        }
        if name == CORDONED && !self.version().has_cordoned_log_dirs() {
            return invalid(
                "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0",
            );
        }
        Ok(())
    }

    fn check_exists(&self, target: &ConfigResource) -> Result<(), ApiError> {
        let image = self.image();
        match target.kind {
            ConfigResourceType::Topic if image.topics.by_name(&target.name).is_none() => {
                let text = format!("The topic '{}' does not exist.", target.name);
                Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text))
            }
            ConfigResourceType::Broker if !target.name.is_empty() => {
                let id: i32 = target.name.parse().map_err(|_| {
                    ApiError::new(ErrorCode::INVALID_REQUEST, format!("Invalid broker name {}", target.name))
                })?;
                if image.cluster.broker(id).is_none() && !self.voter_ids.contains(&id) {
                    let text = format!("No node with id {id} found.");
                    return Err(ApiError::new(ErrorCode::BROKER_ID_NOT_REGISTERED, text));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a broker resource is this node (`true`) or the default of all (`false`).
    fn names_this_broker(&self, name: &str) -> Result<bool, ApiError> {
        if name.is_empty() {
            return Ok(false);
        }
        let invalid = |text| Err(ApiError::new(ErrorCode::INVALID_REQUEST, text));
        match name.parse::<i32>() {
            Err(_) => invalid(format!("Node id must be an integer, but it is: {name}")),
            Ok(id) if id != self.node_id => {
                invalid(format!("Unexpected broker id, expected {}, but received {name}", self.node_id))
            }
            Ok(_) => Ok(true),
        }
    }

    fn finish_changes(&self, mut records: Records, validate_only: bool) -> Result<Records, ApiError> {
        if records.len() > RECORDS_PER_REQUEST_MAX {
            return Err(too_many_changes());
        }
        if validate_only {
            return Ok(Records::new());
        }
        records.extend(self.clear_elr_records(&records));
        Ok(records)
    }

    /// Another minimum of replicas makes another set of eligible leaders: what was kept by the old one is void.
    pub(crate) fn clear_elr_records(&self, records: &[VersionedRecord<'static>]) -> Records {
        use wire::metadata_record::MetadataRecord::Config;
        if !self.image().features.elr_enabled() {
            return Records::new();
        }
        let clear = |record: &VersionedRecord<'static>| match &record.0 {
            Config(config) if config.name == MIN_ISR => {
                let topic = config.resource_type == ConfigResourceType::Topic.code();
                let topic_name = if topic { config.resource_name.clone() } else { Cow::Borrowed("") };
                Some((ClearElrRecord { topic_name }.into(), 0))
            }
            _ => None,
        };
        records.iter().filter_map(clear).collect()
    }
}

/// Kafka knows the types of topics' and brokers' options only when it adds to lists; of the others all count as no lists.
fn refuse_list_changes(changes: &[Change<'_>]) -> Result<(), ApiError> {
    for change in changes {
        let verb = match change.op {
            AlterOp::Append => "APPEND",
            AlterOp::Subtract => "SUBTRACT",
            AlterOp::Set | AlterOp::Delete => continue,
        };
        let text = format!("Can't {verb} to key {} because its type is not LIST.", change.name);
        return Err(ApiError::new(ErrorCode::INVALID_CONFIG, text));
    }
    Ok(())
}

fn kind_of(kind: ConfigResourceType) -> ResourceKind {
    match kind {
        ConfigResourceType::Topic => ResourceKind::Topic,
        ConfigResourceType::Broker => ResourceKind::Broker,
        ConfigResourceType::BrokerLogger => ResourceKind::BrokerLogger,
        ConfigResourceType::ClientMetrics => ResourceKind::ClientMetrics,
        ConfigResourceType::Group => ResourceKind::Group,
    }
}

fn resource_of(code: i8, name: &str) -> Result<(ResourceKind, ConfigResource), ApiError> {
    let kind = ConfigResourceType::from_code(code)
        .ok_or_else(|| ConfigError::request(format!("Unknown resource type {code}")))?;
    Ok((kind_of(kind), ConfigResource { kind, name: Arc::from(name) }))
}

fn once_only() -> ApiError {
    ApiError::new(ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.")
}

fn repeated<'r>(resources: impl Iterator<Item = Named<'r>>) -> HashSet<Named<'r>> {
    let mut seen = HashSet::new();
    resources.filter(|resource| !seen.insert(resource.clone())).collect()
}
