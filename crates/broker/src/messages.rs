//! What cores ask of each other. Everything here is owned and `Send`; record bytes travel as reference-counted slices.

use crate::checkpoints::ByDir;
use crate::fetch_session::{PartitionAnswer, PartitionAsk, PartitionFetch, Session, Taken};
use crate::groups::GroupJob;
use base::{Few, LeaderEpoch, Offset, PartitionKey, ProducerId};
use bytes::Bytes;
use metadata::MetadataDelta;
use partition::FetchMark;
use reactor::fs::PortableFile;
use replica::Isolation;
use std::net::IpAddr;
use std::sync::Arc;
use wire::{ApiKey, DecodeError, ErrorCode};

/// A question to another core.
pub enum CoreRequest {
    /// Append to partitions at home there.
    Append(AppendJob),
    /// Read from partitions at home there.
    Read(ReadJob),
    /// Answer when there is something to read.
    Watch(WatchJob),
    /// The watch of this number, posted by the same core, is not needed any more. Has no reply.
    Unwatch(u64),
    /// Look up offsets.
    ListOffsets(Vec<OffsetQuery>),
    /// Look up ends of leader epochs.
    EpochEnds(Vec<EpochQuery>),
    /// Producers known to partitions.
    Producers(Vec<(u32, PartitionKey)>),
    /// Move the start of partitions.
    DeleteRecords(Vec<RecordsQuery>),
    /// Sizes of the partitions of that core.
    LogDirs,
    /// Take a fetch session out of the cache for one fetch.
    TakeSession {
        /// Session id.
        id: i32,
        /// Epoch in the request.
        epoch: i32,
        /// The request names topics by id.
        by_topic_id: bool,
    },
    /// Put it back.
    PutSession(Box<Session>),
    /// End a fetch session.
    EndSession(i32),
    /// Ask groups that live there.
    Groups(GroupJob),
    /// Something for the controller, on its core.
    Controller(Box<ControllerCall>),
    /// Count one more connection of an address, if it may have one.
    EnterIp(IpAddr),
    /// A connection that was counted has ended. Has no reply.
    LeftIp(IpAddr),
    /// Lines for the checkpoint files.
    Checkpoints,
    /// What that core counted.
    Metrics,
    /// Open, create and remove partitions as new metadata says, before any core shows it to clients.
    Apply(Arc<MetadataDelta>),
    /// Show new metadata to clients.
    Show(Arc<MetadataDelta>),
}

/// The answer to a [`CoreRequest`].
pub enum CoreReply {
    /// To `Append`.
    Append(Few<AppendDone>),
    /// To `Read`.
    Read(Vec<ReadDone>),
    /// To `Watch`.
    Watch(Watched),
    /// To `ListOffsets`.
    ListOffsets(Vec<OffsetFound>),
    /// To `EpochEnds`.
    EpochEnds(Vec<EpochFound>),
    /// To `Producers`.
    Producers(Vec<ProducersFound>),
    /// To `DeleteRecords`.
    DeleteRecords(Vec<RecordsDeleted>),
    /// To `LogDirs`.
    LogDirs(Vec<LogDirPart>),
    /// To `TakeSession`.
    Session(Taken),
    /// To `Groups`: places in the request and replies, in no particular order; or why the request cannot be read, of which
    /// nothing was asked then.
    Groups(Result<Few<(u32, group::Reply)>, DecodeError>),
    /// To `Controller`.
    Controller(Result<Bytes, ErrorCode>),
    /// To `Checkpoints`.
    Checkpoints(ByDir),
    /// To `Metrics`.
    Metrics(Box<metrics::Snapshot>),
    /// To `EnterIp`: there is room.
    EnterIp(bool),
    /// To whatever only needs to be known as done.
    Done,
}

/// Appends of one produce request to the partitions of one core.
pub struct AppendJob {
    /// `acks` of the request.
    pub acks: i16,
    /// How long the request may wait for its promise, in milliseconds.
    pub timeout_ms: u32,
    /// One per partition, in the order of the request.
    pub parts: Few<AppendPart>,
}

