use std::path::PathBuf;

use base::Uuid;
use config::{BrokerConfig, LayeredConfig};
use raft::{Endpoint, ReplicaKey, Voter, VoterSet};

/// What the controller core needs to know before the metadata log is read.
#[derive(Clone, Debug)]
pub struct QuorumConfig {
    /// `node.id`.
    pub node_id: i32,
    /// True when the same process is a broker too.
    pub combined: bool,
    /// Cluster id from `meta.properties`.
    pub cluster_id: String,
    /// `metadata.log.dir`: the directory that holds `__cluster_metadata-0`, `meta.properties` and, from formatting by an
    /// older Kafka, `bootstrap.checkpoint`.
    pub metadata_dir: PathBuf,
    /// `directory.id` from `meta.properties` of that directory.
    pub directory_id: Uuid,
    /// `controller.quorum.voters`; empty when the voters are in the log (KIP-853).
    pub static_voters: VoterSet,
    /// This controller's advertised listeners and their security protocols (by number).
    pub endpoints: Vec<(Endpoint, i16)>,
    /// `metadata.max.idle.interval.ms`: a NoOp record is written when nothing else was for that long; 0 turns it off.
    pub max_idle_interval_ms: u64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 turns snapshots by time off.
    pub snapshot_interval_ms: u64,
    /// `metadata.log.segment.bytes`.
    pub segment_bytes: u64,
    /// `metadata.log.segment.ms`.
    pub segment_ms: u64,
    /// `metadata.max.retention.bytes`; `None` means without limit.
    pub retention_bytes: Option<u64>,
    /// `metadata.max.retention.ms`; `None` means without limit.
    pub retention_ms: Option<u64>,
    /// The process's configuration; the controller lays dynamic options over it by itself.
    pub config: LayeredConfig,
}

impl QuorumConfig {
    /// From a configuration file and what `meta.properties` of its metadata directory says.
    pub fn new(config: &BrokerConfig, cluster_id: &str, directory_id: Uuid) -> QuorumConfig {
        let listener = config.controller_listener_names.first().cloned().unwrap_or_default();
        let voters = config.quorum.voters.iter().map(|voter| {
            let key = ReplicaKey { id: voter.id, directory_id: Uuid::ZERO };
            Voter::new(key, vec![Endpoint { name: listener.clone(), host: voter.host.clone(), port: voter.port }])
        });
        let endpoints = config.advertised_controller_listeners.iter().map(|listener| {
            let endpoint = Endpoint { name: listener.name.clone(), host: listener.host.clone(), port: listener.port };
            (endpoint, listener.protocol.wire_id())
        });
        let log = &config.metadata_log;
        QuorumConfig {
            node_id: config.node_id,
            combined: config.roles.broker && config.roles.controller,
            cluster_id: cluster_id.to_owned(),
            metadata_dir: config.metadata_log_dir.clone(),
            directory_id,
            static_voters: VoterSet::new(voters),
            endpoints: endpoints.collect(),
            max_idle_interval_ms: u64::from(log.idle_interval_ms),
            snapshot_bytes: log.snapshot_bytes,
            snapshot_interval_ms: log.snapshot_interval_ms,
            segment_bytes: u64::from(log.segment_bytes),
            segment_ms: log.segment_ms,
            retention_bytes: log.retention_bytes,
            retention_ms: log.retention_ms,
            config: LayeredConfig::new(config.clone()),
        }
    }
}
