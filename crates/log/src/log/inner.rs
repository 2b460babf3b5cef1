//! A log's state and the small steps that change it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

use base::Offset;
use reactor::sync::{Notify, Semaphore};

use crate::core::CoreInner;
use crate::format::journal::Link;
use crate::segment::{Segment, Stage};
use crate::{EpochEntry, LogConfig, LogError, LogId, ProducerEntry, Progress};

/// Whether a log works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Open,
    /// Takes appends again when a retry finds room.
    NoSpace,
    Fenced(String),
    Closed,
}

pub(crate) struct LogState {
    pub config: Rc<LogConfig>,
    pub jitter_ms: i64,
    pub status: Status,
    /// Log start offset.
    pub start: Offset,
    /// By base offset; never empty; the last one takes the appends.
    pub segments: VecDeque<Segment>,
    pub epochs: Vec<EpochEntry>,
    /// Records before this carry the promise.
    pub promised: Offset,
    /// Records before this are in segment files.
    pub in_segments: Offset,
    /// Records before this are in segment files and synced.
    pub flushed: Offset,
    /// Ranges the journal has, behind records that nobody has yet; in order.
    pub gaps: VecDeque<(Offset, Offset)>,
    /// Uses of journal files that hold records of this log, with the offset behind the last of them.
    pub pins: VecDeque<(u64, Offset)>,
    /// Records before this are to be written to the segments, however few they are.
    pub flush_to: Offset,
    /// When the oldest byte that is in no segment file came.
    pub dirty_since: Option<u64>,
    pub high_watermark: Offset,
    /// Somebody changes the files: neither the writer nor the journal may begin anything new.
    pub held: bool,
    /// What the callback was told last.
    pub told: Progress,
}

type ProgressCallback = Rc<dyn Fn(Progress)>;
type ProducerSource = Rc<dyn Fn() -> Vec<ProducerEntry>>;

pub(crate) struct LogInner {
    pub core: Rc<CoreInner>,
    pub id: LogId,
    pub name: String,
    pub dir: RefCell<PathBuf>,
    pub state: RefCell<LogState>,
    /// Woken at every progress, and when the status changes.
    pub changed: Notify,
    pub in_line: Cell<bool>,
    pub writing: Cell<bool>,
    /// Woken when the writer stops.
    pub writer_stopped: Notify,
    /// Woken when a promise begins to wait for the writer.
    pub pressed: Notify,
    pub writing_epochs: Cell<bool>,
    /// Held by whoever writes the leader epoch checkpoint.
    pub epoch_file: Semaphore,
    /// What the leader epoch checkpoint says, as far as it is known.
    pub epochs_saved: RefCell<Option<Vec<EpochEntry>>>,
    /// Held by whoever changes the set of files: truncation, retention, deletion, closing.
    pub exclusive: Semaphore,
    pub on_progress: RefCell<Option<ProgressCallback>>,
    pub producers: RefCell<Option<ProducerSource>>,
}

impl LogState {
    /// The segment that takes appends.
    pub fn active(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a log has a segment")
    }

    /// Log end offset.
    pub fn end(&self) -> Offset {
        self.segments.back().expect("a log has a segment").end
    }

    /// Index of the segment that holds `offset`, or that ends before it.
    pub fn segment_at(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base <= offset).saturating_sub(1)
    }

    /// What a batch appended now continues.
    pub fn link(&self) -> Link {
        self.segments.back().expect("a log has a segment").link
    }

    /// Segments that are not complete on disk; they are the last ones.
    pub fn incomplete(&mut self) -> impl Iterator<Item = &mut Segment> {
        let from = self.segments.partition_point(|segment| segment.stage == Stage::Complete);
        self.segments.range_mut(from..)
    }

    /// Bytes in memory that are in no file.
    pub fn unwritten(&self) -> u64 {
        let incomplete = self.segments.iter().rev().take_while(|segment| segment.stage != Stage::Complete);
        incomplete.map(Segment::unwritten).sum()
    }

    /// True while a promise waits for the writer: not all that is unwritten is in the journal.
    pub fn is_awaited(&mut self) -> bool {
        self.incomplete().any(|segment| segment.direct > segment.written)
    }

    /// Notes that the records `from..to` are in the journal.
    pub fn promise_range(&mut self, from: Offset, to: Offset) {
        if from <= self.promised {
            self.promise(to);
        } else {
            self.gaps.push_back((from, to));
        }
    }

    /// Notes that all records before `to` carry the promise.
    pub fn promise(&mut self, to: Offset) {
        self.promised = self.promised.max(to);
        while let Some(&(from, upto)) = self.gaps.front()
            && from <= self.promised
        {
            self.promised = self.promised.max(upto);
            self.gaps.pop_front();
        }
    }

    pub fn progress(&self, durable_rung: bool) -> Progress {
        Progress {
            written_end: self.promised,
            durable_end: if durable_rung { self.promised } else { self.flushed },
            promised_end: self.promised,
        }
    }

    /// Notes the epoch of a batch; true if it is a new one.
    pub fn note_epoch(&mut self, entry: EpochEntry) -> bool {
        crate::epochs::assign(&mut self.epochs, entry)
    }
}

