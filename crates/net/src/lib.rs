//! Connections: listeners, framing, admission by bytes before a frame is read, replies in request order, idle reaping,
//! connection limits and draining.
//!
//! Lives on every data core; every core has listeners of its own on the same addresses (`SO_REUSEPORT`), and a connection
//! stays on the core that accepted it. It does not know the Kafka protocol beyond the four bytes of length in front of a
//! frame: what a frame means, and what is answered, is the [`Service`]'s.

mod admission;
mod connection;
mod counts;
mod frame;
mod limited;
mod listener;
mod registry;
mod service;

pub use admission::{Admission, AdmissionLimits, Permit};
pub use counts::{ConnectionCounts, EntryLimits, Limit};
pub use frame::{FrameError, FrameReader, Progress};
pub use limited::LogGate;
pub use listener::{Listener, ListenerSpec};
pub use registry::{NetCore, NetLimits, Registry};
pub use service::{ConnectionInfo, Enter, FileRange, Later, Outgoing, Reply, Request, Response, Service};

#[cfg(test)]
mod tests;
