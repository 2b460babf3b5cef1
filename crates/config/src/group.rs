//! Options of groups: resolution through the broker's, and the bounds the broker sets.

use crate::error::ConfigError;
use crate::table::{GROUP, OptionDef, find};
use crate::value::Value;
use crate::values::{ConfigMap, Values};

/// The values of all group options, set or inherited.
pub struct GroupValues(Vec<Option<Value>>);

impl GroupValues {
    /// Resolves every option: the group's own setting, else the broker's, else the default.
    pub fn resolve(group: &dyn ConfigMap, broker: &Values) -> Result<GroupValues, ConfigError> {
        let resolve_one = |def: &'static OptionDef| match group.get(def.name) {
            Some(text) => Value::parse(def, text).map(Some),
            None => inherited(def, broker),
        };
        GROUP.iter().map(resolve_one).collect::<Result<_, _>>().map(GroupValues)
    }

    /// The value of a group option. Panics if there is no such option.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let index = GROUP.binary_search_by(|def| def.name.cmp(name));
        self.0[index.unwrap_or_else(|_| panic!("no group option {name}"))].as_ref()
    }
}

fn inherited(def: &'static OptionDef, broker: &Values) -> Result<Option<Value>, ConfigError> {
    let Some(synonym) = def.synonyms.first() else { return Value::default_of(def) };
    if def.internal && !broker.is_set(synonym.name) {
        return Value::default_of(def);
    }
    Ok(match broker.get(synonym.name) {
        // The broker names all task assignors it has; a group uses one, by default the first.
        Some(Value::List(names)) if def.name == "streams.assignor.name" => names.first().cloned().map(Value::String),
        other => other.cloned(),
    })
}

/// A bound the broker sets for a group option.
enum Bound {
    Between(&'static str, &'static str),
    AtMost(&'static str),
    AtLeast(&'static str),
}

use Bound::{AtLeast, AtMost, Between};

const BOUNDS: [(&str, Bound); 15] = [
    (
        "consumer.heartbeat.interval.ms",
        Between("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ),
    (
        "consumer.session.timeout.ms",
        Between("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ),
    (
        "consumer.assignment.interval.ms",
        Between("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ),
    (
        "share.heartbeat.interval.ms",
        Between("group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ),
    ("share.session.timeout.ms", Between("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms")),
    (
        "share.record.lock.duration.ms",
        Between("group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ),
    (
        "share.delivery.count.limit",
        Between("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    ),
    (
        "share.partition.max.record.locks",
        Between("group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    ),
    (
        "share.assignment.interval.ms",
        Between("group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ),
    (
        "streams.heartbeat.interval.ms",
        Between("group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ),
    (
        "streams.session.timeout.ms",
        Between("group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ),
    ("streams.num.standby.replicas", AtMost("group.streams.max.standby.replicas")),
    (
        "streams.assignment.interval.ms",
        Between("group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    ),
    ("streams.task.offset.interval.ms", AtLeast("group.streams.min.task.offset.interval.ms")),
    ("streams.num.warmup.replicas", AtMost("group.streams.max.warmup.replicas")),
];

/// Judges the options of a group as a whole; `group` is what it would have after the change.
pub(crate) fn validate(group: &dyn ConfigMap, broker: &Values) -> Result<(), ConfigError> {
    let mut result = Ok(());
    group.for_each(&mut |name, _| {
        if result.is_ok() && find(&GROUP, name).is_none() {
            result = Err(ConfigError::about(name, format!("Unknown group config name: {name}")));
        }
    });
    result?;
    repeated_tags(group)?;
    let mut parsed = Vec::with_capacity(GROUP.len());
    for def in &GROUP {
        parsed.push(group.get(def.name).map(|text| Value::parse(def, text)).transpose()?);
    }
    let set = |name: &str| {
        let index = GROUP.binary_search_by(|def| def.name.cmp(name)).expect("a group option");
        parsed[index].as_ref()
    };
    for (name, bound) in &BOUNDS {
        if let Some(Value::Int(value)) = set(name) {
            within(name, *value, bound, broker)?;
        }
    }
    if let Some(Value::String(assignor)) = set("streams.assignor.name") {
        let known = broker.list("group.streams.assignors");
        if !known.contains(assignor) {
            let known = known.join(", ");
            return Err(ConfigError::about(
                "streams.assignor.name",
                format!(
                    "streams.assignor.name '{assignor}' is not a registered task assignor. Registered assignors are: \
                     [{known}]."
                ),
            ));
        }
    }
    for kind in ["consumer", "share", "streams"] {
        let (session, heartbeat) = (format!("{kind}.session.timeout.ms"), format!("{kind}.heartbeat.interval.ms"));
        let of = |name: &str| match set(name) {
            Some(Value::Int(value)) => *value,
            _ => broker.int(&format!("group.{name}")),
        };
        let changed = set(&session).is_some() || set(&heartbeat).is_some();
        if changed && of(&session) <= of(&heartbeat) {
            return Err(ConfigError::about(&session, format!("{session} must be greater than {heartbeat}")));
        }
    }
    match set("errors.deadletterqueue.topic.name") {
        Some(Value::String(topic)) if topic.starts_with("__") => Err(ConfigError::about(
            "errors.deadletterqueue.topic.name",
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        )),
        _ => Ok(()),
    }
}

fn repeated_tags(group: &dyn ConfigMap) -> Result<(), ConfigError> {
    const TAGS: &str = "streams.rack.aware.assignment.tags";
    let tags = group.get(TAGS).map(crate::java::split_list).unwrap_or_default();
    let distinct: std::collections::BTreeSet<&String> = tags.iter().collect();
    if distinct.len() == tags.len() {
        return Ok(());
    }
    Err(ConfigError::about(TAGS, format!("{TAGS} must not contain duplicate tag keys.")))
}

fn within(name: &str, value: i32, bound: &Bound, broker: &Values) -> Result<(), ConfigError> {
    let refuse = |message: String| Err(ConfigError::about(name, message));
    match bound {
        Between(min, max) => {
            let (min, max) = (broker.int(min), broker.int(max));
            if (min..=max).contains(&value) {
                return Ok(());
            }
            refuse(format!("{name} must be in the range {min} to {max} inclusive."))
        }
        AtMost(max) if value > broker.int(max) => {
            refuse(format!("{name} must be less than or equal to {}", broker.int(max)))
        }
        AtLeast(min) if value < broker.int(min) => {
            refuse(format!("{name} must be greater than or equal to {}", broker.int(min)))
        }
        AtMost(_) | AtLeast(_) => Ok(()),
    }
}
