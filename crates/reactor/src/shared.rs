//! The part of a core that other threads may touch: its signal word, its inbox of woken tasks, its eventfd.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::disk_use::DiskLine;
use crate::percore;

/// Tasks woken by foreign threads are in the inbox.
pub(crate) const SIGNAL_INBOX: u32 = 1;
/// The inbox overflowed: every task of the core is polled once.
pub(crate) const SIGNAL_WAKE_ALL: u32 = 2;
/// A mailbox lane of this core gained a message or space.
pub(crate) const SIGNAL_MAIL: u32 = 4;
/// The runtime was asked to stop.
pub(crate) const SIGNAL_STOP: u32 = 8;
/// Another core gave this one its turn to read.
pub(crate) const SIGNAL_DISK: u32 = 16;

/// Wakes from foreign threads that are remembered one by one. Past it all tasks are polled once, which is always allowed;
/// only helper threads use this road, so that it holds a handful in practice.
const INBOX_WAKES_MAX: usize = 1024;

/// Live cores of all runtimes and simulations in one process: the waker has 12 bits for them.
const CORES_MAX: usize = 1 << 12;
const INDEX_BITS: u32 = 26;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// Tasks that can be alive on one core.
pub(crate) const TASKS_MAX: usize = 1 << INDEX_BITS;
/// Generations of a task slot wrap here; a waker that is that old wakes another task, which tolerates it.
pub(crate) const GENERATION_MASK: u32 = INDEX_MASK as u32;

/// Names a task of one core. It is what a waker carries, so that waking on the same core needs no reference count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    pub index: u32,
    pub generation: u32,
}

pub(crate) struct CoreShared {
    slot: u16,
    signals: AtomicU32,
    parked: AtomicBool,
    inbox: Mutex<Vec<TaskId>>,
    pub disk: DiskLine,
    /// Wakes a parked core from a thread without a ring; none under simulation, where nobody parks.
    eventfd: Option<OwnedFd>,
    /// The ring that MSG_RING is sent to; -1 before there is one.
    pub ring_fd: AtomicI32,
}

