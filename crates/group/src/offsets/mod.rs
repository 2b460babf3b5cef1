//! Committed offsets of all groups of a shard.

/// Committed offsets by group, topic and partition, and those of transactions that are not finished.
#[derive(Debug, Default)]
pub(crate) struct OffsetStore {}
