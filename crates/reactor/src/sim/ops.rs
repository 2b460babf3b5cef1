//! What operations do in a simulated world.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::{Bytes, BytesMut};

use super::disk::FaultOn;
use super::net::{Attempt, Packet};
use super::world::{Event, Handle, OpRef, World};
use crate::op::{Fd, Found, Held, IovHeld, Request};

/// How long a connection attempt over a cut link waits before the next one, in nanoseconds.
const RECONNECT_NS: u64 = 50_000_000;

type Errno = i32;

/// One operation at one moment.
pub(super) struct Site<'a> {
    pub world: &'a mut World,
    pub now_ns: u64,
    pub op: OpRef,
}

fn as_path(bytes: &std::ffi::CString) -> &Path {
    Path::new(OsStr::from_bytes(bytes.as_bytes()))
}

fn to_result(outcome: Result<usize, Errno>) -> i32 {
    match outcome {
        Ok(value) => i32::try_from(value).expect("one operation moves less than 2 GiB"),
        Err(errno) => -errno,
    }
}

/// The first `limit` bytes of the buffers that are left.
fn gather(iov: &IovHeld, limit: usize) -> Bytes {
    let mut bytes = BytesMut::new();
    for chunk in &iov.chunks[iov.next..] {
        let step = chunk.len().min(limit - bytes.len());
        bytes.extend_from_slice(&chunk[..step]);
    }
    bytes.freeze()
}

