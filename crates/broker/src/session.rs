//! What the broker remembers of one connection.

use net::ConnectionInfo;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

/// A connection's state above the framing.
#[derive(Debug)]
pub struct ClientSession {
    /// Who is on the other end.
    pub info: ConnectionInfo,
    /// The peer's address as Kafka shows it. Shared with the cores of the groups that the client joins.
    pub host: Arc<str>,
    /// True on a controller's listener, which serves what controllers decide, and nothing of topics' data or groups
    /// (KIP-919).
    pub on_controller: bool,
    /// Name and version of the client's software, once ApiVersions told them (KIP-511).
    pub software: RefCell<Option<(Box<str>, Box<str>)>>,
}

impl ClientSession {
    /// The state of a new connection.
    pub fn new(info: ConnectionInfo, on_controller: bool) -> ClientSession {
        let host = host_text(info.peer.ip()).into();
        ClientSession { info, host, on_controller, software: RefCell::new(None) }
    }
}

/// An address in the form of Java's `InetAddress.toString` without a name, which Kafka's tools show.
fn host_text(addr: IpAddr) -> String {
    match addr.to_canonical() {
        IpAddr::V4(addr) => format!("/{addr}"),
        IpAddr::V6(addr) => {
            let groups: Vec<String> = addr.segments().iter().map(|group| format!("{group:x}")).collect();
            format!("/{}", groups.join(":"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_look_as_in_java() {
        let cases = [("127.0.0.1", "/127.0.0.1"), ("::ffff:10.0.0.1", "/10.0.0.1"), ("::1", "/0:0:0:0:0:0:0:1")];
        for (addr, text) in cases {
            assert_eq!(host_text(addr.parse().expect("an address")), text);
        }
    }
}
