//! What all simulated cores share: the clock, chance, the queue of coming events, disks and network.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;

use base::{Now, Prng};

use super::disk::{Disk, FaultOn};
use super::net::{Awake, Net, Packet};
use super::ops;
use crate::fs::DirEntry;
use crate::op::{OpId, Request};
use crate::percore::Core;

/// The wall clock begins here: 2026-01-01T00:00:00Z.
const WALL_START_MS: i64 = 1_767_225_600_000;

/// An operation of some core of some life of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpRef {
    pub node: usize,
    pub life: u32,
    pub core: usize,
    pub id: OpId,
}

pub(super) enum Event {
    /// The operation is tried: it completes or is noted as waiting.
    Try(OpRef),
    Cancel(OpRef),
    /// The next packet for a socket arrives.
    Deliver(i32),
}

pub(super) enum Handle {
    File { node: usize, inode: u64, path: String },
    Socket,
}

/// Ranges of simulated durations in nanoseconds, ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latencies {
    /// One poll of a task.
    pub poll_ns: (u64, u64),
    /// Reads, writes to the page cache, operations on names.
    pub disk_ns: (u64, u64),
    /// Syncs and durable writes.
    pub sync_ns: (u64, u64),
    /// One way between two nodes.
    pub net_ns: (u64, u64),
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            poll_ns: (200, 2_000),
            disk_ns: (5_000, 200_000),
            sync_ns: (50_000, 3_000_000),
            net_ns: (20_000, 500_000),
        }
    }
}

pub(super) struct NodeState {
    pub disk: Disk,
    pub life: u32,
    /// False from the moment of a crash: what destructors still do has no effect.
    pub alive: bool,
    pub skew_ms: i64,
}

pub(super) struct World {
    pub prng: Prng,
    pub latencies: Latencies,
    pub events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    pub nodes: Vec<NodeState>,
    pub net: Net,
    pub handles: BTreeMap<i32, Handle>,
    next_handle: i32,
    pub trace: u64,
}

/// The clock is apart from the rest so that it can be read while the rest is in use.
#[derive(Clone)]
pub(super) struct SharedWorld {
    pub clock: Rc<Cell<u64>>,
    pub state: Rc<RefCell<World>>,
}

/// The address of a node: 10.1.x.y.
pub(super) fn node_ip(node: usize) -> IpAddr {
    let number = node + 1;
    IpAddr::V4(Ipv4Addr::new(10, 1, (number >> 8) as u8, number as u8))
}

