//! Where requests wait: a fetch for bytes, a produce for replication, a join for its group. A waiter is registered under
//! any number of keys and with one deadline; an event on a key names the waiters to look at again, the clock names those
//! whose time is up.
//!
//! Lives on every core that lets requests wait, one instance per kind of waiting. It does not know what is waited for,
//! whether a wake-up was enough (its owner looks and then cancels the waiter or leaves it), nor the time, which is told to it.
//!
//! Registering, waking, cancelling and expiring cost the same however many wait: lists are linked through the tables
//! that hold the waiters, and deadlines lie in a hierarchical timing wheel instead of timers of their own.

mod wheel;

use base::Now;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};
use wheel::Wheel;

/// Nanoseconds of a tick. Deadlines are met up to one tick late and never early.
const TICK_NS: u64 = 1_000_000;
/// "No entry" in the lists.
const NIL: u32 = u32::MAX;

/// Bounds of a purgatory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How many waiters may wait at once.
    pub waiters_max: u32,
    /// How many pairs of waiter and key there may be: a fetch of a thousand partitions takes a thousand of them.
    pub watches_max: u32,
}

/// Names a waiter for as long as it waits; never means another one afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    index: u32,
    generation: u32,
}

/// The purgatory is full; what the waiter carried comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused<T>(pub T);

/// Waiters with data `T`, found by keys `K`.
#[derive(Debug)]
pub struct Purgatory<K, T> {
    limits: Limits,
    waiters: Table<Waiter<T>>,
    watches: Table<Watch>,
    lists: Table<List<K>>,
    // The hash is keyed with a constant, so that the same events give the same run; keys are the broker's own.
    by_key: HashMap<K, u32, BuildHasherDefault<DefaultHasher>>,
    wheel: Wheel,
    generation: u32,
    due: Vec<u32>,
}

#[derive(Debug)]
struct Waiter<T> {
    generation: u32,
    first_watch: u32,
    data: T,
}

/// One waiter in the list of one key.
#[derive(Debug)]
struct Watch {
    waiter: u32,
    list: u32,
    /// The same waiter's next watch.
    sibling: u32,
    previous: u32,
    next: u32,
}

/// Everybody who waits for one key, oldest first.
#[derive(Debug)]
struct List<K> {
    key: K,
    first: u32,
    last: u32,
}

impl<K: Eq + Hash + Clone, T> Purgatory<K, T> {
    /// An empty one; tables grow with use up to `limits`.
    pub fn new(limits: Limits) -> Purgatory<K, T> {
        assert!(limits.waiters_max < NIL && limits.watches_max < NIL, "{limits:?} exceeds 32-bit indices");
        Purgatory {
            limits,
            waiters: Table::default(),
            watches: Table::default(),
            lists: Table::default(),
            by_key: HashMap::default(),
            wheel: Wheel::default(),
            generation: 0,
            due: Vec::new(),
        }
    }

    /// Number of waiters.
    pub fn len(&self) -> usize {
        self.waiters.len
    }

    /// True when nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of pairs of waiter and key.
    pub fn watches(&self) -> usize {
        self.watches.len
    }

    /// Lets somebody wait for any of `keys` until `deadline_ns` on the monotonic clock (`u64::MAX` for ever). A key given
    /// twice counts once.
    ///
    /// # Errors
    /// [`Refused`] with `data` when a limit is reached; nothing is registered then.
    pub fn register(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        deadline_ns: u64,
        data: T,
    ) -> Result<Token, Refused<T>> {
        if self.waiters.len >= self.limits.waiters_max as usize {
            return Err(Refused(data));
        }
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = self.waiters.insert(Waiter { generation, first_watch: NIL, data });
        for key in keys {
            if !self.watch(index, key) {
                return Err(Refused(self.remove(index)));
            }
        }
        self.wheel.insert(index, deadline_ns.div_ceil(TICK_NS));
        Ok(Token { index, generation })
    }

    /// Appends to `out` everybody who waits for `key`, oldest first. They go on waiting.
    pub fn wake(&self, key: &K, out: &mut Vec<Token>) {
        let Some(&list) = self.by_key.get(key) else { return };
        let mut at = self.lists.get(list).first;
        while at != NIL {
            let watch = self.watches.get(at);
            out.push(Token { index: watch.waiter, generation: self.waiters.get(watch.waiter).generation });
            at = watch.next;
        }
    }

    /// What the waiter carries, while it waits.
    pub fn get(&self, token: Token) -> Option<&T> {
        self.find(token).map(|index| &self.waiters.get(index).data)
    }

