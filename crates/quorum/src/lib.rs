//! The controller core: a KRaft quorum (crate `raft`), the decisions (crate `controller`), the metadata log and its
//! snapshots in Kafka's files, and the publishing of images to every core.
//!
//! Runs on one core, its own or a shared one, as one task that decides, writes and publishes in turn; everything here is
//! `!Send` except what it publishes. A request is answered only after its records are durable in the log **and** every
//! core has applied the image that holds them. When the log fails, the state in memory is thrown away with the task.
//!
//! It does not know what a data core does with an image, nor the listeners: requests come in through
//! [`ControllerHandle`], already authorized. It talks to no other node yet: the quorum has one voter.

mod batches;
mod clean;
mod config;
mod describe;
mod error;
mod handle;
mod publish;
mod scan;
mod segments;
mod snapshot;
mod store;
mod task;

pub use config::QuorumConfig;
pub use error::{QuorumError, RequestFailure};
pub use handle::{ControllerHandle, RequestContext};
pub use publish::Publisher;
pub use task::Quorum;

// Files that unit tests and integration tests share name this crate the same way.
#[cfg(test)]
extern crate self as quorum;
#[cfg(test)]
mod tests;
