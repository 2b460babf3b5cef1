//! KRaft as a pure machine: [`Raft::step`] takes an event and returns actions, in the order in which they must be carried
//! out. It owns terms, votes, the voter set and its history, `kraft.version`, the high watermark and the ids of snapshots.
//!
//! Lives on the controller core. It does not know of files, sockets, clocks or the content of the records it commits; it
//! counts offsets and reads control records.
//!
//! What is here is the whole protocol of a quorum with **one voter**, with static voters (`kraft.version` 0) and with
//! voters in the log (`kraft.version` 1, KIP-853), the upgrade from the one to the other included. Of a larger quorum the
//! state is here (voters by key, acknowledged offsets by voter, majorities, the voter history by offset) and the messages
//! are not: no Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, no observers, no adding or removing of
//! voters. [`Raft::start`] refuses a voter set that would need them.

mod control;
mod election;
mod machine;
mod voters;

pub use control::{ControlError, ControlRecord};
pub use election::{ElectionState, ElectionStateError};
pub use machine::{Action, Event, LogPosition, OffsetAndEpoch, QuorumView, Raft, RaftConfig, RaftError, VoterView};
pub use voters::{Endpoint, ReplicaKey, Voter, VoterSet};

/// Level of `kraft.version` at which voters are listed in the configuration.
pub const KRAFT_VERSION_STATIC: i16 = 0;
/// Level of `kraft.version` from which voters are records of the log (KIP-853).
pub const KRAFT_VERSION_DYNAMIC: i16 = 1;
