use thiserror::Error;

use crate::voters::VoterSet;

/// A record of a control batch of the metadata log or of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlRecord {
    /// First record of a term.
    LeaderChange {
        /// The leader.
        leader_id: i32,
        /// Voters, all of which granted their vote.
        voters: Vec<i32>,
    },
    /// First record of a snapshot.
    SnapshotHeader {
        /// Append time of the last batch the snapshot covers, ms since the epoch.
        last_contained_log_timestamp: i64,
    },
    /// Last record of a snapshot.
    SnapshotFooter,
    /// `kraft.version` from here on.
    KraftVersion(i16),
    /// The voters from here on.
    Voters(VoterSet),
}

/// A control record that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ControlError {
    /// The key is not a version and a type.
    #[error("a control record's key has {0} bytes")]
    Key(usize),
    /// The value is not what its type says.
    #[error("control record of type {kind}: {reason}")]
    Value {
        /// Type from the key.
        kind: i16,
        /// What is wrong.
        reason: String,
    },
}
