use std::rc::Rc;

use base::{Offset, TopicId};
use bytes::Bytes;

use crate::{
    AbortedTxn, AppendBatch, ColdRead, DirStart, EpochEntry, LogConfig, LogCoreConfig, LogError, LogId, OffsetAtTime,
    ProducerEntry, Progress, ReadOutcome, ReadRequest, RecoverySink,
};

/// Opens a log directory once per start of the broker, before any core opens its part: reads and removes the clean
/// shutdown marker, applies what leftover journals (of all cores of the last run) hold beyond the segments, and removes
/// the journals.
///
/// # Errors
/// [`LogError::Io`] when the directory cannot be used at all. Damage in single partitions is not an error here.
pub async fn open_dir(dir: &std::path::Path) -> Result<DirStart, LogError> {
    let _ = dir;
    Ok(DirStart::default())
}

/// One core's part of one log directory.
#[derive(Clone)]
pub struct LogCore {
    config: Rc<LogCoreConfig>,
}

impl LogCore {
    /// Opens this core's part of the directory and its journal.
    ///
    /// # Errors
    /// [`LogError::Io`] when the journal cannot be made.
    pub async fn open(config: LogCoreConfig) -> Result<LogCore, LogError> {
        Ok(LogCore { config: Rc::new(config) })
    }

    /// Opens a partition's log: makes the directory (durably, with `partition.metadata`) or recovers it.
    ///
    /// # Errors
    /// [`LogError::TopicId`] when the directory belongs to another topic id, [`LogError::Io`].
    pub async fn open_log(
        &self,
        id: LogId,
        config: Rc<LogConfig>,
        sink: &mut dyn RecoverySink,
    ) -> Result<Log, LogError> {
        let _ = (config, sink, &self.config);
        Err(LogError::Closed { log: id.dir_name() })
    }

    /// Writes everything to the segments, closes all logs and removes the journal. The broker calls this on every core,
    /// then `write_checkpoints` and `write_clean_shutdown` on one.
    ///
    /// # Errors
    /// The first failure; the others go to the log output.
    pub async fn close_clean(&self) -> Result<(), LogError> {
        Ok(())
    }
}

/// One partition's log. A cheap handle; all clones are the same log. Belongs to the core that opened it.
#[derive(Clone)]
pub struct Log {
    id: Rc<LogId>,
}

impl Log {
    fn closed<T>(&self) -> Result<T, LogError> {
        Err(LogError::Closed { log: self.id.dir_name() })
    }

    /// Name and key.
    pub fn id(&self) -> &LogId {
        &self.id
    }

    /// Appends one batch: copies it into the tail, stamps the copy, and queues it to be written. Never waits. The
    /// batch can be read at once; when it is promised, [`Log::promised_end`] passes it.
    ///
    /// # Errors
    /// Nothing was appended, see [`LogError`].
    pub fn append(&self, batch: &AppendBatch) -> Result<(), LogError> {
        let _ = batch;
        self.closed()
    }

    /// Log start offset.
    pub fn start_offset(&self) -> Offset {
        0
    }

    /// Offset behind the last batch in memory (log end offset).
    pub fn end_offset(&self) -> Offset {
        0
    }

    /// How far writing has got.
    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// `progress().promised_end`.
    pub fn promised_end(&self) -> Offset {
        0
    }

    /// Calls `callback` whenever [`Progress`] has changed, and once when the log is fenced (ask [`Log::fenced`]). It runs
    /// on this core outside of any borrow of the log, and may call into the log. One callback per log; the new one
    /// replaces the old.
    pub fn on_progress(&self, callback: Box<dyn Fn(Progress)>) {
        let _ = callback;
    }

    /// Why the log takes no appends any more, if so.
    pub fn fenced(&self) -> Option<LogError> {
        None
    }

    /// Waits until records before `offset` have been written.
    ///
    /// # Errors
    /// The log was fenced, closed, or cut below `offset`.
    pub async fn wait_written(&self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        self.closed()
    }

    /// Waits until records before `offset` carry the promise of the configured rung.
    ///
    /// # Errors
    /// As [`Log::wait_written`].
    pub async fn wait_promised(&self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        self.closed()
    }

