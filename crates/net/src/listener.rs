//! Accepting connections on one core.

use crate::connection;
use crate::registry::NetCore;
use crate::service::{ConnectionInfo, Service};
use reactor::net::{BindOptions, TcpListener, TcpStream};
use reactor::{Class, spawn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Pause after a failed accept, in milliseconds: most often file descriptors ran out, and retrying at once would spin.
const ACCEPT_RETRY_MS: u64 = 50;

/// Where to listen.
#[derive(Clone, Debug)]
pub struct ListenerSpec {
    /// Name of the listener, as in `listeners`.
    pub name: String,
    /// Address to bind.
    pub addr: SocketAddr,
    /// `socket.listen.backlog.size`.
    pub backlog: u32,
}

/// A bound socket of one core. Every core binds the same address; the kernel spreads connections over them.
pub struct Listener {
    name: Rc<str>,
    socket: TcpListener,
}

impl Listener {
    /// Binds and listens.
    ///
    /// # Errors
    /// What the kernel says, for example that the address is in use.
    pub async fn bind(spec: &ListenerSpec) -> io::Result<Listener> {
        let options = BindOptions { reuse_port: true, backlog: spec.backlog };
        let socket = TcpListener::bind(spec.addr, options).await?;
        Ok(Listener { name: Rc::from(spec.name.as_str()), socket })
    }

    /// Whether the listeners of this process would be the only ones on the address. [`Listener::bind`] cannot tell: it shares
    /// the address with every listener of the same user. To be called before the first core binds.
    ///
    /// # Errors
    /// `AddrInUse` when somebody listens there, and whatever else the kernel has against the address.
    pub fn probe(addr: SocketAddr) -> io::Result<()> {
        TcpListener::probe(addr)
    }

    /// The bound address, with the port the kernel chose if the specification left it open.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Accepts until draining begins; each connection becomes a task.
    pub async fn run<S: Service>(self, core: Rc<NetCore<S>>) {
        while !core.registry.closing() {
            match self.socket.accept().await {
                Ok((stream, peer)) => self.accepted(&core, stream, peer),
                Err(error) => {
                    if let Some(held_back) = core.refused.open(reactor::now()) {
                        tracing::warn!(listener = %self.name, %error, held_back, "accept failed");
                    }
                    reactor::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                }
            }
        }
    }

    fn accepted<S: Service>(&self, core: &Rc<NetCore<S>>, stream: TcpStream, peer: SocketAddr) {
        let Some(counted) = core.count(peer.ip()) else {
            if let Some(held_back) = core.refused.open(reactor::now()) {
                tracing::warn!(listener = %self.name, %peer, held_back, "connection refused: max.connections or max.connections.per.ip is reached");
            }
            return;
        };
        let local = stream.local_addr().unwrap_or(self.socket.local_addr());
        let info = ConnectionInfo { id: core.next_connection_id(), peer, local, listener: self.name.clone() };
        let core = core.clone();
        spawn(Class::Latency, async move {
            connection::serve(core, stream, info).await;
            drop(counted);
        })
        .detach();
    }
}
