//! The broker: which API is served by which handler, how a request finds the home core of each partition, and how cores
//! and controller are put together.
//!
//! Lives on every core. It does not know how bytes are framed (`net`), how a partition decides or stores (`partition`,
//! `log`), nor how metadata is agreed on (`quorum`); it carries questions to where the answer is and answers back.

pub mod api_table;
pub mod assembly;
mod auto_create;
mod boot;
mod call;
mod checkpoints;
mod controller_host;
mod core;
mod core_metrics;
mod dispatch;
pub mod fetch_session;
mod groups;
mod handlers;
mod internal_topics;
mod lifecycle;
mod mesh;
mod messages;
mod metrics_endpoint;
mod per_ip;
mod process_metrics;
mod producer_ids;
mod promises;
mod publisher;
mod run;
mod serve;
mod session;
mod topology;

pub use assembly::{Endpoint, FormattedDir, OnReady, Setup};
pub use boot::StartError;
pub use core::Layout;
pub use run::{Identity, run};
