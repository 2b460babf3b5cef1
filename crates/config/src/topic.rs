//! The typed view of one topic's configuration, resolved through all layers.

use crate::error::ConfigError;
use crate::table::{OptionDef, TOPIC, Unit, find};
use crate::value::Value;
use crate::values::{ConfigMap, Values};

/// `compression.type`: what the broker stores batches as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// As the producer sent them.
    Producer,
    /// Uncompressed.
    None,
    /// gzip with a level 1 to 9, or -1 for the codec's default.
    Gzip(i32),
    /// Snappy.
    Snappy,
    /// LZ4 with a level 1 to 17.
    Lz4(i32),
    /// Zstandard with a level -131072 to 22.
    Zstd(i32),
}

/// `message.timestamp.type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimestampType {
    /// Set by the producer.
    CreateTime,
    /// Set by the broker on append.
    LogAppendTime,
}

/// One topic's configuration. Times are milliseconds, sizes bytes; `None` of a retention means "no limit".
#[derive(Clone, PartialEq, Debug)]
pub struct TopicConfig {
    /// `cleanup.policy` contains `compact`.
    pub compact: bool,
    /// `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `compression.type` and its level.
    pub compression: Compression,
    /// `delete.retention.ms`: how long tombstones are kept.
    pub delete_retention_ms: u64,
    /// `file.delete.delay.ms`: how long a deleted segment's file stays.
    pub file_delete_delay_ms: u64,
    /// `flush.messages`: records between two flushes; `None` leaves it to the durability rung.
    pub flush_messages: Option<u64>,
    /// `flush.ms`: milliseconds between two flushes; `None` leaves it to the durability rung.
    pub flush_ms: Option<u64>,
    /// `index.interval.bytes`: bytes of log between two index entries.
    pub index_interval_bytes: u32,
    /// `max.message.bytes`: largest batch accepted.
    pub max_message_bytes: u32,
    /// `max.decompressed.message.bytes`: most that a compressed batch may grow to.
    pub max_decompressed_message_bytes: u32,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: u64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: u64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a record's time may lie behind the broker's.
    pub timestamp_before_max_ms: u64,
    /// `message.timestamp.after.max.ms`: how far it may lie ahead.
    pub timestamp_after_max_ms: u64,
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u32,
    /// `preallocate`.
    pub preallocate: bool,
    /// `retention.bytes` of one partition.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`.
    pub retention_ms: Option<u64>,
    /// `local.retention.bytes`, `retention.bytes` put in where it refers to it.
    pub local_retention_bytes: Option<u64>,
    /// `local.retention.ms`, `retention.ms` put in where it refers to it.
    pub local_retention_ms: Option<u64>,
    /// `remote.storage.enable`.
    pub remote_storage_enable: bool,
    /// `segment.bytes`, or the internal option for tests that allows smaller ones.
    pub segment_bytes: u32,
    /// `segment.index.bytes`: largest size of an index file.
    pub segment_index_bytes: u32,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: u64,
    /// `segment.ms`: age at which a segment is rolled; with compaction at most `max.compaction.lag.ms`.
    pub segment_ms: u64,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election: bool,
    /// `leader.replication.throttled.replicas`.
    pub leader_throttled_replicas: Vec<String>,
    /// `follower.replication.throttled.replicas`.
    pub follower_throttled_replicas: Vec<String>,
}

/// The values of all topic options, set or defaulted.
pub(crate) struct TopicValues(Vec<Option<Value>>);

impl TopicValues {
    /// Resolves every option: the topic's own setting, else the broker's (which has the dynamic layers in it).
    pub(crate) fn resolve(topic: &dyn ConfigMap, broker: &Values) -> Result<TopicValues, ConfigError> {
        let resolve_one = |def: &'static OptionDef| match topic.get(def.name) {
            Some(text) => Value::parse(def, text).map(Some),
            None => inherited(def, broker),
        };
        TOPIC.iter().map(resolve_one).collect::<Result<_, _>>().map(TopicValues)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let index = TOPIC.binary_search_by(|def| def.name.cmp(name));
        self.0[index.unwrap_or_else(|_| panic!("no topic option {name}"))].as_ref()
    }

    fn long(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Value::Long(value)) => *value,
            Some(Value::Int(value)) => i64::from(*value),
            other => panic!("topic option {name} is {other:?}, not a number"),
        }
    }

    fn limit(&self, name: &str) -> Option<u64> {
        u64::try_from(self.long(name)).ok()
    }

    fn count(&self, name: &str) -> u32 {
        u32::try_from(self.long(name)).unwrap_or(0)
    }

    fn boolean(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Boolean(true)))
    }

    fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::String(text)) => text,
            other => panic!("topic option {name} is {other:?}, not a string"),
        }
    }

    fn list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(Value::List(elements)) => elements,
            _ => &[],
        }
    }
}

