//! AlterConfigs and IncrementalAlterConfigs: what a change would result in, and whether it is acceptable. Nothing is
//! changed here.
//!
//! A request passes two places, as in Kafka: the broker that received it checks its form ([`check_request`]) and, for
//! resource BROKER, whether it could apply the result ([`LayeredConfig::check_broker_change`]); the controller computes
//! the records ([`incremental`], [`replacement`]) and judges the result ([`LayeredConfig::check_resource`]).

use std::collections::BTreeMap;

use crate::broker::BrokerConfig;
use crate::client_metrics;
use crate::error::ConfigError;
use crate::group;
use crate::layered::LayeredConfig;
use crate::properties::Properties;
use crate::table::{BROKER, GROUP, Kind, OptionDef, TOPIC, Update, find};
use crate::topic;
use crate::value::Value;
use crate::values::ConfigMap;

/// Longest value a change may set, in UTF-16 units: what a metadata record of Kafka holds.
pub const VALUE_UNITS_MAX: usize = 32767;

/// What options belong to, with Kafka's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResourceKind {
    /// A topic.
    Topic = 2,
    /// A broker, or with an empty name all of them.
    Broker = 4,
    /// The loggers of a broker.
    BrokerLogger = 8,
    /// A client metrics subscription.
    ClientMetrics = 16,
    /// A group.
    Group = 32,
}

impl ResourceKind {
    /// By its number on the wire.
    pub fn from_wire(id: i8) -> Option<ResourceKind> {
        use ResourceKind::{Broker, BrokerLogger, ClientMetrics, Group, Topic};
        [Topic, Broker, BrokerLogger, ClientMetrics, Group].into_iter().find(|kind| *kind as i8 == id)
    }

    /// Kafka's name, as error texts print it.
    pub fn name(self) -> &'static str {
        match self {
            ResourceKind::Topic => "TOPIC",
            ResourceKind::Broker => "BROKER",
            ResourceKind::BrokerLogger => "BROKER_LOGGER",
            ResourceKind::ClientMetrics => "CLIENT_METRICS",
            ResourceKind::Group => "GROUP",
        }
    }

    fn find(self, name: &str) -> Option<&'static OptionDef> {
        match self {
            ResourceKind::Topic => find(&TOPIC, name),
            ResourceKind::Broker => find(&BROKER, name),
            ResourceKind::Group => find(&GROUP, name),
            ResourceKind::ClientMetrics => find(&crate::table::CLIENT_METRICS, name),
            ResourceKind::BrokerLogger => None,
        }
    }
}

/// What to do with an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlterOp {
    /// Set it.
    Set = 0,
    /// Unset it.
    Delete = 1,
    /// Add elements to a list.
    Append = 2,
    /// Take elements off a list.
    Subtract = 3,
}

impl AlterOp {
    /// By its number on the wire.
    pub fn from_wire(id: i8) -> Option<AlterOp> {
        [AlterOp::Set, AlterOp::Delete, AlterOp::Append, AlterOp::Subtract].into_iter().find(|op| *op as i8 == id)
    }

    fn name(self) -> &'static str {
        match self {
            AlterOp::Set => "SET",
            AlterOp::Delete => "DELETE",
            AlterOp::Append => "APPEND",
            AlterOp::Subtract => "SUBTRACT",
        }
    }
}

/// One change of IncrementalAlterConfigs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The option.
    pub name: &'a str,
    /// What to do.
    pub op: AlterOp,
    /// The value; not needed to unset.
    pub value: Option<&'a str>,
}

/// Options to write: name and new value, `None` to unset.
pub type Written = Vec<(String, Option<String>)>;

/// Judges the form of one resource of either request: every option once, and values where they are needed.
/// `entries` are name and whether the value is missing though needed.
pub fn check_request<'a>(entries: impl Iterator<Item = (&'a str, bool)>) -> Result<(), ConfigError> {
    let mut seen = std::collections::BTreeSet::new();
    let mut without_value = Vec::new();
    let mut repeated = false;
    for (name, missing) in entries {
        repeated |= !seen.insert(name);
        if missing {
            without_value.push(name);
        }
    }
    if repeated {
        return Err(ConfigError::request("Error due to duplicate config keys"));
    }
    if !without_value.is_empty() {
        return Err(ConfigError::request(format!("Null value not supported for : {}", without_value.join(", "))));
    }
    Ok(())
}

