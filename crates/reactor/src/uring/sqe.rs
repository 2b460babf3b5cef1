//! Submission entries from requests, and what a completion means for the memory.
#![allow(unsafe_code)]

use io_uring::{cqueue, opcode, squeue, types};

use crate::op::{Found, Held, Request};
use crate::uring::sys;

/// Buffers one gathered operation takes (the kernel's UIO_MAXIOV).
const IOVECS_MAX: usize = 1024;
/// Bytes of one read or write: the kernel's MAX_RW_COUNT is 2 GiB less a page; callers continue after short ones.
const OP_BYTES_MAX: usize = 1 << 30;

/// IORING_RECVSEND_POLL_FIRST: wait for the socket before looking whether something is there.
const POLL_FIRST: u16 = 1;

macro_rules! with_fd {
    ($fd:expr, $target:ident => $build:expr) => {
        match $fd.fixed() {
            Some(index) => {
                let $target = types::Fixed(index);
                $build
            }
            None => {
                let $target = types::Fd($fd.raw());
                $build
            }
        }
    };
}

fn clamp(len: usize) -> u32 {
    len.min(OP_BYTES_MAX) as u32
}

/// The part of the ring's registered memory, if there is any.
pub(crate) type FixedRange = Option<(usize, usize)>;

fn is_fixed(range: FixedRange, ptr: usize, len: usize) -> bool {
    range.is_some_and(|(start, size)| ptr >= start && ptr + len <= start + size)
}

/// Builds the entry of an operation. All pointers lead into `held`, which stays in the table until the completion.
pub(crate) fn build(request: &Request, held: &mut Held, fixed: FixedRange) -> squeue::Entry {
    match request {
        Request::Read { fd, off, len } => {
            let spare = held.spare();
            let (ptr, len) = (spare.as_mut_ptr().cast::<u8>(), clamp(spare.len().min(*len)));
            if is_fixed(fixed, ptr.addr(), len as usize) {
                with_fd!(fd, t => opcode::ReadFixed::new(t, ptr, len, 0).offset(*off).build())
            } else {
                with_fd!(fd, t => opcode::Read::new(t, ptr, len).offset(*off).build())
            }
        }
        Request::Write { fd, off, start, durable } => {
            let bytes = &held.filled()[*start..];
            let (ptr, len) = (bytes.as_ptr(), clamp(bytes.len()));
            let flags = if *durable { libc::RWF_DSYNC } else { 0 };
            if is_fixed(fixed, ptr.addr(), len as usize) {
                with_fd!(fd, t => opcode::WriteFixed::new(t, ptr, len, 0).offset(*off).rw_flags(flags).build())
            } else {
                with_fd!(fd, t => opcode::Write::new(t, ptr, len).offset(*off).rw_flags(flags).build())
            }
        }
        Request::Writev { fd, off, durable } => {
            let iov = held.iov();
            fill_iovecs(iov);
            let (ptr, count) = (iov.iovecs.as_ptr(), iov.iovecs.len() as u32);
            let flags = if *durable { libc::RWF_DSYNC } else { 0 };
            with_fd!(fd, t => opcode::Writev::new(t, ptr, count).offset(*off).rw_flags(flags).build())
        }
        Request::Fsync { fd, data_only } => {
            let flags = if *data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
            with_fd!(fd, t => opcode::Fsync::new(t).flags(flags).build())
        }
        Request::Allocate { fd, off, len } => {
            with_fd!(fd, t => opcode::Fallocate::new(t, *len).offset(*off).build())
        }
        Request::WillRead { fd, off, len } => {
            let len = libc::off_t::try_from(*len).unwrap_or(libc::off_t::MAX);
            with_fd!(fd, t => opcode::Fadvise::new(t, len, libc::POSIX_FADV_WILLNEED).offset(*off).build())
        }
        Request::Truncate { fd, len } => with_fd!(fd, t => opcode::Ftruncate::new(t, *len).build()),
        Request::Open { .. } | Request::Stat | Request::Rename | Request::Unlink { .. } | Request::Mkdir => {
            build_path(request, held)
        }
        _ => build_socket(request, held),
    }
}

fn build_path(request: &Request, held: &mut Held) -> squeue::Entry {
    let paths = held.path();
    let (cwd, path) = (types::Fd(libc::AT_FDCWD), paths.path.as_ptr());
    match request {
        Request::Open { flags, mode } => opcode::OpenAt::new(cwd, path).flags(*flags).mode(*mode).build(),
        Request::Stat => opcode::Statx::new(cwd, path, paths.statx.as_mut_ptr().cast())
            .mask(libc::STATX_SIZE | libc::STATX_TYPE)
            .build(),
        Request::Rename => opcode::RenameAt::new(cwd, path, cwd, paths.to.as_ptr()).build(),
        Request::Unlink { dir } => {
            opcode::UnlinkAt::new(cwd, path).flags(if *dir { libc::AT_REMOVEDIR } else { 0 }).build()
        }
        Request::Mkdir => opcode::MkDirAt::new(cwd, path).mode(0o755).build(),
        _ => unreachable!("not an operation on a path"),
    }
}

