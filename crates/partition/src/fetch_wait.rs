use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use base::PartitionKey;
use purgatory::{Limits, Purgatory, Token};
use reactor::sync::Notify;
use replica::Isolation;

use crate::bytes_ahead::BytesAhead;
use crate::partition::{Partition, State};

/// Where a read ended, as far as a wait that follows it has to know: how many bytes there were for it and how many
/// readers of its isolation had been able to see by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchMark {
    isolation: Isolation,
    readable: u64,
    total: u64,
}

impl Default for FetchMark {
    fn default() -> FetchMark {
        FetchMark { isolation: Isolation::ReadUncommitted, readable: 0, total: 0 }
    }
}

impl FetchMark {
    pub(crate) fn new(partition: &Partition, isolation: Isolation, readable: u64) -> FetchMark {
        FetchMark { isolation, readable, total: partition.0.bytes.borrow().total(isolation) }
    }

    /// Bytes that are there for a reader that takes at most `max_bytes` from this partition: what counts towards
    /// `min_bytes` of the fetch.
    pub fn readable(&self, max_bytes: u64) -> u64 {
        self.readable.min(max_bytes)
    }

    /// Bytes a reader could get now, at most `max_bytes`.
    fn gathered(&self, bytes: &BytesAhead, max_bytes: u64) -> u64 {
        let gained = bytes.total(self.isolation).saturating_sub(self.total);
        self.readable.saturating_add(gained).min(max_bytes)
    }
}

/// One partition of a wait.
#[derive(Clone, Debug)]
pub struct WaitOn {
    /// The partition.
    pub partition: Partition,
    /// The read that came up short.
    pub mark: FetchMark,
    /// More bytes than this the reader does not take from this partition (`partition_max_bytes`).
    pub max_bytes: u64,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// This many bytes are there, as many as were wanted or as the partitions' limits allow.
    Bytes(u64),
    /// A partition changed its leader, failed or went away: the final read tells.
    Changed,
}

/// Bounds of the fetches that wait on one core: more than the connections it will have, and a gigabyte's tenth of
/// memory when all of them watch many partitions. A fetch beyond is not refused, it just waits for its deadline
/// unwoken.
const LIMITS: Limits = Limits { waiters_max: 1 << 16, watches_max: 1 << 20 };

/// The fetches that wait on one core.
pub(crate) struct FetchWaits {
    waits: RefCell<Waits>,
    /// Tells the task that watches the deadlines of an earlier one.
    earlier_deadline: Notify,
}

struct Waits {
    purgatory: Purgatory<PartitionKey, Waiter>,
    /// The deadline for which that task sleeps.
    armed_ns: u64,
    woken: Vec<Token>,
}

/// What a waiting fetch has gathered.
struct Waiter {
    wanted: u64,
    gathered: u64,
    changed: bool,
    /// Sorted by key.
    watched: Vec<Watched>,
    waker: Option<Waker>,
}

struct Watched {
    key: PartitionKey,
    mark: FetchMark,
    max_bytes: u64,
    /// What this partition has contributed so far.
    counted: u64,
}

impl Waiter {
    fn new(waits: &[WaitOn], min_bytes: u64) -> Waiter {
        // Where no partition may give more, waiting for more is of no use.
        let most = waits.iter().map(|w| w.max_bytes).fold(0, u64::saturating_add);
        let mut waiter =
            Waiter { wanted: min_bytes.min(most), gathered: 0, changed: false, watched: Vec::new(), waker: None };
        for wait in waits {
            let inner = &wait.partition.0;
            if inner.state.get() != State::Online || !wait.partition.is_leader() {
                waiter.changed = true;
            }
            // Bytes may have come between the read and now.
            let counted = wait.mark.gathered(&inner.bytes.borrow(), wait.max_bytes);
            waiter.gathered = waiter.gathered.saturating_add(counted);
            let (key, mark, max_bytes) = (wait.partition.key(), wait.mark, wait.max_bytes);
            waiter.watched.push(Watched { key, mark, max_bytes, counted });
        }
        waiter.watched.sort_unstable_by_key(|w| w.key);
        waiter
    }

    fn outcome(&self) -> Option<Woken> {
        if self.changed {
            return Some(Woken::Changed);
        }
        (self.gathered >= self.wanted).then_some(Woken::Bytes(self.gathered))
    }

    fn progressed(&mut self, key: PartitionKey, bytes: &BytesAhead) {
        let Ok(at) = self.watched.binary_search_by_key(&key, |w| w.key) else { return };
        let watched = &mut self.watched[at];
        let now = watched.mark.gathered(bytes, watched.max_bytes);
        self.gathered = self.gathered.saturating_add(now.saturating_sub(watched.counted));
        watched.counted = watched.counted.max(now);
    }
}

