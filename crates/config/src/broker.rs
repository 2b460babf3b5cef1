//! The typed view of a broker's configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::ConfigError;
use crate::listener::{
    Listener, Ports, ProtocolMap, SecurityProtocol, parse_csv_map, parse_listeners, parse_protocol_map,
};
use crate::own::OwnConfig;
use crate::properties::Properties;
use crate::quorum::{QuorumConfig, Roles};
use crate::value::Value;
use crate::values::{ConfigMap, Values};
use crate::{broker_checks, values};

/// A broker's configuration: a snapshot, built from a properties file, overrides and dynamic options, and passed to
/// whoever needs it. Options that are not fields here are read by name from [`BrokerConfig::values`].
#[derive(Clone, PartialEq, Debug)]
pub struct BrokerConfig {
    /// `node.id`.
    pub node_id: i32,
    /// `process.roles`.
    pub roles: Roles,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `listeners`: where the process listens, the controller's listeners included.
    pub listeners: Vec<Listener>,
    /// What clients and other brokers are told: `advertised.listeners`, or `listeners`, without the controller's.
    /// A host that is empty stands for this machine's own name; a port 0 for the one the system chose.
    pub advertised_listeners: Vec<Listener>,
    /// What controllers are told: the controller's listeners of `advertised.listeners`, else of `listeners`, in the
    /// order of `controller.listener.names`.
    pub advertised_controller_listeners: Vec<Listener>,
    /// `controller.listener.names`, upper case; the first is the one brokers use.
    pub controller_listener_names: Vec<String>,
    /// `inter.broker.listener.name`, or the name of `security.inter.broker.protocol`; upper case.
    pub inter_broker_listener_name: String,
    /// `log.dirs`, or `log.dir`.
    pub log_dirs: Vec<PathBuf>,
    /// `metadata.log.dir`, or the first of the log directories.
    pub metadata_log_dir: PathBuf,
    /// `controller.quorum.*`.
    pub quorum: QuorumConfig,
    /// Sockets and requests.
    pub net: NetConfig,
    /// Fetch requests.
    pub fetch: FetchConfig,
    /// What topics are created with.
    pub topics: TopicDefaults,
    /// Logs as a whole.
    pub log: LogManagerConfig,
    /// The metadata log.
    pub metadata_log: MetadataLogConfig,
    /// `broker.heartbeat.interval.ms`: how often a broker reports to the controller.
    pub heartbeat_interval_ms: u32,
    /// `broker.session.timeout.ms`: after so long without a heartbeat the controller fences the broker.
    pub session_timeout_ms: u32,
    /// `initial.broker.registration.timeout.ms`: a broker that cannot register for so long gives up.
    pub registration_timeout_ms: u32,
    /// This project's own options.
    pub own: OwnConfig,
    /// Values of all options, by name.
    pub values: Values,
}

/// How many connections there may be, and how fast new ones may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// `max.connections`.
    pub connections_max: u32,
    /// `max.connection.creation.rate`, per second.
    pub creation_rate_max: u32,
}

/// Sockets and requests.
#[derive(Clone, PartialEq, Debug)]
pub struct NetConfig {
    /// `socket.request.max.bytes`: a larger frame closes the connection.
    pub request_max_bytes: u32,
    /// `socket.send.buffer.bytes`, if it is set; `None` leaves it to the system.
    pub send_buffer_bytes: Option<u32>,
    /// `socket.receive.buffer.bytes`, if it is set; `None` leaves it to the system.
    pub receive_buffer_bytes: Option<u32>,
    /// `socket.listen.backlog.size`.
    pub backlog: u32,
    /// `connections.max.idle.ms`; `None` never closes idle connections.
    pub idle_ms_max: Option<u64>,
    /// `max.connections` and `max.connection.creation.rate`.
    pub connections: ConnectionLimits,
    /// The same of the listeners, upper case, that have limits of their own.
    pub listener_connections: BTreeMap<String, ConnectionLimits>,
    /// Milliseconds over which rates are averages: all but one of the windows that `quota.window.num` and
    /// `quota.window.size.seconds` name.
    pub rate_burst_ms: u64,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: u32,
    /// `max.connections.per.ip.overrides`, by host name or address.
    pub connections_per_ip_overrides: BTreeMap<String, u32>,
    /// `queued.max.requests`: requests of all connections that wait or are handled.
    pub queued_requests_max: u32,
    /// `queued.max.request.bytes`; `None` leaves it to `odradek.request.memory.bytes`.
    pub queued_request_bytes_max: Option<u64>,
    /// `connection.failed.authentication.delay.ms`.
    pub failed_authentication_delay_ms: u32,
}

