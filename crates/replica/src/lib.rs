//! One partition's brain: what a replica decides about the batches it is handed, as a machine without side effects.
//!
//! Lives on the partition's home core, inside `partition`, one [`Replica`] per hosted partition. It holds the leader
//! epoch and the history of epochs ([`EpochCache`]), the in-sync set, the high watermark, the last stable offset, the
//! start and the end of the log, and what is known of each idempotent or transactional producer ([`ProducerStates`]).
//!
//! It decides first ([`Replica::prepare_append`], which changes nothing) and is told afterwards what became true
//! ([`Replica::commit_append`], [`Replica::advance_own_end`]). [`ProducerStates::replay`] is the only mutator of
//! producer state: a leader's append, a follower's append and recovery all pass through it, so they cannot drift apart.
//!
//! It does not know of files or indexes (the list of aborted transactions is the log's), buffers, record contents,
//! sockets, waiting clients, metadata images or clocks: a batch is a [`BatchInfo`], time is a [`base::Now`] handed in.

mod batch;
mod brain;
mod entry;
mod epochs;
mod error;
mod fetch;
mod producers;

pub use batch::{BatchInfo, EndTxnMarker, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Origin};
pub use brain::{AppendContext, AppendDecision, AppendPlan, Leadership, Replica, ReplicaConfig, ReplicaInit};
pub use entry::{BatchMeta, Forgotten, ProducerEntry, SnapshotEntry, WINDOW_BATCHES};
pub use epochs::{EpochCache, EpochEnd, EpochEntry};
pub use error::{AppendError, LeadershipError, ProducerError, ReadError};
pub use fetch::{FetchBounds, FetchCheck, FetchVerdict, Isolation};
pub use producers::{CompletedTxn, ProducerCheck, ProducerStates};
