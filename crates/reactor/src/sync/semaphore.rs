//! Counted permits, for budgets of bytes or of work.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Waiting {
    ticket: u64,
    wanted: usize,
    waker: Waker,
}

struct State {
    available: Cell<usize>,
    tickets: Cell<u64>,
    line: RefCell<VecDeque<Waiting>>,
    /// Tickets that were served and not picked up yet: their permits are already taken from `available`.
    granted: RefCell<Vec<(u64, usize)>>,
}

/// Counted permits, given in order of asking: a large request is not overtaken by small ones. Cheap to clone.
#[derive(Clone)]
pub struct Semaphore(Rc<State>);

impl Semaphore {
    /// A semaphore with this many permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore(Rc::new(State {
            available: Cell::new(permits),
            tickets: Cell::new(0),
            line: RefCell::new(VecDeque::new()),
            granted: RefCell::new(Vec::new()),
        }))
    }

    /// Permits that are free now.
    pub fn available(&self) -> usize {
        self.0.available.get()
    }

    /// Takes one permit, waiting for it.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Takes `count` permits at once, waiting in line for them.
    pub fn acquire_many(&self, count: usize) -> Acquire {
        Acquire { semaphore: self.clone(), wanted: count, ticket: None }
    }

    /// Takes `count` permits if they are free and nobody waits.
    pub fn try_acquire_many(&self, count: usize) -> Option<Permit> {
        let free = self.0.available.get();
        if free < count || !self.0.line.borrow().is_empty() {
            return None;
        }
        self.0.available.set(free - count);
        Some(Permit { semaphore: self.clone(), count })
    }

    /// Adds permits: a budget that grew.
    pub fn add(&self, count: usize) {
        self.0.available.set(self.0.available.get() + count);
        self.serve();
    }

    /// Serves the line from its head as far as the permits go.
    fn serve(&self) {
        loop {
            let waker = {
                let mut line = self.0.line.borrow_mut();
                let Some(first) = line.front() else { return };
                let free = self.0.available.get();
                if first.wanted > free {
                    return;
                }
                self.0.available.set(free - first.wanted);
                let first = line.pop_front().expect("the head was just looked at");
                self.0.granted.borrow_mut().push((first.ticket, first.wanted));
                first.waker
            };
            waker.wake();
        }
    }

    fn take_grant(&self, ticket: u64) -> Option<usize> {
        let mut granted = self.0.granted.borrow_mut();
        let at = granted.iter().position(|(t, _)| *t == ticket)?;
        Some(granted.swap_remove(at).1)
    }
}

/// Future of [`Semaphore::acquire`].
pub struct Acquire {
    semaphore: Semaphore,
    wanted: usize,
    ticket: Option<u64>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let semaphore = self.semaphore.clone();
        let Some(ticket) = self.ticket else {
            if let Some(permit) = semaphore.try_acquire_many(self.wanted) {
                return Poll::Ready(permit);
            }
            let ticket = semaphore.0.tickets.get() + 1;
            semaphore.0.tickets.set(ticket);
            let waiting = Waiting { ticket, wanted: self.wanted, waker: cx.waker().clone() };
            semaphore.0.line.borrow_mut().push_back(waiting);
            self.ticket = Some(ticket);
            return Poll::Pending;
        };
        if let Some(count) = semaphore.take_grant(ticket) {
            self.ticket = None;
            return Poll::Ready(Permit { semaphore, count });
        }
        let mut line = semaphore.0.line.borrow_mut();
        let mine = line.iter_mut().find(|waiting| waiting.ticket == ticket);
        mine.expect("a ticket that was not served is in the line").waker.clone_from(cx.waker());
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        match self.semaphore.take_grant(ticket) {
            Some(count) => self.semaphore.add(count),
            None => {
                self.semaphore.0.line.borrow_mut().retain(|waiting| waiting.ticket != ticket);
                // The head may have been the one that blocked the line.
                self.semaphore.serve();
            }
        }
    }
}

/// Permits in use; they go back when dropped.
pub struct Permit {
    semaphore: Semaphore,
    count: usize,
}

impl Permit {
    /// How many permits this is.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives a part back early; at most what there is.
    pub fn release(&mut self, count: usize) {
        let count = count.min(self.count);
        self.count -= count;
        self.semaphore.add(count);
    }

    /// Keeps the permits out of the semaphore for good (until [`Semaphore::add`]).
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.semaphore.add(self.count);
        }
    }
}