/// Fetch requests.
#[derive(Clone, PartialEq, Debug)]
pub struct FetchConfig {
    /// `fetch.max.bytes`: most that one response carries.
    pub response_bytes_max: u32,
    /// `max.incremental.fetch.session.cache.slots`: fetch sessions of the whole broker (KIP-227).
    pub session_slots: u32,
    /// `max.request.partition.size.limit`: most partitions one DescribeTopicPartitions answer lists.
    pub request_partitions_max: u32,
}

/// What topics are created with.
#[derive(Clone, PartialEq, Debug)]
pub struct TopicDefaults {
    /// `auto.create.topics.enable`: Metadata requests create unknown topics.
    pub auto_create: bool,
    /// `delete.topic.enable`.
    pub delete_enable: bool,
    /// `num.partitions`.
    pub partitions: u32,
    /// `default.replication.factor`.
    pub replication_factor: i16,
}

/// Logs as a whole. What applies to one topic is in [`crate::TopicConfig`].
#[derive(Clone, PartialEq, Debug)]
pub struct LogManagerConfig {
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub recovery_checkpoint_interval_ms: u32,
    /// `log.flush.start.offset.checkpoint.interval.ms`.
    pub start_offset_checkpoint_interval_ms: u32,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub high_watermark_checkpoint_interval_ms: u64,
    /// `log.initial.task.delay.ms`: delay of the first background tasks after start.
    pub initial_task_delay_ms: u64,
    /// `num.recovery.threads.per.data.dir`.
    pub recovery_threads: u32,
    /// `log.dir.failure.timeout.ms`: a broker that cannot report a failed directory for so long stops.
    pub dir_failure_timeout_ms: u64,
    /// `producer.id.expiration.ms`: idle producers are forgotten after so long.
    pub producer_id_expiration_ms: u64,
    /// `producer.id.expiration.check.interval.ms`.
    pub producer_id_expiration_check_interval_ms: u64,
}

/// The metadata log `__cluster_metadata-0`.
#[derive(Clone, PartialEq, Debug)]
pub struct MetadataLogConfig {
    /// `metadata.log.segment.bytes`, or the internal option for tests that allows smaller ones.
    pub segment_bytes: u32,
    /// `metadata.log.segment.ms`.
    pub segment_ms: u64,
    /// `metadata.max.retention.bytes`: log and snapshots; `None` keeps all.
    pub retention_bytes: Option<u64>,
    /// `metadata.max.retention.ms`; `None` keeps all.
    pub retention_ms: Option<u64>,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 switches snapshots by time off.
    pub snapshot_interval_ms: u64,
    /// `metadata.max.idle.interval.ms`: an idle leader appends a no-op record so often; 0 never.
    pub idle_interval_ms: u32,
}

impl BrokerConfig {
    /// Parses and validates. All errors found are returned together.
    pub fn from_properties(properties: Properties) -> Result<BrokerConfig, Vec<ConfigError>> {
        Self::from_values(Values::parse(properties)?)
    }

    /// The snapshot that results from laying dynamic options over this one: `layers` are the default of all brokers and
    /// this broker's own. Call it on the static configuration, not on an earlier result.
    pub fn with_dynamic(&self, layers: [&dyn ConfigMap; 2]) -> Result<BrokerConfig, Vec<ConfigError>> {
        Self::from_values(self.values.overlaid(layers)?)
    }

