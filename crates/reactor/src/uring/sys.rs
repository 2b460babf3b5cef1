//! System calls that never wait and so need no ring: sockets' set-up, file sizes, limits.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::op::AddrHeld;

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A second descriptor of the same open file.
pub(crate) fn duplicate(raw: i32) -> io::Result<OwnedFd> {
    // SAFETY: the caller's descriptor stays open during the call.
    unsafe { BorrowedFd::borrow_raw(raw) }.try_clone_to_owned()
}

/// Closes a descriptor that the caller owns.
pub(crate) fn close(raw: i32) {
    // SAFETY: the caller owns the descriptor and forgets it. The result is of no use: Linux frees the number even when
    // close reports an error, and durability is what fsync reports.
    let _ = unsafe { libc::close(raw) };
}

/// Turns the kernel's read-ahead off for an open file. A hint: a file system that knows none says so.
pub(crate) fn advise_random(raw: i32) {
    // SAFETY: no pointers.
    let result = unsafe { libc::posix_fadvise(raw, 0, 0, libc::POSIX_FADV_RANDOM) };
    if result != 0 {
        tracing::debug!(error = %io::Error::from_raw_os_error(result), "the kernel goes on reading ahead");
    }
}

/// Free memory at the top of a thread's heap, in bytes, that the allocator keeps: a few requests' worth. By default it keeps
/// so little that every large request takes its pages from the system and gives them back.
const HEAP_KEPT_BYTES: libc::c_int = 16 << 20;
/// Allocations from this size on, in bytes, go back to the system as soon as they are freed.
const HEAP_LARGE_BYTES: libc::c_int = 4 << 20;

/// Tells the process' allocator that threads receive and free request buffers all the time.
pub(crate) fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; an allocator that does not know the option says so.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, HEAP_LARGE_BYTES);
    }
}

/// Gives pages of the process' heaps that hold nothing back to the system, those between what is in use too.
pub(crate) fn trim_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; the allocator takes its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes that the process' allocations hold, where the allocator tells.
pub(crate) fn allocated_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: no pointers; the allocator takes its own locks.
        let info = unsafe { libc::mallinfo2() };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Random bits for seeding.
pub(crate) fn random_seed() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is 8 bytes long.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(got, 8, "getrandom gives small requests in full: {}", io::Error::last_os_error());
    u64::from_ne_bytes(bytes)
}

fn set_option<T>(fd: i32, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), size_of::<T>() as libc::socklen_t) })
        .map(drop)
}

/// Sets an integer socket option.
pub(crate) fn set_int_option(fd: i32, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_option(fd, level, name, &value)
}

/// Bounds how long a send may block a thread that is allowed to block.
pub(crate) fn set_send_timeout(fd: i32, ms: u32) -> io::Result<()> {
    let time =
        libc::timeval { tv_sec: libc::time_t::from(ms / 1000), tv_usec: libc::suseconds_t::from(ms % 1000) * 1000 };
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &time)
}

/// A TCP socket for the family of `address`. The ring does the waiting, so that the socket itself stays blocking.
pub(crate) fn tcp_socket(address: &SocketAddr) -> io::Result<i32> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })
}

/// Binds. Connections that linger after their listener do not matter (SO_REUSEADDR), a listener does.
pub(crate) fn bind(fd: i32, address: SocketAddr, reuse_port: bool) -> io::Result<()> {
    set_int_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if reuse_port {
        set_int_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    let held = address_to_kernel(address);
    // SAFETY: the storage holds a valid address of `held.len` bytes.
    check(unsafe { libc::bind(fd, held.storage.as_ptr().cast(), held.len) }).map(drop)
}

/// Sets the sizes of a socket's buffers that are given; the system caps them (`net.core.wmem_max`, `net.core.rmem_max`).
pub(crate) fn set_buffers(fd: i32, send: Option<u32>, receive: Option<u32>) -> io::Result<()> {
    for (option, bytes) in [(libc::SO_SNDBUF, send), (libc::SO_RCVBUF, receive)] {
        if let Some(bytes) = bytes {
            set_int_option(fd, libc::SOL_SOCKET, option, i32::try_from(bytes).unwrap_or(i32::MAX))?;
        }
    }
    Ok(())
}

/// Binds and listens.
pub(crate) fn listen(fd: i32, address: SocketAddr, reuse_port: bool, backlog: i32) -> io::Result<()> {
    bind(fd, address, reuse_port)?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd, backlog) }).map(drop)
}

