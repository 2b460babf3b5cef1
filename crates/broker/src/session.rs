//! What the broker remembers of one connection.

use net::ConnectionInfo;
use std::cell::RefCell;

/// A connection's state above the framing.
#[derive(Debug)]
pub struct ClientSession {
    /// Who is on the other end.
    pub info: ConnectionInfo,
    /// Name and version of the client's software, once ApiVersions told them (KIP-511).
    pub software: RefCell<Option<(Box<str>, Box<str>)>>,
}

impl ClientSession {
    /// The state of a new connection.
    pub fn new(info: ConnectionInfo) -> ClientSession {
        ClientSession { info, software: RefCell::new(None) }
    }
}
