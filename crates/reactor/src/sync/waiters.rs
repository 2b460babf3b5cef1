//! A queue of waiting futures, woken in order of arrival, with exact removal of the dropped ones.

use std::collections::BTreeMap;
use std::task::Waker;

/// Waiting futures by order of arrival. Bounded by the tasks of the core.
#[derive(Default)]
pub(crate) struct Waiters {
    arrived: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Waiters {
    pub fn join(&mut self, waker: Waker) -> u64 {
        self.arrived += 1;
        self.waiting.insert(self.arrived, waker);
        self.arrived
    }

    /// Renews the waker of a waiting future; false when it was woken meanwhile.
    pub fn renew(&mut self, ticket: u64, waker: &Waker) -> bool {
        match self.waiting.get_mut(&ticket) {
            Some(kept) => {
                kept.clone_from(waker);
                true
            }
            None => false,
        }
    }

    pub fn leave(&mut self, ticket: u64) -> bool {
        self.waiting.remove(&ticket).is_some()
    }

    /// Takes the waker of the first in line.
    pub fn pop(&mut self) -> Option<Waker> {
        self.waiting.pop_first().map(|(_, waker)| waker)
    }

    pub fn take_all(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}