/// Room for an address the kernel writes.
pub(crate) fn empty_address() -> Box<AddrHeld> {
    let len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    Box::new(AddrHeld { storage: MaybeUninit::zeroed(), len, address: None })
}

/// An address in the kernel's form.
pub(crate) fn address_to_kernel(address: SocketAddr) -> Box<AddrHeld> {
    let mut held = empty_address();
    held.address = Some(address);
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is at least as large and as aligned as every address type.
            unsafe { held.storage.as_mut_ptr().cast::<libc::sockaddr_in>().write(raw) };
            held.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { held.storage.as_mut_ptr().cast::<libc::sockaddr_in6>().write(raw) };
            held.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        }
    }
    held
}

/// The address the kernel wrote, if it is an IP address.
pub(crate) fn address_from_kernel(held: &AddrHeld) -> Option<SocketAddr> {
    // SAFETY: the storage was zeroed when made, so that every byte is initialized and any bits are valid integers.
    let storage = unsafe { held.storage.assume_init_ref() };
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what the storage holds.
            let raw = unsafe { &*held.storage.as_ptr().cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(raw.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { &*held.storage.as_ptr().cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id)))
        }
        _ => None,
    }
}

/// `getsockname` or `getpeername`.
pub(crate) fn socket_address(fd: i32, peer: bool) -> io::Result<SocketAddr> {
    let mut held = empty_address();
    let (storage, len) = (held.storage.as_mut_ptr().cast(), &raw mut held.len);
    // SAFETY: the storage has room for `len` bytes.
    check(unsafe { if peer { libc::getpeername(fd, storage, len) } else { libc::getsockname(fd, storage, len) } })?;
    address_from_kernel(&held).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// Shuts one or both directions down.
pub(crate) fn shutdown(fd: i32, how: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::shutdown(fd, how) }).map(drop)
}

/// Size of an open file in bytes.
pub(crate) fn file_size(fd: i32) -> io::Result<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer has room for the answer.
    check(unsafe { libc::fstat(fd, stat.as_mut_ptr()) })?;
    // SAFETY: a successful call filled it.
    Ok(unsafe { stat.assume_init() }.st_size as u64)
}

/// Both ends (read, write) of a new pipe that holds up to `bytes`, or what the system allows.
pub(crate) fn pipe(bytes: i32) -> io::Result<(i32, i32, usize)> {
    let mut ends = [0i32; 2];
    // SAFETY: the array has room for two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: no pointers. The limit for other users is pipe-max-size; on refusal the default size stays.
    let size = unsafe {
        let _ = libc::fcntl(ends[1], libc::F_SETPIPE_SZ, bytes);
        libc::fcntl(ends[1], libc::F_GETPIPE_SZ)
    };
    Ok((ends[0], ends[1], usize::try_from(size).unwrap_or(ALWAYS_HELD)))
}

/// What a pipe holds at least.
const ALWAYS_HELD: usize = 4096;

/// An exclusive lock on an open file, without waiting. False when another open file holds it. The lock is both flock's and
/// that of fcntl, which a Java program takes and which does not see the other kind.
pub(crate) fn try_flock(fd: i32) -> io::Result<bool> {
    // SAFETY: no pointers.
    let ours = check(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) });
    let locked = ours.and_then(|_| {
        // SAFETY: all-zero bits are a valid flock: from the start to the end of the file.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = libc::F_WRLCK as libc::c_short;
        range.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: the pointer is to a live flock; the lock belongs to the open file, not to the process.
        check(unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const range) })
    });
    match locked {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(libc::EACCES) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Total bytes of the file system of `path` and those that an ordinary user can still use. May wait for a remote file system.
pub(crate) fn space(path: &CStr) -> io::Result<(u64, u64)> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte and the buffer has room for the answer.
    check(unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) })?;
    // SAFETY: the call succeeded and filled the buffer.
    let found = unsafe { found.assume_init() };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok((bytes(found.f_blocks), bytes(found.f_bavail)))
}

/// Makes the open file behind `fd` stay open until the process ends: a duplicate that nobody closes.
pub(crate) fn keep_open(fd: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) }).map(drop)
}

/// Nobody may send to a ring that is about to be closed.
pub(crate) fn forget_ring(shared: &crate::shared::CoreShared) {
    shared.ring_fd.store(-1, std::sync::atomic::Ordering::Release);
}
