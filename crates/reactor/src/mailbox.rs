//! Bounded mailboxes between cores: one single-producer single-consumer lane per pair of cores, a core to itself included.
//!
//! A message is written into the lane, and the receiving core is woken (MSG_RING) only if it is parked. Order is kept per
//! pair, also when a poster had to wait for room.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use base::CoreId;

use crate::percore::{self, Core, MailWakers};
use crate::shared::{CoreShared, SIGNAL_MAIL};

/// The lane holds as many messages as its capacity; the message comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full<M>(pub M);

/// A counter on a cache line of its own (two, because processors prefetch pairs).
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

/// One end's count of messages, and what it last saw of the other end's: as long as that tells of room, or of messages, the
/// line that the other core writes to stays there.
#[derive(Default)]
struct End {
    count: AtomicUsize,
    seen: AtomicUsize,
}

/// One direction between two cores.
struct Lane<M> {
    slots: Box<[UnsafeCell<MaybeUninit<M>>]>,
    /// Messages taken so far; written by the receiving core.
    head: Padded<End>,
    /// Messages put so far; written by the posting core.
    tail: Padded<End>,
    /// A poster waits for room.
    starved: Padded<AtomicBool>,
    /// The receiving port is gone: messages are dropped.
    closed: AtomicBool,
}

// SAFETY: a slot is touched by the poster only before `tail` passes it and by the receiver only after, and the two ends are
// each used by one port, whose methods check that they run on the port's core.
unsafe impl<M: Send> Sync for Lane<M> {}
// SAFETY: the messages in the slots are the only data that is not plain.
unsafe impl<M: Send> Send for Lane<M> {}

