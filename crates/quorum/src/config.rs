use std::path::PathBuf;

use base::Uuid;

/// One listener of a voter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VoterEndpoint {
    /// Listener name.
    pub name: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// One voter of the quorum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voter {
    /// `node.id`.
    pub id: i32,
    /// Id of the voter's metadata log directory; [`Uuid::ZERO`] when voters come from `controller.quorum.voters`.
    pub directory_id: Uuid,
    /// Where the voter listens.
    pub endpoints: Vec<VoterEndpoint>,
}

/// What the controller core needs to know before the metadata log is read.
#[derive(Clone, Debug)]
pub struct QuorumConfig {
    /// `node.id`.
    pub node_id: i32,
    /// Cluster id from `meta.properties`.
    pub cluster_id: String,
    /// `metadata.log.dir`: the directory that holds `__cluster_metadata-0`, `meta.properties` and
    /// `bootstrap.checkpoint`.
    pub metadata_dir: PathBuf,
    /// `directory.id` from `meta.properties` of that directory.
    pub directory_id: Uuid,
    /// `controller.quorum.voters`; empty when the voters are in the log (KIP-853).
    pub static_voters: Vec<Voter>,
    /// This controller's own advertised listeners.
    pub controller_endpoints: Vec<VoterEndpoint>,
    /// `metadata.max.idle.interval.ms`: a NoOp record is written when nothing else was for that long; 0 turns it off.
    pub max_idle_interval_ms: u64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_max_new_record_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 turns snapshots by time off.
    pub snapshot_max_interval_ms: u64,
    /// `metadata.log.segment.bytes`.
    pub segment_bytes: u64,
    /// `metadata.log.segment.ms`.
    pub segment_ms: u64,
    /// `metadata.max.retention.bytes`; negative means without limit.
    pub retention_bytes: i64,
    /// `metadata.max.retention.ms`; negative means without limit.
    pub retention_ms: i64,
}
