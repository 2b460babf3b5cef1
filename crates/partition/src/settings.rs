use std::rc::Rc;
use std::sync::Arc;

use config::{Compression, ConfigError, TopicConfig, Values};
use log::LogConfig;
use metadata::{ConfigResource, MetadataImage};
use records::{AppendOrigin, Codec, TargetCompression, ValidationConfig};
use replica::ReplicaConfig;

/// What a topic's configuration means to one of its partitions, worked out once per change so that an append only
/// reads.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Settings {
    /// Rules for batches of clients.
    pub client: ValidationConfig,
    /// Rules for batches of this broker's coordinators.
    pub coordinator: ValidationConfig,
    /// Rules of the log.
    pub log: Rc<LogConfig>,
    /// Rules of the brain.
    pub replica: ReplicaConfig,
    /// `segment.bytes`, which also bounds a batch.
    pub segment_bytes: usize,
}

impl Settings {
    /// The settings of partition `dir_name` (`topic-partition`).
    pub(crate) fn new(dir_name: &str, topic: &TopicConfig) -> Settings {
        let client = ValidationConfig {
            topic_partition: Arc::from(dir_name),
            compression: target_compression(topic.compression),
            compacted: topic.compact,
            timestamp_type: match topic.timestamp_type {
                config::TimestampType::CreateTime => records::TimestampType::CreateTime,
                config::TimestampType::LogAppendTime => records::TimestampType::LogAppendTime,
            },
            timestamp_before_max_ms: clamp(topic.timestamp_before_max_ms),
            timestamp_after_max_ms: clamp(topic.timestamp_after_max_ms),
            batch_bytes_max: topic.max_message_bytes as usize,
            record_bytes_max: topic.max_decompressed_message_bytes as usize,
            decompressed_bytes_max: records::DECOMPRESSED_BYTES_MAX,
            origin: AppendOrigin::Client,
        };
        Settings {
            coordinator: ValidationConfig { origin: AppendOrigin::Coordinator, ..client.clone() },
            client,
            log: Rc::new(log_config(topic)),
            replica: ReplicaConfig { min_insync_replicas: topic.min_insync_replicas as usize },
            segment_bytes: topic.segment_bytes as usize,
        }
    }
}

/// A topic's configuration in `image`, over the broker's values.
///
/// # Errors
/// A value that does not parse, which the controller should have refused.
pub(crate) fn topic_config(image: &MetadataImage, topic: &str, broker: &Values) -> Result<TopicConfig, ConfigError> {
    TopicConfig::resolve(image.configs.overrides(&ConfigResource::topic(topic)), broker)
}

fn log_config(topic: &TopicConfig) -> LogConfig {
    LogConfig {
        segment_bytes: topic.segment_bytes,
        segment_ms: clamp(topic.segment_ms),
        segment_jitter_ms: clamp(topic.segment_jitter_ms),
        segment_index_bytes: topic.segment_index_bytes,
        index_interval_bytes: topic.index_interval_bytes,
        retention_ms: limit(topic.retention_ms),
        retention_bytes: limit(topic.retention_bytes),
        file_delete_delay_ms: clamp(topic.file_delete_delay_ms),
        delete_policy: topic.delete,
    }
}

fn target_compression(compression: Compression) -> TargetCompression {
    let (codec, level) = match compression {
        Compression::Producer => return TargetCompression::Producer,
        Compression::None => (Codec::None, None),
        Compression::Gzip(level) => (Codec::Gzip, Some(level).filter(|level| *level != -1)),
        Compression::Snappy => (Codec::Snappy, None),
        Compression::Lz4(level) => (Codec::Lz4, Some(level)),
        Compression::Zstd(level) => (Codec::Zstd, Some(level)),
    };
    TargetCompression::Codec { codec, level }
}

fn clamp(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn limit(value: Option<u64>) -> i64 {
    value.map_or(-1, clamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn resolve(overrides: &[(&str, &str)]) -> Settings {
        let properties = config::Properties::parse(b"process.roles=broker\nnode.id=1\ncontroller.listener.names=C\n")
            .expect("valid");
        let values = Values::parse(properties).expect("defaults are valid");
        let map: BTreeMap<String, String> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Settings::new("t-0", &TopicConfig::resolve(&map, &values).expect("valid overrides"))
    }

    #[test]
    fn defaults_are_kafkas() {
        let settings = resolve(&[]);
        assert_eq!(settings.client.batch_bytes_max, 1_048_588);
        assert_eq!(settings.client.timestamp_before_max_ms, i64::MAX);
        assert_eq!(settings.client.timestamp_after_max_ms, 3_600_000);
        assert_eq!(settings.client.compression, TargetCompression::Producer);
        assert_eq!(settings.coordinator.origin, AppendOrigin::Coordinator);
        assert_eq!(*settings.log, LogConfig::default());
        assert_eq!(settings.replica.min_insync_replicas, 1);
    }

    #[test]
    fn overrides_reach_validation_log_and_brain() {
        let settings = resolve(&[
            ("cleanup.policy", "compact"),
            ("compression.type", "gzip"),
            ("max.message.bytes", "1000"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.insync.replicas", "2"),
            ("retention.bytes", "77"),
            ("retention.ms", "-1"),
            ("segment.bytes", "2097152"),
        ]);
        assert!(settings.client.compacted && !settings.log.delete_policy);
        assert_eq!(settings.client.compression, TargetCompression::Codec { codec: Codec::Gzip, level: None });
        assert_eq!(settings.client.batch_bytes_max, 1000);
        assert_eq!(settings.client.timestamp_type, records::TimestampType::LogAppendTime);
        assert_eq!(settings.replica.min_insync_replicas, 2);
        assert_eq!((settings.log.retention_bytes, settings.log.retention_ms), (77, -1));
        assert_eq!((settings.log.segment_bytes, settings.segment_bytes), (2_097_152, 2_097_152));
    }
}
