//! What the logs of one core in one directory share: budgets, the line for the next commit, the journal, and the tasks
//! that write behind.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

use base::{Offset, PartitionKey};
use reactor::sync::{Notify, Semaphore, oneshot};
use reactor::{Class, spawn};

use crate::cold::ColdCache;
use crate::commit::Note;
use crate::format::journal::RecordHeader;
use crate::journal::Journal;
use crate::log::{Log, LogInner, TURN_BLOCKS};
use crate::pins::Pins;
use crate::{Durability, LogConfig, LogCoreConfig, LogError, LogId, RecoverySink};

/// Age of the oldest unwritten byte at which a log is written behind, in ns: long enough that a slow partition costs one
/// small write in this time, short enough that the journal does not fill with the leftovers of many.
const WRITE_BEHIND_AGE_NS: u64 = 2_000_000_000;
/// Entries of tail chunks from which on those of removed logs and segments are swept out.
const CHUNK_ENTRIES_SWEPT: usize = 64 << 10;
/// How often ages are looked at, in ms.
const WRITE_BEHIND_CHECK_MS: u64 = 250;
/// Looks at ages between two at idle buffer memory: a few seconds' lull must not cost page faults afterwards.
const CHECKS_PER_RELEASE: u32 = 8;
/// Logs that are closed at once. Each waits for the disk several times in a row, and the file system makes what many wait for
/// durable in one step; more than this shorten the stop no further.
const CLOSING_MAX: usize = 64;
/// Pause between two reliefs while more is unwritten than half of what may be, in ns: about what the writes of one take.
const RELIEF_PAUSE_NS: u64 = 10_000_000;

/// One core's part of one log directory. A cheap handle.
#[derive(Clone)]
pub struct LogCore {
    pub(crate) inner: Rc<CoreInner>,
}

/// A chunk of some log's tail, in the order in which they were made.
struct ChunkEntry {
    log: Weak<LogInner>,
    segment: Offset,
    start: u64,
}

pub(crate) struct CoreInner {
    pub config: LogCoreConfig,
    pub journal: Option<Journal>,
    pub logs: RefCell<BTreeMap<PartitionKey, Rc<LogInner>>>,
    pub cold: ColdCache,
    /// Logs with bytes that were not committed, in order of their first such append.
    pub commit_line: RefCell<VecDeque<Rc<LogInner>>>,
    pub commit_wanted: Notify,
    /// Records without batches for the next commit.
    pub notes: RefCell<VecDeque<Note>>,
    /// Capacity of all tail chunks.
    tail_bytes: Cell<usize>,
    /// Bytes in no segment file yet.
    unwritten_bytes: Cell<usize>,
    chunks: RefCell<VecDeque<ChunkEntry>>,
    /// What readers hold of dropped chunks.
    pub pins: RefCell<Pins>,
    /// When each log got its first unwritten byte, oldest first. Entries outlive the state they tell of.
    dirty: RefCell<VecDeque<(u64, Weak<LogInner>)>>,
    /// When logs were last asked to write because much was unwritten.
    relieved_ns: Cell<u64>,
    /// Turns of writes behind the journal, in blocks.
    pub write_turns: Semaphore,
    /// Why the directory takes no more appends.
    pub fenced: RefCell<Option<String>>,
    pub closing: Cell<bool>,
}

impl CoreInner {
    /// True when a promise needs synchronous writes.
    pub fn durable(&self) -> bool {
        self.config.durability == Durability::Durable
    }

    pub fn unwritten(&self) -> usize {
        self.unwritten_bytes.get()
    }

    pub fn add_unwritten(&self, bytes: u64) {
        self.unwritten_bytes.set(self.unwritten_bytes.get() + bytes as usize);
    }

    pub fn sub_unwritten(&self, bytes: u64) {
        self.unwritten_bytes.set(self.unwritten_bytes.get() - bytes as usize);
    }

    pub fn sub_tail(&self, bytes: usize) {
        self.tail_bytes.set(self.tail_bytes.get() - bytes);
    }

    /// Bytes of memory in tail chunks.
    pub fn tail_bytes(&self) -> usize {
        self.tail_bytes.get()
    }

    /// Whether readers hold as much memory of dropped chunks as the tail itself may take. What else they ask for then comes from
    /// files, or is copied, until they have read some of what they got.
    pub fn pinned_too_much(&self) -> bool {
        self.pins.borrow_mut().exceed(self.config.tail_bytes_max)
    }

    pub fn add_chunk(&self, log: Weak<LogInner>, segment: Offset, start: u64, capacity: usize) {
        self.tail_bytes.set(self.tail_bytes.get() + capacity);
        self.chunks.borrow_mut().push_back(ChunkEntry { log, segment, start });
    }

    pub fn note_dirty(&self, since_ns: u64, log: Weak<LogInner>) {
        self.dirty.borrow_mut().push_back((since_ns, log));
    }

