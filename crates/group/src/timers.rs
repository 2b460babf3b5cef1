//! Deadlines. Sessions are extended far more often than they end, so extending one only writes a number: the entry in the
//! queue stays where it is and is put back when it comes up too early.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// "Never".
const NEVER: u64 = u64::MAX;

/// What a deadline is about, within its group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum TimerKind {
    /// The session of a member, of either protocol, or of a classic member that was given an id and has not joined yet.
    Session(Arc<str>),
    /// A classic group waits for its members to join.
    Join,
    /// A classic group waits for its members to sync.
    Sync,
    /// Work of a whole consumer group: the next assignment or the refresh of its regular expressions.
    Consumer,
    /// The check for expired offsets of all groups; belongs to no group.
    Offsets,
}

/// Which deadline: the group and what of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TimerKey {
    /// The group's id; empty for what belongs to none.
    pub group: Arc<str>,
    /// What of it.
    pub kind: TimerKind,
}

/// The queue of all deadlines of a shard.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BinaryHeap<Reverse<(u64, TimerKey)>>,
}

impl Timers {
    /// When the first entry is up; the deadline behind it may be later or gone.
    pub fn next_ns(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first entry that is up.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u64, TimerKey)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }

    /// Number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.queue.len()
    }
}

/// One deadline, kept with what it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    due_ns: u64,
    /// Time of the entry in the queue that stands for this deadline; older entries are dead.
    queued_ns: u64,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline { due_ns: NEVER, queued_ns: NEVER }
    }
}

impl Deadline {
    /// Sets or moves it.
    pub fn set(&mut self, due_ns: u64, timers: &mut Timers, key: impl FnOnce() -> TimerKey) {
        self.due_ns = due_ns;
        if due_ns < self.queued_ns {
            self.queued_ns = due_ns;
            timers.queue.push(Reverse((due_ns, key())));
        }
    }

    /// Puts off a deadline that is set; false where that takes an entry of the queue, as [`Deadline::set`] makes one.
    pub fn put_off(&mut self, due_ns: u64) -> bool {
        let queued = self.queued_ns <= due_ns;
        if queued {
            self.due_ns = due_ns;
        }
        queued
    }

    /// Takes it back.
    pub fn clear(&mut self) {
        self.due_ns = NEVER;
    }

    /// True while it is set.
    pub fn is_set(&self) -> bool {
        self.due_ns != NEVER
    }

    /// Whether an entry of the queue that came up for it means that it is due; if so, it is cleared. A deadline that has
    /// moved goes back into the queue.
    pub fn fires(&mut self, entry: (u64, TimerKey), now_ns: u64, timers: &mut Timers) -> bool {
        let (entry_ns, key) = entry;
        if entry_ns != self.queued_ns {
            return false;
        }
        self.queued_ns = NEVER;
        if self.due_ns <= now_ns {
            self.due_ns = NEVER;
            return true;
        }
        if self.due_ns != NEVER {
            self.set(self.due_ns, timers, || key);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TimerKey {
        TimerKey { group: Arc::from("g"), kind: TimerKind::Join }
    }

    #[test]
    fn a_deadline_fires_once_and_never_early() {
        let (mut timers, mut deadline) = (Timers::default(), Deadline::default());
        deadline.set(10, &mut timers, key);
        deadline.set(20, &mut timers, key);
        deadline.set(30, &mut timers, key);
        assert_eq!((timers.len(), timers.next_ns()), (1, Some(10)), "extending queues nothing");
        let early = timers.pop(10).expect("an entry");
        assert!(!deadline.fires(early, 10, &mut timers));
        assert_eq!(timers.next_ns(), Some(30));
        deadline.set(25, &mut timers, key);
        let due = timers.pop(26).expect("an entry");
        assert!(deadline.fires(due, 26, &mut timers));
        let dead = timers.pop(31).expect("the entry of the old deadline");
        assert!(!deadline.fires(dead, 31, &mut timers) && !deadline.is_set());
        assert_eq!(timers.pop(u64::MAX), None);
    }

    #[test]
    fn a_cleared_deadline_can_be_set_again() {
        let (mut timers, mut deadline) = (Timers::default(), Deadline::default());
        deadline.set(10, &mut timers, key);
        deadline.clear();
        deadline.set(15, &mut timers, key);
        let early = timers.pop(12).expect("an entry");
        assert!(!deadline.fires(early, 12, &mut timers));
        let due = timers.pop(15).expect("an entry");
        assert!(deadline.fires(due, 15, &mut timers));
    }
}