/// What a topic option is when the topic does not set it: the first of its synonyms that the broker has a value for,
/// else its own default.
pub(crate) fn inherited(def: &'static OptionDef, broker: &Values) -> Result<Option<Value>, ConfigError> {
    for synonym in def.synonyms {
        let Some(value) = broker.get(synonym.name) else { continue };
        let factor = match synonym.unit {
            Unit::Same if def.name == "retention.ms" => {
                return Ok(Some(Value::Long(broker.long(synonym.name).max(-1))));
            }
            Unit::Same => return Ok(Some(value.clone())),
            Unit::Minutes => 60_000,
            Unit::Hours => 3_600_000,
        };
        let count = broker.long(synonym.name);
        // A negative retention in hours or minutes means "no limit" like -1 milliseconds does.
        return Ok(Some(Value::Long(if count < 0 { -1 } else { count.saturating_mul(factor) })));
    }
    Value::default_of(def)
}

impl TopicConfig {
    /// The configuration of a topic with the overrides `topic`, on a broker with the values `broker`
    /// ([`BrokerConfig::values`](crate::BrokerConfig), with dynamic options laid over).
    pub fn resolve(topic: &dyn ConfigMap, broker: &Values) -> Result<TopicConfig, ConfigError> {
        Ok(Self::build(&TopicValues::resolve(topic, broker)?))
    }