    fn from_values(values: Values) -> Result<BrokerConfig, Vec<ConfigError>> {
        let config = Self::build(values).map_err(|error| vec![error])?;
        let errors = broker_checks::check(&config);
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    fn build(values: Values) -> Result<BrokerConfig, ConfigError> {
        let names = |list: &[String]| list.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>();
        let controller_listener_names = names(values.list("controller.listener.names"));
        let protocols = effective_protocols(&values)?;
        let listeners = parse_listeners("listeners", values.list("listeners"), &protocols, Ports::Distinct)?;
        let advertised = match values.list_or_none("advertised.listeners") {
            Some(entries) => parse_listeners("advertised.listeners", entries, &protocols, Ports::MayRepeat)?,
            None => Vec::new(),
        };
        let is_controller = |listener: &&Listener| controller_listener_names.contains(&listener.name);
        let advertised_base =
            if values.list_or_none("advertised.listeners").is_some() { &advertised } else { &listeners };
        let advertised_listeners = advertised_base.iter().filter(|l| !is_controller(l)).cloned().collect();
        let by_name = |name: &String| {
            advertised.iter().chain(&listeners).filter(is_controller).find(|listener| listener.name == *name).cloned()
        };
        let advertised_controller_listeners = controller_listener_names.iter().filter_map(by_name).collect();
        let log_dirs: Vec<PathBuf> = values
            .list_or_none("log.dirs")
            .unwrap_or_else(|| values.list("log.dir"))
            .iter()
            .map(PathBuf::from)
            .collect();
        let metadata_log_dir = values.text_or_none("metadata.log.dir").map(PathBuf::from);
        let metadata_log_dir = metadata_log_dir.or_else(|| log_dirs.first().cloned()).unwrap_or_default();
        let role = |name: &str| values.list("process.roles").iter().any(|role| role == name);
        let net = NetConfig::from_values(&values, &listeners)?;
        Ok(BrokerConfig {
            node_id: values.int("node.id"),
            roles: Roles { broker: role("broker"), controller: role("controller") },
            rack: values.text_or_none("broker.rack").map(str::to_owned),
            listeners,
            advertised_listeners,
            advertised_controller_listeners,
            controller_listener_names,
            inter_broker_listener_name: inter_broker_listener(&values, &protocols)?,
            log_dirs,
            metadata_log_dir,
            quorum: QuorumConfig::from_values(&values)?,
            net,
            fetch: FetchConfig::from_values(&values),
            topics: TopicDefaults::from_values(&values),
            log: LogManagerConfig::from_values(&values),
            metadata_log: MetadataLogConfig::from_values(&values),
            heartbeat_interval_ms: values.count("broker.heartbeat.interval.ms"),
            session_timeout_ms: values.count("broker.session.timeout.ms"),
            registration_timeout_ms: values.count("initial.broker.registration.timeout.ms"),
            own: OwnConfig::from_values(&values),
            values,
        })
    }

    /// The listeners that serve clients and brokers: all but the controller's.
    pub fn broker_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(|listener| !self.is_controller_listener(&listener.name))
    }

    /// The listeners that serve the metadata quorum.
    pub fn controller_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(|listener| self.is_controller_listener(&listener.name))
    }

    /// True when the listener of this name (upper case) is one of `controller.listener.names`.
    pub fn is_controller_listener(&self, name: &str) -> bool {
        self.controller_listener_names.iter().any(|controller| controller == name)
    }

    /// True for the listener between brokers where there are others beside it: what holds those back, all together, does not
    /// hold it back.
    pub fn is_protected_listener(&self, name: &str) -> bool {
        name == self.inter_broker_listener_name && self.broker_listeners().nth(1).is_some()
    }
}

/// `listener.security.protocol.map`; when it is not set and nothing uses TLS or SASL, controller listeners are plaintext.
fn effective_protocols(values: &values::Values) -> Result<ProtocolMap, ConfigError> {
    const OPTION: &str = "listener.security.protocol.map";
    let mut map = parse_protocol_map(values.text(OPTION))?;
    if values.is_set(OPTION) {
        return Ok(map);
    }
    let secured = |name: &str| ["SSL", "SASL_SSL", "SASL_PLAINTEXT"].contains(&name);
    let of_listener = |entry: &String| entry.split_once(':').is_some_and(|(name, _)| secured(&name.to_uppercase()));
    let names = values.list("controller.listener.names");
    if names.iter().any(|name| secured(name)) || values.list("listeners").iter().any(of_listener) {
        return Ok(map);
    }
    for name in names {
        map.insert(name.to_uppercase(), SecurityProtocol::Plaintext);
    }
    Ok(map)
}

fn inter_broker_listener(values: &values::Values, protocols: &ProtocolMap) -> Result<String, ConfigError> {
    const NAME: &str = "inter.broker.listener.name";
    const PROTOCOL: &str = "security.inter.broker.protocol";
    let Some(name) = values.text_or_none(NAME) else {
        return Ok(values.text(PROTOCOL).to_uppercase());
    };
    if values.is_set(PROTOCOL) {
        return Err(ConfigError::about(NAME, format!("Only one of {NAME} and {PROTOCOL} should be set.")));
    }
    let name = name.to_uppercase();
    if !protocols.contains_key(&name) {
        let message =
            format!("Listener with name {name} defined in {NAME} not found in listener.security.protocol.map.");
        return Err(ConfigError::about(NAME, message));
    }
    Ok(name)
}

impl ConnectionLimits {
    /// The limits of one listener, `listener.name.<name>.<option>`, or of all where it has none of its own.
    fn of_listener(values: &Values, name: &str) -> Result<ConnectionLimits, ConfigError> {
        let count = |option| match values.of_listener(name, option)? {
            Some(Value::Int(own)) => Ok(own.max(0).unsigned_abs()),
            _ => Ok(values.count(option)),
        };
        Ok(ConnectionLimits {
            connections_max: count("max.connections")?,
            creation_rate_max: count("max.connection.creation.rate")?,
        })
    }
}

impl NetConfig {
    /// The limits of a listener's connections.
    pub fn connections_of(&self, listener: &str) -> ConnectionLimits {
        self.listener_connections.get(listener).copied().unwrap_or(self.connections)
    }

