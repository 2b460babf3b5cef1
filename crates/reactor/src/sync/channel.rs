//! A bounded queue between tasks of one core.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::semaphore::Semaphore;

struct State<T> {
    queue: VecDeque<T>,
    receiver: Option<Waker>,
    senders: usize,
    receiver_gone: bool,
}

struct Shared<T> {
    state: RefCell<State<T>>,
    /// Free places; senders wait for them in order.
    room: Semaphore,
}

/// The sending half; cheap to clone.
pub struct Sender<T>(Rc<Shared<T>>);

/// The receiving half.
pub struct Receiver<T>(Rc<Shared<T>>);

/// The receiver is gone; the value comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed<T>(pub T);

/// Why a value was not taken at once; it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrySendError<T> {
    /// The channel holds as many values as its bound, or others wait before this one.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// A channel that holds at most `bound` values.
pub fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    assert!(bound > 0, "a channel of bound 0 can never hold anything");
    let state = State { queue: VecDeque::new(), receiver: None, senders: 1, receiver_gone: false };
    let shared = Rc::new(Shared { state: RefCell::new(state), room: Semaphore::new(bound) });
    (Sender(Rc::clone(&shared)), Receiver(shared))
}

impl<T> Shared<T> {
    /// Puts a value in; its place was taken from `room`.
    fn push(&self, value: T) -> Result<(), T> {
        let waker = {
            let mut state = self.state.borrow_mut();
            if state.receiver_gone {
                return Err(value);
            }
            state.queue.push_back(value);
            state.receiver.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl<T> Sender<T> {
    /// Sends a value, waiting for room.
    ///
    /// # Errors
    /// [`Closed`] with the value when the receiver is gone.
    pub async fn send(&self, value: T) -> Result<(), Closed<T>> {
        let place = self.0.room.acquire().await;
        // The place goes back when the value is received.
        self.0.push(value).map(|()| place.forget()).map_err(Closed)
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// [`TrySendError`] with the value.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.is_closed() {
            return Err(TrySendError::Closed(value));
        }
        match self.0.room.try_acquire_many(1) {
            None => Err(TrySendError::Full(value)),
            Some(place) => self.0.push(value).map(|()| place.forget()).map_err(TrySendError::Closed),
        }
    }

    /// True when the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.0.state.borrow().receiver_gone
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.state.borrow_mut().senders += 1;
        Sender(Rc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.state.borrow_mut();
            state.senders -= 1;
            if state.senders == 0 { state.receiver.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next value; `None` when all senders are gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`Receiver::recv`], for hand-written futures.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.try_recv() {
            return Poll::Ready(Some(value));
        }
        let mut state = self.0.state.borrow_mut();
        if state.senders == 0 {
            return Poll::Ready(None);
        }
        state.receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next value if one is there.
    pub fn try_recv(&mut self) -> Option<T> {
        let value = self.0.state.borrow_mut().queue.pop_front()?;
        self.0.room.add(1);
        Some(value)
    }

    /// Values that wait to be received.
    pub fn len(&self) -> usize {
        self.0.state.borrow().queue.len()
    }

    /// True when no value waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state.borrow_mut();
            state.receiver_gone = true;
            std::mem::take(&mut state.queue)
        };
        // Waiting senders find the channel closed, one place at a time.
        self.0.room.add(left.len().max(1));
    }
}