impl World {
    pub fn new(seed: u64, latencies: Latencies) -> World {
        World {
            prng: Prng::new(seed),
            latencies,
            events: BTreeMap::new(),
            scheduled: 0,
            nodes: Vec::new(),
            net: Net::default(),
            handles: BTreeMap::new(),
            next_handle: 3,
            trace: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Folds a fact into the trace by which two runs are compared.
    pub fn note(&mut self, fact: u64) {
        for byte in fact.to_le_bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn between(&mut self, range: (u64, u64)) -> u64 {
        range.0 + self.prng.below(range.1.saturating_sub(range.0) + 1)
    }

    pub fn schedule(&mut self, at_ns: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at_ns, self.scheduled), event);
    }

    pub fn schedule_all(&mut self, at_ns: u64, awake: Awake) {
        for op in awake {
            self.schedule(at_ns, Event::Try(op));
        }
    }

    pub fn new_handle(&mut self, handle: Handle) -> i32 {
        let number = self.next_handle;
        self.next_handle = self.next_handle.checked_add(1).expect("a run opens fewer than 2^31 descriptors");
        self.handles.insert(number, handle);
        number
    }

    /// Sends from a socket to its peer after a latency.
    pub fn transmit(&mut self, from: i32, packet: Packet, now_ns: u64) {
        let latency = self.latencies.net_ns;
        let arrival = now_ns + self.between(latency);
        if let Some((to, at)) = self.net.send(from, packet, arrival) {
            self.schedule(at, Event::Deliver(to));
        }
    }

    /// Closes a handle of a living node.
    fn close(&mut self, raw: i32, now_ns: u64) {
        match self.handles.remove(&raw) {
            Some(Handle::File { node, inode, .. }) => self.nodes[node].disk.close(inode, raw),
            Some(Handle::Socket) => self.close_socket(raw, now_ns),
            None => {}
        }
    }

    fn close_socket(&mut self, raw: i32, now_ns: u64) {
        if let Some(packet) = self.net.farewell(raw) {
            self.transmit(raw, packet, now_ns);
        }
        let (awake, orphans) = self.net.remove(raw);
        self.schedule_all(now_ns, awake);
        for orphan in orphans {
            self.handles.remove(&orphan);
            self.close_socket(orphan, now_ns);
        }
    }

    /// The node's process is gone: its peers are told by its kernel.
    pub fn drop_node(&mut self, node: usize, now_ns: u64) {
        for handle in self.net.handles_of(node) {
            self.handles.remove(&handle);
            self.transmit(handle, Packet::Reset, now_ns);
            let (awake, _) = self.net.remove(handle);
            self.schedule_all(now_ns, awake);
        }
        self.handles.retain(|_, handle| !matches!(handle, Handle::File { node: owner, .. } if *owner == node));
    }

    /// The node behind an address, as `from` sees it.
    pub fn node_at(&self, ip: IpAddr, from: usize) -> Option<usize> {
        if ip.is_loopback() || ip.is_unspecified() {
            return Some(from);
        }
        (0..self.nodes.len()).find(|node| node_ip(*node) == ip)
    }
}

/// One core of one life of a simulated node.
pub(crate) struct SimCore {
    pub(super) world: SharedWorld,
    pub(super) node: usize,
    pub(super) life: u32,
    pub(super) core: usize,
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl SimCore {
    fn op(&self, id: OpId) -> OpRef {
        OpRef { node: self.node, life: self.life, core: self.core, id }
    }

    fn now_ns(&self) -> u64 {
        self.world.clock.get()
    }

    fn is_alive(&self) -> bool {
        let world = self.world.state.borrow();
        let node = &world.nodes[self.node];
        node.alive && node.life == self.life
    }

    pub fn now(&self) -> Now {
        let mono_ns = self.now_ns();
        // During an operation's own work the state is in use; nobody asks for the time then.
        let skew_ms = self.world.state.borrow().nodes[self.node].skew_ms;
        Now { mono_ns, wall_ms: WALL_START_MS + skew_ms + (mono_ns / 1_000_000) as i64 }
    }

    pub fn mono_ns(&self) -> u64 {
        self.now_ns()
    }

    pub fn submit(&self, core: &Core, id: OpId) {
        let mut ops = core.ops.borrow_mut();
        let (request, _) = ops.parts(id);
        let mut world = self.world.state.borrow_mut();
        let delay = match request {
            Request::Fsync { .. } | Request::Write { durable: true, .. } | Request::Writev { durable: true, .. } => {
                world.latencies.sync_ns
            }
            Request::Connect { .. } => world.latencies.net_ns,
            request if request.waits_for_peer() => world.latencies.poll_ns,
            _ => world.latencies.disk_ns,
        };
        let at = self.now_ns() + world.between(delay);
        world.schedule(at, Event::Try(self.op(id)));
    }

    pub fn cancel(&self, _core: &Core, id: OpId) {
        let at = self.now_ns();
        self.world.state.borrow_mut().schedule(at, Event::Cancel(self.op(id)));
    }

    pub fn close(&self, raw: i32) {
        if self.is_alive() {
            self.world.state.borrow_mut().close(raw, self.now_ns());
        }
    }

    fn file(&self, raw: i32) -> io::Result<u64> {
        match self.world.state.borrow().handles.get(&raw) {
            Some(Handle::File { inode, .. }) => Ok(*inode),
            _ => Err(errno(libc::EBADF)),
        }
    }

    pub fn file_size(&self, raw: i32) -> io::Result<u64> {
        let inode = self.file(raw)?;
        self.world.state.borrow().nodes[self.node].disk.len(inode).map_err(errno)
    }

    /// A store to a mapped file.
    pub fn store(&self, raw: i32, off: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world.state.borrow_mut();
        let Some(Handle::File { node, inode, path }) = world.handles.get(&raw) else {
            return Err(errno(libc::EBADF));
        };
        let (node, inode, path) = (*node, *inode, path.clone());
        let disk = &mut world.nodes[node].disk;
        disk.fault(&path, FaultOn::Write).map_err(errno)?;
        disk.write(inode, off, bytes, false).map_err(errno)
    }

    pub fn try_lock(&self, raw: i32) -> io::Result<bool> {
        let inode = self.file(raw)?;
        self.world.state.borrow_mut().nodes[self.node].disk.try_lock(inode, raw).map_err(errno)
    }

    /// Capacity of the disk and what is left of it.
    pub fn space(&self, path: &Path) -> io::Result<(u64, u64)> {
        let mut world = self.world.state.borrow_mut();
        let disk = &mut world.nodes[self.node].disk;
        disk.fault(&path.to_string_lossy(), FaultOn::Names).map_err(errno)?;
        disk.list(path).map_err(errno)?;
        Ok((disk.capacity, disk.capacity.saturating_sub(disk.used())))
    }

    pub fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut world = self.world.state.borrow_mut();
        let disk = &mut world.nodes[self.node].disk;
        disk.fault(&path.to_string_lossy(), FaultOn::Names).map_err(errno)?;
        let names = disk.list(path).map_err(errno)?;
        Ok(names.into_iter().map(|(name, is_dir)| DirEntry { name, is_dir }).collect())
    }