/// One partition's share of a produce request.
pub struct AppendPart {
    /// Where the answer belongs in the response.
    pub slot: u32,
    /// The partition.
    pub key: PartitionKey,
    /// The batch, a slice of the frame.
    pub records: Bytes,
}

/// What became of an [`AppendPart`].
#[derive(Clone, Debug)]
pub struct AppendDone {
    /// As in the part.
    pub slot: u32,
    /// NONE or why nothing was appended, or acknowledged.
    pub error: ErrorCode,
    /// Text for the client.
    pub message: Option<String>,
    /// Offset of the first record, or -1.
    pub base_offset: Offset,
    /// The broker's time if the topic stamps it, else -1; ms.
    pub log_append_time_ms: i64,
    /// First offset of the log, or -1.
    pub log_start_offset: Offset,
    /// Index in the batch and reason of each record that was refused.
    pub record_errors: Vec<(i32, Option<String>)>,
}

impl AppendDone {
    /// An answer without an append.
    pub fn failed(slot: u32, error: ErrorCode, message: Option<String>) -> AppendDone {
        AppendDone {
            slot,
            error,
            message,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
        }
    }
}

/// Reads of one fetch request from the partitions of one core.
#[derive(Clone)]
pub struct ReadJob {
    /// How far the reader may look.
    pub isolation: Isolation,
    /// Bytes of records wanted at most, all parts together.
    pub bytes_max: usize,
    /// One per partition, in serving order.
    pub parts: Vec<ReadPart>,
}

/// One partition's share of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct ReadPart {
    /// Where the answer belongs in the response.
    pub slot: u32,
    /// The partition.
    pub key: PartitionKey,
    /// What is asked of it.
    pub ask: PartitionAsk,
}

/// Whole batches in a segment file, on their way to the core of the connection that sends them.
#[derive(Debug)]
pub struct PortableRange {
    /// The segment.
    pub file: PortableFile,
    /// Position of the first batch, in bytes.
    pub position: u64,
    /// Bytes of the batches.
    pub len: usize,
}

/// What a [`ReadPart`] found.
#[derive(Debug)]
pub struct ReadDone {
    /// As in the part.
    pub slot: u32,
    /// NONE or why nothing was read.
    pub error: ErrorCode,
    /// High watermark, or -1.
    pub high_watermark: Offset,
    /// Last stable offset, or -1.
    pub last_stable_offset: Offset,
    /// First offset of the log, or -1.
    pub log_start_offset: Offset,
    /// Epoch and end offset to which the reader has to truncate (KIP-595).
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Aborted transactions in the range read, for read_committed only.
    pub aborted: Option<Vec<(ProducerId, Offset)>>,
    /// Whole batches; none when they are in `file`.
    pub records: Vec<Bytes>,
    /// Whole batches that stay where they are, for an answer to another core.
    pub file: Option<PortableRange>,
    /// For a wait that begins where this read ended.
    pub mark: FetchMark,
}

impl ReadDone {
    /// An answer without data.
    pub fn failed(slot: u32, error: ErrorCode) -> ReadDone {
        ReadDone {
            slot,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging: None,
            aborted: None,
            records: Vec::new(),
            file: None,
            mark: FetchMark::default(),
        }
    }

    /// Bytes of records.
    pub fn len(&self) -> usize {
        self.records.iter().map(Bytes::len).sum()
    }

    /// True when there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// As far as a session looks at it.
    pub fn outline(&self) -> PartitionAnswer {
        PartitionAnswer {
            error: self.error.0,
            high_watermark: self.high_watermark,
            log_start_offset: self.log_start_offset,
            has_content: !self.is_empty() || self.diverging.is_some(),
            has_records: !self.is_empty(),
        }
    }
}

/// Wait until the partitions of one core have more to read than a read just found.
pub struct WatchJob {
    /// Number given by the asking core, for [`CoreRequest::Unwatch`].
    pub number: u64,
    /// When the wait is over, in monotonic nanoseconds.
    pub deadline_ns: u64,
    /// Bytes that are enough, those included that the read found.
    pub bytes_min: u64,
    /// The partitions.
    pub parts: Vec<WatchPart>,
}