    /// Puts a log into the line for the next commit.
    pub fn line_up(&self, log: &Rc<LogInner>) {
        if !log.in_line.replace(true) {
            self.commit_line.borrow_mut().push_back(Rc::clone(log));
            self.commit_wanted.notify_one();
        }
    }

    pub fn journal_has_room(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.room().is_some())
    }

    /// Puts a record without batches into the journal. Returns when it is written; at once when there is no journal.
    pub async fn note(&self, record: RecordHeader) -> Result<(), LogError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !self.closing.get()) else { return Ok(()) };
        let (written, told) = oneshot::channel();
        self.notes.borrow_mut().push_back(Note { record, written });
        self.commit_wanted.notify_one();
        if let Some(file_sequence) = journal.short_of() {
            self.flush_pinning(file_sequence);
        }
        told.await.map_err(|_| LogError::Fenced {
            log: self.config.dir.display().to_string(),
            reason: "the journal cannot be written".into(),
        })
    }

    /// A log let go of a file of the journal.
    pub fn unpin(&self, file_sequence: u64) {
        if let Some(journal) = &self.journal {
            journal.unpin(file_sequence);
            if !self.notes.borrow().is_empty() {
                self.commit_wanted.notify_one();
            }
        }
    }

    /// Drops the oldest chunks until memory is within the budget. Chunks with unwritten bytes cannot go: their logs are
    /// asked to write, and the look ends, since younger ones are in no better state.
    pub fn evict(&self) {
        // Every round takes an entry off the queue, and one that has to stay ends the loop.
        while self.tail_bytes.get() > self.config.tail_bytes_max {
            let Some(entry) = self.chunks.borrow_mut().pop_front() else { return };
            let Some(log) = entry.log.upgrade() else { continue };
            if !log.evict(entry.segment, entry.start) && log.has_unwritten() {
                self.chunks.borrow_mut().push_front(entry);
                log.request_flush();
                return;
            }
        }
    }

    /// Drops the entries of chunks whose logs are gone, once there are many: they keep a little memory of their log each.
    fn forget_chunks(&self) {
        let mut chunks = self.chunks.borrow_mut();
        if chunks.len() > CHUNK_ENTRIES_SWEPT {
            chunks.retain(|entry| entry.log.upgrade().is_some_and(|log| log.has_chunk(entry.segment, entry.start)));
        }
    }

    /// Has the logs with the oldest unwritten bytes write while more than half of what may be unwritten is: appends are
    /// refused at the whole, and a stream of them should never get there as long as the disk keeps up.
    pub fn relieve(&self, now_ns: u64) {
        let bound = self.config.unwritten_bytes_max;
        if self.unwritten() > bound / 2 && now_ns.saturating_sub(self.relieved_ns.get()) >= RELIEF_PAUSE_NS {
            self.make_room(now_ns);
        }
    }

    /// Has the logs with the oldest unwritten bytes write a part of what may be unwritten. An append that is refused asks for
    /// this whatever was asked before: nothing would come behind it that does.
    pub fn make_room(&self, now_ns: u64) {
        self.relieved_ns.set(now_ns);
        self.flush_older(u64::MAX, self.config.unwritten_bytes_max as u64 / 4);
    }

    /// Asks the logs with the oldest unwritten bytes to write, those older than `before_ns`, until they have `bytes`.
    fn flush_older(&self, before_ns: u64, mut bytes: u64) {
        while bytes > 0 {
            let log = {
                let mut dirty = self.dirty.borrow_mut();
                match dirty.front() {
                    Some((since, _)) if *since <= before_ns => {
                        dirty.pop_front().map(|(since, log)| (since, log.upgrade()))
                    }
                    _ => return,
                }
            };
            if let Some((since, Some(log))) = log
                && log.take_dirty(since)
            {
                bytes = bytes.saturating_sub(log.request_flush());
            }
        }
    }

    /// Asks logs for a flush that keep the journal's oldest file from being used again.
    pub fn flush_pinning(&self, file_sequence: u64) {
        let pinning: Vec<_> =
            self.logs.borrow().values().filter(|log| log.oldest_pin() == Some(file_sequence)).cloned().collect();
        for log in pinning {
            log.request_flush();
        }
    }

    /// Closes the directory for appends after an error that is not one partition's alone.
    pub fn fence(&self, reason: &str) {
        if self.fenced.borrow().is_some() {
            return;
        }
        tracing::error!(dir = %self.config.dir.display(), core = %self.config.core, reason, "log directory is fenced");
        *self.fenced.borrow_mut() = Some(reason.to_owned());
        let logs: Vec<_> = self.logs.borrow().values().cloned().collect();
        for log in logs {
            log.fence(reason);
        }
    }
}

