//! Groups and their committed offsets: the classic protocol (JoinGroup, SyncGroup), the consumer protocol (KIP-848) and
//! OffsetCommit/OffsetFetch as one pure machine, [`GroupShard`], for all groups of one partition of `__consumer_offsets`.
//!
//! Lives on the home core of that partition, inside a [`coordinator::Shell`], which appends the records it decides and
//! holds its replies back. It does not know of connections, of how records are stored, of authorization (what a principal
//! must not see is taken out of requests and replies by the caller) nor of the clock.

mod api;
pub mod assignor;
mod classic;
mod config;
mod consumer;
mod counts;
pub mod metadata_hash;
mod offsets;
mod records;
mod shard;
mod subscription;
#[cfg(test)]
mod tests;
mod timers;
pub mod topic_regex;

pub use api::{Client, Env, Reply, Request, refused};
pub use config::GroupConfig;
pub use consumer::HeartbeatReply;
pub use counts::{GroupCounts, GroupEvents};
pub use shard::{GroupShard, partition_for};
