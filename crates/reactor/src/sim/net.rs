//! The network between simulated nodes: reliable ordered connections with latency, bounded windows, resets and partitions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bytes::{Buf, Bytes};

use super::world::OpRef;

/// Bytes under way and unread in one direction of a connection; a sender waits past it, as for a TCP window.
const WINDOW_BYTES_MAX: usize = 256 << 10;
/// Connections that wait to be accepted.
const BACKLOG_MAX: usize = 128;
/// Where the system's own choice of ports begins.
const EPHEMERAL_PORT_MIN: u16 = 32_768;

type Errno = i32;
type Handle = i32;

/// What travels in one direction.
pub(super) enum Packet {
    Data(Bytes),
    End,
    Reset,
}

pub(super) struct Socket {
    pub node: usize,
    local: SocketAddr,
    /// The other end; absent before connecting.
    peer: Option<Handle>,
    peer_node: usize,
    peer_addr: Option<SocketAddr>,
    /// Arrived and unread.
    inbox: VecDeque<Bytes>,
    unread: usize,
    /// On its way here, in order.
    wire: VecDeque<Packet>,
    on_wire: usize,
    /// Nothing arrives before this: order is kept however latencies vary.
    last_arrival_ns: u64,
    ended: bool,
    reset: bool,
    write_shut: bool,
    waiting: Vec<OpRef>,
}

struct Listener {
    node: usize,
    address: SocketAddr,
    reuse_port: bool,
    backlog: VecDeque<Handle>,
    waiting: Vec<OpRef>,
}

#[derive(Default)]
pub(super) struct Net {
    sockets: BTreeMap<Handle, Socket>,
    listeners: BTreeMap<Handle, Listener>,
    next_port: u16,
    cut: BTreeSet<(usize, usize)>,
}

/// Operations that may go on now; the caller schedules them.
pub(super) type Awake = Vec<OpRef>;