    /// Waits until records before `offset` are durable, flushing if the rung would not do so by itself.
    ///
    /// # Errors
    /// As [`Log::wait_written`].
    pub async fn wait_durable(&self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        self.closed()
    }

    /// Reads whole batches. Never waits: what is not in memory comes back as [`ReadOutcome::Cold`].
    ///
    /// # Errors
    /// [`LogError::OutOfRange`], [`LogError::Fenced`] after a read error.
    pub fn read(&self, request: ReadRequest) -> Result<ReadOutcome, LogError> {
        let _ = request;
        self.closed()
    }

    /// Reads the batches of a cold read into memory.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when the segment was removed meanwhile, [`LogError::Io`].
    pub async fn read_cold(&self, read: ColdRead) -> Result<Bytes, LogError> {
        let _ = read;
        self.closed()
    }

    /// The leader epochs of this log, oldest first.
    pub fn leader_epochs(&self) -> Vec<EpochEntry> {
        Vec::new()
    }

    /// Notes that `epoch` begins at `start_offset` (a new leader before its first append); written to the checkpoint.
    pub fn assign_epoch(&self, entry: EpochEntry) {
        let _ = entry;
    }

    /// The first record at or after `from` and before `upper` whose timestamp is at least `timestamp`.
    ///
    /// # Errors
    /// [`LogError::Io`], [`LogError::Corrupt`].
    pub async fn find_timestamp(&self, timestamp: i64, upper: Offset) -> Result<Option<OffsetAtTime>, LogError> {
        let _ = (timestamp, upper);
        self.closed()
    }

    /// The record with the largest timestamp; the first of several.
    ///
    /// # Errors
    /// As [`Log::find_timestamp`].
    pub async fn max_timestamp(&self) -> Result<Option<OffsetAtTime>, LogError> {
        self.closed()
    }

    /// Replaces the options.
    pub fn set_config(&self, config: Rc<LogConfig>) {
        let _ = config;
    }

    /// Removes segments that retention no longer keeps, none that reaches `limit` (the high watermark). The reactor's
    /// clock decides. Returns how many went.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn apply_retention(&self, limit: Offset) -> Result<usize, LogError> {
        let _ = limit;
        self.closed()
    }

    /// Moves the log start offset up to `offset` (DeleteRecords, or a leader's start offset on a follower).
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when `offset` is behind the end.
    pub async fn advance_start_offset(&self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        self.closed()
    }

    /// Removes everything from `offset` on.
    ///
    /// # Errors
    /// [`LogError::Io`]; the log is then fenced.
    pub async fn truncate_to(&self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        self.closed()
    }

    /// Removes everything; the next append is at `offset`.
    ///
    /// # Errors
    /// [`LogError::Io`]; the log is then fenced.
    pub async fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        self.closed()
    }

    /// Closes the log and removes it: the directory is renamed to `….-delete` at once and unlinked after
    /// `file.delete.delay.ms`.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn delete(&self) -> Result<(), LogError> {
        self.closed()
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        0
    }

    /// Says where producer state for `.snapshot` files comes from. The log calls `source` inside an append that rolls,
    /// before that append's batch counts, and in [`LogCore::close_clean`]: at both moments it must give the state of
    /// exactly the batches appended before (so a partition updates its producer state after [`Log::append`] returns).
    /// It must not call into the log.
    pub fn set_producer_source(&self, source: Box<dyn Fn() -> Vec<ProducerEntry>>) {
        let _ = source;
    }

    /// Adds an aborted transaction to the transaction index.
    pub fn note_aborted(&self, txn: AbortedTxn) {
        let _ = txn;
    }

    /// Aborted transactions that overlap `from..upper`.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn aborted_in(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTxn>, LogError> {
        let _ = (from, upper);
        self.closed()
    }

    /// Notes the high watermark for `replication-offset-checkpoint`.
    pub fn set_high_watermark(&self, offset: Offset) {
        let _ = offset;
    }

    /// Topic id.
    pub fn topic_id(&self) -> TopicId {
        self.id.key.topic_id
    }
}
