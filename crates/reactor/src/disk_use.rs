//! Reads for splices share their disk with what is written. A disk that is kept busy with large reads lets a write wait for as
//! long as all that stands before it takes; whoever waits sends less, leaves still more of the disk to the reads, and in the end
//! next to nothing is written. So reads take turns, and while the disk is written to they are few in the whole runtime, and small.
//!
//! Measured on a disk of 1.1-1.5 GB/s with 264 MB/s of commits beside 264 MB/s of other writes: one read of 128 KiB at a time takes
//! 700-820 MB/s and leaves the commits a p99 of 2-3 ms (1.4 without reads); one of 256 KiB takes 960 and leaves them 34 ms, two
//! leave them 600 ms and more, for the disk is asked for more than it has and the queue grows for as long as that goes on. Where
//! nobody waits for the disk but for the page cache or the mapped journal, larger reads of every core do no harm.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::percore::Core;
use crate::shared::SIGNAL_DISK;
use crate::stop::RuntimeShared;
use crate::sync::Semaphore;

/// Reads of one core that are on their way at once where nobody writes: two keep a disk busy.
const TURNS: usize = 2;
/// Bytes that one read asks for while somebody writes.
const CAREFUL_BYTES: u64 = 256 << 10;
/// The same while somebody waits for what is written.
const URGENT_BYTES: u64 = 128 << 10;
/// Cores for which there is one read at a time while somebody writes: machines with more of them have faster disks.
const CORES_A_CAREFUL_READ: usize = 4;
/// A write that must reach the disk before anyone goes on is late when it takes so many times what is usual without reads.
const LATE_TIMES: u64 = 2;
/// Nothing is late before this time, in nanoseconds.
const LATE_NS_MIN: u64 = 500_000;
/// A read waits for late writes for so long at most, in steps of one: a disk that is always slow is read all the same.
const REST_MAX: Duration = Duration::from_millis(50);
const REST_STEP: Duration = Duration::from_micros(250);
/// The disk counts as written to for so long after a write, in nanoseconds.
const WRITTEN_FOR_NS: u64 = 100_000_000;

/// What the cores of a runtime know together about the disk.
#[derive(Default)]
pub(crate) struct DiskUse {
    /// When they last wrote past the page cache, in monotonic ns.
    last_write: AtomicU64,
    /// When they last wrote what somebody waits for.
    last_urgent: AtomicU64,
    /// Reads beside writes that are on their way or that a core was told to begin.
    careful: AtomicUsize,
}

impl DiskUse {
    fn is_recent(last: &AtomicU64, now_ns: u64) -> bool {
        let last = last.load(Ordering::Relaxed);
        last > 0 && now_ns.saturating_sub(last) < WRITTEN_FOR_NS
    }
}

/// How one core gets on with the disk.
pub(crate) struct OwnUse {
    /// Whose turn it is to read.
    reads: Semaphore,
    /// The task that waits for one of the runtime's few turns to read beside writes.
    waiter: Cell<Option<Waker>>,
    /// That one has come.
    pub(crate) granted: Cell<bool>,
    /// Writes on their way that somebody waits for.
    urgent: Cell<u32>,
    /// The time that one of them usually takes where nobody reads, in nanoseconds.
    usual_ns: Cell<u64>,
}

impl Default for OwnUse {
    fn default() -> OwnUse {
        OwnUse {
            reads: Semaphore::new(TURNS),
            waiter: Cell::default(),
            granted: Cell::default(),
            urgent: Cell::default(),
            usual_ns: Cell::default(),
        }
    }
}

/// What the other cores know about how a core gets on with the disk.
pub(crate) struct DiskLine {
    /// It waits for its turn to read.
    waits: AtomicBool,
    /// Turns it was given and did not see yet.
    grants: AtomicU32,
    /// When the write that others wait for is late, in monotonic ns; `u64::MAX` when there is none.
    late_at: AtomicU64,
}

impl Default for DiskLine {
    fn default() -> DiskLine {
        DiskLine { waits: AtomicBool::new(false), grants: AtomicU32::new(0), late_at: AtomicU64::new(u64::MAX) }
    }
}

impl DiskLine {
    pub fn is_late(&self, now_ns: u64) -> bool {
        now_ns > self.late_at.load(Ordering::Relaxed)
    }

    pub fn wait(&self) {
        self.waits.store(true, Ordering::SeqCst);
    }

    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    /// Ends the wait; true for the one whose doing it is.
    pub fn take_wait(&self) -> bool {
        self.waits() && self.waits.swap(false, Ordering::SeqCst)
    }
}

impl RuntimeShared {
    fn try_begin_read(&self) -> bool {
        let most = (self.cores().len() / CORES_A_CAREFUL_READ).max(1);
        self.disk.careful.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < most).then_some(n + 1)).is_ok()
    }

    /// A turn that ends on the core at `index` goes to the next core that waits for one, so that all get as many.
    fn end_read(&self, index: usize) {
        let cores = self.cores();
        let first = (index + 1) % cores.len().max(1);
        loop {
            if let Some(next) = cores[first..].iter().chain(&cores[..first]).find(|core| core.disk.take_wait()) {
                next.disk.grants.fetch_add(1, Ordering::SeqCst);
                next.signal(SIGNAL_DISK);
                return;
            }
            self.disk.careful.fetch_sub(1, Ordering::SeqCst);
            // Whoever began to wait after it was passed over either saw the turn come free or is seen here.
            if !cores.iter().any(|core| core.disk.waits()) || !self.try_begin_read() {
                return;
            }
        }
    }
}