impl<M> Lane<M> {
    fn new(capacity: usize) -> Lane<M> {
        Lane {
            slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            head: Padded::default(),
            tail: Padded::default(),
            starved: Padded::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Only for the posting end.
    fn push(&self, message: M) -> Result<(), M> {
        let own = &self.tail.0;
        let tail = own.count.load(Ordering::Relaxed);
        if tail.wrapping_sub(own.seen.load(Ordering::Relaxed)) == self.slots.len() {
            let head = self.head.0.count.load(Ordering::Acquire);
            own.seen.store(head, Ordering::Relaxed);
            if tail.wrapping_sub(head) == self.slots.len() {
                return Err(message);
            }
        }
        // SAFETY: the slot is free: the receiver has passed it (acquired above, now or before) and only this end writes slots.
        unsafe { (*self.slots[tail % self.slots.len()].get()).write(message) };
        own.count.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Only for the receiving end.
    fn pop(&self) -> Option<M> {
        let own = &self.head.0;
        let head = own.count.load(Ordering::Relaxed);
        if head == own.seen.load(Ordering::Relaxed) {
            let tail = self.tail.0.count.load(Ordering::Acquire);
            own.seen.store(tail, Ordering::Relaxed);
            if head == tail {
                return None;
            }
        }
        // SAFETY: the slot was filled (acquired above, now or before) and is read once: `head` moves past it.
        let message = unsafe { (*self.slots[head % self.slots.len()].get()).assume_init_read() };
        own.count.store(head.wrapping_add(1), Ordering::Release);
        Some(message)
    }
}

impl<M> Drop for Lane<M> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

struct Mesh<M> {
    cores: usize,
    /// From `i` to `j` at `i * cores + j`.
    lanes: Vec<Lane<M>>,
    /// The core each port is used on, known from its first use.
    homes: Vec<OnceLock<Arc<CoreShared>>>,
}

impl<M> Mesh<M> {
    fn lane(&self, from: usize, to: usize) -> &Lane<M> {
        &self.lanes[from * self.cores + to]
    }
}

/// Messages of one lane that wait for room, in the order of their posting.
#[derive(Default)]
struct Line {
    next_ticket: u64,
    waiting: VecDeque<u64>,
}

/// One core's end of a mesh. It may be sent to its core; from its first use on it belongs there.
pub struct Port<M> {
    mesh: Arc<Mesh<M>>,
    me: usize,
    /// Slot of the core's wakers and the core it belongs to.
    bound: Cell<Option<(usize, u16)>>,
    lines: RefCell<Vec<Line>>,
    /// Lane that is looked at first by the next receive, so that no core starves the others.
    cursor: Cell<usize>,
}

/// A mesh of `cores` ports, each pair of which (and each port with itself) is connected by two lanes of `capacity` messages.
pub fn mesh<M: Send>(cores: usize, capacity: usize) -> Vec<Port<M>> {
    assert!(cores > 0 && capacity > 0, "a mesh of {cores} cores with lanes of {capacity} carries nothing");
    let mesh = Arc::new(Mesh {
        cores,
        lanes: (0..cores * cores).map(|_| Lane::new(capacity)).collect(),
        homes: (0..cores).map(|_| OnceLock::new()).collect(),
    });
    (0..cores)
        .map(|me| Port {
            mesh: Arc::clone(&mesh),
            me,
            bound: Cell::new(None),
            lines: RefCell::new((0..cores).map(|_| Line::default()).collect()),
            cursor: Cell::new(0),
        })
        .collect()
}

impl<M: Send> Port<M> {
    /// The position of this port in the mesh.
    pub fn id(&self) -> CoreId {
        CoreId(self.me as u16)
    }

    /// Number of ports in the mesh.
    pub fn cores(&self) -> usize {
        self.mesh.cores
    }

    /// The slot of this port's wakers. Binds the port to the current core at the first use.
    #[track_caller]
    fn bind(&self, core: &Core) -> usize {
        match self.bound.get() {
            Some((slot, home)) => {
                assert_eq!(home, core.shared.slot(), "port {} is used on another core than before", self.me);
                slot
            }
            None => {
                let slot = core.mail.borrow_mut().insert(MailWakers::default());
                self.bound.set(Some((slot, core.shared.slot())));
                let home = self.mesh.homes[self.me].set(Arc::clone(&core.shared));
                assert!(home.is_ok(), "port {} was bound before", self.me);
                // Pairs with the fence in `push_and_signal`: a poster that did not see the home is seen by the next scan.
                fence(Ordering::SeqCst);
                slot
            }
        }
    }

    fn push_and_signal(&self, to: usize, message: M) -> Result<(), M> {
        let lane = self.mesh.lane(self.me, to);
        if lane.closed.load(Ordering::Relaxed) {
            drop(message);
            return Ok(());
        }
        lane.push(message)?;
        fence(Ordering::SeqCst);
        if let Some(home) = self.mesh.homes[to].get() {
            home.signal(SIGNAL_MAIL);
        }
        Ok(())
    }

    /// Posts a message to `to` if its lane has room and nobody waits for room before. A message to a core whose port is
    /// gone is dropped.
    ///
    /// # Errors
    /// [`Full`] with the message.
    pub fn try_post(&self, to: CoreId, message: M) -> Result<(), Full<M>> {
        self.bind(&percore::current());
        if !self.lines.borrow()[to.index()].waiting.is_empty() {
            return Err(Full(message));
        }
        self.push_and_signal(to.index(), message).map_err(Full)
    }

    /// Posts a message to `to`, waiting for room if need be. The place in the order is taken by this call, not by the first
    /// poll; a future that is dropped while it waits takes its message with it.
    pub fn post(&self, to: CoreId, message: M) -> Post<'_, M> {
        let state = match self.try_post(to, message) {
            Ok(()) => None,
            Err(Full(message)) => {
                let line = &mut self.lines.borrow_mut()[to.index()];
                line.next_ticket += 1;
                line.waiting.push_back(line.next_ticket);
                Some((line.next_ticket, message))
            }
        };
        Post { port: self, to: to.index(), state }
    }

    /// Receives the next message and who posted it. One task of a core receives from a port.
    pub async fn recv(&self) -> (CoreId, M) {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next message if one is there.
    pub fn try_recv(&self) -> Option<(CoreId, M)> {
        self.bind(&percore::current());
        self.scan()
    }

    /// As [`Port::recv`], for hand-written futures.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<(CoreId, M)> {
        let core = percore::current();
        let slot = self.bind(&core);
        if let Some(received) = self.scan() {
            return Poll::Ready(received);
        }
        // The waker is there before the lanes are looked at again: a message that comes in between wakes it.
        core.mail.borrow_mut()[slot].receiver = Some(cx.waker().clone());
        match self.scan() {
            Some(received) => Poll::Ready(received),
            None => Poll::Pending,
        }
    }

    fn scan(&self) -> Option<(CoreId, M)> {
        let start = self.cursor.get();
        for step in 0..self.mesh.cores {
            let from = (start + step) % self.mesh.cores;
            let lane = self.mesh.lane(from, self.me);
            if let Some(message) = lane.pop() {
                self.cursor.set((from + 1) % self.mesh.cores);
                fence(Ordering::SeqCst);
                if lane.starved.0.load(Ordering::Relaxed)
                    && lane.starved.0.swap(false, Ordering::SeqCst)
                    && let Some(home) = self.mesh.homes[from].get()
                {
                    home.signal(SIGNAL_MAIL);
                }
                return Some((CoreId(from as u16), message));
            }
        }
        None
    }
}

impl<M> Drop for Port<M> {
    fn drop(&mut self) {
        for from in 0..self.mesh.cores {
            let lane = self.mesh.lane(from, self.me);
            lane.closed.store(true, Ordering::SeqCst);
            // Pairs with the fence in `bind`: a poster whose home is not seen below sees the lane closed.
            fence(Ordering::SeqCst);
            // Messages that nobody will receive; what a racing poster still puts in goes with the mesh.
            while lane.pop().is_some() {}
            if let Some(home) = self.mesh.homes[from].get() {
                home.signal(SIGNAL_MAIL);
            }
        }
        if let (Some((slot, home)), Some(core)) = (self.bound.get(), percore::try_current())
            && core.shared.slot() == home
        {
            let wakers = core.mail.borrow_mut().try_remove(slot);
            drop(wakers);
        }
    }
}

/// Future of [`Port::post`]; done at once when there was room.
#[must_use = "a message that had to wait is posted only while this future is awaited"]
pub struct Post<'a, M: Send> {
    port: &'a Port<M>,
    to: usize,
    /// Ticket and message, while it waits.
    state: Option<(u64, M)>,
}

// The message is moved only while the future is not polled elsewhere; nothing is pinned.
impl<M: Send> Unpin for Post<'_, M> {}

impl<M: Send> Future for Post<'_, M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some((ticket, message)) = self.state.take() else { return Poll::Ready(()) };
        let (port, to) = (self.port, self.to);
        let core = percore::current();
        let slot = port.bind(&core);
        {
            let mut mail = core.mail.borrow_mut();
            let posters = &mut mail[slot].posters;
            if !posters.iter().any(|waker| waker.will_wake(cx.waker())) {
                posters.push(cx.waker().clone());
            }
        }
        let lane = port.mesh.lane(port.me, to);
        // Said before the lane is looked at: room made in between wakes this core.
        lane.starved.0.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let first = port.lines.borrow()[to].waiting.front() == Some(&ticket);
        if !first {
            self.state = Some((ticket, message));
            return Poll::Pending;
        }
        match port.push_and_signal(to, message) {
            Err(message) => {
                self.state = Some((ticket, message));
                Poll::Pending
            }
            Ok(()) => {
                port.leave_line(to, ticket);
                Poll::Ready(())
            }
        }
    }
}

impl<M: Send> Port<M> {
    /// Ends a wait; the next in line is asked to try.
    fn leave_line(&self, to: usize, ticket: u64) {
        let others = {
            let line = &mut self.lines.borrow_mut()[to];
            line.waiting.retain(|waiting| *waiting != ticket);
            !line.waiting.is_empty()
        };
        if others && let Some(home) = self.mesh.homes[self.me].get() {
            home.signal(SIGNAL_MAIL);
        }
    }
}

impl<M: Send> Drop for Post<'_, M> {
    fn drop(&mut self) {
        if let Some((ticket, message)) = self.state.take() {
            self.port.leave_line(self.to, ticket);
            drop(message);
        }
    }
}
