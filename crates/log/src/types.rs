use std::path::PathBuf;
use std::sync::Arc;

use base::{CoreId, LeaderEpoch, Offset, PartitionIndex, PartitionKey, ProducerId, TopicId};
use bytes::Bytes;
use records::BatchHeader;

/// Which promise an acknowledgement carries (`odradek.durability`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Survives power loss: writes are synchronous (RWF_DSYNC) before they are promised.
    #[default]
    Durable,
    /// Survives the death of the process: the kernel has the bytes, in its page cache or on the way to the device.
    Written,
}

/// A partition's log by name and by key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogId {
    /// Topic name, as in the directory's name.
    pub topic: Arc<str>,
    /// Topic id and partition index.
    pub key: PartitionKey,
}

impl LogId {
    /// Name of the partition's directory, `topic-partition`.
    pub fn dir_name(&self) -> String {
        format!("{}-{}", self.topic, self.key.partition)
    }
}

/// The topic options a log obeys. All can change while it is open ([`crate::Log`]`::set_config`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// `segment.bytes`: size at which a segment is rolled.
    pub segment_bytes: u32,
    /// `segment.ms`: age, by record timestamps, at which a segment is rolled.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: most that a random share of it shortens `segment_ms`.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: size at which an offset index counts as full.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: log bytes between two index entries.
    pub index_interval_bytes: u32,
    /// `retention.ms`, -1 for no limit.
    pub retention_ms: i64,
    /// `retention.bytes`, -1 for no limit.
    pub retention_bytes: i64,
    /// `file.delete.delay.ms`: how long a removed segment stays on disk as `.deleted`.
    pub file_delete_delay_ms: i64,
    /// `cleanup.policy` contains `delete`: retention by time and size applies.
    pub delete_policy: bool,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3600 * 1000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * 3600 * 1000,
            retention_bytes: -1,
            file_delete_delay_ms: 60_000,
            delete_policy: true,
        }
    }
}

/// The journal of one core in one directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalConfig {
    /// Bytes of one journal file, a multiple of 4096.
    pub file_bytes: u32,
    /// Most files in the ring. The first is made at open, the others when they are needed.
    pub files_max: u32,
}

impl Default for JournalConfig {
    fn default() -> JournalConfig {
        JournalConfig { file_bytes: 8 << 20, files_max: 8 }
    }
}

/// How a core opens its part of a log directory.
#[derive(Clone, Debug)]
pub struct LogCoreConfig {
    /// The log directory.
    pub dir: PathBuf,
    /// The core this runs on; it names the journal's files.
    pub core: CoreId,
    /// The rung of the promise.
    pub durability: Durability,
    /// What `open_dir` found; every core of the directory gets a clone.
    pub start: DirStart,
    /// The journal, or `None` for logs that write every append straight to the segment (the metadata log).
    pub journal: Option<JournalConfig>,
    /// Memory for recent record bytes, written or not, all logs of this core together.
    pub tail_bytes_max: usize,
    /// Of these, bytes not yet in a segment file; an append beyond is refused ([`crate::LogError::Overloaded`]).
    pub unwritten_bytes_max: usize,
}

impl LogCoreConfig {
    /// The defaults for a data core.
    pub fn new(dir: PathBuf, core: CoreId, durability: Durability, start: DirStart) -> LogCoreConfig {
        LogCoreConfig {
            dir,
            core,
            durability,
            start,
            journal: Some(JournalConfig::default()),
            tail_bytes_max: 64 << 20,
            unwritten_bytes_max: 32 << 20,
        }
    }
}

/// What the one-time opening of a log directory found. Cheap to clone, can be sent to every core.
#[derive(Clone, Debug, Default)]
pub struct DirStart {
    /// The directory was stopped cleanly: no segment is scanned.
    pub clean: bool,
    /// Broker epoch in the clean shutdown marker (KIP-966), -1 when there was none.
    pub broker_epoch: i64,
    /// Number of this run of the broker on the directory; journals carry it.
    pub generation: u64,
    /// The partition directories that exist, strays and those of deleted topics included.
    pub found: Arc<Vec<FoundLog>>,
    /// `recovery-point-offset-checkpoint`, by directory name.
    pub recovery_points: Arc<std::collections::HashMap<String, Offset>>,
    /// `log-start-offset-checkpoint`, by directory name.
    pub start_offsets: Arc<std::collections::HashMap<String, Offset>>,
    /// `replication-offset-checkpoint` (high watermarks), by directory name.
    pub high_watermarks: Arc<std::collections::HashMap<String, Offset>>,
}

