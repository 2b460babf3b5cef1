//! What the broker remembers of one connection.

use net::ConnectionInfo;
use std::cell::RefCell;

/// A connection's state above the framing.
#[derive(Debug)]
pub struct ClientSession {
    /// Who is on the other end.
    pub info: ConnectionInfo,
    /// True on a controller's listener, which serves what controllers decide, and nothing of topics' data or groups
    /// (KIP-919).
    pub on_controller: bool,
    /// Name and version of the client's software, once ApiVersions told them (KIP-511).
    pub software: RefCell<Option<(Box<str>, Box<str>)>>,
}

impl ClientSession {
    /// The state of a new connection.
    pub fn new(info: ConnectionInfo, on_controller: bool) -> ClientSession {
        ClientSession { info, on_controller, software: RefCell::new(None) }
    }
}
