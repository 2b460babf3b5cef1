//! Accepting connections on one core.

use crate::connection;
use crate::counts::Counted;
use crate::registry::NetCore;
use crate::service::{ConnectionInfo, Enter, Service};
use reactor::net::{BindOptions, TcpListener, TcpStream};
use reactor::{Class, spawn};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// Pause after a failed accept, in milliseconds: most often file descriptors ran out, and retrying at once would spin.
const ACCEPT_RETRY_MS: u64 = 50;

/// Accepts of one listener that wait at once: a share of the default backlog (`socket.listen.backlog.size`, 50), which a storm
/// fills again between two turns of the core.
const ACCEPTS: usize = 16;

/// Where to listen.
#[derive(Clone, Debug)]
pub struct ListenerSpec {
    /// Name of the listener, as in `listeners`.
    pub name: String,
    /// Address to bind.
    pub addr: SocketAddr,
    /// `socket.listen.backlog.size`.
    pub backlog: u32,
    /// `socket.send.buffer.bytes` of its connections; `None` leaves it to the system.
    pub send_buffer_bytes: Option<u32>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the system.
    pub receive_buffer_bytes: Option<u32>,
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
        let options = BindOptions {
            reuse_port: true,
            backlog: spec.backlog,
            send_buffer_bytes: spec.send_buffer_bytes,
            receive_buffer_bytes: spec.receive_buffer_bytes,
        };
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

    /// Accepts until draining begins; each connection becomes a task. Several accepts wait at once, so that a storm of
    /// connections empties the backlog by some with every turn of the core.
    pub async fn run<S: Service>(self, core: Rc<NetCore<S>>) {
        reactor::join_all((0..ACCEPTS).map(|_| self.accept(&core))).await;
    }

    async fn accept<S: Service>(&self, core: &Rc<NetCore<S>>) {
        while !core.registry.closing() {
            match self.socket.accept().await {
                // The next one is not accepted before this one has room, as in Kafka: others stay in the backlog.
                Ok((stream, peer)) => match core.count(&self.name).await {
                    Some(counted) => self.accepted(core, counted, stream, peer),
                    None => return,
                },
                Err(error) => {
                    if let Some(held_back) = core.refused.open(reactor::now()) {
                        tracing::warn!(listener = %self.name, %error, held_back, "accept failed");
                    }
                    reactor::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                }
            }
        }
    }

    fn accepted<S: Service>(&self, core: &Rc<NetCore<S>>, counted: Counted, stream: TcpStream, peer: SocketAddr) {
        let local = stream.local_addr().unwrap_or(self.socket.local_addr());
        let info = ConnectionInfo { id: core.next_connection_id(), peer, local, listener: self.name.clone() };
        let task = Accepted { core: core.clone(), stream, info, counted };
        match core.service.enter(peer.ip()) {
            Enter::Free => spawn(Class::Latency, task.serve()).detach(),
            Enter::Asked(answer) => spawn(Class::Latency, task.serve_if(answer)).detach(),
        }
    }
}

/// A connection that has room.
struct Accepted<S: Service> {
    core: Rc<NetCore<S>>,
    stream: TcpStream,
    info: ConnectionInfo,
    counted: Counted,
}

impl<S: Service> Accepted<S> {
    fn serve(self) -> impl Future<Output = ()> {
        connection::serve(self.core, self.stream, self.info, self.counted)
    }

    async fn serve_if(self, answer: Pin<Box<dyn Future<Output = bool>>>) {
        let (core, peer) = (self.core.clone(), self.info.peer);
        if answer.await {
            let entered = Inside { core, ip: peer.ip() };
            Box::pin(self.serve()).await;
            drop(entered);
        } else if let Some(held_back) = core.refused.open(reactor::now()) {
            tracing::warn!(listener = %self.info.listener, %peer, held_back, "connection closed: its address has as many as max.connections.per.ip allows");
        }
    }
}

/// A connection that was counted for its address.
struct Inside<S: Service> {
    core: Rc<NetCore<S>>,
    ip: IpAddr,
}

impl<S: Service> Drop for Inside<S> {
    fn drop(&mut self) {
        self.core.service.left(self.ip);
    }
}