/// A write of this core that somebody waits for, from its begin to its end. While it is late, reads rest.
pub(crate) struct Urgent {
    core: Rc<Core>,
    began_ns: u64,
    /// No reads stood before it when it began.
    alone: bool,
}

impl Drop for Urgent {
    fn drop(&mut self) {
        let (core, now) = (&self.core, self.core.now().mono_ns);
        let left = core.disk.urgent.get() - 1;
        core.disk.urgent.set(left);
        if self.alone && core.stop.disk.careful.load(Ordering::Relaxed) == 0 {
            // An average that forgets over some sixteen writes.
            let (usual, took) = (core.disk.usual_ns.get(), now.saturating_sub(self.began_ns));
            core.disk.usual_ns.set(usual - usual / 16 + took / 16);
        }
        let late_at = if left == 0 { u64::MAX } else { core.late_at(now) };
        core.shared.disk.late_at.store(late_at, Ordering::Relaxed);
    }
}

/// A turn of the runtime's, given on when dropped.
pub(crate) struct Turn(Rc<Core>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.stop.end_read(self.0.id.index());
    }
}

/// The wait for a turn. One task of a core at a time waits.
struct Wait(Rc<Core>);

impl Wait {
    fn poll(&self, cx: &Context<'_>) -> Poll<Turn> {
        let core = &self.0;
        let turn = || Poll::Ready(Turn(Rc::clone(core)));
        if core.disk.granted.take() {
            return turn();
        }
        let before = core.disk.waiter.replace(Some(cx.waker().clone()));
        if before.is_none() {
            core.shared.disk.wait();
            if core.stop.try_begin_read() {
                // A core that has just given its turn to this one finds nobody waiting, and the turn goes on.
                core.shared.disk.take_wait();
                core.disk.waiter.take();
                return turn();
            }
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.0.disk.waiter.take().is_some() {
            self.0.shared.disk.take_wait();
        }
        if self.0.disk.granted.take() {
            drop(Turn(Rc::clone(&self.0)));
        }
    }
}

impl Core {
    fn is_careful(&self) -> bool {
        DiskUse::is_recent(&self.stop.disk.last_write, self.now().mono_ns)
    }

    /// Notes that a write to a disk begins.
    pub fn note_write(&self) {
        self.stop.disk.last_write.store(self.now().mono_ns, Ordering::Relaxed);
    }

    /// When a write that begins now is late.
    fn late_at(&self, now_ns: u64) -> u64 {
        now_ns + (self.disk.usual_ns.get() * LATE_TIMES).max(LATE_NS_MIN)
    }

    /// Notes that a write begins that must reach the disk before anyone goes on.
    pub fn begin_urgent(self: &Rc<Core>) -> Urgent {
        let now = self.now().mono_ns;
        self.stop.disk.last_urgent.store(now, Ordering::Relaxed);
        let before = self.disk.urgent.replace(self.disk.urgent.get() + 1);
        if before == 0 {
            self.shared.disk.late_at.store(self.late_at(now), Ordering::Relaxed);
        }
        Urgent { core: Rc::clone(self), began_ns: now, alone: self.stop.disk.careful.load(Ordering::Relaxed) == 0 }
    }

    /// Waits while writes are late that others wait for.
    async fn rest(&self) {
        let mut rested = Duration::ZERO;
        while rested < REST_MAX && self.stop.cores().iter().any(|core| core.disk.is_late(self.now().mono_ns)) {
            crate::sleep(REST_STEP).await;
            rested += REST_STEP;
        }
    }

    /// Runs a read of up to `len` bytes when it is its turn; `read` is told how many to ask for.
    pub async fn read_in_turn<F: Future>(self: &Rc<Core>, len: u64, read: impl FnOnce(u64) -> F) -> F::Output {
        let _own = self.disk.reads.acquire_many(if self.is_careful() { TURNS } else { 1 }).await;
        if !self.is_careful() {
            return read(len).await;
        }
        if !DiskUse::is_recent(&self.stop.disk.last_urgent, self.now().mono_ns) {
            return read(len.min(CAREFUL_BYTES)).await;
        }
        let _turn = self.careful_turn().await;
        self.rest().await;
        read(len.min(URGENT_BYTES)).await
    }

    /// One of the few reads beside writes. One task of the core at a time may wait for it.
    pub async fn careful_turn(self: &Rc<Core>) -> Turn {
        if self.stop.try_begin_read() {
            return Turn(Rc::clone(self));
        }
        let wait = Wait(Rc::clone(self));
        std::future::poll_fn(|cx| wait.poll(cx)).await
    }

    /// Turns that other cores gave to this one.
    pub fn take_disk_grants(self: &Rc<Core>) {
        for _ in 0..self.shared.disk.grants.swap(0, Ordering::SeqCst) {
            match self.disk.waiter.take() {
                Some(waiter) => {
                    self.shared.disk.take_wait();
                    self.disk.granted.set(true);
                    waiter.wake();
                }
                None => self.stop.end_read(self.id.index()),
            }
        }
    }

    /// Whether the disk has time for what is only going to be read.
    pub fn may_read_ahead(&self) -> bool {
        self.disk.reads.available() > 0 && !self.is_careful()
    }
}
