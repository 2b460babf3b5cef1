//! The task that brings a log's bytes from memory into its segment files, in order. It runs while there is something to
//! write and one at a time a log, so that two writes never touch the same block.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use base::Offset;
use bytes::Bytes;
use reactor::fs::{self, File, OpenOptions};
use reactor::{ALIGNMENT, Class, spawn};

use super::blocks;
use super::inner::{LogInner, Status};
use crate::format::{checkpoint, index, names, snapshot};
use crate::io::{Context, DIRECT, write_file};
use crate::segment::Stage;
use crate::tail::block_floor;
use crate::{AbortedTxn, LogError, ProducerEntry};

/// Bytes that a log gathers behind the journal before they are written to the segment.
pub(crate) const WRITE_BEHIND_BYTES: u64 = 1 << 20;
/// Room that a segment file is given ahead of its bytes, at least and at most: as much again as it has between the two.
const ALLOCATE_BYTES_MIN: u64 = 256 << 10;
const ALLOCATE_BYTES_MAX: u64 = 64 << 20;
/// Wait between two tries to write to a full disk, in ms.
const NO_SPACE_RETRY_MS: u64 = 500;

enum Step {
    Idle,
    /// Make the file of the first segment that has none.
    Create(Offset),
    Write(Plan),
    /// A rolled segment is all in its file: cut it to size and write its indexes.
    Complete(Offset),
}

struct Plan {
    segment: Offset,
    /// A block boundary.
    from: u64,
    to: u64,
    /// Offset behind the last batch before `to`.
    end: Offset,
    blocks: Vec<Bytes>,
    file: File,
    allocated: u64,
    /// Room to ask for, if the file has too little.
    allocate: Option<u64>,
}

/// What a segment's side files are to hold.
struct SideFiles {
    base: Offset,
    size: u64,
    file: Option<File>,
    offsets: Vec<u8>,
    times: Vec<u8>,
    txns: Vec<AbortedTxn>,
}

impl LogInner {
    /// Has everything in memory written; says how many bytes that is.
    pub fn request_flush(self: &Rc<Self>) -> u64 {
        let bytes = {
            let mut state = self.state.borrow_mut();
            state.flush_to = state.end();
            state.unwritten()
        };
        self.start_writer();
        bytes
    }

    /// Starts the writer unless it runs.
    pub fn start_writer(self: &Rc<Self>) {
        if self.writing.replace(true) {
            return;
        }
        let log = Rc::clone(self);
        spawn(Class::Latency, async move { log.run_writer().await }).detach();
    }

    async fn run_writer(self: Rc<Self>) {
        loop {
            let step = self.next_step();
            let done = match step {
                Step::Idle => break,
                Step::Create(base) => self.create_segment(base).await,
                Step::Write(plan) => self.write(plan).await,
                Step::Complete(base) => self.complete_segment(base).await,
            };
            match done {
                Ok(()) => self.has_space(),
                Err(LogError::NoSpace { .. }) if !self.core.closing.get() => {
                    self.no_space();
                    reactor::sleep(Duration::from_millis(NO_SPACE_RETRY_MS)).await;
                }
                Err(error) => self.fence(&error.to_string()),
            }
        }
        self.writing.set(false);
        self.writer_stopped.notify_all();
        let more = self.state.borrow_mut().incomplete().any(|segment| segment.uncommitted() > 0);
        if more {
            self.core.line_up(&self);
        }
    }

