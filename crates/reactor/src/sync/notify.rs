//! A wake-up without a value.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::waiters::Waiters;

/// Wakes tasks that wait for something to change. One permit is kept when nobody waits, so that a notification just before
/// the wait is not lost; many notifications in between count as one.
#[derive(Default)]
pub struct Notify {
    permit: Cell<bool>,
    waiters: RefCell<Waiters>,
}

impl Notify {
    /// Nothing notified yet.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the longest waiting task, or leaves a permit for the next one.
    pub fn notify_one(&self) {
        let waker = self.waiters.borrow_mut().pop();
        match waker {
            Some(waker) => waker.wake(),
            None => self.permit.set(true),
        }
    }

    /// Wakes all that wait now; leaves no permit.
    pub fn notify_all(&self) {
        let wakers = self.waiters.borrow_mut().take_all();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Waits for a notification, or takes the permit. Waiting begins with the call: a `notify_all` between the call and
    /// the first poll counts.
    pub fn notified(&self) -> Notified<'_> {
        // A waker that does nothing holds the place in line until the first poll.
        let ticket = if self.permit.get() {
            None
        } else {
            Some(self.waiters.borrow_mut().join(std::task::Waker::noop().clone()))
        };
        Notified { notify: self, ticket, done: false }
    }
}

/// Future of [`Notify::notified`].
pub struct Notified<'a> {
    notify: &'a Notify,
    ticket: Option<u64>,
    done: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        match self.ticket {
            Some(ticket) if notify.waiters.borrow_mut().renew(ticket, cx.waker()) => Poll::Pending,
            Some(_) => {
                self.done = true;
                Poll::Ready(())
            }
            None if notify.permit.take() => {
                self.done = true;
                Poll::Ready(())
            }
            None => {
                self.ticket = Some(notify.waiters.borrow_mut().join(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && !self.notify.waiters.borrow_mut().leave(ticket)
            && !self.done
        {
            // Notified but never told: somebody else gets it.
            self.notify.notify_one();
        }
    }
}
