//! One core's world: a thread, its tasks, timers, files, sockets, buffers, and the mailboxes to the other cores.
//!
//! Lives on every core; each has its own instance and shares nothing but mailboxes. The API is ambient: [`spawn`],
//! [`sleep`], [`fs::File`], [`net::TcpStream`] act on the core that the calling task runs on. Futures are not `Send`.
//!
//! Two backends stand behind the one API. [`Runtime`] runs cores as pinned threads on io_uring; [`sim::Sim`] runs any
//! number of nodes with any number of cores on one thread, with virtual time, an in-memory disk and an in-memory
//! network, all of it decided by one seed.
//!
//! The main invariant: memory that an operation points to belongs to the operation table from submission until the
//! completion arrives, whatever becomes of the future that started it.
//!
//! This crate does not know of Kafka, of requests, of partitions, or of what is written to files and sockets.

mod append_buf;
mod arena;
mod buf;
mod bus_error;
mod combine;
mod counters;
mod counting_alloc;
mod disk_use;
mod exec;
pub mod fs;
mod handover;
pub mod mailbox;
mod mapped;
mod memory;
pub mod net;
mod op;
mod percore;
mod runtime;
mod shared;
pub mod sim;
mod stop;
mod stream_copy;
pub mod sync;
mod timer;
mod unblock;
mod uring;

pub use crate::append_buf::{AppendBuf, Pinned};
pub use crate::buf::{ALIGNMENT, AlignedBuf, IoBuf, IoBufMut, buffer_pool_bytes, release_idle_buffers};
pub use crate::combine::{Either, join_all, race};
pub use crate::counters::Counters;
pub use crate::counting_alloc::CountingAlloc;
pub use crate::exec::{Class, Task, spawn, yield_now};
pub use crate::handover::Handover;
pub use crate::mapped::MappedFile;
pub use crate::memory::{ProcessMemory, process_memory, return_freed_memory};
pub use crate::percore::{core, counters, now, random_u64};
pub use crate::runtime::{CoreSpec, OnPanic, Runtime, RuntimeConfig, block_on};
pub use crate::stop::{StopHandle, is_stopping, stop, stopping};
pub use crate::timer::{Elapsed, Sleep, sleep, sleep_until, timeout};
pub use crate::unblock::unblock;
pub use base::{CoreId, Now};

#[cfg(test)]
mod tests;
