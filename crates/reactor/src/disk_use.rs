//! Reads for splices share their disk with what is written. A disk that is kept busy with large reads lets a write wait for as
//! long as all that stands before it takes; whoever waits sends less, leaves still more of the disk to the reads, and in the end
//! next to nothing is written. So reads take turns, and while the disk is written to there is one at a time, and a small one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::percore::Core;

/// Reads of one core that are on their way at once where nobody writes: two keep a disk busy.
pub(crate) const TURNS: usize = 2;
/// Bytes that the only one asks for while somebody writes.
const CAREFUL_BYTES: u64 = 256 << 10;
/// The disk counts as written to for so long after a write, in nanoseconds.
const WRITTEN_FOR_NS: u64 = 100_000_000;

/// When the cores of a runtime last wrote past the page cache, in monotonic ns.
#[derive(Default)]
pub(crate) struct LastWrite(AtomicU64);

impl LastWrite {
    /// A write begins.
    pub fn note(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    fn is_recent(&self, now_ns: u64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        last > 0 && now_ns.saturating_sub(last) < WRITTEN_FOR_NS
    }
}

impl Core {
    fn is_careful(&self) -> bool {
        self.stop.last_write.is_recent(self.now().mono_ns)
    }

    /// Bytes that a read that may be as long as `len` asks for, now.
    pub fn read_bytes(&self, len: u64) -> u64 {
        if self.is_careful() { len.min(CAREFUL_BYTES) } else { len }
    }

    /// Notes that a write to a disk begins.
    pub fn note_write(&self) {
        self.stop.last_write.note(self.now().mono_ns);
    }

    /// Runs a read when it is its turn.
    pub async fn read_in_turn<T>(&self, read: impl Future<Output = T>) -> T {
        let _turn = self.disk_reads.acquire_many(if self.is_careful() { TURNS } else { 1 }).await;
        read.await
    }

    /// Whether the disk has time for what is only going to be read.
    pub fn may_read_ahead(&self) -> bool {
        self.disk_reads.available() > 0 && !self.is_careful()
    }
}
