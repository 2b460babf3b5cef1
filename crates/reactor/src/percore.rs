//! The state of one core and the thread-local that says which core runs now.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use base::{CoreId, Now, Prng};
use slab::Slab;

use crate::counters::{Counters, LiveCounters};
use crate::exec::Exec;
use crate::op::{Held, OpId, OpTable, Pipe, Request};
use crate::shared::{CoreShared, SIGNAL_DISK, SIGNAL_INBOX, SIGNAL_MAIL, SIGNAL_STOP, SIGNAL_WAKE_ALL, TaskId};
use crate::sim::SimCore;
use crate::stop::RuntimeShared;
use crate::timer::Timers;
use crate::uring::Uring;

/// What executes the operations and tells the time.
// One per core, never moved after its making: the size of the larger one is no cost.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Backend {
    Uring(Uring),
    Sim(SimCore),
}

/// Wakers of one mailbox port on its core.
#[derive(Default)]
pub(crate) struct MailWakers {
    pub receiver: Option<Waker>,
    pub posters: Vec<Waker>,
}

/// Polls that follow one in which the clocks were read, in the same turn of the loop, and are told the same: some ten
/// microseconds of what connections do, for which reading two clocks each time is a noticeable part of the work.
const MOMENT_POLLS_MAX: u32 = 8;

/// What [`now`] tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// Outside of polls, the clocks.
    Flowing,
    /// A poll has begun and nobody has asked.
    Unread,
    /// What the first one who asked within this poll was told.
    Told(Now),
}

pub(crate) struct Core {
    pub id: CoreId,
    pub shared: Arc<CoreShared>,
    pub stop: Arc<RuntimeShared>,
    pub exec: RefCell<Exec>,
    pub timers: RefCell<Timers>,
    pub ops: RefCell<OpTable>,
    pub mail: RefCell<Slab<MailWakers>>,
    /// Room for those that are being woken.
    mail_wakers: RefCell<Vec<Waker>>,
    pub stop_waiters: RefCell<VecDeque<Waker>>,
    /// Empty pipes for splicing. A pipe in which bytes were left is never put here.
    pub pipes: RefCell<Vec<Rc<Pipe>>>,
    pub unblock_slots: crate::sync::Semaphore,
    pub disk: crate::disk_use::OwnUse,
    pub prng: RefCell<Prng>,
    pub counters: LiveCounters,
    pub moment: Cell<Moment>,
    /// What was told last in this turn of the loop, and in how many more polls it will do.
    recent: Cell<Option<(Now, u32)>>,
    pub backend: Backend,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Makes a core current until dropped.
pub(crate) struct Entered {
    before: Option<Rc<Core>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        let _mine = CURRENT.with(|current| current.replace(before));
    }
}

/// The core that runs now.
pub(crate) fn try_current() -> Option<Rc<Core>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The core that runs now; there must be one.
#[track_caller]
pub(crate) fn current() -> Rc<Core> {
    try_current().expect("this function works only on a reactor core: inside Runtime, block_on or Sim")
}

fn with<R>(f: impl FnOnce(&Core) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.borrow().as_deref().map(f)).ok().flatten()
}

/// Wakes `task` without atomics when its core is the one that runs now.
pub(crate) fn wake_if_current(slot: u16, task: TaskId) -> bool {
    with(|core| {
        let mine = core.shared.slot() == slot;
        if mine {
            core.exec.borrow_mut().wake(task);
        }
        mine
    })
    .unwrap_or(false)
}

/// Wakes a parked core through its ring. False when this thread has no ring to send from.
pub(crate) fn send_ring_message(target: &CoreShared) -> bool {
    with(|core| match &core.backend {
        Backend::Uring(uring) => uring.message(core, target),
        Backend::Sim(_) => false,
    })
    .unwrap_or(false)
}

/// What a new core is made of.
pub(crate) struct CoreParts {
    pub id: CoreId,
    pub shared: Arc<CoreShared>,
    pub stop: Arc<RuntimeShared>,
    pub seed: u64,
    pub backend: Backend,
}

impl Core {
    pub fn new(parts: CoreParts) -> Rc<Core> {
        Rc::new(Core {
            id: parts.id,
            shared: parts.shared,
            stop: parts.stop,
            exec: RefCell::new(Exec::new()),
            timers: RefCell::new(Timers::default()),
            ops: RefCell::new(OpTable::default()),
            mail: RefCell::new(Slab::new()),
            mail_wakers: RefCell::default(),
            stop_waiters: RefCell::new(VecDeque::new()),
            pipes: RefCell::new(Vec::new()),
            disk: crate::disk_use::OwnUse::default(),
            unblock_slots: crate::sync::Semaphore::new(crate::unblock::UNBLOCK_JOBS_MAX),
            prng: RefCell::new(Prng::new(parts.seed)),
            counters: LiveCounters::default(),
            moment: Cell::new(Moment::Flowing),
            recent: Cell::new(None),
            backend: parts.backend,
        })
    }

    pub fn enter(self: &Rc<Core>) -> Entered {
        Entered { before: CURRENT.with(|current| current.replace(Some(Rc::clone(self)))) }
    }

