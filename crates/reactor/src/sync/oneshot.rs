//! One value from one task to another of the same core.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct State<T> {
    value: Option<T>,
    receiver: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// The sending half.
pub struct Sender<T>(Rc<RefCell<State<T>>>);

/// The receiving half: a future of the value.
pub struct Receiver<T>(Rc<RefCell<State<T>>>);

/// The sender was dropped without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Canceled;

impl std::fmt::Display for Canceled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the sender is gone without having sent")
    }
}

impl std::error::Error for Canceled {}

/// A connected pair.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(State { value: None, receiver: None, sender_gone: false, receiver_gone: false }));
    (Sender(Rc::clone(&state)), Receiver(state))
}

impl<T> Sender<T> {
    /// Sends the value.
    ///
    /// # Errors
    /// The value, when the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = self.0.borrow_mut();
        if state.receiver_gone {
            return Err(value);
        }
        state.value = Some(value);
        Ok(())
    }

    /// True when nobody will receive the value any more.
    pub fn is_closed(&self) -> bool {
        self.0.borrow().receiver_gone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.borrow_mut();
            state.sender_gone = true;
            state.receiver.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The value, if it is there.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.borrow_mut().value.take()
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Canceled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.borrow_mut();
        if let Some(value) = state.value.take() {
            return Poll::Ready(Ok(value));
        }
        if state.sender_gone {
            return Poll::Ready(Err(Canceled));
        }
        state.receiver = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let value = {
            let mut state = self.0.borrow_mut();
            state.receiver_gone = true;
            state.value.take()
        };
        drop(value);
    }
}
