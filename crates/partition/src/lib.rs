//! The partitions of one core: each joins its brain (`replica`), the rules for batches (`records`) and its log (`log`),
//! and holds the requests that wait for it.
//!
//! Lives on every data core, one [`PartitionCore`] there, which hosts the partitions whose home is that core. It
//! follows the metadata images, opening, changing and removing partitions, and runs retention and the expiry of
//! producers. All answers are in the terms of the protocol ([`PartitionError`] has its codes), none in its encoding.
//!
//! Appends and reads from memory decide without waiting, so the order of calls is the order of offsets; what has to
//! wait (a promise, a disk, more bytes) is a future of its own, and dropping it leaves nothing behind.
//!
//! It does not know of connections, sessions, request versions, authorization, byte budgets across partitions, or other
//! cores; nor of how bytes get to the disk.

mod append;
mod backlog;
mod bytes_ahead;
mod core;
mod error;
mod fetch_wait;
mod look_back;
mod offset_waiters;
mod offsets;
mod partition;
mod pending;
mod read;
mod recovery;
mod settings;
mod shared;
mod strays;
mod tasks;

pub use crate::core::{LogDir, PartitionCore, PartitionCoreConfig};
pub use append::{AppendRequest, ProduceResult};
pub use error::PartitionError;
pub use fetch_wait::{FetchMark, FetchWait, WaitOn, Woken};
pub use offsets::{EpochAnswer, LogDirInfo, OffsetAnswer, OffsetQuery, ProducerInfo, timestamp};
pub use partition::Partition;
pub use pending::{AppendWait, KeptToken, PendingAppend};
pub use read::{AbortedLookup, ReadRecords, ReadRequest, ReadResult};
pub use replica::{EpochEnd, FetchBounds, Isolation, Leadership, Origin};

#[cfg(test)]
mod tests;
