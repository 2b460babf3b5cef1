//! One partition's log.

mod append;
mod blocks;
mod inner;
mod read;
mod search;
mod trim;
mod txns;
mod writer;

use std::rc::Rc;

use base::{Offset, TopicId};
use bytes::Bytes;

use crate::{
    AbortedTxn, AppendBatch, ColdRange, ColdRead, EpochEntry, LogConfig, LogError, LogId, OffsetAtTime, ProducerEntry,
    Progress, ReadOutcome, ReadRequest,
};

pub(crate) use append::random_jitter;
pub(crate) use blocks::TURN_BLOCKS;
pub(crate) use inner::{LogInner, LogState, Status};

/// One partition's log. A cheap handle; all clones are the same log. Belongs to the core that opened it.
#[derive(Clone)]
pub struct Log {
    pub(crate) inner: Rc<LogInner>,
}

impl Log {
    /// Name and key.
    pub fn id(&self) -> &LogId {
        &self.inner.id
    }

    /// Appends one batch: copies it into the tail, stamps the copy, and queues it to be written. Never waits. The
    /// batch can be read at once; when it is promised, [`Log::promised_end`] passes it.
    ///
    /// # Errors
    /// Nothing was appended, see [`LogError`].
    pub fn append(&self, batch: &AppendBatch) -> Result<(), LogError> {
        self.inner.append(batch)
    }

    /// Log start offset.
    pub fn start_offset(&self) -> Offset {
        self.inner.state.borrow().start
    }

    /// Offset behind the last batch in memory (log end offset).
    pub fn end_offset(&self) -> Offset {
        self.inner.state.borrow().end()
    }

    /// How far writing has got.
    pub fn progress(&self) -> Progress {
        self.inner.state.borrow().progress(self.inner.core.durable())
    }

    /// `progress().promised_end`.
    pub fn promised_end(&self) -> Offset {
        self.inner.state.borrow().promised
    }

    /// Calls `callback` whenever [`Progress`] has changed, and once when the log is fenced (ask [`Log::fenced`]). It runs
    /// on this core outside of any borrow of the log, and may call into the log. One callback per log; the new one
    /// replaces the old.
    pub fn on_progress(&self, callback: Box<dyn Fn(Progress)>) {
        *self.inner.on_progress.borrow_mut() = Some(Rc::from(callback));
    }

    /// Why the log takes no appends any more, if so.
    pub fn fenced(&self) -> Option<LogError> {
        let state = self.inner.state.borrow();
        self.inner.status_error(&state.status)
    }

    /// Waits until records before `offset` have been written.
    ///
    /// # Errors
    /// The log was fenced, closed, or cut below `offset`.
    pub async fn wait_written(&self, offset: Offset) -> Result<(), LogError> {
        self.inner.wait(offset, |progress| progress.written_end).await
    }

    /// Waits until records before `offset` carry the promise of the configured rung.
    ///
    /// # Errors
    /// As [`Log::wait_written`].
    pub async fn wait_promised(&self, offset: Offset) -> Result<(), LogError> {
        self.inner.wait(offset, |progress| progress.promised_end).await
    }

    /// Waits until records before `offset` are durable, flushing if the rung would not do so by itself.
    ///
    /// # Errors
    /// As [`Log::wait_written`].
    pub async fn wait_durable(&self, offset: Offset) -> Result<(), LogError> {
        if !self.inner.core.durable() {
            self.inner.sync(offset).await?;
        }
        self.inner.wait(offset, |progress| progress.durable_end).await
    }

    /// Reads whole batches. Never waits: what is not in memory comes back as [`ReadOutcome::Cold`].
    ///
    /// # Errors
    /// [`LogError::OutOfRange`], [`LogError::Fenced`] after a read error.
    pub fn read(&self, request: ReadRequest) -> Result<ReadOutcome, LogError> {
        self.inner.read(request)
    }

    /// Finds the byte range of a cold read; `None` when there is nothing for it below its upper bound.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when the segment was removed meanwhile, [`LogError::Io`], [`LogError::Corrupt`].
    pub async fn locate(&self, read: ColdRead) -> Result<Option<ColdRange>, LogError> {
        self.inner.locate(read).await
    }

    /// Reads the batches of a cold read into memory; empty when there are none.
    ///
    /// # Errors
    /// As [`Log::locate`].
    pub async fn read_cold(&self, read: ColdRead) -> Result<Bytes, LogError> {
        match self.inner.locate(read).await? {
            Some(range) => self.inner.read_range(&range).await,
            None => Ok(Bytes::new()),
        }
    }