    fn next_step(&self) -> Step {
        let mut state = self.state.borrow_mut();
        if state.held || !matches!(state.status, Status::Open | Status::NoSpace) {
            return Step::Idle;
        }
        let (flush, active) = (state.in_segments < state.flush_to, state.active().base);
        let segment_bytes = u64::from(state.config.segment_bytes);
        let Some(segment) = state.incomplete().next() else { return Step::Idle };
        if segment.stage == Stage::Planned {
            return Step::Create(segment.base);
        }
        let rolled = segment.base != active;
        let direct = segment.direct > segment.written;
        let unwritten = segment.unwritten();
        if unwritten > 0 && (rolled || flush || direct || unwritten >= WRITE_BEHIND_BYTES) {
            if segment.uncommitted() > 0 {
                segment.direct = segment.size();
                segment.commit_all();
            }
            let from = block_floor(segment.written);
            let plan = Plan {
                segment: segment.base,
                from,
                to: segment.size(),
                end: segment.end,
                blocks: segment.tail.blocks(from),
                file: segment.file.clone().expect("an open segment has a file"),
                allocated: segment.allocated,
                allocate: room_wanted(segment.allocated, segment.size(), segment_bytes),
            };
            return Step::Write(plan);
        }
        if rolled {
            return Step::Complete(segment.base);
        }
        if unwritten == 0 {
            state.dirty_since = None;
        }
        Step::Idle
    }

    async fn create_segment(&self, base: Offset) -> Result<(), LogError> {
        let snapshot = {
            let mut state = self.state.borrow_mut();
            let at = state.segment_at(base);
            state.segments[at].snapshot.take()
        };
        let file = self.create_segment_file(base, snapshot).await?;
        let mut state = self.state.borrow_mut();
        let at = state.segment_at(base);
        let segment = &mut state.segments[at];
        segment.file = Some(file);
        segment.stage = Stage::Open;
        Ok(())
    }

    /// Makes a segment's file, and the snapshot of producer state that belongs to it, durably.
    pub async fn create_segment_file(
        &self,
        base: Offset,
        snapshot: Option<Vec<ProducerEntry>>,
    ) -> Result<File, LogError> {
        let path = self.path(names::segment_file(base, names::LOG));
        let file = File::open(&path, OpenOptions { create: true, truncate: true, ..DIRECT }).await;
        let file = file.context("create", &path)?;
        file.register();
        if let Some(entries) = snapshot {
            self.write_snapshot(base, &entries).await?;
        }
        let dir = self.dir.borrow().clone();
        fs::sync_dir(&dir).await.context("sync", &dir)?;
        Ok(file)
    }

    pub async fn write_snapshot(&self, offset: Offset, entries: &[ProducerEntry]) -> Result<(), LogError> {
        write_file(&self.path(names::segment_file(offset, names::SNAPSHOT)), snapshot::write(entries)).await
    }

    async fn write(&self, plan: Plan) -> Result<(), LogError> {
        let path = self.path(names::segment_file(plan.segment, names::LOG));
        if let Some(allocate) = plan.allocate {
            let allocated = allocate_room(&plan, allocate, &path).await?;
            let mut state = self.state.borrow_mut();
            let at = state.segment_at(plan.segment);
            state.segments[at].allocated = allocated;
        }
        let durable = self.core.durable();
        let written = match self.core.write_turn(&plan.blocks, self).await {
            Some(turn) if durable => blocks::write_in_turn(&plan.file, plan.blocks, plan.from, turn).await,
            _turn => blocks::write_together(&plan.file, plan.blocks, plan.from, durable).await,
        };
        written.context("write", &path)?;
        {
            let mut state = self.state.borrow_mut();
            let at = state.segment_at(plan.segment);
            let segment = &mut state.segments[at];
            self.core.sub_unwritten(plan.to - segment.written);
            segment.written = plan.to;
            state.in_segments = plan.end;
            if self.core.durable() {
                state.flushed = plan.end;
            }
            state.promise(plan.end);
        }
        self.unpin(plan.end);
        self.publish();
        Ok(())
    }