fn build_socket(request: &Request, held: &mut Held) -> squeue::Entry {
    match request {
        Request::Accept { fd } => {
            let addr = held.addr();
            let (storage, len) = (addr.storage.as_mut_ptr().cast(), &raw mut addr.len);
            with_fd!(fd, t => opcode::Accept::new(t, storage, len).flags(libc::SOCK_CLOEXEC).build())
        }
        Request::Connect { fd } => {
            let addr = held.addr();
            let (storage, len) = (addr.storage.as_ptr().cast(), addr.len);
            with_fd!(fd, t => opcode::Connect::new(t, storage, len).build())
        }
        Request::Recv { fd } => {
            let spare = held.spare();
            let (ptr, len) = (spare.as_mut_ptr().cast::<u8>(), clamp(spare.len()));
            let order = if fd.is_drained() { POLL_FIRST } else { 0 };
            with_fd!(fd, t => opcode::Recv::new(t, ptr, len).ioprio(order).build())
        }
        Request::Send { fd } => {
            // The kernel itself goes on after a short send while it can: one completion for a whole batch of buffers.
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            if let Held::Bytes(only) = held {
                let (ptr, len) = (only.as_ptr(), clamp(only.len()));
                return with_fd!(fd, t => opcode::Send::new(t, ptr, len).flags(flags).build());
            }
            let iov = held.iov();
            if let [chunk] = &iov.chunks[iov.next..] {
                let (ptr, len) = (chunk.as_ptr(), clamp(chunk.len()));
                return with_fd!(fd, t => opcode::Send::new(t, ptr, len).flags(flags).build());
            }
            fill_iovecs(iov);
            // SAFETY: all-zero bits are a valid msghdr.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_iov = iov.iovecs.as_mut_ptr();
            header.msg_iovlen = iov.iovecs.len();
            let header = std::ptr::from_ref(iov.header.write(header));
            with_fd!(fd, t => opcode::SendMsg::new(t, header).flags(flags as u32).build())
        }
        Request::SpliceIn { file, off, pipe, len } => {
            let into = types::Fd(pipe.write.raw());
            with_fd!(file, t => opcode::Splice::new(t, *off as i64, into, -1, *len).build())
        }
        Request::SpliceOut { pipe, socket, len, more } => {
            let from = types::Fd(pipe.read.raw());
            let flags = if *more { libc::SPLICE_F_MORE } else { 0 };
            with_fd!(socket, t => opcode::Splice::new(from, -1, t, -1, *len).flags(flags).build())
        }
        Request::Writable { socket } => with_fd!(socket, t => opcode::PollAdd::new(t, libc::POLLOUT as u32).build()),
        _ => unreachable!("not an operation on a socket"),
    }
}

fn fill_iovecs(iov: &mut crate::op::IovHeld) {
    iov.iovecs.clear();
    iov.iovecs.extend(iov.chunks[iov.next..].iter().take(IOVECS_MAX).map(|chunk| libc::iovec {
        // The kernel only reads through it.
        iov_base: chunk.as_ptr().cast_mut().cast(),
        iov_len: chunk.len(),
    }));
}

/// Brings the memory up to date with a completion: lengths of buffers that were read into, addresses, facts of a path.
pub(crate) fn finish(request: &Request, held: &mut Held, result: i32, flags: u32) {
    if let Request::Recv { fd } = request {
        fd.set_drained(!cqueue::sock_nonempty(flags));
    }
    let Ok(count) = usize::try_from(result) else { return };
    match (request, held) {
        // SAFETY (all three): the kernel wrote `count` bytes at the beginning of the spare room and no more than its size.
        (Request::Read { .. } | Request::Recv { .. }, Held::BytesMut(buf)) => unsafe { buf.set_len(buf.len() + count) },
        (Request::Read { .. } | Request::Recv { .. }, Held::Vec(buf)) => unsafe { buf.set_len(buf.len() + count) },
        (Request::Read { .. } | Request::Recv { .. }, Held::Aligned(buf)) => unsafe { buf.set_len(buf.len() + count) },
        (Request::Accept { .. }, Held::Addr(addr)) => addr.address = sys::address_from_kernel(addr),
        (Request::Stat, Held::Path(path)) => {
            // SAFETY: a successful statx filled the answer.
            let statx = unsafe { path.statx.assume_init_ref() };
            let is_dir = u32::from(statx.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
            path.found = Some(Found { len: statx.stx_size, is_dir });
        }
        _ => {}
    }
}
