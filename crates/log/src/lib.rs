//! The logs of one core in one log directory: journal, segments, indexes, tail cache, recovery and retention.
//!
//! Lives on every core that hosts partitions, one [`LogCore`] per log directory; a [`Log`] belongs to the core that opened
//! it. Files are Kafka's, byte for byte, plus the journal's own files in the root of the log directory while the broker
//! runs.
//!
//! Invariants:
//! - What [`Log::promised_end`] covers survives: `kill -9` on the `written` rung, power loss on the `durable` rung.
//! - A segment file receives bytes only after every earlier segment is complete on disk, so only the last one can be
//!   short after a crash, and the journal continues exactly there.
//! - Recovery believes a checksum, never a length, a zero or an index.
//!
//! It does not know of leaders, high watermarks (it only stores them in the checkpoint file), producers' rules,
//! validation, requests, or metadata; it appends what it is told where it is told.

mod cold;
mod commit;
mod core;
mod dir;
mod epochs;
mod error;
pub mod format;
mod io;
mod journal;
mod log;
mod pins;
mod recover;
mod scan;
mod segment;
mod tail;
#[cfg(test)]
mod tests;
mod types;

pub use crate::core::LogCore;
pub use crate::dir::{CheckpointEntry, DirLock, lock_dir, open_dir, write_checkpoints, write_clean_shutdown};
pub use crate::error::LogError;
pub use crate::log::Log;
pub use crate::types::{
    AbortedTxn, AppendBatch, ColdRange, ColdRead, DirStart, Durability, EpochEntry, FoundLog, JournalConfig, LogConfig,
    LogCoreConfig, LogId, OffsetAtTime, ProducerEntry, Progress, ReadOutcome, ReadRequest, RecoverySink,
};
