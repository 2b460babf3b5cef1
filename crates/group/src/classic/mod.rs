//! The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//!
//! Membership between two generations is soft state: only what a generation agreed on is written, as Kafka's
//! `GroupMetadataValue`, when the leader hands in the assignments, when a static member is replaced, and when the group
//! becomes empty.

mod group;
mod persist;

#[allow(unused_imports)]
pub(crate) use group::{ClassicGroup, Member, Protocol, State};