impl LogCore {
    /// Opens this core's part of the directory and its journal, and starts the tasks that write.
    ///
    /// # Errors
    /// [`LogError::Io`] when the journal cannot be made.
    pub async fn open(config: LogCoreConfig) -> Result<LogCore, LogError> {
        let journal = match &config.journal {
            Some(ring) => Some(Journal::open(&config, ring).await?),
            None => None,
        };
        let inner = Rc::new(CoreInner {
            config,
            journal,
            logs: RefCell::default(),
            cold: ColdCache::default(),
            commit_line: RefCell::default(),
            commit_wanted: Notify::new(),
            notes: RefCell::default(),
            tail_bytes: Cell::new(0),
            unwritten_bytes: Cell::new(0),
            chunks: RefCell::default(),
            pins: RefCell::default(),
            dirty: RefCell::default(),
            relieved_ns: Cell::new(0),
            write_turns: Semaphore::new(TURN_BLOCKS),
            fenced: RefCell::new(None),
            closing: Cell::new(false),
        });
        spawn(Class::Latency, crate::commit::run(Rc::clone(&inner))).detach();
        spawn(Class::Normal, write_behind(Rc::downgrade(&inner))).detach();
        Ok(LogCore { inner })
    }

    /// Opens a partition's log: makes the directory (durably, with `partition.metadata`) or recovers it.
    ///
    /// # Errors
    /// [`LogError::TopicId`] when the directory belongs to another topic id, [`LogError::Io`], [`LogError::Fenced`].
    pub async fn open_log(
        &self,
        id: LogId,
        config: Rc<LogConfig>,
        sink: &mut dyn RecoverySink,
    ) -> Result<Log, LogError> {
        if let Some(reason) = &*self.inner.fenced.borrow() {
            return Err(LogError::Fenced { log: id.dir_name(), reason: reason.clone() });
        }
        let open = self.inner.logs.borrow().contains_key(&id.key);
        assert!(!open, "log {} is opened twice", id.dir_name());
        let log = crate::recover::open_log(&self.inner, id, config, sink).await?;
        self.inner.logs.borrow_mut().insert(log.id.key, Rc::clone(&log));
        Ok(Log { inner: log })
    }

    /// The log of a partition, if it is open on this core.
    pub fn log(&self, key: &PartitionKey) -> Option<Log> {
        self.inner.logs.borrow().get(key).map(|inner| Log { inner: Rc::clone(inner) })
    }

    /// Why the directory takes no appends any more (KAFKA_STORAGE_ERROR), if so.
    pub fn fenced(&self) -> Option<String> {
        self.inner.fenced.borrow().clone()
    }

    /// How this core was opened.
    pub fn config(&self) -> &LogCoreConfig {
        &self.inner.config
    }

    /// Bytes of memory that hold recent records of all logs, and how many bytes are in no segment file yet.
    pub fn memory(&self) -> (usize, usize) {
        (self.inner.tail_bytes(), self.inner.unwritten())
    }

    /// Bytes of memory that readers hold and that the tail no longer has.
    pub fn pinned_bytes(&self) -> usize {
        self.inner.pins.borrow_mut().bytes()
    }

    /// Writes everything to the segments, closes all logs and removes the journal. The broker calls this on every core,
    /// then [`crate::write_checkpoints`] and [`crate::write_clean_shutdown`] on one. The checkpoints' content has to be
    /// taken after this ([`LogCore::checkpoint`]).
    ///
    /// # Errors
    /// The first failure; the others go to the log output. The directory is then not clean.
    pub async fn close_clean(&self) -> Result<(), LogError> {
        self.inner.closing.set(true);
        let logs: RefCell<Vec<_>> = RefCell::new(self.inner.logs.borrow().values().cloned().collect());
        let first_error = RefCell::new(None);
        let close_some = || async {
            loop {
                let next = logs.borrow_mut().pop();
                let Some(log) = next else { return };
                if let Err(error) = log.exclusively(LogInner::close).await {
                    tracing::error!(log = %log.name, %error, "closing the log failed");
                    first_error.borrow_mut().get_or_insert(error);
                }
            }
        };
        reactor::join_all((0..CLOSING_MAX).map(|_| close_some())).await;
        let first_error = first_error.into_inner();
        self.inner.commit_wanted.notify_one();
        match (first_error, &self.inner.journal) {
            (Some(error), _) => Err(error),
            (None, Some(journal)) => journal.remove().await,
            (None, None) => Ok(()),
        }
    }
}

/// Writes behind what has waited long enough, as long as the core exists.
async fn write_behind(core: Weak<CoreInner>) {
    for check in 1u32.. {
        reactor::sleep(std::time::Duration::from_millis(WRITE_BEHIND_CHECK_MS)).await;
        let Some(core) = core.upgrade() else { return };
        if core.closing.get() {
            return;
        }
        core.flush_older(reactor::now().mono_ns.saturating_sub(WRITE_BEHIND_AGE_NS), u64::MAX);
        core.relieve(reactor::now().mono_ns);
        core.evict();
        core.forget_chunks();
        if check.is_multiple_of(CHECKS_PER_RELEASE) {
            reactor::release_idle_buffers();
        }
    }
}
