//! Committed offsets of all groups of a shard: what the log says, later records winning, and what transactions that are
//! not finished would make of it.

mod commit;
mod expire;
mod fetch;
mod replay;
mod store;
mod transactions;

pub(crate) use store::{Committed, OffsetStore, OffsetView};