impl FetchWaits {
    /// Nobody waits yet.
    pub(crate) fn new() -> FetchWaits {
        let waits = Waits { purgatory: Purgatory::new(LIMITS), armed_ns: u64::MAX, woken: Vec::new() };
        FetchWaits { waits: RefCell::new(waits), earlier_deadline: Notify::new() }
    }

    /// Readers of partition `key` can see more bytes.
    pub(crate) fn progressed(&self, key: PartitionKey, bytes: &BytesAhead) {
        self.look_again(key, |waiter| waiter.progressed(key, bytes));
    }

    /// For partition `key`, waiting makes no more sense.
    pub(crate) fn changed(&self, key: PartitionKey) {
        self.look_again(key, |waiter| waiter.changed = true);
    }

    fn look_again(&self, key: PartitionKey, change: impl Fn(&mut Waiter)) {
        let waits = &mut *self.waits.borrow_mut();
        if waits.purgatory.is_empty() {
            return;
        }
        waits.purgatory.wake(&key, &mut waits.woken);
        for token in waits.woken.drain(..) {
            let Some(waiter) = waits.purgatory.get_mut(token) else { continue };
            change(waiter);
            if waiter.outcome().is_some()
                && let Some(waker) = waiter.waker.take()
            {
                waker.wake();
            }
        }
    }

    fn expire(&self, now: base::Now) {
        let mut expired = Vec::new();
        self.waits.borrow_mut().purgatory.expire(now, &mut expired);
        for waker in expired.into_iter().filter_map(|(_, waiter): (Token, Waiter)| waiter.waker) {
            waker.wake();
        }
    }

    /// Starts the task that ends waits at their deadlines.
    pub(crate) fn start(self: &Rc<Self>) -> reactor::Task<()> {
        reactor::spawn(reactor::Class::Normal, watch_deadlines(self.clone()))
    }
}

async fn watch_deadlines(waits: Rc<FetchWaits>) {
    loop {
        waits.expire(reactor::now());
        let next = waits.waits.borrow().purgatory.next_deadline_ns().unwrap_or(u64::MAX);
        waits.waits.borrow_mut().armed_ns = next;
        let earlier = waits.earlier_deadline.notified();
        reactor::race(earlier, reactor::sleep_until(next)).await;
    }
}

/// A fetch that waits on this core; made by [`crate::PartitionCore::wait_for_bytes`]. Resolves to `None` at the
/// deadline. Dropping it ends the wait.
#[must_use = "futures do nothing unless awaited"]
pub struct FetchWait {
    waits: Rc<FetchWaits>,
    place: Place,
}

enum Place {
    /// Over before it began.
    Done(Woken),
    /// In the purgatory.
    Waiting(Token),
    /// No room there.
    Unwoken(reactor::Sleep),
}

impl FetchWait {
    pub(crate) fn new(waits: &Rc<FetchWaits>, min_bytes: u64, on: &[WaitOn], deadline_mono_ns: u64) -> FetchWait {
        let waiter = Waiter::new(on, min_bytes);
        let place = match waiter.outcome() {
            Some(woken) => Place::Done(woken),
            None => waits.register(waiter, deadline_mono_ns),
        };
        FetchWait { waits: waits.clone(), place }
    }
}

impl FetchWaits {
    fn register(&self, waiter: Waiter, deadline_ns: u64) -> Place {
        let waits = &mut *self.waits.borrow_mut();
        let keys: Vec<PartitionKey> = waiter.watched.iter().map(|w| w.key).collect();
        let Ok(token) = waits.purgatory.register(keys, deadline_ns, waiter) else {
            return Place::Unwoken(reactor::sleep_until(deadline_ns));
        };
        if deadline_ns < waits.armed_ns {
            waits.armed_ns = deadline_ns;
            self.earlier_deadline.notify_one();
        }
        Place::Waiting(token)
    }
}

impl Future for FetchWait {
    type Output = Option<Woken>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Woken>> {
        let this = &mut *self;
        let token = match &mut this.place {
            Place::Done(woken) => return Poll::Ready(Some(*woken)),
            Place::Unwoken(deadline) => return Pin::new(deadline).poll(context).map(|()| None),
            Place::Waiting(token) => *token,
        };
        let waits = &mut *this.waits.waits.borrow_mut();
        // Not there any more: its deadline came.
        let Some(waiter) = waits.purgatory.get_mut(token) else { return Poll::Ready(None) };
        if let Some(woken) = waiter.outcome() {
            return Poll::Ready(Some(woken));
        }
        waiter.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for FetchWait {
    fn drop(&mut self) {
        if let Place::Waiting(token) = self.place {
            self.waits.waits.borrow_mut().purgatory.cancel(token);
        }
    }
}