pub(super) enum Attempt<T> {
    Done(T),
    Failed(Errno),
    /// The operation was noted and is woken when something changes.
    Wait,
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl Net {
    pub fn set_cut(&mut self, a: usize, b: usize, cut: bool) {
        if cut {
            self.cut.insert(pair(a, b));
        } else {
            self.cut.remove(&pair(a, b));
        }
    }

    pub fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&pair(a, b))
    }

    fn choose_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(0).max(EPHEMERAL_PORT_MIN);
        self.next_port
    }

    pub fn listen(
        &mut self,
        handle: Handle,
        node: usize,
        mut address: SocketAddr,
        reuse_port: bool,
    ) -> Result<SocketAddr, Errno> {
        if address.port() == 0 {
            address.set_port(self.choose_port());
        }
        let mut same = self.listeners.values().filter(|l| l.node == node && l.address.port() == address.port());
        if same.any(|other| !(reuse_port && other.reuse_port)) {
            return Err(libc::EADDRINUSE);
        }
        let listener = Listener { node, address, reuse_port, backlog: VecDeque::new(), waiting: Vec::new() };
        self.listeners.insert(handle, listener);
        Ok(address)
    }

    pub fn socket(&mut self, handle: Handle, node: usize, ip: IpAddr) {
        let local = SocketAddr::new(ip, self.choose_port());
        self.sockets.insert(handle, Socket::new(node, local));
    }

    pub fn local_addr(&self, handle: Handle) -> Result<SocketAddr, Errno> {
        self.sockets.get(&handle).map(|socket| socket.local).ok_or(libc::EBADF)
    }

    pub fn socket_node(&self, handle: Handle) -> Option<usize> {
        self.sockets.get(&handle).map(|socket| socket.node)
    }

    /// Listeners of a node on a port, in order of their making.
    pub fn listeners_at(&self, node: usize, port: u16) -> Vec<Handle> {
        let there = self.listeners.iter().filter(|(_, l)| l.node == node && l.address.port() == port);
        there.filter(|(_, l)| l.backlog.len() < BACKLOG_MAX).map(|(handle, _)| *handle).collect()
    }

    /// Connects `from` to `listener`; `accepted` names the new socket at the other end.
    pub fn connect(&mut self, from: Handle, listener: Handle, accepted: Handle, address: SocketAddr) -> Awake {
        let target = self.listeners.get_mut(&listener).expect("the listener was just found");
        target.backlog.push_back(accepted);
        let awake = std::mem::take(&mut target.waiting);
        let node = target.node;
        let client = self.sockets.get_mut(&from).expect("a connecting socket is open");
        client.peer = Some(accepted);
        client.peer_node = node;
        let (client_node, client_addr) = (client.node, client.local);
        let mut server = Socket::new(node, address);
        server.peer = Some(from);
        server.peer_node = client_node;
        server.peer_addr = Some(client_addr);
        self.sockets.insert(accepted, server);
        awake
    }

    pub fn accept(&mut self, listener: Handle, op: OpRef) -> Attempt<(Handle, SocketAddr)> {
        let Some(l) = self.listeners.get_mut(&listener) else { return Attempt::Failed(libc::EBADF) };
        if let Some(handle) = l.backlog.pop_front() {
            // Accepted even if the peer has left meanwhile: what it sent is still to be read.
            let peer = self.sockets.get(&handle).and_then(|socket| socket.peer_addr);
            return Attempt::Done((handle, peer.expect("a connection in the backlog has a peer")));
        }
        l.waiting.push(op);
        Attempt::Wait
    }

    /// Takes up to `room` bytes that have arrived; nothing at the end.
    pub fn recv(&mut self, handle: Handle, room: usize, op: OpRef) -> Attempt<Vec<u8>> {
        let Some(socket) = self.sockets.get_mut(&handle) else { return Attempt::Failed(libc::EBADF) };
        if socket.unread == 0 {
            if socket.reset {
                return Attempt::Failed(libc::ECONNRESET);
            }
            if socket.ended {
                return Attempt::Done(Vec::new());
            }
            socket.waiting.push(op);
            return Attempt::Wait;
        }
        let mut taken = Vec::new();
        while taken.len() < room
            && let Some(front) = socket.inbox.front_mut()
        {
            let step = front.len().min(room - taken.len());
            taken.extend_from_slice(&front[..step]);
            front.advance(step);
            if front.is_empty() {
                socket.inbox.pop_front();
            }
        }
        socket.unread -= taken.len();
        Attempt::Done(taken)
    }

    /// Room in the window towards the peer: how much may be sent now.
    pub fn send_room(&mut self, handle: Handle, op: OpRef) -> Attempt<usize> {
        let Some(socket) = self.sockets.get(&handle) else { return Attempt::Failed(libc::EBADF) };
        if socket.write_shut {
            return Attempt::Failed(libc::EPIPE);
        }
        if socket.reset {
            return Attempt::Failed(libc::ECONNRESET);
        }
        let Some(peer) = socket.peer else { return Attempt::Failed(libc::ENOTCONN) };
        let ended = socket.ended;
        match self.sockets.get_mut(&peer) {
            // The peer is gone: known once its end arrived, otherwise the bytes go nowhere.
            None if ended => Attempt::Failed(libc::EPIPE),
            None => Attempt::Done(WINDOW_BYTES_MAX),
            Some(peer) => {
                let used = peer.unread + peer.on_wire;
                if used >= WINDOW_BYTES_MAX {
                    // Reading at the other end makes room, and wakes it.
                    peer.waiting.push(op);
                    return Attempt::Wait;
                }
                Attempt::Done(WINDOW_BYTES_MAX - used)
            }
        }
    }

    /// Operations that wait for something to change at this socket.
    pub fn take_waiting(&mut self, handle: Handle) -> Awake {
        self.sockets.get_mut(&handle).map(|socket| std::mem::take(&mut socket.waiting)).unwrap_or_default()
    }

    /// Puts a packet on the wire to the peer of `from`. Gives the receiving socket and the time of arrival.
    pub fn send(&mut self, from: Handle, packet: Packet, arrival_ns: u64) -> Option<(Handle, u64)> {
        let to = self.sockets.get(&from)?.peer?;
        let socket = self.sockets.get_mut(&to)?;
        if let Packet::Data(bytes) = &packet {
            socket.on_wire += bytes.len();
        }
        socket.wire.push_back(packet);
        socket.last_arrival_ns = socket.last_arrival_ns.max(arrival_ns) + 1;
        Some((to, socket.last_arrival_ns))
    }

    /// The next packet arrives. `Err` when the connection is cut: try later.
    pub fn deliver(&mut self, handle: Handle) -> Result<Awake, ()> {
        let Some(socket) = self.sockets.get(&handle) else { return Ok(Awake::new()) };
        if self.cut.contains(&pair(socket.node, socket.peer_node)) {
            return Err(());
        }
        let socket = self.sockets.get_mut(&handle).expect("just found");
        match socket.wire.pop_front() {
            Some(Packet::Data(bytes)) => {
                socket.on_wire -= bytes.len();
                socket.unread += bytes.len();
                socket.inbox.push_back(bytes);
            }
            Some(Packet::End) => socket.ended = true,
            Some(Packet::Reset) => {
                socket.reset = true;
                socket.unread = 0;
                socket.inbox.clear();
            }
            None => {}
        }
        Ok(std::mem::take(&mut socket.waiting))
    }

    /// Ends directions of a connection. Says whether the peer has to be told.
    pub fn shutdown(&mut self, handle: Handle, how: i32) -> Result<(Awake, bool), Errno> {
        let socket = self.sockets.get_mut(&handle).ok_or(libc::EBADF)?;
        if socket.peer.is_none() || socket.reset {
            return Err(libc::ENOTCONN);
        }
        let tell = how != libc::SHUT_RD && !socket.write_shut;
        socket.write_shut |= how != libc::SHUT_RD;
        socket.ended |= how != libc::SHUT_WR;
        Ok((std::mem::take(&mut socket.waiting), tell))
    }

    /// What closing this socket tells the peer: the end, or a reset when bytes were left unread.
    pub fn farewell(&self, handle: Handle) -> Option<Packet> {
        let socket = self.sockets.get(&handle)?;
        let lost = socket.unread + socket.on_wire > 0;
        match (lost, socket.write_shut) {
            (true, _) => Some(Packet::Reset),
            (false, false) => Some(Packet::End),
            (false, true) => None,
        }
    }

    /// Forgets a socket or listener. Gives the operations that waited on it, and the connections nobody will accept.
    pub fn remove(&mut self, handle: Handle) -> (Awake, Vec<Handle>) {
        if let Some(listener) = self.listeners.remove(&handle) {
            return (listener.waiting, listener.backlog.into());
        }
        let awake = self.sockets.remove(&handle).map(|socket| socket.waiting).unwrap_or_default();
        (awake, Vec::new())
    }

    /// All sockets and listeners of a node.
    pub fn handles_of(&self, node: usize) -> Vec<Handle> {
        let sockets = self.sockets.iter().filter(|(_, s)| s.node == node).map(|(handle, _)| *handle);
        let listeners = self.listeners.iter().filter(|(_, l)| l.node == node).map(|(handle, _)| *handle);
        sockets.chain(listeners).collect()
    }

    /// Takes an operation out of every line it waits in.
    pub fn forget_op(&mut self, op: OpRef) {
        for socket in self.sockets.values_mut() {
            socket.waiting.retain(|waiting| *waiting != op);
        }
        for listener in self.listeners.values_mut() {
            listener.waiting.retain(|waiting| *waiting != op);
        }
    }
}

impl Socket {
    fn new(node: usize, local: SocketAddr) -> Socket {
        Socket {
            node,
            local,
            peer: None,
            peer_node: node,
            peer_addr: None,
            inbox: VecDeque::new(),
            unread: 0,
            wire: VecDeque::new(),
            on_wire: 0,
            last_arrival_ns: 0,
            ended: false,
            reset: false,
            write_shut: false,
            waiting: Vec::new(),
        }
    }
}
