//! Appends of produce requests that wait for their promise on the home core of their partitions.
//!
//! There may be some hundred thousand of them a second, most of which wait for less than a turn of the core. So none has a task
//! or a timer: the partition tells when one is worth a look, and one task looks for those whose time is over.

use crate::core::DataCore;
use crate::mesh::Asker;
use crate::messages::{AppendDone, CoreReply};
use crate::serve::{appended_at, refused};
use base::Few;
use partition::{KeptToken, PendingAppend};
use reactor::{Class, spawn};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Pause between two looks for appends whose time is over: far less than the ten seconds that each has at least, which is how
/// much later than its time one may be answered.
const OVERDUE_CHECK: Duration = Duration::from_millis(100);

/// The appends of one request to one core, which wait.
pub struct Promised {
    /// The home core.
    pub core: Rc<DataCore>,
    /// The appends that wait, each with its place in the response.
    pub pending: Few<(u32, PendingAppend)>,
    /// What is known.
    pub done: Few<AppendDone>,
    /// When those that still wait are answered with an error, in monotonic nanoseconds.
    pub deadline_ns: u64,
}

/// What waits on one core. At most the produce requests in flight on all cores, whose memory is admitted.
#[derive(Default)]
pub struct Promises {
    kept: RefCell<Slab<Kept>>,
    generation: Cell<u32>,
    /// The task that looks for what is overdue is there.
    watched: Cell<bool>,
}

struct Kept {
    generation: u32,
    asker: Asker,
    /// By the part of their tokens; none where the answer is known.
    pending: Few<Option<(u32, PendingAppend)>>,
    /// How many are not known.
    left: usize,
    done: Few<AppendDone>,
    deadline_ns: u64,
}

impl Promised {
    /// Answers `asker` when all promises hold, or never will.
    pub fn answer(self, asker: Asker) {
        let core = self.core;
        let promises = &core.promises;
        let generation = promises.generation.get().wrapping_add(1);
        promises.generation.set(generation);
        let left = self.pending.len();
        let pending = self.pending.into_iter().map(Some).collect();
        let kept = Kept { generation, asker, pending, left, done: self.done, deadline_ns: self.deadline_ns };
        let slot = promises.kept.borrow_mut().insert(kept) as u32;
        // Some may hold already, such as those of batches that were in the log before.
        for part in 0..left as u32 {
            look(&core, KeptToken { slot, generation, part });
        }
        if !promises.watched.replace(true) {
            spawn(Class::Normal, watch(Rc::downgrade(&core))).detach();
        }
    }
}

/// Looks at one append; what is known of the last one of a request is answered. The keeper of the core's partitions.
pub fn look(core: &DataCore, token: KeptToken) {
    let mut all = core.promises.kept.borrow_mut();
    // A token outlives its request when that is answered with an error.
    let Some(kept) = all.get_mut(token.slot as usize).filter(|kept| kept.generation == token.generation) else {
        return;
    };
    let Some(place) = kept.pending.get_mut(token.part as usize) else { return };
    let Some((slot, append)) = place else { return };
    let answer = match append.outcome() {
        Some(Ok(result)) => appended_at(*slot, &result),
        Some(Err(error)) => refused(*slot, error),
        None => {
            let kept = append.keep(token);
            assert!(kept, "an append that is not decided is waited for");
            return;
        }
    };
    *place = None;
    kept.done.push(answer);
    kept.left -= 1;
    if kept.left == 0 {
        let Kept { asker, done, .. } = all.remove(token.slot as usize);
        drop(all);
        core.mesh.answer(asker, CoreReply::Append(done));
    }
}

async fn watch(core: Weak<DataCore>) {
    loop {
        reactor::sleep(OVERDUE_CHECK).await;
        let Some(core) = core.upgrade() else { return };
        end_overdue(&core, reactor::now().mono_ns);
        if core.promises.kept.borrow().is_empty() {
            core.promises.watched.set(false);
            // A burst's memory does not stay.
            core.promises.kept.take();
            return;
        }
    }
}

/// Answers those whose time is over.
fn end_overdue(core: &DataCore, now_ns: u64) {
    let mut overdue = Vec::new();
    {
        let mut all = core.promises.kept.borrow_mut();
        let slots: Vec<usize> =
            all.iter().filter(|(_, kept)| kept.deadline_ns <= now_ns).map(|(slot, _)| slot).collect();
        overdue.extend(slots.into_iter().map(|slot| all.remove(slot)));
    }
    for mut kept in overdue {
        let late = kept.pending.into_iter().flatten().map(|(slot, _)| refused(slot, PendingAppend::timed_out()));
        kept.done.extend(late);
        core.mesh.answer(kept.asker, CoreReply::Append(kept.done));
    }
}
