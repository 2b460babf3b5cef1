//! The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//!
//! Membership between two generations is soft state: only what a generation agreed on is written, as Kafka's
//! `GroupMetadataValue`, when the leader hands in the assignments, when a static member is replaced, and when the group
//! becomes empty. Requests change the membership at once; replaying those records in the broker that decided them only
//! confirms the assignments.

mod admin;
mod flow;
mod group;
mod join;
mod leave;
mod persist;
mod static_members;
mod sync;

pub(crate) use flow::{Turn, join_error, reply_join};
pub(crate) use group::{ClassicGroup, InitialDelay, Member, Protocol, State};
pub(crate) use leave::{leaving, left, member_response};