    async fn complete_segment(&self, base: Offset) -> Result<(), LogError> {
        let files = {
            let state = self.state.borrow();
            let at = state.segment_at(base);
            side_files(&state.segments[at])
        };
        self.finish_files(&files).await?;
        let mut state = self.state.borrow_mut();
        let at = state.segment_at(base);
        let segment = &mut state.segments[at];
        segment.stage = Stage::Complete;
        segment.file = None;
        segment.txns = Vec::new();
        let index = std::mem::take(&mut segment.index);
        let end = segment.end;
        state.flushed = state.flushed.max(end);
        self.core.cold.keep_index(self.id.key, base, Rc::new(index));
        drop(state);
        self.publish();
        Ok(())
    }

    /// Cuts the file to its size and writes the indexes.
    async fn finish_files(&self, files: &SideFiles) -> Result<(), LogError> {
        let path = self.path(names::segment_file(files.base, names::LOG));
        let file = match &files.file {
            Some(file) => file.clone(),
            None => File::open(&path, DIRECT).await.context("open", &path)?,
        };
        file.set_len(files.size).await.context("truncate", &path)?;
        file.sync_all().await.context("sync", &path)?;
        let name = |extension| self.path(names::segment_file(files.base, extension));
        write_file(&name(names::INDEX), files.offsets.clone()).await?;
        write_file(&name(names::TIME_INDEX), files.times.clone()).await?;
        if !files.txns.is_empty() {
            write_file(&name(names::TXN_INDEX), index::write_txns(&files.txns)).await?;
        }
        Ok(())
    }

    /// Writes everything, makes plain files of all segments, and closes the log.
    pub async fn close(self: Rc<Self>) -> Result<(), LogError> {
        let status = self.state.borrow().status.clone();
        match status {
            Status::Closed => return Ok(()),
            Status::Fenced(_) => return Err(self.status_error(&status).expect("fenced is an error")),
            Status::Open | Status::NoSpace => {}
        }
        self.flush_all().await?;
        self.hold().await;
        let result = self.close_held().await;
        self.state.borrow_mut().status = Status::Closed;
        self.tell(self.state.borrow().progress(self.core.durable()));
        result
    }

    async fn close_held(&self) -> Result<(), LogError> {
        let (files, end) = {
            let mut state = self.state.borrow_mut();
            state.active().index_time();
            (side_files(state.active()), state.end())
        };
        self.finish_files(&files).await?;
        let producers = self.producers.borrow().clone();
        if let Some(source) = producers {
            let entries = source();
            self.write_snapshot(end, &entries).await?;
        }
        self.write_epochs().await?;
        let dir = self.dir.borrow().clone();
        fs::sync_dir(&dir).await.context("sync", &dir)?;
        let mut state = self.state.borrow_mut();
        state.flushed = end;
        state.segments.iter_mut().for_each(|segment| segment.file = None);
        Ok(())
    }

    /// Writes everything that is in memory now to the segments.
    pub async fn flush_all(self: &Rc<Self>) -> Result<(), LogError> {
        let end = self.state.borrow().end();
        loop {
            {
                let state = self.state.borrow();
                if state.in_segments >= end {
                    return Ok(());
                }
                if !matches!(state.status, Status::Open) {
                    return Err(self.status_error(&state.status).expect("a log that is not open has an error"));
                }
            }
            let stopped = self.writer_stopped.notified();
            self.request_flush();
            stopped.await;
        }
    }

    /// Makes what is written before `offset` durable on the rung that does not do so by itself.
    pub async fn sync(self: &Rc<Self>, offset: Offset) -> Result<(), LogError> {
        if self.state.borrow().flushed >= offset {
            return Ok(());
        }
        self.flush_all().await?;
        let (base, file, end) = {
            let state = self.state.borrow();
            let active = state.segments.back().expect("a log has a segment");
            (active.base, active.file.clone(), state.in_segments)
        };
        // Earlier segments were synced when they were completed.
        if let Some(file) = file {
            file.sync_data().await.context("sync", &self.path(names::segment_file(base, names::LOG)))?;
        }
        let mut state = self.state.borrow_mut();
        state.flushed = state.flushed.max(end);
        drop(state);
        self.publish();
        Ok(())
    }

