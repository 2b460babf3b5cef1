//! Timers of one core: an ordered map with exact removal. The reactor waits for the earliest one with the timeout of its
//! ring wait, so that any number of timers cost one.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::percore::{self, Core};

/// Deadline in monotonic nanoseconds, then the order of creation.
type Key = (u64, u64);

#[derive(Default)]
pub(crate) struct Timers {
    waiting: BTreeMap<Key, Waker>,
    created: u64,
}

impl Timers {
    fn insert(&mut self, deadline_ns: u64, waker: Waker) -> Key {
        self.created += 1;
        let key = (deadline_ns, self.created);
        self.waiting.insert(key, waker);
        key
    }

    /// The waker of a due timer.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Waker> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(key, _)| key.0)
    }
}

/// Resolves at a moment; made by [`sleep`] and [`sleep_until`].
pub struct Sleep {
    core: Rc<Core>,
    deadline_ns: u64,
    key: Option<Key>,
    /// It was over before it began, and its task has let others have their turn.
    yielded: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let core = Rc::clone(&self.core);
        match self.key {
            Some(key) => {
                if let Some(waker) = core.timers.borrow_mut().waiting.get_mut(&key) {
                    waker.clone_from(cx.waker());
                    return Poll::Pending;
                }
                Poll::Ready(())
            }
            None if self.yielded => Poll::Ready(()),
            // Time stands still within a poll. A task that finds something due, sleeps until a moment that is over and looks
            // again would go round for ever at the same moment: so every sleep ends the poll, and the task finds a later time.
            None if core.now().mono_ns >= self.deadline_ns => {
                self.yielded = true;
                core.forget_moment();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                let key = core.timers.borrow_mut().insert(self.deadline_ns, cx.waker().clone());
                self.key = Some(key);
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.core.timers.borrow_mut().waiting.remove(&key);
            drop(waker);
        }
    }
}

/// Waits at least `duration` from the moment of the call. Other tasks have their turn in any case.
pub fn sleep(duration: Duration) -> Sleep {
    let core = percore::current();
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = core.mono_ns().saturating_add(nanos);
    Sleep { core, deadline_ns, key: None, yielded: false }
}

/// Waits until the core's monotonic clock shows `mono_ns`. Other tasks have their turn in any case, and the time that
/// [`crate::now`] tells afterwards is a new one.
pub fn sleep_until(mono_ns: u64) -> Sleep {
    Sleep { core: percore::current(), deadline_ns: mono_ns, key: None, yielded: false }
}

/// The time given to [`timeout`] was over first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time given to the operation is over")
    }
}

impl std::error::Error for Elapsed {}

/// Runs `future` for at most `duration`; past it the future is dropped.
///
/// # Errors
/// [`Elapsed`] when the time was over first.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut deadline = pin!(sleep(duration));
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        deadline.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}