/// One partition of a [`WatchJob`].
#[derive(Clone, Copy, Debug)]
pub struct WatchPart {
    /// The partition.
    pub key: PartitionKey,
    /// Where the read ended.
    pub mark: FetchMark,
    /// More than this is not taken from this partition, in bytes.
    pub bytes_max: u64,
}

/// How a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// This many bytes can be read now.
    Bytes(u64),
    /// A partition changed so that only a read can tell, or the time is over.
    Over,
}

/// One question of ListOffsets.
#[derive(Clone, Copy, Debug)]
pub struct OffsetQuery {
    /// Where the answer belongs in the response.
    pub slot: u32,
    /// The partition.
    pub key: PartitionKey,
    /// Leader epoch the client knows, or -1.
    pub current_leader_epoch: LeaderEpoch,
    /// A time in ms, or one of the special values.
    pub timestamp: i64,
    /// How far the client may look.
    pub isolation: Isolation,
}

/// Its answer.
#[derive(Clone, Copy, Debug)]
pub struct OffsetFound {
    /// As in the question.
    pub slot: u32,
    /// NONE or why there is no offset.
    pub error: ErrorCode,
    /// Timestamp of the record, or -1.
    pub timestamp: i64,
    /// Its offset, or -1.
    pub offset: Offset,
    /// Its leader epoch, or -1.
    pub leader_epoch: LeaderEpoch,
}

/// One question of OffsetForLeaderEpoch.
#[derive(Clone, Copy, Debug)]
pub struct EpochQuery {
    /// Where the answer belongs in the response.
    pub slot: u32,
    /// The partition.
    pub key: PartitionKey,
    /// Leader epoch the client knows, or -1.
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch whose end is wanted.
    pub leader_epoch: LeaderEpoch,
}

/// Its answer.
#[derive(Clone, Copy, Debug)]
pub struct EpochFound {
    /// As in the question.
    pub slot: u32,
    /// NONE or why there is no answer.
    pub error: ErrorCode,
    /// Largest epoch known that is not above the one asked for, or -1.
    pub leader_epoch: LeaderEpoch,
    /// Where it ends, or -1.
    pub end_offset: Offset,
}

/// One partition of DeleteRecords.
#[derive(Clone, Copy, Debug)]
pub struct RecordsQuery {
    /// Where the answer belongs in the response.
    pub slot: u32,
    /// The partition.
    pub key: PartitionKey,
    /// The first offset to keep, or -1 for the high watermark.
    pub offset: Offset,
}

/// Its answer.
#[derive(Clone, Copy, Debug)]
pub struct RecordsDeleted {
    /// As in the question.
    pub slot: u32,
    /// The first offset there is now, or why nothing was deleted.
    pub start: Result<Offset, ErrorCode>,
}

/// The producers of one partition.
#[derive(Clone, Debug)]
pub struct ProducersFound {
    /// As in the question.
    pub slot: u32,
    /// Ordered by id, or why there are none.
    pub producers: Result<Vec<ProducerInfo>, ErrorCode>,
}

/// One producer known to a partition.
#[derive(Clone, Copy, Debug)]
pub struct ProducerInfo {
    /// Its id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Last sequence, or -1.
    pub last_sequence: i32,
    /// Time of its last batch, or -1; ms.
    pub last_timestamp_ms: i64,
    /// Epoch of the coordinator that wrote its last marker, or -1.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction, or -1.
    pub txn_start_offset: Offset,
}

/// One partition's place on disk.
#[derive(Clone, Debug)]
pub struct LogDirPart {
    /// Position of its directory in `log.dirs`.
    pub dir: usize,
    /// Topic name.
    pub topic: Arc<str>,
    /// The partition.
    pub key: PartitionKey,
    /// Bytes in its log.
    pub size_bytes: u64,
    /// By how many offsets it is behind the high watermark.
    pub offset_lag: i64,
}

/// A client's request that the controller decides.
pub struct ControllerCall {
    /// The API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// The request body.
    pub body: Bytes,
    /// `client.id`, for log lines.
    pub client_id: Option<Box<str>>,
}

/// Partitions of a full fetch with what was answered, for a new session.
pub type AnsweredFetch = Vec<(PartitionFetch, PartitionAnswer)>;