/// A partition directory on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundLog {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition index.
    pub partition: PartitionIndex,
    /// Id in `partition.metadata`, if that file is there and readable.
    pub topic_id: Option<TopicId>,
}

/// What recovery tells the partition's brain. The newest usable producer snapshot comes first, then every batch behind it.
pub trait RecoverySink {
    /// State of all producers at `offset`; called at most once, before any batch.
    fn producer_snapshot(&mut self, offset: Offset, entries: Vec<ProducerEntry>);

    /// The next batch. `control` holds the whole batch when it is a control batch, so that markers can be read. The
    /// answer, for an abort marker, is what the transaction index has to hold.
    fn batch(&mut self, header: &BatchHeader, control: Option<&[u8]>) -> Option<AbortedTxn>;
}

/// One producer in a `.snapshot` file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Last sequence, -1 if no batch is known.
    pub last_sequence: i32,
    /// Last offset, -1 if no batch is known.
    pub last_offset: Offset,
    /// Last offset minus first offset of the last batch.
    pub offset_delta: i32,
    /// Timestamp of the last batch or marker, ms.
    pub timestamp: i64,
    /// Epoch of the coordinator that wrote the last marker, -1 if none.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction, -1 if none.
    pub current_txn_first_offset: Offset,
}

/// An entry of `.txnindex`: a transaction that was aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
    /// Offset of the abort marker.
    pub last_offset: Offset,
    /// Last stable offset when the marker was written.
    pub last_stable_offset: Offset,
}

/// A line of `leader-epoch-checkpoint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of its first record.
    pub start_offset: Offset,
}

/// One batch to append.
#[derive(Clone, Debug)]
pub struct AppendBatch {
    /// The whole batch and nothing else; base offset and leader epoch in it are ignored.
    pub bytes: Bytes,
    /// The header of `bytes`, as parsed.
    pub header: BatchHeader,
    /// Offset of the first record; must be the log's end, or behind it when a follower copies a compacted log.
    pub base_offset: Offset,
    /// Epoch to stamp.
    pub leader_epoch: LeaderEpoch,
}

/// How far a log has got. Every field only grows, except at a truncation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Offset up to which records survive the death of the process.
    pub written_end: Offset,
    /// Offset up to which records survive power loss. On the `written` rung this moves with segment flushes only.
    pub durable_end: Offset,
    /// The one of the two that the configured rung promises.
    pub promised_end: Offset,
}

/// A read of consecutive batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// First offset wanted; the batch that contains it comes whole.
    pub from: Offset,
    /// Bytes wanted at most; whole batches only.
    pub max_bytes: usize,
    /// Return the first batch even if it is larger than `max_bytes` (KIP-74).
    pub min_one_batch: bool,
    /// Batches that reach this offset or lie behind it are not returned (high watermark, last stable offset or end).
    pub upper: Offset,
}

/// What a read found.
#[derive(Clone, Debug)]
pub enum ReadOutcome {
    /// Whole batches in memory, in order; a batch may continue from one element into the next.
    Tail {
        /// The bytes.
        chunks: Vec<Bytes>,
        /// Their number.
        len: usize,
        /// Base offset of the first batch.
        first_offset: Offset,
        /// Offset behind the last batch.
        next_offset: Offset,
    },
    /// The batches are on disk: [`crate::Log`]`::locate` finds the byte range, `read_cold` reads it.
    Cold(ColdRead),
    /// Nothing at `from` below `upper` yet, or the first batch is larger than `max_bytes`.
    Empty,
}

/// A read that has to go to a segment file; made by a read, consumed by the log that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColdRead {
    /// The request this answers.
    pub request: ReadRequest,
    /// Base offset of the segment.
    pub(crate) segment: Offset,
}

/// Whole batches as a byte range of a segment file, to be spliced to a socket or read.
#[derive(Clone)]
pub struct ColdRange {
    /// The segment, opened for reading through the page cache.
    pub file: reactor::fs::File,
    /// Position of the first batch, in bytes.
    pub position: u64,
    /// Bytes of the batches.
    pub len: usize,
    /// Base offset of the first batch.
    pub first_offset: Offset,
    /// Offset behind the last batch.
    pub next_offset: Offset,
}

/// The answer to a search by timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetAtTime {
    /// The record's offset.
    pub offset: Offset,
    /// Its timestamp, ms.
    pub timestamp: i64,
    /// Leader epoch of its batch, -1 if unknown.
    pub leader_epoch: LeaderEpoch,
}
