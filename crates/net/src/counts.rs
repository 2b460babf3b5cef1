//! How many connections the process has, over all cores, and how fast new ones come: `max.connections` and
//! `max.connection.creation.rate`, of all listeners of a role together and of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const NS_PER_S: u64 = 1_000_000_000;

/// Most connections at a time, and most new ones a second; what no machine reaches is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `max.connections`.
    pub connections: usize,
    /// `max.connection.creation.rate`; 0 lets nobody in.
    pub per_second: u32,
}

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit { connections: usize::MAX, per_second: u32::MAX };
}

/// What a new connection of a listener has to keep. Asked for with every connection, for it may change at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimits {
    /// Of all listeners together.
    pub all: Limit,
    /// Of this listener.
    pub own: Limit,
    /// The listener between brokers, beside others: only its own limit holds it back, and where the limit of all is passed a
    /// connection of another listener makes room.
    pub is_protected: bool,
    /// Nanoseconds over which rates are averages: what was not used of them in that time may come at once.
    pub burst_ns: u64,
}

impl EntryLimits {
    /// No limits.
    pub const NONE: EntryLimits =
        EntryLimits { all: Limit::NONE, own: Limit::NONE, is_protected: false, burst_ns: NS_PER_S };
}

/// Why a connection is not let in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Others have to close.
    Connections,
    /// New ones came too fast. After so many nanoseconds there is a place, if nobody else takes it.
    Rate(u64),
}

/// One count and one pace.
#[derive(Debug, Default)]
struct Gate {
    open: AtomicUsize,
    /// When the next connection would come if all those so far had come evenly, in monotonic ns.
    due_ns: AtomicU64,
}

impl Gate {
    fn try_count(&self, max: usize) -> bool {
        let raised = |open| (open < max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised).is_ok()
    }

    fn uncount(&self) {
        let before = self.open.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection closed that was never counted");
    }

    /// Takes a place of those that the rate allows, or says how long there is none.
    fn try_pace(&self, per_second: u32, burst_ns: u64, now_ns: u64) -> Result<(), u64> {
        let Some(interval) = interval_ns(per_second) else { return Err(NS_PER_S) };
        if interval == 0 {
            return Ok(());
        }
        let latest = now_ns + burst_ns.max(interval);
        let next = |due: u64| Some(due.max(now_ns) + interval).filter(|&next| next <= latest);
        match self.due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(due) => Err(due + interval - latest),
        }
    }

    fn unpace(&self, per_second: u32) {
        self.due_ns.fetch_sub(interval_ns(per_second).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Time between two connections; `None` where there are none.
fn interval_ns(per_second: u32) -> Option<u64> {
    NS_PER_S.checked_div(u64::from(per_second))
}

#[derive(Debug)]
struct Listener {
    name: String,
    pool: usize,
    gate: Gate,
}

#[derive(Debug)]
struct Shared {
    pools: Vec<Gate>,
    listeners: Vec<Listener>,
}

/// The counts all cores share. Atomic numbers, not a lock: they are touched when a connection opens and closes only.
#[derive(Debug, Clone)]
pub struct ConnectionCounts(Arc<Shared>);

/// A connection that was let in; dropping it makes room.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: ConnectionCounts,
    listener: u32,
    pub is_protected: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (listener, all) = self.counts.gates(self.listener as usize);
        listener.uncount();
        all.uncount();
    }
}

impl ConnectionCounts {
    /// Counts of zero for listeners with these names. Those of one pool have a limit of all together, in Kafka those of a role.
    pub fn new(pools: &[Vec<&str>]) -> ConnectionCounts {
        let named = pools.iter().enumerate().flat_map(|(pool, names)| names.iter().map(move |name| (pool, name)));
        let listeners =
            named.map(|(pool, &name)| Listener { name: name.to_owned(), pool, gate: Gate::default() }).collect();
        ConnectionCounts(Arc::new(Shared { pools: pools.iter().map(|_| Gate::default()).collect(), listeners }))
    }

    /// A listener's own gate and that of all beside it.
    fn gates(&self, listener: usize) -> (&Gate, &Gate) {
        let listener = &self.0.listeners[listener];
        (&listener.gate, &self.0.pools[listener.pool])
    }

    fn index(&self, name: &str) -> usize {
        let found = self.0.listeners.iter().position(|listener| listener.name == name);
        found.unwrap_or_else(|| panic!("connections of listener {name} are not counted"))
    }

    /// Counts one more connection of a listener if the limits allow it.
    pub(crate) fn try_enter(&self, name: &str, limits: &EntryLimits, now_ns: u64) -> Result<Counted, Full> {
        let listener = self.index(name);
        let (own, all) = self.gates(listener);
        if !own.try_count(limits.own.connections) {
            return Err(Full::Connections);
        }
        if !all.try_count(if limits.is_protected { usize::MAX } else { limits.all.connections }) {
            own.uncount();
            return Err(Full::Connections);
        }
        let is_protected = limits.is_protected;
        let counted = Counted { counts: self.clone(), listener: listener as u32, is_protected };
        own.try_pace(limits.own.per_second, limits.burst_ns, now_ns).map_err(Full::Rate)?;
        if !limits.is_protected {
            all.try_pace(limits.all.per_second, limits.burst_ns, now_ns).map_err(|ns| {
                own.unpace(limits.own.per_second);
                Full::Rate(ns)
            })?;
        }
        Ok(counted)
    }