impl LogInner {
    /// The error of a log that does not take appends.
    pub fn status_error(&self, status: &Status) -> Option<LogError> {
        let log = || self.name.clone();
        match status {
            Status::Open => None,
            Status::NoSpace => Some(LogError::NoSpace { log: log() }),
            Status::Fenced(reason) => Some(LogError::Fenced { log: log(), reason: reason.clone() }),
            Status::Closed => Some(LogError::Closed { log: log() }),
        }
    }

    /// Fails when the log cannot be read.
    pub fn readable(&self, state: &LogState) -> Result<(), LogError> {
        match &state.status {
            Status::Open | Status::NoSpace => Ok(()),
            status => Err(self.status_error(status).expect("a log that is not open has an error")),
        }
    }

    pub fn out_of_range(&self, state: &LogState, offset: Offset) -> LogError {
        LogError::OutOfRange { log: self.name.clone(), offset, start: state.start, end: state.end() }
    }

    /// A path in the log's directory.
    pub fn path(&self, name: impl AsRef<std::path::Path>) -> PathBuf {
        self.dir.borrow().join(name)
    }

    /// Tells whoever waits how far the log has got. Outside of any borrow of the state.
    pub fn publish(&self) {
        let progress = {
            let mut state = self.state.borrow_mut();
            let progress = state.progress(self.core.durable());
            if progress == state.told {
                return;
            }
            state.told = progress;
            progress
        };
        self.tell(progress);
    }

    /// Wakes whoever waits, whether or not anything has changed.
    pub fn tell(&self, progress: Progress) {
        self.changed.notify_all();
        let callback = self.on_progress.borrow().clone();
        if let Some(callback) = callback {
            callback(progress);
        }
    }

    /// Closes the log for everything after an error.
    pub fn fence(&self, reason: &str) {
        let progress = {
            let mut state = self.state.borrow_mut();
            if matches!(state.status, Status::Fenced(_) | Status::Closed) {
                return;
            }
            state.status = Status::Fenced(reason.to_owned());
            state.progress(self.core.durable())
        };
        tracing::error!(log = %self.name, reason, "log is fenced");
        self.tell(progress);
    }

    /// The journal has the records `from..to`.
    pub fn journaled(&self, from: Offset, to: Offset) {
        self.state.borrow_mut().promise_range(from, to);
        self.publish();
    }

    /// Oldest use of a journal file that this log needs.
    pub fn oldest_pin(&self) -> Option<u64> {
        self.state.borrow().pins.front().map(|(file, _)| *file)
    }

    /// Lets go of the journal for records before `end`.
    pub fn unpin(&self, end: Offset) {
        loop {
            let file = {
                let mut state = self.state.borrow_mut();
                match state.pins.front() {
                    Some(&(file, upto)) if upto <= end => {
                        state.pins.pop_front();
                        file
                    }
                    _ => return,
                }
            };
            self.core.unpin(file);
        }
    }

    /// True, once, if the oldest byte that is in no segment file came at `since_ns`: the next byte is the oldest then.
    pub fn take_dirty(&self, since_ns: u64) -> bool {
        let mut state = self.state.borrow_mut();
        let is_it = state.dirty_since == Some(since_ns);
        if is_it {
            state.dirty_since = None;
        }
        is_it
    }

    pub fn has_unwritten(&self) -> bool {
        self.state.borrow().unwritten() > 0
    }

    /// True while a chunk of a segment's tail is in memory.
    pub fn has_chunk(&self, segment: Offset, start: u64) -> bool {
        let state = self.state.borrow();
        let found = state.segments.get(state.segment_at(segment)).filter(|found| found.base == segment);
        found.is_some_and(|found| found.tail.capacity() > 0 && start >= found.tail.start())
    }

    /// Drops a chunk of a segment's tail, if it may go or is gone already.
    pub fn evict(&self, segment: Offset, start: u64) -> bool {
        let mut state = self.state.borrow_mut();
        let at = state.segment_at(segment);
        let Some(found) = state.segments.get_mut(at).filter(|found| found.base == segment) else { return true };
        match found.tail.evict(start, found.written) {
            Some((capacity, pinned)) => {
                self.core.sub_tail(capacity);
                pinned.into_iter().for_each(|pinned| self.core.pins.borrow_mut().add(pinned));
                true
            }
            None => false,
        }
    }
}

impl LogInner {
    /// Waits until a field of the progress has reached `offset`.
    pub async fn wait(&self, offset: Offset, field: impl Fn(&Progress) -> Offset) -> Result<(), LogError> {
        loop {
            let changed = {
                let state = self.state.borrow();
                if field(&state.progress(self.core.durable())) >= offset {
                    return Ok(());
                }
                if let Some(error) = self.status_error(&state.status) {
                    return Err(error);
                }
                if offset > state.end() {
                    return Err(self.out_of_range(&state, offset));
                }
                self.changed.notified()
            };
            changed.await;
        }
    }
}