    pub fn now(&self) -> Now {
        match &self.backend {
            Backend::Uring(_) => match self.moment.get() {
                Moment::Told(now) => now,
                moment => {
                    let now = crate::uring::clock::now();
                    if matches!(moment, Moment::Unread) {
                        self.moment.set(Moment::Told(now));
                        self.recent.set(Some((now, MOMENT_POLLS_MAX)));
                    }
                    now
                }
            },
            Backend::Sim(sim) => sim.now(),
        }
    }

    /// A poll begins: time stands still in it.
    pub fn begin_moment(&self) {
        self.moment.set(match self.recent.get() {
            Some((now, polls)) if polls > 0 => {
                self.recent.set(Some((now, polls - 1)));
                Moment::Told(now)
            }
            _ => Moment::Unread,
        });
    }

    /// Whoever asks in a later poll is told a new time.
    pub fn forget_moment(&self) {
        self.recent.set(None);
    }

    pub fn mono_ns(&self) -> u64 {
        match &self.backend {
            Backend::Uring(_) => crate::uring::clock::mono_ns(),
            Backend::Sim(sim) => sim.mono_ns(),
        }
    }

    /// Hands an operation to the backend. Its memory is in the table by now.
    pub fn start_op(&self, request: Request, held: Held) -> OpId {
        self.counters.add(|c| c.ops += 1);
        let id = self.ops.borrow_mut().insert(request, held);
        match &self.backend {
            Backend::Uring(uring) => uring.submit(self, id),
            Backend::Sim(sim) => sim.submit(self, id),
        }
        id
    }

    pub fn cancel_op(&self, id: OpId) {
        match &self.backend {
            Backend::Uring(uring) => uring.cancel(self, id),
            Backend::Sim(sim) => sim.cancel(self, id),
        }
    }

    /// An operation's completion arrived: the memory changes hands here and nowhere else.
    pub fn complete_op(&self, id: OpId, result: i32) {
        let (waker, orphan) = self.ops.borrow_mut().complete(id, result);
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some((request, held)) = orphan {
            // A descriptor that nobody waits for any more must not leak.
            if request.makes_fd() && result >= 0 {
                self.close(result);
            }
            drop((request, held));
        }
    }

    pub fn close(&self, raw: i32) {
        match &self.backend {
            Backend::Uring(_) => crate::uring::sys::close(raw),
            Backend::Sim(sim) => sim.close(raw),
        }
    }

    /// Puts a descriptor into the ring's table of registered files, if there is one with room.
    pub fn register_file(&self, raw: i32) -> Option<u32> {
        match &self.backend {
            Backend::Uring(uring) => uring.register_file(raw),
            Backend::Sim(_) => None,
        }
    }

    /// Takes a descriptor out of the ring's table of registered files.
    pub fn unregister_file(&self, index: u32) {
        if let Backend::Uring(uring) = &self.backend {
            uring.unregister_file(index);
        }
    }

    /// Fires due timers.
    pub fn fire_timers(&self, now_ns: u64) {
        loop {
            let due = self.timers.borrow_mut().pop_due(now_ns);
            match due {
                Some(waker) => {
                    self.counters.add(|c| c.timers_fired += 1);
                    waker.wake();
                }
                None => return,
            }
        }
    }

    /// Acts on what other threads signalled.
    pub fn take_signals(self: &Rc<Core>) {
        if !self.shared.has_signals() {
            return;
        }
        let signals = self.shared.take_signals();
        if signals & SIGNAL_INBOX != 0 {
            let mut woken = Vec::new();
            self.shared.drain_inbox(&mut woken);
            let mut exec = self.exec.borrow_mut();
            for task in woken {
                exec.wake(task);
            }
        }
        if signals & SIGNAL_WAKE_ALL != 0 {
            self.exec.borrow_mut().wake_all();
        }
        if signals & SIGNAL_MAIL != 0 {
            let mut wakers = self.mail_wakers.take();
            for (_, port) in self.mail.borrow_mut().iter_mut() {
                wakers.extend(port.receiver.take());
                wakers.append(&mut port.posters);
            }
            wakers.drain(..).for_each(Waker::wake);
            self.mail_wakers.replace(wakers);
        }
        if signals & SIGNAL_DISK != 0 {
            self.take_disk_grants();
        }
        if signals & SIGNAL_STOP != 0 {
            let waiters = std::mem::take(&mut *self.stop_waiters.borrow_mut());
            waiters.into_iter().for_each(Waker::wake);
        }
    }

    /// Drops every task. Their futures run destructors, which may spawn again: new tasks are dropped at once from here on.
    pub fn drop_tasks(self: &Rc<Core>) {
        let _entered = self.enter();
        let futures = self.exec.borrow_mut().close();
        drop(futures);
    }
}

/// The core that the calling task runs on.
pub fn core() -> CoreId {
    current().id
}

/// The present moment on the current core's clocks (virtual under simulation). Within one poll of a task, and a few polls that
/// follow at once, time stands still: a request asks for it a dozen times, and reading two clocks each time would cost more than
/// some requests do. After a sleep or a yield it is a new one.
pub fn now() -> Now {
    with(Core::now).expect("now() works only on a reactor core")
}

/// 64 random bits: seeded by the operating system, or by the simulation's seed.
pub fn random_u64() -> u64 {
    with(|core| core.prng.borrow_mut().next_u64()).expect("random_u64() works only on a reactor core")
}

/// The current core's counters.
pub fn counters() -> Counters {
    current().counters.read()
}
