//! Tasks of one core in three priority classes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use base::Prng;

use crate::percore::{self, Core, Moment};
use crate::shared::{GENERATION_MASK, TASKS_MAX, TaskId, waker};

pub(crate) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// How soon a ready task runs. A class is served before the ones below it, within a budget per round that keeps the lower
/// ones from starving.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Work that a client or another core waits for: connections, commits.
    Latency,
    /// Everything else that should go on at full speed.
    Normal,
    /// Work that may be slow: retention, compaction, cold scans. One poll a round.
    Background,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 3] = [Class::Latency, Class::Normal, Class::Background];

    /// Polls of this class in one round before the next class has its turn. A latency task is a few microseconds, so that
    /// a full round of them stays near a millisecond; one background poll a round bounds what a busy one adds to the wait
    /// of everyone else.
    pub(crate) const fn round_polls_max(self) -> usize {
        match self {
            Class::Latency => 128,
            Class::Normal => 32,
            Class::Background => 1,
        }
    }
}

struct Slot {
    generation: u32,
    class: Class,
    queued: bool,
    aborted: bool,
    live: bool,
    /// Absent while the task is being polled.
    future: Option<LocalFuture>,
}

/// The tasks of one core. Never borrowed while a task's code runs.
pub(crate) struct Exec {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: [VecDeque<TaskId>; 3],
    closed: bool,
}

impl Exec {
    pub fn new() -> Exec {
        Exec { slots: Vec::new(), free: Vec::new(), ready: Default::default(), closed: false }
    }

    /// Adds a task and makes it ready; gives the future back when the core is closing.
    fn insert(&mut self, class: Class, future: LocalFuture) -> Result<TaskId, LocalFuture> {
        if self.closed {
            return Err(future);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < TASKS_MAX, "{TASKS_MAX} tasks are alive on one core");
            let vacant = Slot { generation: 0, class, queued: false, aborted: false, live: false, future: None };
            self.slots.push(vacant);
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.class = class;
        slot.queued = false;
        slot.aborted = false;
        slot.live = true;
        slot.future = Some(future);
        let task = TaskId { index, generation: slot.generation };
        self.wake(task);
        Ok(task)
    }

    fn slot(&mut self, task: TaskId) -> Option<&mut Slot> {
        self.slots.get_mut(task.index as usize).filter(|slot| slot.live && slot.generation == task.generation)
    }

    /// Makes a task ready unless it is already or is gone.
    pub fn wake(&mut self, task: TaskId) {
        if let Some(slot) = self.slot(task)
            && !slot.queued
        {
            slot.queued = true;
            let class = slot.class;
            self.ready[class as usize].push_back(task);
        }
    }

    /// Makes every task ready.
    pub fn wake_all(&mut self) {
        for index in 0..self.slots.len() {
            let generation = self.slots[index].generation;
            self.wake(TaskId { index: index as u32, generation });
        }
    }

    /// The next ready task of a class, in order of waking.
    pub fn pop(&mut self, class: Class) -> Option<TaskId> {
        self.ready[class as usize].pop_front()
    }

    /// A ready task of any class that chance picks: the order in which a simulation explores.
    pub fn pop_random(&mut self, prng: &mut Prng) -> Option<TaskId> {
        let total: usize = self.ready.iter().map(VecDeque::len).sum();
        if total == 0 {
            return None;
        }
        let mut pick = prng.below(total as u64) as usize;
        for queue in &mut self.ready {
            if pick < queue.len() {
                return queue.swap_remove_back(pick);
            }
            pick -= queue.len();
        }
        unreachable!("the pick {pick} is below the total {total}")
    }

    pub fn has_ready(&self) -> bool {
        self.ready.iter().any(|queue| !queue.is_empty())
    }

    fn begin_poll(&mut self, task: TaskId) -> Option<LocalFuture> {
        let slot = self.slot(task)?;
        slot.queued = false;
        slot.future.take()
    }