impl Site<'_> {
    /// The operation's result, or nothing when it has to wait.
    pub fn attempt(&mut self, request: &Request, held: &mut Held) -> Option<i32> {
        match request {
            Request::Accept { fd } => self.accept(fd, held),
            Request::Connect { fd } => self.connect(fd, held),
            Request::Recv { fd } => self.recv(fd, held),
            Request::Send { fd } => self.send(fd, held),
            Request::SpliceIn { .. } | Request::SpliceOut { .. } | Request::Writable { .. } => Some(-libc::EOPNOTSUPP),
            Request::Open { .. } | Request::Stat | Request::Rename | Request::Unlink { .. } | Request::Mkdir => {
                Some(to_result(self.names(request, held)))
            }
            _ => Some(to_result(self.file(request, held))),
        }
    }

    fn names(&mut self, request: &Request, held: &mut Held) -> Result<usize, Errno> {
        let node = self.op.node;
        let disk = &mut self.world.nodes[node].disk;
        let paths = held.path();
        let path = as_path(&paths.path);
        disk.fault(&path.to_string_lossy(), FaultOn::Names)?;
        match request {
            Request::Open { flags, .. } => {
                let (inode, _) = disk.open(path, *flags)?;
                let path = path.to_string_lossy().into_owned();
                return Ok(self.world.new_handle(Handle::File { node, inode, path }) as usize);
            }
            Request::Stat => {
                let (len, is_dir) = disk.stat(path)?;
                paths.found = Some(Found { len, is_dir });
            }
            Request::Rename => disk.rename(path, as_path(&paths.to))?,
            Request::Unlink { dir } => disk.unlink(path, *dir)?,
            Request::Mkdir => disk.mkdir(path)?,
            _ => unreachable!("not an operation on names"),
        }
        Ok(0)
    }

    /// The inode of an open file, after the faults for it.
    fn open_file(&mut self, fd: &Fd, on: FaultOn) -> Result<u64, Errno> {
        let Some(Handle::File { node, inode, path }) = self.world.handles.get(&fd.raw()) else {
            return Err(libc::EBADF);
        };
        self.world.nodes[*node].disk.fault(path, on)?;
        Ok(*inode)
    }

    fn file(&mut self, request: &Request, held: &mut Held) -> Result<usize, Errno> {
        let node = self.op.node;
        match request {
            Request::Read { fd, off, len } => {
                let inode = self.open_file(fd, FaultOn::Read)?;
                let room = held.spare().len().min(*len);
                let bytes = self.world.nodes[node].disk.read(inode, *off, room)?;
                held.append(&bytes);
                Ok(bytes.len())
            }
            Request::Write { fd, off, start, durable } => {
                let inode = self.open_file(fd, FaultOn::Write)?;
                self.write(fd, inode, *off, &held.filled()[*start..], *durable)
            }
            Request::Writev { fd, off, durable } => {
                let inode = self.open_file(fd, FaultOn::Write)?;
                let bytes = gather(held.iov(), usize::MAX);
                self.write(fd, inode, *off, &bytes, *durable)
            }
            Request::Fsync { fd, .. } => {
                let synced = self.open_file(fd, FaultOn::Sync);
                let Some(Handle::File { inode, .. }) = self.world.handles.get(&fd.raw()) else {
                    return Err(libc::EBADF);
                };
                let disk = &mut self.world.nodes[node].disk;
                match synced {
                    Ok(inode) => disk.sync(inode)?,
                    Err(errno) => {
                        disk.fail_sync(*inode);
                        return Err(errno);
                    }
                }
                Ok(0)
            }
            Request::Allocate { fd, off, len } => {
                let inode = self.open_file(fd, FaultOn::Write)?;
                self.world.nodes[node].disk.allocate(inode, *off, *len).map(|()| 0)
            }
            Request::Truncate { fd, len } => {
                let inode = self.open_file(fd, FaultOn::Write)?;
                self.world.nodes[node].disk.truncate(inode, *len).map(|()| 0)
            }
            _ => unreachable!("not an operation on an open file"),
        }
    }

    fn write(&mut self, fd: &Fd, inode: u64, off: u64, bytes: &[u8], durable: bool) -> Result<usize, Errno> {
        let synced = if durable { self.open_file(fd, FaultOn::Sync).map(drop) } else { Ok(()) };
        let disk = &mut self.world.nodes[self.op.node].disk;
        disk.write(inode, off, bytes, durable && synced.is_ok())?;
        synced.map(|()| bytes.len())
    }

    /// A write that the node's death interrupts: it may have reached the page cache, whole or in part, or not.
    pub fn half_do(&mut self, request: &Request, held: &mut Held) {
        let (fd, off, bytes) = match request {
            Request::Write { fd, off, start, .. } => (fd, *off, Bytes::copy_from_slice(&held.filled()[*start..])),
            Request::Writev { fd, off, .. } => (fd, *off, gather(held.iov(), usize::MAX)),
            _ => return,
        };
        let done = match self.world.prng.below(3) {
            0 => return,
            1 => bytes.len(),
            _ => self.world.prng.below(bytes.len() as u64 + 1) as usize,
        };
        if let Some(Handle::File { inode, .. }) = self.world.handles.get(&fd.raw()) {
            // A full disk refuses it, which is one of the things that may have happened.
            let _ = self.world.nodes[self.op.node].disk.write(*inode, off, &bytes[..done], false);
        }
    }

    fn accept(&mut self, fd: &Fd, held: &mut Held) -> Option<i32> {
        match self.world.net.accept(fd.raw(), self.op) {
            Attempt::Wait => None,
            Attempt::Failed(errno) => Some(-errno),
            Attempt::Done((handle, peer)) => {
                held.addr().address = Some(peer);
                Some(handle)
            }
        }
    }

    fn connect(&mut self, fd: &Fd, held: &mut Held) -> Option<i32> {
        let address = held.addr().address.expect("a connection has a target");
        let from = self.op.node;
        let Some(node) = self.world.node_at(address.ip(), from) else { return Some(-libc::EHOSTUNREACH) };
        if self.world.net.is_cut(from, node) {
            let event = Event::Try(self.op);
            self.world.schedule(self.now_ns + RECONNECT_NS, event);
            return None;
        }
        let there = self.world.net.listeners_at(node, address.port());
        if there.is_empty() || self.world.net.socket_node(fd.raw()).is_none() {
            return Some(-libc::ECONNREFUSED);
        }
        let listener = there[self.world.prng.below(there.len() as u64) as usize];
        let accepted = self.world.new_handle(Handle::Socket);
        let awake = self.world.net.connect(fd.raw(), listener, accepted, address);
        self.world.schedule_all(self.now_ns, awake);
        Some(0)
    }

    fn recv(&mut self, fd: &Fd, held: &mut Held) -> Option<i32> {
        // Short receives happen: now and then only a part of what is there is given.
        let mut room = held.spare().len();
        if room > 1 && self.world.prng.chance(1, 4) {
            room = 1 + self.world.prng.below(room as u64 - 1) as usize;
        }
        match self.world.net.recv(fd.raw(), room, self.op) {
            Attempt::Wait => None,
            Attempt::Failed(errno) => Some(-errno),
            Attempt::Done(bytes) => {
                held.append(&bytes);
                let awake = self.world.net.take_waiting(fd.raw());
                self.world.schedule_all(self.now_ns, awake);
                Some(bytes.len() as i32)
            }
        }
    }

    fn send(&mut self, fd: &Fd, held: &mut Held) -> Option<i32> {
        let mut room = match self.world.net.send_room(fd.raw(), self.op) {
            Attempt::Wait => return None,
            Attempt::Failed(errno) => return Some(-errno),
            Attempt::Done(room) => room,
        };
        // Partial sends happen.
        if room > 1 && self.world.prng.chance(1, 8) {
            room = 1 + self.world.prng.below(room as u64 - 1) as usize;
        }
        let bytes = match held {
            Held::Bytes(only) => only.slice(..room.min(only.len())),
            held => gather(held.iov(), room),
        };
        let sent = bytes.len();
        self.world.transmit(fd.raw(), Packet::Data(bytes), self.now_ns);
        Some(sent as i32)
    }
}
