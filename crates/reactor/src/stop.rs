//! Asking all cores of a runtime to stop.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use crate::disk_use::DiskUse;
use crate::percore;
use crate::shared::{CoreShared, SIGNAL_STOP};

/// What the cores of a runtime share.
#[derive(Default)]
pub(crate) struct RuntimeShared {
    stopping: AtomicBool,
    pub disk: DiskUse,
    cores: OnceLock<Vec<Arc<CoreShared>>>,
}

impl RuntimeShared {
    pub fn new() -> Arc<RuntimeShared> {
        Arc::new(RuntimeShared::default())
    }

    /// Names the cores that a stop wakes. Called once, before any of them runs.
    pub fn set_cores(&self, cores: Vec<Arc<CoreShared>>) {
        assert!(self.cores.set(cores).is_ok(), "the cores of a runtime are named once");
    }

    /// In the order of their ids.
    pub fn cores(&self) -> &[Arc<CoreShared>] {
        self.cores.get().map_or(&[], Vec::as_slice)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for core in self.cores() {
            core.signal_from_handler(SIGNAL_STOP);
        }
    }
}

/// Asks a runtime to stop, from any thread and from signal handlers.
#[derive(Clone)]
pub struct StopHandle(pub(crate) Arc<RuntimeShared>);

/// What the handler of termination signals stops. One runtime per process can be stopped that way.
static SIGNALLED: OnceLock<StopHandle> = OnceLock::new();

extern "C" fn on_signal(_signal: libc::c_int) {
    if let Some(handle) = SIGNALLED.get() {
        handle.stop();
    }
}

impl StopHandle {
    /// Makes [`stopping`] resolve on all cores. What follows is up to the tasks there: cores run on until their main
    /// futures are done.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// True once a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    /// Lets SIGTERM and SIGINT ask for the stop. The second signal ends the process as if nobody had handled it.
    ///
    /// # Errors
    /// Another runtime of this process has the signals, or the system refuses the handler.
    pub fn on_termination_signals(&self) -> io::Result<()> {
        if SIGNALLED.set(self.clone()).is_err() {
            return Err(io::Error::other("another runtime handles the termination signals"));
        }
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: all-zero bits are a valid sigaction.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            // SAFETY: the handler only loads and stores atomics and calls write(2), which are async-signal-safe.
            if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Resolves when the runtime, or the simulated node, was asked to stop.
pub async fn stopping() {
    std::future::poll_fn(|cx| {
        let core = percore::current();
        if core.stop.is_stopping() {
            return Poll::Ready(());
        }
        let mut waiters = core.stop_waiters.borrow_mut();
        if !waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
            waiters.push_back(cx.waker().clone());
        }
        Poll::Pending
    })
    .await;
}

/// Asks this core's runtime, or simulated node, to stop: for a task that cannot go on.
pub fn stop() {
    percore::current().stop.stop();
}

/// True once the runtime, or the simulated node, was asked to stop.
pub fn is_stopping() -> bool {
    percore::current().stop.is_stopping()
}