    fn build(values: &TopicValues) -> TopicConfig {
        let policies = values.list("cleanup.policy");
        let compact = policies.iter().any(|policy| policy == "compact");
        let ms = |name: &str| values.limit(name).unwrap_or(0);
        let retention_bytes = values.limit("retention.bytes");
        let retention_ms = values.limit("retention.ms");
        // -2 refers to the option without "local".
        let local = |name: &str, whole: Option<u64>| if values.long(name) == -2 { whole } else { values.limit(name) };
        let max_compaction_lag_ms = ms("max.compaction.lag.ms");
        let segment_ms = ms("segment.ms");
        let never = |count: u64| Some(count).filter(|&count| count < i64::MAX as u64);
        let test_segment_bytes = values.get("internal.segment.bytes").map(|_| values.count("internal.segment.bytes"));
        TopicConfig {
            compact,
            delete: policies.iter().any(|policy| policy == "delete"),
            compression: compression(values),
            delete_retention_ms: ms("delete.retention.ms"),
            file_delete_delay_ms: ms("file.delete.delay.ms"),
            flush_messages: never(ms("flush.messages")),
            flush_ms: never(ms("flush.ms")),
            index_interval_bytes: values.count("index.interval.bytes"),
            max_message_bytes: values.count("max.message.bytes"),
            max_decompressed_message_bytes: values.count("max.decompressed.message.bytes"),
            max_compaction_lag_ms,
            min_compaction_lag_ms: ms("min.compaction.lag.ms"),
            timestamp_type: match values.text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max_ms: ms("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: ms("message.timestamp.after.max.ms"),
            min_cleanable_dirty_ratio: match values.get("min.cleanable.dirty.ratio") {
                Some(Value::Double(ratio)) => *ratio,
                _ => 0.5,
            },
            min_insync_replicas: values.count("min.insync.replicas"),
            preallocate: values.boolean("preallocate"),
            retention_bytes,
            retention_ms,
            local_retention_bytes: local("local.retention.bytes", retention_bytes),
            local_retention_ms: local("local.retention.ms", retention_ms),
            remote_storage_enable: values.boolean("remote.storage.enable"),
            segment_bytes: test_segment_bytes.unwrap_or_else(|| values.count("segment.bytes")),
            segment_index_bytes: values.count("segment.index.bytes"),
            segment_jitter_ms: ms("segment.jitter.ms"),
            segment_ms: if compact && max_compaction_lag_ms > 0 {
                segment_ms.min(max_compaction_lag_ms)
            } else {
                segment_ms
            },
            unclean_leader_election: values.boolean("unclean.leader.election.enable"),
            leader_throttled_replicas: values.list("leader.replication.throttled.replicas").to_vec(),
            follower_throttled_replicas: values.list("follower.replication.throttled.replicas").to_vec(),
        }
    }
}

fn compression(values: &TopicValues) -> Compression {
    let level = |name: &str| i32::try_from(values.long(name)).unwrap_or(0);
    match values.text("compression.type") {
        "uncompressed" => Compression::None,
        "gzip" => Compression::Gzip(level("compression.gzip.level")),
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4(level("compression.lz4.level")),
        "zstd" => Compression::Zstd(level("compression.zstd.level")),
        _ => Compression::Producer,
    }
}

/// Judges the options `after` a topic would have, together with what the broker gives it. `before` are those it has;
/// `tiered` says whether the cluster has remote storage.
pub(crate) fn validate(
    before: &dyn ConfigMap,
    after: &dyn ConfigMap,
    broker: &Values,
    tiered: bool,
) -> Result<(), ConfigError> {
    let mut unknown = None;
    after.for_each(&mut |name, _| {
        if unknown.is_none() && find(&TOPIC, name).is_none() {
            unknown = Some(ConfigError::about(name, format!("Unknown topic config name: {name}")));
        }
    });
    if let Some(error) = unknown {
        return Err(error);
    }
    let values = TopicValues::resolve(after, broker)?;
    check_lags(values.long("min.compaction.lag.ms"), values.long("max.compaction.lag.ms"))?;
    if values.boolean("remote.storage.enable") {
        return validate_tiered(&values, tiered);
    }
    let was_tiered = before.get("remote.storage.enable").is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    if was_tiered && !values.boolean("remote.log.delete.on.disable") {
        return Err(ConfigError::about(
            "remote.storage.enable",
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and \
             turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to \
             disable remote storage and delete all remote data, please set \
             `remote.storage.enable=false,remote.log.delete.on.disable=true`.",
        ));
    }
    Ok(())
}

/// Judges what a broker's options would give topics.
pub(crate) fn validate_broker(broker: &Values) -> Result<(), ConfigError> {
    check_lags(broker.long("log.cleaner.min.compaction.lag.ms"), broker.long("log.cleaner.max.compaction.lag.ms"))
}

fn check_lags(min: i64, max: i64) -> Result<(), ConfigError> {
    if min <= max {
        return Ok(());
    }
    Err(ConfigError::about(
        "min.compaction.lag.ms",
        format!("conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"),
    ))
}

fn validate_tiered(values: &TopicValues, tiered: bool) -> Result<(), ConfigError> {
    if !tiered {
        return Err(ConfigError::about(
            "remote.storage.enable",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ));
    }
    let policies = values.list("cleanup.policy");
    if !policies.is_empty() && policies != ["delete"] {
        return Err(ConfigError::about(
            "cleanup.policy",
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        ));
    }
    for (local, whole) in [("local.retention.bytes", "retention.bytes"), ("local.retention.ms", "retention.ms")] {
        let (local_value, whole_value) = (values.long(local), values.long(whole));
        if whole_value <= -1 || local_value == -2 {
            continue;
        }
        let why = if local_value == -1 {
            format!("Value must not be -1 as {whole} value is set as {whole_value}.")
        } else if local_value > whole_value {
            format!("Value must not be more than {whole} property value: {whole_value}")
        } else {
            continue;
        };
        return Err(ConfigError::invalid(local, local_value, why));
    }
    for (lag, local, whole) in [
        ("remote.copy.lag.bytes", "local.retention.bytes", "retention.bytes"),
        ("remote.copy.lag.ms", "local.retention.ms", "retention.ms"),
    ] {
        let effective = if values.long(local) == -2 { values.long(whole) } else { values.long(local) };
        let lag_value = values.long(lag);
        if lag_value > 0 && effective >= 0 && lag_value > effective {
            let why = format!("Value must not exceed {local} (effective value: {effective})");
            return Err(ConfigError::invalid(lag, lag_value, why));
        }
    }
    let copy_disabled = values.boolean("remote.log.copy.disable");
    for (local, whole) in [("local.retention.bytes", "retention.bytes"), ("local.retention.ms", "retention.ms")] {
        if copy_disabled && values.long(local) != -2 && values.long(local) != values.long(whole) {
            return Err(ConfigError::about(
                local,
                format!(
                    "When `remote.log.copy.disable` is set to true, the `{local}` and `{whole}` must be set to the \
                     identical value because there will be no more logs copied to the remote storage."
                ),
            ));
        }
    }
    Ok(())
}
