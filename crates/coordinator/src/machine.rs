//! The contract between a coordinator's machine and its shell.

use bytes::Bytes;

/// Names a waiting request. The host makes it up and must not use it again before it is answered.
pub type Token = u64;

/// A record that a machine wants to have in its log. Key and value lie in one buffer, often that of many records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoordinatorRecord {
    /// The key, then the value.
    bytes: Bytes,
    key_bytes: usize,
    has_value: bool,
}

impl CoordinatorRecord {
    /// The record whose key (type, then body) are the first `key_bytes` of `bytes`, and whose value (version, then body) is the rest.
    ///
    /// # Panics
    /// When there are fewer bytes.
    pub fn new(bytes: Bytes, key_bytes: usize) -> CoordinatorRecord {
        assert!(key_bytes <= bytes.len(), "a key of {key_bytes} bytes in {}", bytes.len());
        CoordinatorRecord { bytes, key_bytes, has_value: true }
    }

    /// The tombstone of a key.
    pub fn tombstone(key: Bytes) -> CoordinatorRecord {
        CoordinatorRecord { key_bytes: key.len(), bytes: key, has_value: false }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    /// The value; `None` is a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        self.has_value.then(|| &self.bytes[self.key_bytes..])
    }

    /// Bytes of key and value.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The record as it will stand in the log.
    pub fn expected_at(&self, offset: i64, timestamp_ms: i64) -> Replayed<'_> {
        Replayed { offset, timestamp_ms, producer: None, key: self.key(), value: self.value() }
    }
}

/// What a call of a machine brought about: records to append and replies that become valid with them. A machine only adds.
#[derive(Debug)]
pub struct Effects<R> {
    /// Records, in order. Those of one call are appended as one batch where they fit one.
    pub records: Vec<CoordinatorRecord>,
    /// Replies, held back until all records decided so far are committed. A reply may go to any waiting request, not only
    /// to the one of this call.
    pub replies: Vec<(Token, R)>,
}

impl<R> Default for Effects<R> {
    fn default() -> Effects<R> {
        Effects { records: Vec::new(), replies: Vec::new() }
    }
}

impl<R> Effects<R> {
    /// Adds a reply.
    pub fn reply(&mut self, token: Token, reply: R) {
        self.replies.push((token, reply));
    }
}

/// A record as it stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replayed<'a> {
    /// Its offset. Grows from record to record; for a record that was only just decided it is the offset expected for it,
    /// which can be off by the markers written meanwhile, so only its order means anything.
    pub offset: i64,
    /// Its timestamp, ms since the epoch.
    pub timestamp_ms: i64,
    /// Id and epoch of the producer if the record belongs to a transaction.
    pub producer: Option<(i64, i16)>,
    /// Its key.
    pub key: &'a [u8],
    /// Its value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

/// The end of a producer's transaction in the log (KIP-98).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// True for COMMIT, false for ABORT.
    pub commit: bool,
}

/// A coordinator as a pure state machine. Hard state is what [`Machine::replay`] makes of the log, and nothing else changes
/// it; soft state (who waits, deadlines) dies with the machine. Decisions are made on hard state with everything decided
/// before already replayed, committed or not: nothing is told before its records commit.
pub trait Machine {
    /// A request, borrowed from its frame.
    type Request<'a>;
    /// A reply.
    type Reply;
    /// What the host lends for one call: time, chance, metadata, configuration.
    type Env<'e>;
    /// A change of metadata.
    type Change<'e>;

    /// Decides a request. The reply may come now, with a later call, or never if the machine is dropped.
    fn handle(&mut self, env: Self::Env<'_>, token: Token, request: Self::Request<'_>, out: &mut Effects<Self::Reply>);
    /// Takes in one record of the log, while loading or just decided.
    fn replay(&mut self, record: &Replayed<'_>);
    /// Takes in the records of one decision, of which the first is expected at `offset`: what [`Machine::replay`] makes of each of
    /// them. A machine that decides many alike may get there faster.
    fn replay_decided(&mut self, offset: i64, timestamp_ms: i64, records: &[CoordinatorRecord]) {
        for (record, offset) in records.iter().zip(offset..) {
            self.replay(&record.expected_at(offset, timestamp_ms));
        }
    }
    /// Takes in the end of a transaction.
    fn replay_marker(&mut self, marker: &Marker);
    /// The log is loaded: starts what runs by time.
    fn loaded(&mut self, env: Self::Env<'_>, out: &mut Effects<Self::Reply>);
    /// Does what is due.
    fn expire(&mut self, env: Self::Env<'_>, out: &mut Effects<Self::Reply>);
    /// When [`Machine::expire`] is to be called next, in monotonic ns. It may be called earlier.
    fn next_timer_ns(&self) -> Option<u64>;
    /// The metadata changed; `env` has the new image.
    fn metadata_changed(&mut self, env: Self::Env<'_>, change: Self::Change<'_>, out: &mut Effects<Self::Reply>);
}