    /// Keeps writer and journal from beginning anything, and waits for what they have begun.
    pub async fn hold(&self) {
        self.state.borrow_mut().held = true;
        while self.writing.get() {
            self.writer_stopped.notified().await;
        }
    }

    /// Ends what [`LogInner::hold`] began.
    pub fn release(self: &Rc<Self>) {
        self.state.borrow_mut().held = false;
        self.core.line_up(self);
        self.start_writer();
    }

    fn no_space(&self) {
        let progress = {
            let mut state = self.state.borrow_mut();
            if state.status != Status::Open {
                return;
            }
            state.status = Status::NoSpace;
            state.progress(self.core.durable())
        };
        tracing::error!(log = %self.name, "no space left: appends are refused until some is freed");
        self.tell(progress);
    }

    fn has_space(&self) {
        let mut state = self.state.borrow_mut();
        if state.status == Status::NoSpace {
            state.status = Status::Open;
            tracing::info!(log = %self.name, "space is there again: appends are taken");
        }
    }

    /// Writes the leader epochs to their checkpoint in the background.
    pub fn save_epochs(self: &Rc<Self>) {
        if self.writing_epochs.replace(true) {
            return;
        }
        let log = Rc::clone(self);
        spawn(Class::Normal, async move {
            loop {
                let before = log.state.borrow().epochs.clone();
                if let Err(error) = log.write_epochs().await {
                    // The file is a hint; recovery reads the epochs from the batches.
                    tracing::warn!(log = %log.name, %error, "the leader epochs cannot be saved");
                    break;
                }
                if log.state.borrow().epochs == before {
                    break;
                }
            }
            log.writing_epochs.set(false);
        })
        .detach();
    }

    /// Writes the leader epochs to their checkpoint, unless it says the same.
    pub async fn write_epochs(&self) -> Result<(), LogError> {
        let _permit = self.epoch_file.acquire().await;
        let epochs = self.state.borrow().epochs.clone();
        if self.epochs_saved.borrow().as_ref() == Some(&epochs) {
            return Ok(());
        }
        let path = self.path(names::EPOCHS);
        let text = checkpoint::write_epochs(&epochs);
        fs::write_atomic_durable(&path, text.into_bytes()).await.context("write", &path)?;
        *self.epochs_saved.borrow_mut() = Some(epochs);
        Ok(())
    }
}

fn side_files(segment: &crate::segment::Segment) -> SideFiles {
    SideFiles {
        base: segment.base,
        size: segment.size(),
        file: segment.file.clone(),
        offsets: segment.index.offset_bytes(),
        times: segment.index.time_bytes(),
        txns: segment.txns.clone(),
    }
}

/// Room to ask for when a segment file of `allocated` bytes is to hold `size`: ahead of the need, in growing steps, but
/// not past the size at which it is rolled.
fn room_wanted(allocated: u64, size: u64, segment_bytes: u64) -> Option<u64> {
    if size <= allocated {
        return None;
    }
    let ahead = size.clamp(ALLOCATE_BYTES_MIN, ALLOCATE_BYTES_MAX);
    let wanted = (size + ahead).min(segment_bytes).max(size);
    Some(wanted.next_multiple_of(ALIGNMENT as u64))
}

/// Allocates what is wanted, or what is needed if there is no room for more. Gives back the new size.
async fn allocate_room(plan: &Plan, wanted: u64, path: &Path) -> Result<u64, LogError> {
    let need = plan.to.next_multiple_of(ALIGNMENT as u64);
    match plan.file.allocate(plan.allocated, wanted - plan.allocated).await.context("allocate", path) {
        Ok(()) => Ok(wanted),
        Err(LogError::NoSpace { .. }) if need < wanted => {
            plan.file.allocate(plan.allocated, need - plan.allocated).await.context("allocate", path)?;
            Ok(need)
        }
        Err(error) => Err(error),
    }
}