    /// Open connections, over all cores, of all listeners that share a limit with this one.
    pub fn beside(&self, name: &str) -> usize {
        self.gates(self.index(name)).1.open.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> ConnectionCounts {
        ConnectionCounts::new(&[vec!["A", "B"], vec!["C"]])
    }

    fn at_most(connections: usize) -> Limit {
        Limit { connections, ..Limit::NONE }
    }

    fn a_second(per_second: u32) -> Limit {
        Limit { per_second, ..Limit::NONE }
    }

    #[test]
    fn limits_hold_and_a_closed_connection_makes_room() {
        let counts = counts();
        let limits = EntryLimits { all: at_most(3), own: at_most(2), ..EntryLimits::NONE };
        let enter = |name| counts.clone().try_enter(name, &limits, 0);
        let mut inside = vec![enter("A").expect("room"), enter("A").expect("room")];
        assert_eq!(enter("A").expect_err("A is full"), Full::Connections);
        inside.push(enter("B").expect("room"));
        assert_eq!(enter("B").expect_err("A and B are full"), Full::Connections);
        // Another pool has a count of its own.
        inside.push(enter("C").expect("room"));
        assert_eq!((counts.beside("A"), counts.beside("C")), (3, 1));
        inside.remove(0);
        inside.push(enter("A").expect("a place became free"));
        drop(inside);
        assert_eq!((counts.beside("A"), counts.beside("C")), (0, 0));
    }

    #[test]
    fn a_protected_listener_keeps_its_own_limits_alone() {
        let counts = counts();
        let limits = EntryLimits { all: Limit { connections: 1, per_second: 1 }, ..EntryLimits::NONE };
        let _first = counts.try_enter("A", &limits, 0).expect("room");
        assert!(counts.try_enter("B", &limits, 0).is_err());
        let protected = EntryLimits { is_protected: true, own: at_most(2), ..limits };
        let _more = [0, 0].map(|now| counts.try_enter("B", &protected, now).expect("it has room of its own"));
        assert_eq!(counts.try_enter("B", &protected, 0).expect_err("that is used up"), Full::Connections);
        assert_eq!(counts.beside("B"), 3, "all are counted");
    }

    #[test]
    fn a_rate_is_an_average_and_what_was_not_used_is_forgotten_in_time() {
        let counts = counts();
        let limits = EntryLimits { own: a_second(10), burst_ns: 2 * NS_PER_S, ..EntryLimits::NONE };
        let enter = |now_ns| counts.try_enter("A", &limits, now_ns).map(drop);
        let start = 100 * NS_PER_S;
        assert_eq!((0..20).filter(|_| enter(start).is_ok()).count(), 20, "two seconds' worth at once");
        assert_eq!(enter(start), Err(Full::Rate(NS_PER_S / 10)));
        assert_eq!(counts.beside("A"), 0, "who is not let in is not counted");
        assert_eq!(enter(start + NS_PER_S / 10), Ok(()));
        assert_eq!(enter(start + NS_PER_S / 10), Err(Full::Rate(NS_PER_S / 10)));
        let later = start + 1_000 * NS_PER_S;
        assert_eq!((0..30).filter(|_| enter(later).is_ok()).count(), 20, "no more is saved up than two seconds' worth");
    }

    #[test]
    fn a_connection_that_one_rate_refuses_takes_no_place_of_the_other() {
        let counts = counts();
        let limits = EntryLimits { all: a_second(2), own: a_second(3), burst_ns: NS_PER_S, is_protected: false };
        let enter = |name| counts.try_enter(name, &limits, 0).map(drop).is_ok();
        assert_eq!([enter("A"), enter("A"), enter("A"), enter("A"), enter("A")], [true, true, false, false, false]);
        // Two of the three places of A are used, however often it asked meanwhile.
        let own_only = EntryLimits { all: Limit::NONE, ..limits };
        let enter = || counts.try_enter("A", &own_only, 0).map(drop).is_ok();
        assert_eq!([enter(), enter()], [true, false]);
    }

    #[test]
    fn a_rate_of_nothing_lets_nobody_in_and_the_largest_everybody() {
        let counts = counts();
        let none = EntryLimits { own: a_second(0), ..EntryLimits::NONE };
        assert!(matches!(counts.try_enter("A", &none, 0), Err(Full::Rate(ns)) if ns > 0));
        let kafkas_default = EntryLimits { own: a_second(i32::MAX as u32), burst_ns: 0, ..EntryLimits::NONE };
        assert!((0..1_000).all(|_| counts.try_enter("A", &kafkas_default, 0).is_ok()));
        // Slower than its burst: one at a time all the same.
        let slow = EntryLimits { own: a_second(1), burst_ns: 0, ..EntryLimits::NONE };
        assert!(counts.try_enter("B", &slow, 0).is_ok() && counts.try_enter("B", &slow, 0).is_err());
    }
}
