//! The io_uring backend of one core.

pub(crate) mod clock;
mod park;
mod setup;
mod sqe;
pub(crate) mod sys;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;

use io_uring::{IoUring, opcode, squeue, types};

use crate::op::OpId;
use crate::percore::Core;
use crate::shared::CoreShared;

pub(crate) use park::{run_core, shut_down};
pub(crate) use setup::RingOptions;

/// User data of entries whose completion means nothing.
const DATA_IGNORE: u64 = u64::MAX;
/// User data of a message from another ring: there are signals to take.
const DATA_WAKE: u64 = u64::MAX - 1;
/// User data of a message to another ring: this and the slot of its core. Only a failure comes back.
const DATA_MESSAGE: u64 = 0xff << 56;
/// User data of the read on the eventfd.
const DATA_EVENTFD: u64 = u64::MAX - 2;
/// From here on the user data is none of an operation's.
const DATA_SPECIAL_MIN: u64 = DATA_MESSAGE;

/// Submissions that wait in memory when the submission queue is full and the kernel does not take it. Every operation
/// belongs to a task, so that this is reached only by a program that starts operations without awaiting them.
const DELAYED_SUBMISSIONS_MAX: usize = 1 << 20;

fn pack(id: OpId) -> u64 {
    (u64::from(id.generation) << 32) | u64::from(id.index)
}

fn unpack(data: u64) -> OpId {
    OpId { index: data as u32, generation: (data >> 32) as u32 }
}

/// The ring of one core.
pub(crate) struct Uring {
    ring: RefCell<IoUring>,
    delayed: RefCell<VecDeque<squeue::Entry>>,
    completions: RefCell<Vec<(u64, i32, u32)>>,
    /// Where the pending read of the eventfd puts its 8 bytes; owned here because the ring outlives every task.
    eventfd_count: Box<Cell<u64>>,
    eventfd_armed: Cell<bool>,
    /// The core is shutting down: a read of the eventfd that completes beside its cancellation is not started again.
    closing: Cell<bool>,
    fixed_range: Cell<sqe::FixedRange>,
    files: RefCell<setup::FileTable>,
    spin_ns: u64,
}

impl Uring {
    /// Pushes an entry; a full queue is submitted first, and what the kernel does not take waits in memory.
    fn push(&self, core: &Core, entry: squeue::Entry) {
        if self.delayed.borrow().is_empty() {
            if self.try_push(&entry) {
                return;
            }
            self.enter(core, 0);
            if self.try_push(&entry) {
                return;
            }
        }
        core.counters.add(|c| c.submissions_delayed += 1);
        let mut delayed = self.delayed.borrow_mut();
        assert!(delayed.len() < DELAYED_SUBMISSIONS_MAX, "{DELAYED_SUBMISSIONS_MAX} submissions wait for the ring");
        delayed.push_back(entry);
    }

    #[allow(unsafe_code)]
    fn try_push(&self, entry: &squeue::Entry) -> bool {
        // SAFETY: what the entry points to is in the operation table (or in this struct) until its completion arrives.
        unsafe { self.ring.borrow_mut().submission().push(entry) }.is_ok()
    }

    fn move_delayed(&self) {
        let mut delayed = self.delayed.borrow_mut();
        while let Some(entry) = delayed.front() {
            if !self.try_push(entry) {
                return;
            }
            delayed.pop_front();
        }
    }

    /// Starts an operation of the table.
    pub fn submit(&self, core: &Core, id: OpId) {
        let entry = {
            let mut ops = core.ops.borrow_mut();
            let (request, held) = ops.parts(id);
            sqe::build(request, held, self.fixed_range.get()).user_data(pack(id))
        };
        self.push(core, entry);
    }

    /// Asks the kernel to end an operation early; its completion still arrives.
    pub fn cancel(&self, core: &Core, id: OpId) {
        let entry = opcode::AsyncCancel::new(pack(id)).build().user_data(DATA_IGNORE);
        self.push(core, entry);
    }

    /// Sends a wake to the ring of a parked core.
    pub fn message(&self, core: &Core, target: &CoreShared) -> bool {
        let ring_fd = target.ring_fd.load(std::sync::atomic::Ordering::Acquire);
        if ring_fd < 0 {
            return false;
        }
        core.counters.add(|c| c.ring_messages += 1);
        let entry = opcode::MsgRingData::new(types::Fd(ring_fd), 0, DATA_WAKE, None).build();
        let data = DATA_MESSAGE | u64::from(target.slot());
        self.push(core, entry.user_data(data).flags(squeue::Flags::SKIP_SUCCESS));
        true
    }

    /// Keeps one read pending on the eventfd through which threads without a ring wake this core.
    fn arm_eventfd(&self, core: &Core) {
        let fd = core.shared.eventfd().expect("a real core has an eventfd");
        let entry = opcode::Read::new(types::Fd(fd), self.eventfd_count.as_ptr().cast(), 8).build();
        self.push(core, entry.user_data(DATA_EVENTFD));
        self.eventfd_armed.set(true);
    }

    fn disarm_eventfd(&self, core: &Core) {
        self.closing.set(true);
        let entry = opcode::AsyncCancel::new(DATA_EVENTFD).build().user_data(DATA_IGNORE);
        self.push(core, entry);
    }

    fn has_submissions(&self) -> bool {
        !self.ring.borrow_mut().submission().is_empty()
    }

    /// Would entering the kernel bring anything: submissions to hand over or completions it holds back?
    fn wants_enter(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        let queue = ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    fn has_completions(&self) -> bool {
        !self.ring.borrow_mut().completion().is_empty()
    }

    /// Hands submissions over and runs what the kernel deferred, waiting for `want` completions at most until the next
    /// deadline (`park` does that part).
    fn enter(&self, core: &Core, want: usize) {
        core.counters.add(|c| c.ring_enters += 1);
        let result = self.ring.borrow_mut().submitter().submit_and_wait(want);
        self.check_enter(result);
    }

    fn check_enter(&self, result: io::Result<usize>) {
        if let Err(e) = result {
            match e.raw_os_error() {
                // Time is over, a signal, or the completion queue has to be drained first: the loop goes on to do that.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("the ring refused to be entered: {e}"),
            }
        }
    }

    /// Takes all completions that are there; returns how many.
    fn reap(&self, core: &Core) -> usize {
        let mut batch = self.completions.take();
        batch.clear();
        {
            let mut ring = self.ring.borrow_mut();
            batch.extend(ring.completion().map(|entry| (entry.user_data(), entry.result(), entry.flags())));
        }
        for (data, result, flags) in &batch {
            if *data >= DATA_SPECIAL_MIN {
                self.finish_special(core, *data);
                continue;
            }
            let id = unpack(*data);
            {
                let mut ops = core.ops.borrow_mut();
                let (request, held) = ops.parts(id);
                sqe::finish(request, held, *result, *flags);
            }
            core.complete_op(id, *result);
        }
        let count = batch.len();
        self.completions.replace(batch);
        self.move_delayed();
        count
    }

    fn finish_special(&self, core: &Core, data: u64) {
        match data {
            DATA_IGNORE | DATA_WAKE => {}
            DATA_EVENTFD => {
                self.eventfd_armed.set(false);
                if !self.closing.get() {
                    self.arm_eventfd(core);
                }
            }
            // The other ring did not take the message: its eventfd wakes it too.
            message => crate::shared::wake_by_eventfd((message & 0xffff) as u16),
        }
    }
}