static REGISTRY: RwLock<Vec<Option<Arc<CoreShared>>>> = RwLock::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CoreShared {
    /// Registers a core so that wakers can find it.
    ///
    /// # Errors
    /// No eventfd left, or `CORES_MAX` cores are alive.
    pub fn register(simulated: bool) -> std::io::Result<Arc<CoreShared>> {
        let eventfd = if simulated { None } else { Some(new_eventfd()?) };
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        let slot = match registry.iter().position(Option::is_none) {
            Some(free) => free,
            None if registry.len() < CORES_MAX => {
                registry.push(None);
                registry.len() - 1
            }
            None => return Err(std::io::Error::other(format!("{CORES_MAX} cores are alive in this process"))),
        };
        let shared = Arc::new(CoreShared {
            slot: slot as u16,
            signals: AtomicU32::new(0),
            parked: AtomicBool::new(false),
            inbox: Mutex::new(Vec::new()),
            disk: DiskLine::default(),
            eventfd,
            ring_fd: AtomicI32::new(-1),
        });
        registry[slot] = Some(Arc::clone(&shared));
        Ok(shared)
    }

    /// Forgets the core: wakers that still name it do nothing from here on.
    pub fn unregister(&self) {
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        registry[usize::from(self.slot)] = None;
    }

    pub fn slot(&self) -> u16 {
        self.slot
    }

    pub fn eventfd(&self) -> Option<i32> {
        self.eventfd.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Sets signal bits from a core or a foreign thread and ends the core's parking.
    pub fn signal(&self, bits: u32) {
        if self.raise(bits) {
            if percore::send_ring_message(self) {
                return;
            }
            self.write_eventfd();
        }
    }

    /// As [`CoreShared::signal`] with nothing but atomics and `write(2)`, so that a signal handler may call it. It writes in any
    /// case: another core may have taken it on itself to wake this one and have died before it did.
    pub fn signal_from_handler(&self, bits: u32) {
        self.signals.fetch_or(bits, Ordering::SeqCst);
        self.write_eventfd();
    }

    /// True when the caller has to wake the core.
    fn raise(&self, bits: u32) -> bool {
        // SeqCst on both words: the core publishes `parked` and then reads `signals`, this side the other way round, and
        // one of the two must see the other.
        // Whoever raised what is raised still has seen to it that the core looks, and the core looks after it has taken the
        // signal: the fence pairs with the one there.
        fence(Ordering::SeqCst);
        if self.signals.load(Ordering::Relaxed) & bits == bits {
            return false;
        }
        let before = self.signals.fetch_or(bits, Ordering::SeqCst);
        before & bits != bits && self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst)
    }

    fn write_eventfd(&self) {
        if let Some(fd) = &self.eventfd {
            let one = 1u64.to_ne_bytes();
            // SAFETY: `one` outlives the call and is 8 bytes long, as an eventfd wants. The counter would have to
            // reach 2^64 for the call to wait.
            let _ = unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// True when any signal is pending.
    pub fn has_signals(&self) -> bool {
        self.signals.load(Ordering::Relaxed) != 0
    }

    /// Takes all pending signals.
    pub fn take_signals(&self) -> u32 {
        let signals = self.signals.swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        signals
    }

    /// Announces that the core is about to wait in the kernel. False when a signal came in meanwhile: do not wait.
    pub fn park(&self) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        if self.signals.load(Ordering::SeqCst) != 0 {
            self.parked.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// The core is back from the kernel.
    pub fn unpark(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }

    /// Moves the inbox into `into`.
    pub fn drain_inbox(&self, into: &mut Vec<TaskId>) {
        into.append(&mut lock(&self.inbox));
    }

    fn wake_foreign(&self, task: TaskId) {
        let overflow = {
            let mut inbox = lock(&self.inbox);
            if inbox.len() >= INBOX_WAKES_MAX {
                true
            } else {
                inbox.push(task);
                false
            }
        };
        self.signal(if overflow { SIGNAL_WAKE_ALL } else { SIGNAL_INBOX });
    }
}

/// Wakes a core, if it is still there, by the road that always works.
pub(crate) fn wake_by_eventfd(slot: u16) {
    let target = REGISTRY.read().unwrap_or_else(PoisonError::into_inner).get(usize::from(slot)).cloned().flatten();
    if let Some(target) = target {
        target.write_eventfd();
    }
}

fn new_eventfd() -> std::io::Result<OwnedFd> {
    // SAFETY: plain system call without pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The waker of a task. Its data pointer is a number, never followed: core slot, generation, index. Cloning is a copy,
/// dropping is nothing, and a stale waker can at most wake a task once too often.
pub(crate) fn waker(slot: u16, task: TaskId) -> Waker {
    const { assert!(usize::BITS == 64, "the waker packs a core, a generation and an index into 64 bits") };
    let packed = (u64::from(slot) << (2 * INDEX_BITS))
        | (u64::from(task.generation & GENERATION_MASK) << INDEX_BITS)
        | u64::from(task.index);
    // SAFETY: the table's functions treat the pointer as a number; they are thread-safe and uphold the waker contract.
    unsafe { Waker::from_raw(raw(std::ptr::without_provenance(packed as usize))) }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(raw, wake, wake, |_| {});

fn raw(data: *const ()) -> RawWaker {
    RawWaker::new(data, &VTABLE)
}

fn wake(data: *const ()) {
    let packed = data.addr() as u64;
    let slot = (packed >> (2 * INDEX_BITS)) as u16;
    let task = TaskId { index: (packed & INDEX_MASK) as u32, generation: ((packed >> INDEX_BITS) & INDEX_MASK) as u32 };
    if percore::wake_if_current(slot, task) {
        return;
    }
    let target = REGISTRY.read().unwrap_or_else(PoisonError::into_inner).get(usize::from(slot)).cloned().flatten();
    if let Some(target) = target {
        target.wake_foreign(task);
    }
}