/// What IncrementalAlterConfigs writes. Changes that change nothing are dropped, except on brokers, where writing an
/// option again makes them re-read files it names.
pub fn incremental(
    kind: ResourceKind,
    current: &dyn ConfigMap,
    changes: &[Change<'_>],
) -> Result<Written, ConfigError> {
    let mut written = Written::new();
    for change in changes {
        let before = current.get(change.name);
        let after = changed(kind, before, change)?;
        if before == after.as_deref() && kind != ResourceKind::Broker {
            continue;
        }
        written.push((change.name.to_owned(), after));
    }
    check_sizes(&written)?;
    Ok(written)
}

fn changed(kind: ResourceKind, before: Option<&str>, change: &Change<'_>) -> Result<Option<String>, ConfigError> {
    let value = change.value.unwrap_or_default();
    match change.op {
        AlterOp::Set => return Ok(change.value.map(str::to_owned)),
        AlterOp::Delete => return Ok(None),
        AlterOp::Append | AlterOp::Subtract => {}
    }
    let name = change.name;
    let Some(def) = kind.find(name).filter(|def| def.kind == Kind::List) else {
        let op = change.op.name();
        return Err(ConfigError::about(name, format!("Can't {op} to key {name} because its type is not LIST.")));
    };
    let before = before.or_else(|| def.default_text()).unwrap_or_default();
    let mut elements: Vec<&str> = before.split(',').filter(|element| !element.is_empty()).collect();
    for element in value.split(',') {
        let known = elements.iter().position(|other| *other == element);
        match (change.op, known) {
            (AlterOp::Append, None) => elements.push(element),
            (AlterOp::Subtract, Some(index)) => drop(elements.remove(index)),
            _ => {}
        }
    }
    Ok(Some(elements.join(",")))
}

/// What AlterConfigs writes: the resource has the options of the request afterwards and no others.
pub fn replacement(
    kind: ResourceKind,
    current: &dyn ConfigMap,
    wanted: &[(&str, &str)],
) -> Result<Written, ConfigError> {
    let mut written = Written::new();
    for (name, value) in wanted {
        if current.get(name) != Some(value) || kind == ResourceKind::Broker {
            written.push(((*name).to_owned(), Some((*value).to_owned())));
        }
    }
    current.for_each(&mut |name, _| {
        if !wanted.iter().any(|(kept, _)| *kept == name) {
            written.push((name.to_owned(), None));
        }
    });
    check_sizes(&written)?;
    Ok(written)
}

fn check_sizes(written: &Written) -> Result<(), ConfigError> {
    let too_long = |value: &Option<String>| {
        value
            .as_ref()
            .is_some_and(|value| value.len() > VALUE_UNITS_MAX && value.encode_utf16().count() > VALUE_UNITS_MAX)
    };
    match written.iter().find(|(_, value)| too_long(value)) {
        Some((name, _)) => Err(ConfigError::about(
            name,
            format!(
                "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_UNITS_MAX} \
                 bytes."
            ),
        )),
        None => Ok(()),
    }
}

/// The options a resource has after a change.
pub fn applied(current: &dyn ConfigMap, written: &Written) -> BTreeMap<String, String> {
    let mut result = BTreeMap::new();
    current.for_each(&mut |name, value| {
        result.insert(name.to_owned(), value.to_owned());
    });
    for (name, value) in written {
        match value {
            Some(value) => drop(result.insert(name.clone(), value.clone())),
            None => drop(result.remove(name)),
        }
    }
    result
}

impl LayeredConfig {
    /// The controller's judgement of the options `after` a resource would have; `before` are those it has. Topics are
    /// judged together with what this node's configuration gives them.
    pub fn check_resource(
        &self,
        kind: ResourceKind,
        name: &str,
        before: &dyn ConfigMap,
        after: &dyn ConfigMap,
    ) -> Result<(), ConfigError> {
        match kind {
            ResourceKind::Topic => {
                if name.is_empty() {
                    return Err(ConfigError::request("Default topic resources are not allowed."));
                }
                let tiered = self.values().boolean("remote.log.storage.system.enable");
                topic::validate(before, after, self.values(), tiered)
            }
            ResourceKind::Broker => check_broker_name(name),
            ResourceKind::ClientMetrics => client_metrics::validate(name, after),
            ResourceKind::Group => {
                if name.is_empty() {
                    return Err(ConfigError::request("Default group resources are not allowed."));
                }
                group::validate(after, self.values())
            }
            ResourceKind::BrokerLogger => Err(ConfigError::request(format!("Unknown resource type {}", kind.name()))),
        }
    }

    /// The dynamic options this broker (`per_broker`) or all brokers would have after IncrementalAlterConfigs, for
    /// [`LayeredConfig::check_broker_change`].
    pub fn broker_options_after(&self, per_broker: bool, changes: &[Change<'_>]) -> Result<Properties, ConfigError> {
        let mut after = if per_broker { self.broker.clone() } else { self.cluster.clone() };
        for change in changes {
            let name = change.name;
            if matches!(change.op, AlterOp::Append | AlterOp::Subtract) {
                let def = find(&BROKER, name)
                    .ok_or_else(|| ConfigError::about(name, format!("Unknown config name: {name}")))?;
                if def.kind != Kind::List {
                    let op = change.op.name().to_lowercase();
                    let message = format!("Config value {op} is not allowed for config key: {name}");
                    return Err(ConfigError::about(name, message));
                }
            }
            match changed(ResourceKind::Broker, after.get(name), change)? {
                Some(value) => after.set(name, value),
                None => drop(after.remove(name)),
            }
        }
        Ok(after)
    }

    /// The broker's judgement of the dynamic options `after` it (`per_broker`) or all brokers would have. The error is
    /// one of the request, as in Kafka.
    pub fn check_broker_change(&self, per_broker: bool, after: &dyn ConfigMap) -> Result<(), ConfigError> {
        self.try_broker_change(per_broker, after).map_err(ConfigError::as_request)
    }

    fn try_broker_change(&self, per_broker: bool, after: &dyn ConfigMap) -> Result<(), ConfigError> {
        let mut wanted = Properties::new();
        after.for_each(&mut |name, value| wanted.set(name, value));
        let names = |rule: &dyn Fn(&str) -> bool| {
            let found: Vec<&str> = wanted.iter().map(|(name, _)| name).filter(|name| rule(name)).collect();
            if found.is_empty() { None } else { Some(format!("[{}]", found.join(", "))) }
        };
        if let Some(names) = names(&|name| find(&BROKER, name).is_some_and(|def| def.update == Update::ReadOnly)) {
            return Err(ConfigError::general(format!("{NOT_DYNAMIC}: {names}")));
        }
        if let Some(names) = names(&|name| find(&BROKER, name).is_some_and(|def| def.listener_prefix)) {
            return Err(ConfigError::general(format!("{ONLY_PER_LISTENER}: {names}")));
        }
        for (name, value) in wanted.iter() {
            check_type(name, value)?;
        }
        if let Some(names) = names(&is_per_broker).filter(|_| !per_broker) {
            return Err(ConfigError::general(format!("{ONLY_PER_BROKER}: {names}")));
        }
        let layers: [&dyn ConfigMap; 2] = if per_broker { [&self.cluster, &wanted] } else { [&wanted, &self.broker] };
        let next = self.fixed.with_dynamic(layers).map_err(first)?;
        check_thread_counts(&self.current, &next)?;
        topic::validate_broker(&next.values)
    }
}

fn first(mut errors: Vec<ConfigError>) -> ConfigError {
    errors.swap_remove(0)
}

const NOT_DYNAMIC: &str = "Cannot update these configs dynamically";
const ONLY_PER_LISTENER: &str =
    "These security configs can be dynamically updated only per-listener using the listener prefix";
const ONLY_PER_BROKER: &str = "Cannot update these configs at default cluster level, broker id must be specified";

/// Whether a dynamic option that the metadata log holds can be applied.
pub(crate) fn check_dynamic(name: &str, value: &str, per_broker: bool) -> Result<(), ConfigError> {
    if let Some(def) = find(&BROKER, name) {
        if def.update == Update::ReadOnly {
            return Err(ConfigError::about(name, NOT_DYNAMIC));
        }
        if def.listener_prefix {
            return Err(ConfigError::about(name, ONLY_PER_LISTENER));
        }
    }
    if !per_broker && is_per_broker(name) {
        return Err(ConfigError::about(name, ONLY_PER_BROKER));
    }
    check_type(name, value)
}

/// Judges the value of a dynamic option, with or without a listener's prefix.
fn check_type(name: &str, value: &str) -> Result<(), ConfigError> {
    let base = listener_option(name).unwrap_or(name);
    match find(&BROKER, base).filter(|def| def.update != Update::ReadOnly) {
        Some(def) => Value::parse(def, value).map(drop),
        None => Ok(()),
    }
}

fn listener_option(name: &str) -> Option<&str> {
    name.strip_prefix("listener.name.")?.split_once('.').map(|(_, option)| option)
}

fn is_per_broker(name: &str) -> bool {
    if find(&BROKER, name).is_some_and(|def| def.update == Update::PerBroker) {
        return true;
    }
    let for_all = ["max.connections", "max.connection.creation.rate", "num.network.threads"];
    listener_option(name).is_some_and(|option| !for_all.contains(&option))
}

fn check_broker_name(name: &str) -> Result<(), ConfigError> {
    if name.is_empty() {
        return Ok(());
    }
    match name.parse::<i32>() {
        Err(_) => Err(ConfigError::request("Unable to parse broker name as a base 10 number.")),
        Ok(id) if id < 0 => Err(ConfigError::request("Invalid negative broker ID.")),
        Ok(_) => Ok(()),
    }
}

/// Thread counts change by at most a factor of two at a time.
fn check_thread_counts(now: &BrokerConfig, next: &BrokerConfig) -> Result<(), ConfigError> {
    const POOLS: [&str; 5] = [
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "num.recovery.threads.per.data.dir",
        "background.threads",
    ];
    for name in POOLS {
        let (old, new) = (now.values.int(name), next.values.int(name));
        let why = if new < old / 2 {
            "value should be at least half the current value"
        } else if i64::from(new) > i64::from(old) * 2 {
            "value should not be greater than double the current value"
        } else {
            continue;
        };
        // Kafka wraps the error as if it were the value of an option.
        return Err(ConfigError::about(
            name,
            format!(
                "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation \
                 failed for {name}={new}, {why} {old} for configuration Invalid dynamic configuration"
            ),
        ));
    }
    let (old, new) = (now.values.int("log.cleaner.threads"), next.values.int("log.cleaner.threads"));
    let why = if new < old / 2 {
        "reduced to less than half"
    } else if i64::from(new) > i64::from(old) * 2 {
        "increased to more than double"
    } else {
        return Ok(());
    };
    Err(ConfigError::about(
        "log.cleaner.threads",
        format!(
            "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads cannot be {why} the current \
             value {old} for configuration Invalid dynamic configuration"
        ),
    ))
}

/// Levels a logger can be set to, sorted as error texts print them.
pub const LOG_LEVELS: [&str; 6] = ["DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"];

/// Judges changes of a broker's loggers; `known` are the loggers there are.
pub fn check_logger_changes(known: &[&str], changes: &[Change<'_>]) -> Result<(), ConfigError> {
    for change in changes {
        let name = change.name;
        if matches!(change.op, AlterOp::Append | AlterOp::Subtract) {
            let op = change.op.name();
            return Err(ConfigError::request(format!("{op} operation is not allowed for the BROKER_LOGGER resource")));
        }
        if !known.contains(&name) {
            return Err(ConfigError::about(name, format!("Logger {name} does not exist!")));
        }
        let level = change.value.unwrap_or_default();
        if change.op == AlterOp::Delete {
            if name == "root" {
                return Err(ConfigError::request("Removing the log level of the root logger is not allowed"));
            }
        } else if !LOG_LEVELS.contains(&level) {
            return Err(ConfigError::about(
                name,
                format!(
                    "Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels \
                     are {}",
                    LOG_LEVELS.join(", ")
                ),
            ));
        }
    }
    Ok(())
}
