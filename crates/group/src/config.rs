//! The options the machine acts on.

use std::sync::Arc;

use config::{BrokerConfig, ConfigMap, GroupValues, LayeredConfig};

/// Options of groups, read once per change of the configuration.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_ms_max: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`: members of a classic group.
    pub members_max: usize,
    /// `offset.metadata.max.bytes`: characters of a committed offset's metadata, counted as Java counts them.
    pub offset_metadata_chars_max: usize,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_check_interval_ms: u64,
    /// The largest record the offsets topic takes, in bytes of key and value.
    pub record_bytes_max: usize,
    /// All broker options; `group.consumer.*` and the defaults of group configs are read from here.
    pub broker: Arc<BrokerConfig>,
}

/// Bytes that a batch takes around one record beyond its key and value.
const BATCH_OVERHEAD_BYTES: usize = 128;

impl GroupConfig {
    /// From the configuration in force.
    pub fn new(layered: &LayeredConfig) -> GroupConfig {
        let values = layered.values();
        GroupConfig {
            session_timeout_ms_min: values.int("group.min.session.timeout.ms"),
            session_timeout_ms_max: values.int("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms: values.int("group.initial.rebalance.delay.ms"),
            members_max: values.count("group.max.size") as usize,
            offset_metadata_chars_max: values.count("offset.metadata.max.bytes") as usize,
            offsets_retention_ms: i64::from(values.int("offsets.retention.minutes")) * 60_000,
            offsets_check_interval_ms: values.long("offsets.retention.check.interval.ms").max(1).unsigned_abs(),
            record_bytes_max: (values.count("message.max.bytes") as usize).saturating_sub(BATCH_OVERHEAD_BYTES),
            broker: layered.current.clone(),
        }
    }

    /// With the offsets topic's own `max.message.bytes`.
    #[must_use]
    pub fn with_message_bytes_max(mut self, bytes: u32) -> GroupConfig {
        self.record_bytes_max = (bytes as usize).saturating_sub(BATCH_OVERHEAD_BYTES);
        self
    }

    /// The group configs (resource GROUP) of a group with these overrides; `None` when an override does not parse.
    pub fn of_group(&self, overrides: &dyn ConfigMap) -> Option<GroupValues> {
        GroupValues::resolve(overrides, &self.broker.values).ok()
    }
}
