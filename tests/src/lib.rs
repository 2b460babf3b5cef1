//! Black-box test kit: starts the real broker as a process of its own and drives it with unmodified clients.
//!
//! Everything here works on Apache Kafka as well ([`Node::kafka`]), so that a test's expectations can be checked against
//! the original: `ODRADEK_TEST_PEER=kafka` runs the whole suite on it.

pub mod client;
pub mod differ;
pub mod node;
pub mod peers;
pub mod ports;
pub mod raw;
pub mod talk;
pub mod tool;
pub mod watch;

pub use client::{Client, FetchLimits};
pub use node::{Node, NodeConfig, Peer};
pub use talk::Talk;
pub use tool::{Output, Tool};
pub use watch::Watch;
