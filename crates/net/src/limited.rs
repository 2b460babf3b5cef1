//! Log lines that hostile input can provoke are let through at a bounded rate.

use base::Now;
use std::cell::Cell;

/// Lets one line through per interval and counts what it held back. One per core and kind of line.
#[derive(Debug)]
pub struct LogGate {
    interval_ms: u64,
    next_ms: Cell<u64>,
    held_back: Cell<u64>,
}

impl LogGate {
    /// A gate that opens once every `interval_ms` milliseconds.
    pub const fn new(interval_ms: u64) -> LogGate {
        LogGate { interval_ms, next_ms: Cell::new(0), held_back: Cell::new(0) }
    }

    /// `Some(lines held back since the last one)` when a line may be written now.
    pub fn open(&self, now: Now) -> Option<u64> {
        if now.mono_ms() < self.next_ms.get() {
            self.held_back.set(self.held_back.get() + 1);
            return None;
        }
        self.next_ms.set(now.mono_ms() + self.interval_ms);
        Some(self.held_back.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_interval_and_a_count_of_the_rest() {
        let gate = LogGate::new(1000);
        let at = |ms: u64| Now { mono_ns: ms * 1_000_000, wall_ms: 0 };
        assert_eq!(gate.open(at(5)), Some(0));
        assert_eq!(gate.open(at(6)), None);
        assert_eq!(gate.open(at(1004)), None);
        assert_eq!(gate.open(at(1005)), Some(2));
    }
}