    /// As [`Purgatory::get`], to change it.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let index = self.find(token)?;
        Some(&mut self.waiters.get_mut(index).data)
    }

    /// Ends the waiting and returns what was carried; `None` when it had ended already.
    pub fn cancel(&mut self, token: Token) -> Option<T> {
        let index = self.find(token)?;
        self.wheel.remove(index);
        Some(self.remove(index))
    }

    /// Ends the waiting of everybody whose deadline has come and appends them to `out`, earlier deadlines first.
    pub fn expire(&mut self, now: Now, out: &mut Vec<(Token, T)>) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(now.mono_ns / TICK_NS, &mut due);
        for index in due.drain(..) {
            let token = Token { index, generation: self.waiters.get(index).generation };
            out.push((token, self.remove(index)));
        }
        self.due = due;
    }

    /// When [`Purgatory::expire`] is to be called next, on the monotonic clock in ns: no later than the earliest deadline
    /// (and up to a tick behind it), sometimes before it, when far deadlines are to be sorted more finely. `None` when no
    /// deadline is set.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.wheel.next_tick().map(|tick| tick.saturating_mul(TICK_NS))
    }

    fn find(&self, token: Token) -> Option<u32> {
        let waiter = self.waiters.try_get(token.index)?;
        (waiter.generation == token.generation).then_some(token.index)
    }

    fn watch(&mut self, waiter: u32, key: K) -> bool {
        let list = match self.by_key.get(&key) {
            Some(&list) => list,
            None => {
                let list = self.lists.insert(List { key: key.clone(), first: NIL, last: NIL });
                self.by_key.insert(key, list);
                list
            }
        };
        let last = self.lists.get(list).last;
        // Nobody else registers meanwhile, so a watch this waiter has already is the list's last.
        if last != NIL && self.watches.get(last).waiter == waiter {
            return true;
        }
        if self.watches.len >= self.limits.watches_max as usize {
            self.drop_if_empty(list);
            return false;
        }
        let sibling = self.waiters.get(waiter).first_watch;
        let watch = self.watches.insert(Watch { waiter, list, sibling, previous: last, next: NIL });
        self.waiters.get_mut(waiter).first_watch = watch;
        match last {
            NIL => self.lists.get_mut(list).first = watch,
            last => self.watches.get_mut(last).next = watch,
        }
        self.lists.get_mut(list).last = watch;
        true
    }

    /// Takes a waiter that is not in the wheel out of everything else.
    fn remove(&mut self, index: u32) -> T {
        let waiter = self.waiters.take(index);
        let mut at = waiter.first_watch;
        while at != NIL {
            let watch = self.watches.take(at);
            match watch.previous {
                NIL => self.lists.get_mut(watch.list).first = watch.next,
                previous => self.watches.get_mut(previous).next = watch.next,
            }
            match watch.next {
                NIL => self.lists.get_mut(watch.list).last = watch.previous,
                next => self.watches.get_mut(next).previous = watch.previous,
            }
            self.drop_if_empty(watch.list);
            at = watch.sibling;
        }
        waiter.data
    }

    fn drop_if_empty(&mut self, list: u32) {
        if self.lists.get(list).first == NIL {
            let list = self.lists.take(list);
            self.by_key.remove(&list.key);
        }
    }
}

/// Values at stable indices; freed places are used again, the last freed first.
#[derive(Debug)]
struct Table<V> {
    places: Vec<Option<V>>,
    free: Vec<u32>,
    len: usize,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { places: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<V> Table<V> {
    fn insert(&mut self, value: V) -> u32 {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            self.places[index as usize] = Some(value);
            return index;
        }
        self.places.push(Some(value));
        (self.places.len() - 1) as u32
    }

    fn try_get(&self, index: u32) -> Option<&V> {
        self.places.get(index as usize)?.as_ref()
    }

    fn get(&self, index: u32) -> &V {
        self.try_get(index).unwrap_or_else(|| panic!("place {index} is empty"))
    }

    fn get_mut(&mut self, index: u32) -> &mut V {
        self.places[index as usize].as_mut().unwrap_or_else(|| panic!("place {index} is empty"))
    }

    fn take(&mut self, index: u32) -> V {
        let value = self.places[index as usize].take().unwrap_or_else(|| panic!("place {index} is empty"));
        self.free.push(index);
        self.len -= 1;
        value
    }
}

#[cfg(test)]
mod tests;
