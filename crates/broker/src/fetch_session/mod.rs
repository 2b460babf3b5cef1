//! Incremental fetch sessions (KIP-227): what a client asked for is remembered, so that it names only what changes and is
//! answered only with what changed.
//!
//! Pure. A session is a value that is taken out of its cache for the time of one fetch and put back with the answer, so
//! it can travel to the core whose connection uses it; a second fetch that arrives meanwhile finds the epoch wrong, as
//! two overlapping fetches of one session would in Kafka.

mod cache;
#[cfg(test)]
mod tests;

pub use cache::{CacheLimits, SessionCache, Taken};

use base::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// "No session" on the wire.
pub const NO_SESSION: i32 = 0;
/// Epoch of a full fetch that asks for a new session.
pub const INITIAL_EPOCH: i32 = 0;
/// Epoch of a full fetch without a session.
pub const FINAL_EPOCH: i32 = -1;

/// The epoch after `epoch`; wraps to 1, for 0 asks for a new session.
pub fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MAX => 1,
        e if e < 0 => FINAL_EPOCH,
        e => e + 1,
    }
}

/// How a request names a topic: by id from version 13 on, by name before.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum TopicKey {
    /// Topic id (Fetch 13+).
    Id(TopicId),
    /// Topic name (Fetch up to 12).
    Name(Arc<str>),
}

/// What a fetch asks of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionAsk {
    /// First offset wanted.
    pub fetch_offset: Offset,
    /// The leader epoch the client knows, or -1.
    pub current_leader_epoch: LeaderEpoch,
    /// Epoch of the last record the client has, or -1 (KIP-595).
    pub last_fetched_epoch: LeaderEpoch,
    /// A follower's log start offset, else -1.
    pub log_start_offset: Offset,
    /// `max.partition.fetch.bytes` of the client.
    pub max_bytes: i32,
}

/// What an answer says about one partition, as far as it decides whether the partition is part of the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionAnswer {
    /// Error code, 0 for none.
    pub error: i16,
    /// High watermark, or -1.
    pub high_watermark: Offset,
    /// Log start offset, or -1.
    pub log_start_offset: Offset,
    /// True when there are records, a diverging epoch or a preferred replica.
    pub has_content: bool,
    /// True when there are records.
    pub has_records: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Cached {
    topic: TopicKey,
    /// The name an id had when it was first resolved: a topic that was deleted and created again is noticed by it.
    name: Option<Arc<str>>,
    partition: PartitionIndex,
    ask: PartitionAsk,
    high_watermark: Offset,
    log_start_offset: Offset,
}

impl Cached {
    /// True when the partition has to be in the response; remembers what the client learns by it.
    fn must_respond(&mut self, answer: &PartitionAnswer) -> bool {
        let changed = self.high_watermark != answer.high_watermark || self.log_start_offset != answer.log_start_offset;
        self.high_watermark = answer.high_watermark;
        self.log_start_offset = answer.log_start_offset;
        if answer.error != 0 {
            // The first answer after the error is sent whatever it says.
            self.high_watermark = -1;
        }
        changed || answer.has_content || answer.error != 0
    }
}

/// One partition of a fetch, in the order in which it is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionFetch {
    /// The topic as the request named it.
    pub topic: TopicKey,
    /// Its name, if known; for topics by id the name the id had when the session first saw it.
    pub name: Option<Arc<str>>,
    /// The partition.
    pub partition: PartitionIndex,
    /// What is asked of it.
    pub ask: PartitionAsk,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    id: i32,
    epoch: i32,
    by_topic_id: bool,
    privileged: bool,
    created_ms: u64,
    // Served in the order of the number; a partition that returned records goes to the end.
    order: BTreeMap<u64, Cached>,
    index: HashMap<(TopicKey, PartitionIndex), u64>,
    next: u64,
}

impl Session {
    /// The session's id.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Number of partitions in it.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True when it has no partition left.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn push(&mut self, cached: Cached) {
        self.index.insert((cached.topic.clone(), cached.partition), self.next);
        self.order.insert(self.next, cached);
        self.next += 1;
    }

    /// Adds or changes the partitions a request names and removes those it forgets.
    pub fn update(&mut self, asked: &[PartitionFetch], forgotten: &[(TopicKey, PartitionIndex)]) {
        for one in asked {
            match self.index.get(&(one.topic.clone(), one.partition)) {
                Some(at) => {
                    let cached = self.order.get_mut(at).expect("indexed partitions are in order");
                    cached.ask = one.ask;
                    if cached.name.is_none() {
                        cached.name.clone_from(&one.name);
                    }
                }
                None => self.push(Cached {
                    topic: one.topic.clone(),
                    name: one.name.clone(),
                    partition: one.partition,
                    ask: one.ask,
                    high_watermark: -1,
                    log_start_offset: -1,
                }),
            }
        }
        for key in forgotten {
            if let Some(at) = self.index.remove(key) {
                self.order.remove(&at);
            }
        }
    }

    /// All partitions in serving order. `name_of` resolves ids whose topic was unknown so far.
    pub fn partitions(&mut self, name_of: impl Fn(TopicId) -> Option<Arc<str>>) -> Vec<PartitionFetch> {
        let mut all = Vec::with_capacity(self.order.len());
        for cached in self.order.values_mut() {
            if let (None, TopicKey::Id(id)) = (&cached.name, &cached.topic) {
                cached.name = name_of(*id);
            }
            all.push(PartitionFetch {
                topic: cached.topic.clone(),
                name: cached.name.clone(),
                partition: cached.partition,
                ask: cached.ask,
            });
        }
        all
    }

    /// Takes note of the answer for one partition: true when it has to be in the response.
    pub fn answered(&mut self, topic: &TopicKey, partition: PartitionIndex, answer: &PartitionAnswer) -> bool {
        let key = (topic.clone(), partition);
        let Some(at) = self.index.get(&key).copied() else { return true };
        let cached = self.order.get_mut(&at).expect("indexed partitions are in order");
        let must_respond = cached.must_respond(answer);
        if answer.has_records {
            let cached = self.order.remove(&at).expect("just looked up");
            self.push(cached);
        }
        must_respond
    }
}
