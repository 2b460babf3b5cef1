//! The controller's decisions: a request and the newest image in, records and an answer out.
//!
//! Pure; lives on the controller core. [`Controller::handle`] decides one request. Its records are applied with
//! [`Controller::replay`] before the next request is looked at, and written by the caller; an answer leaves only when its
//! records are committed. Records that are read back from the log take the same way in.
//!
//! It does not know of the log, the quorum, files or sockets, and it does not ask who may do what: requests are authorized
//! before they come here. Client quotas, SCRAM credentials, delegation tokens and access control lists have no requests
//! here yet.

mod activation;
mod alter_partition;
mod brokers;
mod config_changes;
mod controller;
mod dispatch;
mod elections;
mod error;
mod feature_updates;
mod heartbeat;
mod names;
mod partition_change;
mod partitions_create;
mod periodic;
mod placement;
mod reassign;
mod topics_create;
mod topics_delete;

pub use activation::{ActivationError, default_bootstrap};
pub use controller::{Controller, ControllerConfig, Decision, Env, QuorumChange};
pub use dispatch::RequestError;
pub use error::ApiError;
pub use names::reason_invalid;

#[cfg(test)]
mod tests;