    pub fn listen(&self, mut address: SocketAddr, reuse_port: bool) -> io::Result<(i32, SocketAddr)> {
        let mut world = self.world.state.borrow_mut();
        if world.node_at(address.ip(), self.node) != Some(self.node) {
            return Err(errno(libc::EADDRNOTAVAIL));
        }
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            address.set_ip(node_ip(self.node));
        }
        let raw = world.new_handle(Handle::Socket);
        match world.net.listen(raw, self.node, address, reuse_port) {
            Ok(local) => Ok((raw, local)),
            Err(number) => {
                world.handles.remove(&raw);
                Err(errno(number))
            }
        }
    }

    pub fn socket(&self) -> i32 {
        let mut world = self.world.state.borrow_mut();
        let raw = world.new_handle(Handle::Socket);
        world.net.socket(raw, self.node, node_ip(self.node));
        raw
    }

    pub fn shutdown(&self, raw: i32, how: i32) -> io::Result<()> {
        let mut world = self.world.state.borrow_mut();
        let (awake, tell) = world.net.shutdown(raw, how).map_err(errno)?;
        world.schedule_all(self.now_ns(), awake);
        if tell {
            world.transmit(raw, Packet::End, self.now_ns());
        }
        Ok(())
    }

    pub fn local_addr(&self, raw: i32) -> io::Result<SocketAddr> {
        self.world.state.borrow().net.local_addr(raw).map_err(errno)
    }

    /// Tries an operation now and completes it if it can.
    pub(super) fn try_op(&self, core: &Core, id: OpId) {
        let result = {
            let mut ops = core.ops.borrow_mut();
            if !ops.is_in_flight(id) {
                return;
            }
            let (request, held) = ops.parts(id);
            let mut world = self.world.state.borrow_mut();
            let mut site = ops::Site { world: &mut world, now_ns: self.now_ns(), op: self.op(id) };
            let result = site.attempt(request, held);
            if let Some(result) = result {
                world.note(result as u64);
            }
            result
        };
        if let Some(result) = result {
            core.complete_op(id, result);
        }
    }

    /// Cancels an operation that waits for a peer.
    pub(super) fn cancel_op(&self, core: &Core, id: OpId) {
        let waits = {
            let mut ops = core.ops.borrow_mut();
            ops.is_in_flight(id) && ops.parts(id).0.waits_for_peer()
        };
        if waits {
            self.world.state.borrow_mut().net.forget_op(self.op(id));
            core.complete_op(id, -libc::ECANCELED);
        }
    }

    /// The node dies while operations are under way: what a write has done by then is up to chance.
    pub(super) fn abandon_writes(&self, core: &Core) {
        let in_flight = core.ops.borrow().ids_in_flight();
        for id in in_flight {
            let mut ops = core.ops.borrow_mut();
            let (request, held) = ops.parts(id);
            let mut world = self.world.state.borrow_mut();
            ops::Site { world: &mut world, now_ns: self.now_ns(), op: self.op(id) }.half_do(request, held);
        }
    }
}
