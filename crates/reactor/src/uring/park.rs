//! The loop of a real core: poll, submit, reap, park.

use std::rc::Rc;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};

use crate::exec::{Class, poll_task};
use crate::percore::{Backend, Core};
use crate::uring::{Uring, clock};

/// How long a stopping core waits for operations to be given back by the kernel before it leaks their memory.
const DRAIN_MS_MAX: u64 = 5_000;

fn ring(core: &Core) -> &Uring {
    match &core.backend {
        Backend::Uring(uring) => uring,
        Backend::Sim(_) => unreachable!("a real core has a ring"),
    }
}

/// Runs the current core until `finished` says so.
pub(crate) fn run_core(core: &Rc<Core>, finished: impl Fn() -> bool) {
    let uring = ring(core);
    uring.arm_eventfd(core);
    while !finished() {
        core.forget_moment();
        core.take_signals();
        if core.timers.borrow().next_deadline().is_some() {
            core.fire_timers(clock::mono_ns());
        }
        poll_urgent(core);
        if !core.exec.borrow().has_ready() && !finished() {
            uring.park(core);
            continue;
        }
        // Before background work, which may be slow, the kernel gets what the urgent tasks asked for.
        uring.turn(core);
        for _ in 0..Class::Background.round_polls_max() {
            let Some(task) = core.exec.borrow_mut().pop(Class::Background) else { break };
            poll_task(core, task);
        }
    }
}

/// Polls latency and normal tasks within their budgets. A latency task that becomes ready meanwhile goes first.
fn poll_urgent(core: &Core) {
    let mut latency = Class::Latency.round_polls_max();
    let mut normal = Class::Normal.round_polls_max();
    loop {
        let next = {
            let mut exec = core.exec.borrow_mut();
            let urgent = if latency > 0 { exec.pop(Class::Latency) } else { None };
            match urgent {
                Some(task) => {
                    latency -= 1;
                    Some(task)
                }
                None if normal > 0 => {
                    normal -= 1;
                    exec.pop(Class::Normal)
                }
                None => None,
            }
        };
        match next {
            Some(task) => poll_task(core, task),
            None => return,
        }
    }
}

impl Uring {
    /// Exchanges submissions and completions with the kernel without waiting.
    fn turn(&self, core: &Core) {
        if self.wants_enter() {
            self.enter(core, 0);
        }
        self.reap(core);
    }

    /// Waits for a completion, a signal or the next timer.
    fn park(&self, core: &Core) {
        if self.spin_ns > 0 && self.spin(core) {
            self.turn(core);
            return;
        }
        if !self.delayed.borrow().is_empty() {
            // What waits in memory may be what would end the wait.
            self.turn(core);
            return;
        }
        if core.shared.park() {
            core.counters.add(|c| {
                c.parks += 1;
                c.ring_enters += 1;
            });
            let next_timer = core.timers.borrow().next_deadline();
            let result = match next_timer {
                None => self.ring.borrow_mut().submitter().submit_and_wait(1),
                Some(deadline_ns) => {
                    let left = Duration::from_nanos(deadline_ns.saturating_sub(clock::mono_ns()));
                    let left = Timespec::from(left);
                    let args = SubmitArgs::new().timespec(&left);
                    self.ring.borrow_mut().submitter().submit_with_args(1, &args)
                }
            };
            core.shared.unpark();
            self.check_enter(result);
        } else if self.has_submissions() {
            self.enter(core, 0);
        }
        self.reap(core);
    }

    /// Looks for work for a moment before sleeping: a wake from the kernel costs tens of microseconds. True when there is
    /// some.
    fn spin(&self, core: &Core) -> bool {
        if self.has_submissions() {
            self.enter(core, 0);
        }
        let start = clock::mono_ns();
        loop {
            if core.shared.has_signals() || self.has_completions() || self.wants_enter() {
                return true;
            }
            let now = clock::mono_ns();
            if now.saturating_sub(start) > self.spin_ns
                || core.timers.borrow().next_deadline().is_some_and(|deadline| deadline <= now)
            {
                return false;
            }
            std::hint::spin_loop();
        }
    }
}

/// Ends all operations of a core whose tasks are gone. Memory the kernel does not give back in time is leaked, never freed.
pub(crate) fn shut_down(core: &Rc<Core>) {
    let uring = ring(core);
    let pipes = core.pipes.take();
    drop(pipes);
    let in_flight = core.ops.borrow().ids_in_flight();
    for id in in_flight {
        uring.cancel(core, id);
    }
    uring.disarm_eventfd(core);
    let deadline = clock::mono_ns() + DRAIN_MS_MAX * 1_000_000;
    while core.ops.borrow().in_flight() > 0 || uring.eventfd_armed.get() || !uring.delayed.borrow().is_empty() {
        let now = clock::mono_ns();
        if now >= deadline {
            let left = core.ops.borrow().in_flight();
            tracing::warn!(left, "operations are still with the kernel: their memory is not freed");
            std::mem::forget(core.ops.take());
            return;
        }
        let left = Timespec::from(Duration::from_nanos(deadline - now));
        let args = SubmitArgs::new().timespec(&left);
        let want = usize::from(uring.delayed.borrow().is_empty());
        let result = uring.ring.borrow_mut().submitter().submit_with_args(want, &args);
        uring.check_enter(result);
        uring.reap(core);
    }
}