    /// Reads a byte range that [`Log::locate`] found.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn read_range(&self, range: &ColdRange) -> Result<Bytes, LogError> {
        self.inner.read_range(range).await
    }

    /// The leader epochs of this log, oldest first.
    pub fn leader_epochs(&self) -> Vec<EpochEntry> {
        self.inner.state.borrow().epochs.clone()
    }

    /// Notes that `epoch` begins at `start_offset` (a new leader before its first append); written to the checkpoint.
    pub fn assign_epoch(&self, entry: EpochEntry) {
        let news = self.inner.state.borrow_mut().note_epoch(entry);
        if news {
            self.inner.save_epochs();
        }
    }

    /// The first record at or after `from` and before `upper` whose timestamp is at least `timestamp`.
    ///
    /// # Errors
    /// [`LogError::Io`], [`LogError::Corrupt`].
    pub async fn find_timestamp(&self, timestamp: i64, upper: Offset) -> Result<Option<OffsetAtTime>, LogError> {
        self.inner.find_timestamp(timestamp, upper).await
    }

    /// The record with the largest timestamp; the first of several.
    ///
    /// # Errors
    /// As [`Log::find_timestamp`].
    pub async fn max_timestamp(&self) -> Result<Option<OffsetAtTime>, LogError> {
        self.inner.max_timestamp().await
    }

    /// Replaces the options.
    pub fn set_config(&self, config: Rc<LogConfig>) {
        let mut state = self.inner.state.borrow_mut();
        state.jitter_ms = random_jitter(config.segment_jitter_ms);
        state.config = config;
    }

    /// Removes segments that retention no longer keeps, none that reaches `limit` (the high watermark). The reactor's
    /// clock decides. Returns how many went.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn apply_retention(&self, limit: Offset) -> Result<usize, LogError> {
        self.inner.exclusively(move |log| log.apply_retention(limit)).await
    }

    /// Moves the log start offset up to `offset` (DeleteRecords, or a leader's start offset on a follower).
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when `offset` is behind the end.
    pub async fn advance_start_offset(&self, offset: Offset) -> Result<(), LogError> {
        self.inner.exclusively(move |log| log.advance_start_offset(offset)).await
    }

    /// Removes everything from `offset` on.
    ///
    /// # Errors
    /// [`LogError::Io`]; the log is then fenced.
    pub async fn truncate_to(&self, offset: Offset) -> Result<(), LogError> {
        self.inner.exclusively(move |log| log.truncate_to(offset)).await
    }

    /// Removes everything; the next append is at `offset`.
    ///
    /// # Errors
    /// [`LogError::Io`]; the log is then fenced.
    pub async fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<(), LogError> {
        self.inner.exclusively(move |log| log.restart_at(offset)).await
    }

    /// Closes the log and removes it: the directory is renamed to `….-delete` at once and unlinked after
    /// `file.delete.delay.ms`.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn delete(&self) -> Result<(), LogError> {
        self.inner.exclusively(LogInner::delete).await
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.inner.state.borrow().segments.iter().map(|segment| segment.size()).sum()
    }

    /// Says where producer state for `.snapshot` files comes from. The log calls `source` inside an append that rolls,
    /// before that append's batch counts, and in [`LogCore::close_clean`]: at both moments it must give the state of
    /// exactly the batches appended before (so a partition updates its producer state after [`Log::append`] returns).
    /// It must not call into the log.
    pub fn set_producer_source(&self, source: Box<dyn Fn() -> Vec<ProducerEntry>>) {
        *self.inner.producers.borrow_mut() = Some(Rc::from(source));
    }

    /// Adds an aborted transaction to the transaction index.
    pub fn note_aborted(&self, txn: AbortedTxn) {
        self.inner.note_aborted(txn);
    }

    /// Aborted transactions that overlap `from..upper`.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn aborted_in(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTxn>, LogError> {
        self.inner.aborted_in(from, upper).await
    }

    /// Notes the high watermark for `replication-offset-checkpoint`.
    pub fn set_high_watermark(&self, offset: Offset) {
        self.inner.state.borrow_mut().high_watermark = offset;
    }

    /// Topic id.
    pub fn topic_id(&self) -> TopicId {
        self.inner.id.key.topic_id
    }
}
