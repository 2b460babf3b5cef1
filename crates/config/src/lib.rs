//! Every option there is, and what it is set to.
//!
//! One table (`options/*.tsv`, one row per option) knows name, type, default, accepted values, where the option can be
//! changed, its synonyms and whether this broker acts on it. Parsing, validation, DescribeConfigs, AlterConfigs, `--help`
//! and CONFIG.md derive from it. Typed snapshots ([`BrokerConfig`], [`TopicConfig`]) are built from it and passed in;
//! there is no global configuration. Lives on every core; all of it is plain data.
//!
//! It does not know of files (text is handed to [`Properties::parse`]), the wire protocol (error kinds are mapped to
//! error codes by the caller), the metadata log (dynamic configs come in as maps) or what an option does.

mod alter;
mod broker;
mod broker_checks;
mod client_metrics;
mod describe;
mod docs;
mod error;
mod group;
mod java;
mod layered;
mod listener;
mod own;
mod properties;
mod providers;
mod quorum;
mod report;
mod storage;
mod table;
mod topic;
mod value;
mod values;

#[cfg(test)]
mod tests;

pub use alter::{
    AlterOp, Change, LOG_LEVELS, ResourceKind, VALUE_UNITS_MAX, Written, applied, check_logger_changes, check_request,
    incremental, replacement,
};
pub use broker::{
    BrokerConfig, ConnectionLimits, FetchConfig, LogManagerConfig, MetadataLogConfig, NetConfig, TopicDefaults,
};
pub use describe::{ConfigEntry, ConfigSource, ConfigSynonym, Wanted, describe_client_metrics, describe_loggers};
pub use docs::markdown;
pub use error::{ConfigError, ErrorKind};
pub use group::GroupValues;
pub use layered::LayeredConfig;
pub use listener::{Listener, SecurityProtocol};
pub use own::{ControllerCore, Durability, OwnConfig};
pub use properties::{Properties, PropertiesError};
pub use providers::{Provider, resolve};
pub use quorum::{QuorumConfig, Roles, Voter};
pub use storage::{LogDirectory, META_PROPERTIES, MetaProperties, MetaPropertiesError, NodeStorage};
pub use table::{
    BROKER, Bound, CLIENT_METRICS, Default as OptionDefault, GROUP, Importance, Kind, OptionDef, Synonym, TOPIC, Unit,
    Update, Valid, find,
};
pub use topic::{Compression, TimestampType, TopicConfig};
pub use value::Value;
pub use values::{ConfigMap, Values};
