use std::io;
use std::path::PathBuf;

use base::Offset;
use thiserror::Error;

/// Why the controller core cannot start, or had to stop.
#[derive(Debug, Error)]
pub enum QuorumError {
    /// The metadata log's directory cannot be read or written.
    #[error("metadata log: {0}")]
    Io(#[from] io::Error),
    /// A file of the metadata log is damaged where that cannot come from an interrupted write.
    #[error("{}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The log begins after the newest snapshot ends, so that what lies between is lost.
    #[error("the metadata log begins at offset {log_start}, but the newest readable snapshot ends at {snapshot_end}")]
    Gap {
        /// First offset of the log.
        log_start: Offset,
        /// End of the snapshot, 0 without one.
        snapshot_end: Offset,
    },
    /// The quorum cannot be run.
    #[error(transparent)]
    Raft(#[from] raft::RaftError),
    /// `quorum-state` cannot be understood.
    #[error(transparent)]
    Election(#[from] raft::ElectionStateError),
    /// The metadata cannot be worked with.
    #[error(transparent)]
    Activation(#[from] controller::ActivationError),
    /// A record does not fit the metadata before it.
    #[error("metadata record at offset {offset}: {reason}")]
    Record {
        /// Where it stands.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
}

/// A request that the controller gave no answer to.
#[derive(Debug, Error)]
pub enum RequestFailure {
    /// It is malformed, or the controller does not serve it; the connection should be closed.
    #[error("{0}")]
    Malformed(String),
    /// The controller is stopping, or has stopped for an error of its log.
    #[error("the controller has stopped")]
    Stopped,
}