    /// Ends a poll. Gives a future back that has to be dropped by the caller, outside of the borrow.
    fn end_poll(&mut self, task: TaskId, future: LocalFuture, finished: bool) -> Option<LocalFuture> {
        let slot = &mut self.slots[task.index as usize];
        debug_assert!(slot.live && slot.generation == task.generation, "a task's slot is kept while it is polled");
        if finished || slot.aborted || self.closed {
            self.release(task.index);
            return Some(future);
        }
        slot.future = Some(future);
        None
    }

    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.live = false;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index);
    }

    fn abort(&mut self, task: TaskId) -> Option<LocalFuture> {
        let slot = self.slot(task)?;
        match slot.future.take() {
            Some(future) => {
                self.release(task.index);
                Some(future)
            }
            None => {
                // It aborts itself: its future is dropped when this poll ends.
                slot.aborted = true;
                None
            }
        }
    }

    /// Takes all futures out and refuses new ones.
    pub fn close(&mut self) -> Vec<LocalFuture> {
        self.closed = true;
        let mut futures = Vec::new();
        for index in 0..self.slots.len() {
            if let Some(future) = self.slots[index].future.take() {
                futures.push(future);
                self.release(index as u32);
            }
        }
        futures
    }
}

/// Polls one task of the current core.
pub(crate) fn poll_task(core: &Core, task: TaskId) {
    let Some(mut future) = core.exec.borrow_mut().begin_poll(task) else { return };
    core.counters.add(|c| c.tasks_polled += 1);
    let waker = waker(core.shared.slot(), task);
    core.begin_moment();
    let finished = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
    let spent = core.exec.borrow_mut().end_poll(task, future, finished);
    drop(spent);
    core.moment.set(Moment::Flowing);
}

struct JoinState<T> {
    value: Cell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    finished: Cell<bool>,
}

/// A handle to a spawned task. Awaiting it gives the task's result; dropping it lets the task run on.
#[must_use = "a task runs by itself; call detach() or drop it on purpose when the result does not matter"]
pub struct Task<T> {
    core: Rc<Core>,
    id: Option<TaskId>,
    state: Rc<JoinState<T>>,
}

impl<T> Task<T> {
    /// Drops the task's future, now, or at the end of its current poll when a task aborts itself. Operations it has in
    /// flight are cancelled where that is possible; their buffers stay with the ring until they complete.
    pub fn abort(self) {
        let Some(id) = self.id else { return };
        let future = self.core.exec.borrow_mut().abort(id);
        drop(future);
    }

    /// True when the result is there.
    pub fn is_finished(&self) -> bool {
        self.state.finished.get()
    }

    /// Lets the task run on without a handle.
    pub fn detach(self) {}
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.state.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                assert!(!self.state.finished.get(), "a task's result was taken before");
                *self.state.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// What a task runs. Not an async block: that keeps what it captures beside what it awaits, twice the size of the future,
/// and there is a task to every connection.
struct Body<T, F> {
    future: F,
    result: Rc<JoinState<T>>,
}

impl<T, F: Future<Output = T>> Future for Body<T, F> {
    type Output = ();

    #[allow(unsafe_code)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is never moved out of a pinned `Body`, which has no destructor of its own and is unpinned only
        // if `future` is.
        let (future, result) = unsafe {
            let body = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut body.future), &body.result)
        };
        let Poll::Ready(value) = future.poll(cx) else { return Poll::Pending };
        result.value.set(Some(value));
        result.finished.set(true);
        let waker = result.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Poll::Ready(())
    }
}

/// Starts a task on the current core.
pub fn spawn<T: 'static>(class: Class, future: impl Future<Output = T> + 'static) -> Task<T> {
    spawn_on(&percore::current(), class, future)
}

pub(crate) fn spawn_on<T: 'static>(
    core: &Rc<Core>,
    class: Class,
    future: impl Future<Output = T> + 'static,
) -> Task<T> {
    let state = Rc::new(JoinState { value: Cell::new(None), waker: RefCell::new(None), finished: Cell::new(false) });
    let result = Rc::clone(&state);
    let body: LocalFuture = Box::pin(Body { future, result });
    core.counters.add(|c| c.tasks_spawned += 1);
    let inserted = core.exec.borrow_mut().insert(class, body);
    let id = match inserted {
        Ok(id) => Some(id),
        Err(refused) => {
            drop(refused);
            None
        }
    };
    Task { core: Rc::clone(core), id, state }
}

/// Lets other ready tasks and completions have their turn. The time that [`crate::now`] tells afterwards is a new one.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        percore::current().forget_moment();
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
