//! What a core counts about itself.

use std::cell::Cell;

/// Counters of one core since it started; all only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Polls of tasks.
    pub tasks_polled: u64,
    /// Tasks spawned.
    pub tasks_spawned: u64,
    /// Operations started (files and sockets).
    pub ops: u64,
    /// Operations whose future was dropped before they completed.
    pub ops_orphaned: u64,
    /// `io_uring_enter` calls; 0 under simulation.
    pub ring_enters: u64,
    /// Times the core waited in the kernel.
    pub parks: u64,
    /// Wakes sent to other cores with MSG_RING.
    pub ring_messages: u64,
    /// Submissions that found the submission queue full and waited in memory.
    pub submissions_delayed: u64,
    /// Timers that fired.
    pub timers_fired: u64,
}

/// The counters while they count.
#[derive(Default)]
pub(crate) struct LiveCounters(Cell<Counters>);

impl LiveCounters {
    pub fn add(&self, change: impl FnOnce(&mut Counters)) {
        let mut value = self.0.get();
        change(&mut value);
        self.0.set(value);
    }

    pub fn read(&self) -> Counters {
        self.0.get()
    }
}
