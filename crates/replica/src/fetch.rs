use base::{LeaderEpoch, Offset};

use crate::epochs::EpochEnd;

/// How far a reader may look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Up to the end of the log: replicas and the broker's own coordinators.
    LogEnd,
    /// Up to the high watermark: `isolation.level=read_uncommitted`.
    ReadUncommitted,
    /// Up to the last stable offset: `isolation.level=read_committed`.
    ReadCommitted,
}

/// What a fetch asks of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchCheck {
    /// First offset wanted.
    pub offset: Offset,
    /// Leader epoch the caller knows, `None` if it does not say (-1 on the wire).
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// Epoch of the last record the caller has, `None` if it does not say; asks for the check of KIP-320/KIP-595.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// How far the caller may look.
    pub isolation: Isolation,
    /// Refuse unless this replica leads.
    pub leader_only: bool,
}

/// Offsets of a partition at the moment of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchBounds {
    /// Read below this offset.
    pub upper: Offset,
    /// High watermark.
    pub high_watermark: Offset,
    /// Last stable offset.
    pub last_stable_offset: Offset,
    /// First offset of the log.
    pub log_start: Offset,
    /// Offset behind the last record.
    pub log_end: Offset,
}

/// The answer to a [`FetchCheck`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchVerdict {
    /// Read from the offset up to the bounds.
    Read(FetchBounds),
    /// The caller's log and ours part ways: it has to cut its own back to this epoch and offset first.
    Diverging(EpochEnd, FetchBounds),
}
