//! How many connections the process has, over all cores: `max.connections`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count all cores share. An atomic number, not a lock: it is touched when a connection opens and closes only.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCounts {
    total: Arc<AtomicUsize>,
}

impl ConnectionCounts {
    /// A count of zero.
    pub fn new() -> ConnectionCounts {
        ConnectionCounts::default()
    }

    /// Counts one more connection unless there are `max` already.
    pub fn try_add(&self, max: usize) -> bool {
        let raised =
            self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| if n < max { Some(n + 1) } else { None });
        raised.is_ok()
    }

    /// Counts one connection less.
    pub fn remove(&self) {
        let before = self.total.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection closed that was never counted");
    }

    /// Connections open now, over all cores.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_a_closed_connection_makes_room() {
        let counts = ConnectionCounts::new();
        assert!(counts.try_add(2) && counts.clone().try_add(2) && !counts.try_add(2));
        counts.remove();
        assert_eq!(counts.total(), 1);
    }
}
