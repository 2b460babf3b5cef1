//! Making a ring that fits the machine's limits.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use io_uring::IoUring;

use crate::arena::{ARENA_BYTES_MIN, Arena};
use crate::buf::set_arena;
use crate::shared::CoreShared;
use crate::uring::Uring;
use crate::uring::sqe::FixedRange;

/// The smallest submission queue that is worth having.
const RING_ENTRIES_MIN: u32 = 16;
/// Completion entries per submission entry: completions of sockets pile up while submissions are handed over at once.
const COMPLETIONS_PER_SUBMISSION: u32 = 4;

/// Pause between two tries to make a ring, and how many of them are made before a smaller one, or none, is settled for: 10 ms
/// and a second.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(5);
const PATIENCE_AT_FULL_SIZE: u32 = 2;
const PATIENCE_AT_SMALLEST_SIZE: u32 = 200;

/// Helper threads of the kernel per ring for work that may block without end (splicing to sockets); each is held up for a few
/// milliseconds at most.
const BLOCKING_WORKERS_MAX: u32 = 32;

#[derive(Clone, Debug)]
pub(crate) struct RingOptions {
    pub entries: u32,
    pub spin_ns: u64,
    pub registered_files: u32,
    pub registered_bytes: usize,
}

/// The ring's table of registered files.
#[derive(Default)]
pub(crate) struct FileTable {
    free: Vec<u32>,
}

impl Uring {
    /// Makes the ring of the calling thread.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or has not even memory for a small ring.
    pub fn new(shared: &CoreShared, options: &RingOptions) -> io::Result<Uring> {
        let ring = build_ring(options.entries)?;
        shared.ring_fd.store(ring.as_raw_fd(), Ordering::Release);
        let mut workers = [0, BLOCKING_WORKERS_MAX];
        if let Err(error) = ring.submitter().register_iowq_max_workers(&mut workers) {
            tracing::debug!(%error, "the number of the kernel's helper threads is not limited");
        }
        let mut files = FileTable::default();
        if options.registered_files > 0 {
            match ring.submitter().register_files_sparse(options.registered_files) {
                Ok(()) => files.free = (0..options.registered_files).rev().collect(),
                Err(error) => tracing::warn!(%error, "no table of registered files: files go without registration"),
            }
        }
        let fixed_range = register_memory(&ring, options.registered_bytes);
        Ok(Uring {
            ring: RefCell::new(ring),
            delayed: RefCell::new(VecDeque::new()),
            completions: RefCell::new(Vec::new()),
            eventfd_count: Box::new(Cell::new(0)),
            eventfd_armed: Cell::new(false),
            closing: Cell::new(false),
            fixed_range: Cell::new(fixed_range),
            files: RefCell::new(files),
            spin_ns: options.spin_ns,
        })
    }

    /// Puts a descriptor into the ring's table; None when the table is full or absent.
    pub fn register_file(&self, raw: i32) -> Option<u32> {
        let index = self.files.borrow_mut().free.pop()?;
        match self.ring.borrow_mut().submitter().register_files_update(index, &[raw]) {
            Ok(_) => Some(index),
            Err(error) => {
                tracing::debug!(%error, "a file was not registered");
                self.files.borrow_mut().free.push(index);
                None
            }
        }
    }

    /// Takes a descriptor out of the table.
    pub fn unregister_file(&self, index: u32) {
        if self.ring.borrow_mut().submitter().register_files_update(index, &[-1]).is_ok() {
            self.files.borrow_mut().free.push(index);
        }
    }
}

/// Registers memory for this thread's buffers: as much of `wanted` as the limit on locked memory allows.
#[allow(unsafe_code)]
fn register_memory(ring: &IoUring, wanted: usize) -> FixedRange {
    let mut bytes = wanted;
    while bytes >= ARENA_BYTES_MIN {
        let arena = Arena::new(bytes, 0);
        let range = arena.shared.range();
        let whole = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(range.0), iov_len: range.1 };
        // SAFETY: the memory lives as long as a buffer in it or the pool of this thread, and the kernel holds on to the pages
        // it pinned even longer; the ring is only told of addresses within it while a buffer there is in an operation.
        match unsafe { ring.submitter().register_buffers(&[whole]) } {
            Ok(()) => {
                if bytes < wanted {
                    tracing::warn!(wanted, bytes, "RLIMIT_MEMLOCK allows fewer registered buffers");
                }
                set_arena(Some(arena));
                return Some(range);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => bytes /= 2,
            Err(error) => {
                tracing::warn!(wanted, %error, "buffers go without registration");
                return None;
            }
        }
    }
    if wanted >= ARENA_BYTES_MIN {
        tracing::warn!(wanted, "RLIMIT_MEMLOCK allows no registered buffers: they go without registration");
    }
    None
}

/// A ring with deferred task work where the kernel knows it (6.1), without otherwise, as large as the limit on locked memory
/// allows. The kernel gives the memory of closed rings back a little later, so that a refusal is worth a second try.
fn build_ring(entries: u32) -> io::Result<IoUring> {
    let mut size = entries.next_power_of_two().max(RING_ENTRIES_MIN);
    let mut deferred = true;
    let mut patience = PATIENCE_AT_FULL_SIZE;
    loop {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_submit_all().setup_cqsize(size * COMPLETIONS_PER_SUBMISSION).dontfork();
        if deferred {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        } else {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        match builder.build(size) {
            Ok(ring) => {
                if size < entries {
                    tracing::warn!(entries, size, "RLIMIT_MEMLOCK allows only a smaller ring");
                }
                if !deferred {
                    tracing::warn!("this kernel has no deferred task work for io_uring: using cooperative task work");
                }
                return Ok(ring);
            }
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && deferred => deferred = false,
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) && patience > 0 => {
                patience -= 1;
                std::thread::sleep(RETRY_AFTER);
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) && size > RING_ENTRIES_MIN => {
                size /= 2;
                if size == RING_ENTRIES_MIN {
                    patience = PATIENCE_AT_SMALLEST_SIZE;
                }
            }
            Err(e) => return Err(io::Error::new(e.kind(), format!("io_uring_setup with {size} entries: {e}"))),
        }
    }
}