    fn from_values(values: &Values, listeners: &[Listener]) -> Result<NetConfig, ConfigError> {
        const OVERRIDES: &str = "max.connections.per.ip.overrides";
        let mut overrides = BTreeMap::new();
        for (host, limit) in parse_csv_map(OVERRIDES, values.text(OVERRIDES))? {
            let parsed = limit.parse::<i32>().map_err(|_| {
                ConfigError::invalid(OVERRIDES, values.text(OVERRIDES), format_args!("{limit} is not a number"))
            })?;
            overrides.insert(host, parsed.max(0).unsigned_abs());
        }
        // The default of 100 KiB would keep the system from fitting buffers to each connection.
        let buffer =
            |name: &str| values.is_set(name).then(|| values.int(name)).and_then(|bytes| u32::try_from(bytes).ok());
        let connections = ConnectionLimits {
            connections_max: values.count("max.connections"),
            creation_rate_max: values.count("max.connection.creation.rate"),
        };
        let mut listener_connections = BTreeMap::new();
        for listener in listeners {
            let own = ConnectionLimits::of_listener(values, &listener.name)?;
            if own != connections {
                listener_connections.insert(listener.name.clone(), own);
            }
        }
        let windows = u64::from(values.count("quota.window.num").saturating_sub(1));
        Ok(NetConfig {
            request_max_bytes: values.count("socket.request.max.bytes"),
            send_buffer_bytes: buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes: buffer("socket.receive.buffer.bytes"),
            backlog: values.count("socket.listen.backlog.size"),
            idle_ms_max: values.limit("connections.max.idle.ms"),
            connections,
            listener_connections,
            rate_burst_ms: windows * u64::from(values.count("quota.window.size.seconds")) * 1_000,
            connections_per_ip_max: values.count("max.connections.per.ip"),
            connections_per_ip_overrides: overrides,
            queued_requests_max: values.count("queued.max.requests"),
            queued_request_bytes_max: values.limit("queued.max.request.bytes").filter(|&bytes| bytes > 0),
            failed_authentication_delay_ms: values.count("connection.failed.authentication.delay.ms"),
        })
    }
}

impl FetchConfig {
    fn from_values(values: &Values) -> FetchConfig {
        FetchConfig {
            response_bytes_max: values.count("fetch.max.bytes"),
            session_slots: values.count("max.incremental.fetch.session.cache.slots"),
            request_partitions_max: values.count("max.request.partition.size.limit"),
        }
    }
}

impl TopicDefaults {
    fn from_values(values: &Values) -> TopicDefaults {
        TopicDefaults {
            auto_create: values.boolean("auto.create.topics.enable"),
            delete_enable: values.boolean("delete.topic.enable"),
            partitions: values.count("num.partitions"),
            replication_factor: i16::try_from(values.int("default.replication.factor")).unwrap_or(i16::MAX),
        }
    }
}

impl LogManagerConfig {
    fn from_values(values: &Values) -> LogManagerConfig {
        let ms = |name: &str| values.limit(name).unwrap_or(0);
        LogManagerConfig {
            retention_check_interval_ms: ms("log.retention.check.interval.ms"),
            recovery_checkpoint_interval_ms: values.count("log.flush.offset.checkpoint.interval.ms"),
            start_offset_checkpoint_interval_ms: values.count("log.flush.start.offset.checkpoint.interval.ms"),
            high_watermark_checkpoint_interval_ms: ms("replica.high.watermark.checkpoint.interval.ms"),
            initial_task_delay_ms: ms("log.initial.task.delay.ms"),
            recovery_threads: values.count("num.recovery.threads.per.data.dir"),
            dir_failure_timeout_ms: ms("log.dir.failure.timeout.ms"),
            producer_id_expiration_ms: ms("producer.id.expiration.ms"),
            producer_id_expiration_check_interval_ms: ms("producer.id.expiration.check.interval.ms"),
        }
    }
}

impl MetadataLogConfig {
    fn from_values(values: &Values) -> MetadataLogConfig {
        let ms = |name: &str| values.limit(name).unwrap_or(0);
        let internal = values.long_or_none("internal.metadata.log.segment.bytes").and_then(|n| u32::try_from(n).ok());
        MetadataLogConfig {
            segment_bytes: internal.unwrap_or_else(|| values.count("metadata.log.segment.bytes")),
            segment_ms: ms("metadata.log.segment.ms"),
            retention_bytes: values.limit("metadata.max.retention.bytes"),
            retention_ms: values.limit("metadata.max.retention.ms"),
            snapshot_bytes: ms("metadata.log.max.record.bytes.between.snapshots"),
            snapshot_interval_ms: ms("metadata.log.max.snapshot.interval.ms"),
            idle_interval_ms: values.count("metadata.max.idle.interval.ms"),
        }
    }
}
