//! The simulated backend: virtual time, one seed, in-memory disks and network.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use base::Now;

use crate::fs::DirEntry;
use crate::op::OpId;
use crate::percore::Core;

/// One core of a simulated node.
pub(crate) struct SimCore {}

fn absent<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

impl SimCore {
    pub fn now(&self) -> Now {
        Now::default()
    }
    pub fn submit(&self, core: &Core, id: OpId) {
        core.complete_op(id, -libc::ENOSYS);
    }
    pub fn cancel(&self, _core: &Core, _id: OpId) {}
    pub fn close(&self, _raw: i32) {}
    pub fn file_size(&self, _raw: i32) -> io::Result<u64> {
        absent()
    }
    pub fn try_lock(&self, _raw: i32) -> io::Result<bool> {
        absent()
    }
    pub fn read_dir(&self, _path: &Path) -> io::Result<Vec<DirEntry>> {
        absent()
    }
    pub fn listen(&self, _address: SocketAddr, _reuse_port: bool) -> io::Result<(i32, SocketAddr)> {
        absent()
    }
    pub fn socket(&self) -> i32 {
        0
    }
    pub fn shutdown(&self, _raw: i32, _how: i32) -> io::Result<()> {
        absent()
    }
    pub fn local_addr(&self, _raw: i32) -> io::Result<SocketAddr> {
        absent()
    }
}
