//! Blocking work off the cores: start-up, name resolution, directory listings. Never on a request path.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::percore::{self, Backend};

/// Jobs one core has given to helper threads at a time; more wait for their turn on the core. Listing many directories at
/// once gains nothing past this.
pub(crate) const UNBLOCK_JOBS_MAX: usize = 16;

/// Helper threads of the process. Two, so that one long job does not hold up everyone.
const HELPERS_MAX: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Helpers {
    /// Bounded by `UNBLOCK_JOBS_MAX` times the number of cores.
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static HELPERS: Mutex<Helpers> = Mutex::new(Helpers { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

fn run_helper() {
    let mut helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match helpers.jobs.pop_front() {
            Some(job) => {
                drop(helpers);
                job();
                helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
            }
            None => {
                helpers.idle += 1;
                helpers = WORK.wait(helpers).unwrap_or_else(PoisonError::into_inner);
                helpers.idle -= 1;
            }
        }
    }
}

fn enqueue(job: Job) {
    let mut helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
    helpers.jobs.push_back(job);
    if helpers.idle < helpers.jobs.len() && helpers.threads < HELPERS_MAX {
        match std::thread::Builder::new().name("helper".into()).spawn(run_helper) {
            Ok(_) => helpers.threads += 1,
            Err(error) => assert!(helpers.threads > 0, "no helper thread can be started: {error}"),
        }
    }
    WORK.notify_one();
}

struct Outcome<T> {
    value: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

struct Waiting<T>(Arc<Mutex<Outcome<T>>>);

impl<T> Future for Waiting<T> {
    type Output = std::thread::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                outcome.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Runs blocking work on a helper thread and gives its result; inline under simulation. The work runs to its end even when
/// the future is dropped. A panic in it continues here.
pub async fn unblock<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let core = percore::current();
    if matches!(core.backend, Backend::Sim(_)) {
        return work();
    }
    let _slot = core.unblock_slots.acquire().await;
    let outcome = Arc::new(Mutex::new(Outcome { value: None, waker: None }));
    let theirs = Arc::clone(&outcome);
    enqueue(Box::new(move || {
        let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let waker = {
            let mut outcome = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.value = Some(value);
            outcome.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }));
    match Waiting(outcome).await {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
