use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use base::{Offset, PartitionKey};
use log::{EpochEntry, Log, LogId, Progress};
use replica::{FetchBounds, Isolation, Leadership, Replica};
use wire::ErrorCode;

use crate::bytes_ahead::BytesAhead;
use crate::error::PartitionError;
use crate::offset_waiters::OffsetWaiters;
use crate::recovery::to_log_entry;
use crate::settings::Settings;
use crate::shared::Shared;

/// One partition on its home core: a cheap handle, all clones are the same partition.
#[derive(Clone)]
pub struct Partition(pub(crate) Rc<Inner>);

/// Whether a partition serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It does.
    Online,
    /// The broker stops: what was appended is being written and answered, nothing new is taken.
    Closing,
    /// Its log failed; it answers KAFKA_STORAGE_ERROR until the broker restarts.
    Fenced,
    /// It was removed from this broker, or the broker is stopping.
    Closed,
}

/// No borrow of a cell here is held across an await or a call into the log, which may call back.
pub(crate) struct Inner {
    pub shared: Rc<Shared>,
    pub id: LogId,
    pub log: Log,
    pub state: Cell<State>,
    pub brain: RefCell<Replica>,
    pub settings: RefCell<Rc<Settings>>,
    pub bytes: RefCell<BytesAhead>,
    /// Appends with acks=1, waiting for the write.
    pub written: RefCell<OffsetWaiters>,
    /// Appends with acks=all, waiting for the high watermark.
    pub visible: RefCell<OffsetWaiters>,
}

impl Partition {
    /// Topic name, topic id and index.
    pub fn id(&self) -> &LogId {
        &self.0.id
    }

    /// Topic id and index.
    pub fn key(&self) -> PartitionKey {
        self.0.id.key
    }

    /// The offsets a reader of `isolation` sees now.
    pub fn bounds(&self, isolation: Isolation) -> FetchBounds {
        self.0.brain.borrow().bounds(isolation)
    }

    /// Leader, epochs, replicas and in-sync replicas, as this core knows them.
    pub fn leadership(&self) -> Leadership {
        self.0.brain.borrow().leadership().clone()
    }

    /// True if this broker leads the partition.
    pub fn is_leader(&self) -> bool {
        self.0.brain.borrow().is_leader()
    }

    /// The log, for what needs the file itself (splicing a cold read).
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    pub(crate) fn brain(&self) -> Ref<'_, Replica> {
        self.0.brain.borrow()
    }

    pub(crate) fn settings(&self) -> Rc<Settings> {
        self.0.settings.borrow().clone()
    }

    /// Whether the partition serves at all.
    pub(crate) fn check_online(&self) -> Result<(), PartitionError> {
        match self.0.state.get() {
            State::Online | State::Closing => Ok(()),
            State::Fenced => {
                let reason = self.0.log.fenced().map_or_else(|| "its log failed".to_owned(), |e| e.to_string());
                let message = format!("partition {} is offline: {reason}", self.0.id.dir_name());
                Err(PartitionError::new(ErrorCode::KAFKA_STORAGE_ERROR, message))
            }
            State::Closed => {
                let message = format!("partition {} is not on this broker any more", self.0.id.dir_name());
                Err(PartitionError::new(ErrorCode::NOT_LEADER_OR_FOLLOWER, message))
            }
        }
    }

    /// Whether the partition takes appends.
    pub(crate) fn check_open(&self) -> Result<(), PartitionError> {
        if self.0.state.get() == State::Closing {
            return Err(PartitionError::new(ErrorCode::NOT_LEADER_OR_FOLLOWER, "the broker is shutting down"));
        }
        self.check_online()
    }

    /// The log is closed for good; a full disk is not that, since it takes appends again once there is space.
    pub(crate) fn log_failed(&self) -> bool {
        self.0.log.fenced().is_some_and(|error| !error.is_retriable())
    }

    /// Hooks the partition up with its log; the last step of opening.
    pub(crate) fn attach(&self) {
        let weak = Rc::downgrade(&self.0);
        self.0.log.on_progress(Box::new(move |progress| {
            if let Some(inner) = weak.upgrade() {
                Partition(inner).on_progress(progress);
            }
        }));
        let weak = Rc::downgrade(&self.0);
        self.0.log.set_producer_source(Box::new(move || match weak.upgrade() {
            Some(inner) => inner.brain.borrow().producers().snapshot().iter().map(to_log_entry).collect(),
            None => Vec::new(),
        }));
        self.on_progress(self.0.log.progress());
    }

    /// The log wrote something, or failed.
    fn on_progress(&self, progress: Progress) {
        if self.check_online().is_ok() && self.log_failed() {
            self.leave(State::Fenced);
            return;
        }
        self.0.shared.tell_keeper(|tokens| self.0.written.borrow_mut().reached(progress.written_end, tokens));
        // Inside an append the log may be ahead of the brain, which learns of the batch when the append returns.
        let moved = {
            let mut brain = self.0.brain.borrow_mut();
            let own_end = progress.promised_end.min(brain.log_end());
            brain.advance_own_end(own_end)
        };
        if moved {
            self.on_visible();
        }
    }

    /// The high watermark moved, or a transaction ended: whoever waits for either may go on.
    pub(crate) fn on_visible(&self) {
        let bounds = self.bounds(Isolation::ReadUncommitted);
        self.0.log.set_high_watermark(bounds.high_watermark);
        self.0.bytes.borrow_mut().advance(bounds.high_watermark, bounds.last_stable_offset);
        self.0.shared.fetches.progressed(self.key(), &self.0.bytes.borrow());
        self.0.shared.tell_keeper(|tokens| self.0.visible.borrow_mut().reached(bounds.high_watermark, tokens));
    }

    /// Applies a decision of the controller.
    pub(crate) fn set_leadership(&self, leadership: Leadership) {
        let before = self.bounds(Isolation::ReadUncommitted).high_watermark;
        let began = self.0.brain.borrow_mut().set_leadership(leadership);
        if let Some((epoch, start_offset)) = began {
            self.0.log.assign_epoch(EpochEntry { epoch, start_offset });
        }
        self.woken_by_change(before);
    }

    /// Applies a change of the topic's or the broker's configuration.
    pub(crate) fn set_settings(&self, settings: Settings) {
        if **self.0.settings.borrow() == settings {
            return;
        }
        self.0.log.set_config(settings.log.clone());
        let before = self.bounds(Isolation::ReadUncommitted).high_watermark;
        self.0.brain.borrow_mut().set_config(settings.replica);
        *self.0.settings.borrow_mut() = Rc::new(settings);
        self.woken_by_change(before);
    }

    /// Whoever waits looks again: leader or minimum of replicas may have changed under it.
    fn woken_by_change(&self, high_watermark_before: Offset) {
        if self.bounds(Isolation::ReadUncommitted).high_watermark != high_watermark_before {
            self.on_visible();
        }
        self.0.shared.tell_keeper(|tokens| self.0.visible.borrow_mut().wake_all(tokens));
        if !self.is_leader() {
            self.0.shared.fetches.changed(self.key());
        }
    }

    /// Stops serving for good and lets everybody who waits know.
    pub(crate) fn leave(&self, state: State) {
        self.0.state.set(state);
        self.0.shared.tell_keeper(|tokens| {
            self.0.written.borrow_mut().wake_all(tokens);
            self.0.visible.borrow_mut().wake_all(tokens);
        });
        self.0.shared.fetches.changed(self.key());
    }
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Partition({} {:?})", self.0.id.dir_name(), self.0.state.get())
    }
}
