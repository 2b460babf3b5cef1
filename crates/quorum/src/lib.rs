//! The controller core: a KRaft quorum (crate `raft`), the decisions (crate `controller`), the metadata log and its
//! snapshots in Kafka's files, and the publishing of images to every core.
//!
//! Runs on one core, its own or a shared one; everything here is `!Send` except what it publishes. A request is answered
//! only after its records are durable in the log **and** every core has applied the image that holds them.
//!
//! It does not know what a data core does with an image, nor the listeners: requests come in through
//! [`ControllerHandle`], already authorized.

mod config;
mod publish;

pub use config::{QuorumConfig, Voter, VoterEndpoint};
pub use publish::Publisher;
