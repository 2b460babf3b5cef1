use base::{Offset, ProducerId};

use crate::batch::{BatchInfo, NO_PRODUCER_EPOCH, NO_SEQUENCE, follows, sequence_before};

/// Batches remembered per producer. A client may keep this many requests in flight to one partition
/// (`max.in.flight.requests.per.connection` of an idempotent producer is at most 5), so a retry is always among them.
pub const WINDOW_BATCHES: usize = 5;

/// One batch a producer wrote, as far as a retry of it has to be recognised and answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchMeta {
    /// Sequence of the last record.
    pub last_sequence: i32,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    /// Largest timestamp of the batch, milliseconds.
    pub timestamp: i64,
}

impl BatchMeta {
    /// Sequence of the first record.
    pub fn first_sequence(&self) -> i32 {
        sequence_before(self.last_sequence, self.offset_delta)
    }

    /// Offset of the first record.
    pub fn first_offset(&self) -> Offset {
        self.last_offset - Offset::from(self.offset_delta)
    }

    /// True if `batch`, of the same producer and epoch, has the same first and last sequence.
    pub fn is_attempt_of(&self, batch: &BatchInfo) -> bool {
        self.first_sequence() == batch.base_sequence && self.last_sequence == batch.last_sequence()
    }
}

/// Where the log may hold batches of a producer that its window does not remember since a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forgotten {
    /// They lie before this offset.
    pub before: Offset,
    /// So many of them, the last ones, belong into the window.
    pub batches_max: usize,
}

/// The state of a producer as it stands in a `.snapshot` file: of the window only the last batch survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotEntry {
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
    /// Timestamp of the last batch or marker, milliseconds.
    pub timestamp: i64,
    /// Epoch of the coordinator that wrote the last marker, -1 if none.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction, -1 if none.
    pub current_txn_first_offset: Offset,
}

/// What is known of one producer in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerEntry {
    window: [BatchMeta; WINDOW_BATCHES],
    held: u8,
    epoch: i16,
    coordinator_epoch: i32,
    last_timestamp: i64,
    /// Wall clock of the last change, so that a producer whose records carry old timestamps is not taken for idle.
    touched_ms: i64,
    txn_first_offset: Option<Offset>,
    /// The oldest remembered batch comes from a snapshot, which holds one only: there may be older ones in the log.
    partial: bool,
}

impl ProducerEntry {
    /// A producer of which nothing is known.
    pub(crate) fn unknown() -> ProducerEntry {
        ProducerEntry {
            window: [BatchMeta::default(); WINDOW_BATCHES],
            held: 0,
            epoch: NO_PRODUCER_EPOCH,
            coordinator_epoch: -1,
            last_timestamp: -1,
            touched_ms: i64::MIN,
            txn_first_offset: None,
            partial: false,
        }
    }

    /// The producer's current epoch, [`NO_PRODUCER_EPOCH`] if none is known.
    pub fn epoch(&self) -> i16 {
        self.epoch
    }

    /// Epoch of the coordinator that wrote the last marker, -1 if none did.
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// Timestamp of the last batch or marker in milliseconds, -1 if none.
    pub fn last_timestamp(&self) -> i64 {
        self.last_timestamp
    }

    /// First offset of the open transaction.
    pub fn txn_first_offset(&self) -> Option<Offset> {
        self.txn_first_offset
    }

    /// The remembered batches, oldest first.
    pub fn batches(&self) -> &[BatchMeta] {
        &self.window[..usize::from(self.held)]
    }

    /// Sequence of the last record of the last batch, [`NO_SEQUENCE`] if none is remembered.
    pub fn last_sequence(&self) -> i32 {
        self.batches().last().map_or(NO_SEQUENCE, |b| b.last_sequence)
    }

    /// The remembered batch of which `batch` is a retry: same epoch, same first and last sequence.
    pub fn duplicate_of(&self, batch: &BatchInfo) -> Option<BatchMeta> {
        if batch.producer_epoch != self.epoch {
            return None;
        }
        self.batches().iter().find(|b| b.is_attempt_of(batch)).copied()
    }

    /// Where to search the log for the first attempt of `batch`, if it may be a retry of one that was in the window
    /// before a restart and that the snapshot did not keep.
    pub(crate) fn forgotten_before(&self, batch: &BatchInfo) -> Option<Forgotten> {
        let batches_max = WINDOW_BATCHES - usize::from(self.held);
        if !self.partial || batches_max == 0 || batch.producer_epoch != self.epoch {
            return None;
        }
        let oldest = self.batches().first()?;
        // Half the ring before the oldest batch is its past, the other half its future.
        let is_older = sequence_before(oldest.first_sequence(), batch.base_sequence) < i32::MAX / 2
            && oldest.first_sequence() != batch.base_sequence;
        is_older.then(|| Forgotten { before: oldest.first_offset(), batches_max })
    }

    /// Fills the window up with batches that precede it in the log, oldest first; such as do not lead up to it without
    /// a gap are ignored. The log is not searched again.
    pub(crate) fn remember_older(&mut self, older: &[BatchMeta]) {
        self.partial = false;
        for batch in older.iter().rev() {
            let Some(oldest) = self.batches().first() else { return };
            let full = usize::from(self.held) == WINDOW_BATCHES;
            let leads_up = follows(batch.last_sequence, oldest.first_sequence());
            if full || !leads_up || batch.last_offset >= oldest.first_offset() {
                return;
            }
            self.window.rotate_right(1);
            self.window[0] = *batch;
            self.held += 1;
        }
    }

    /// Milliseconds since the producer last wrote, seen from `wall_ms`.
    pub(crate) fn idle_ms(&self, wall_ms: i64) -> i64 {
        wall_ms.saturating_sub(self.last_timestamp.max(self.touched_ms))
    }

    pub(crate) fn last_active_ms(&self) -> i64 {
        self.last_timestamp.max(self.touched_ms)
    }

    pub(crate) fn add_batch(&mut self, wall_ms: i64, batch: &BatchInfo, base_offset: Offset) {
        self.move_to_epoch(batch.producer_epoch);
        let meta = BatchMeta {
            last_sequence: batch.last_sequence(),
            last_offset: base_offset + Offset::from(batch.last_offset_delta),
            offset_delta: batch.last_offset_delta,
            timestamp: batch.max_timestamp,
        };
        if usize::from(self.held) == WINDOW_BATCHES {
            self.partial = false;
            self.window.rotate_left(1);
            self.window[WINDOW_BATCHES - 1] = meta;
        } else {
            self.window[usize::from(self.held)] = meta;
            self.held += 1;
        }
        self.last_timestamp = batch.max_timestamp;
        self.touched_ms = wall_ms;
        if batch.transactional && self.txn_first_offset.is_none() {
            self.txn_first_offset = Some(base_offset);
        }
    }

    /// Notes a marker and returns the first offset of the transaction it ended, if one was open.
    pub(crate) fn end_txn(
        &mut self,
        wall_ms: i64,
        epoch: i16,
        coordinator_epoch: i32,
        timestamp: i64,
    ) -> Option<Offset> {
        self.move_to_epoch(epoch);
        self.coordinator_epoch = coordinator_epoch;
        self.last_timestamp = timestamp;
        self.touched_ms = wall_ms;
        self.txn_first_offset.take()
    }

    fn move_to_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.held = 0;
            self.partial = false;
            self.epoch = epoch;
        }
    }

    pub(crate) fn to_snapshot(self, producer_id: ProducerId) -> SnapshotEntry {
        let last = self.batches().last();
        SnapshotEntry {
            producer_id,
            producer_epoch: self.epoch,
            last_sequence: last.map_or(NO_SEQUENCE, |b| b.last_sequence),
            last_offset: last.map_or(-1, |b| b.last_offset),
            offset_delta: last.map_or(0, |b| b.offset_delta),
            timestamp: self.last_timestamp,
            coordinator_epoch: self.coordinator_epoch,
            current_txn_first_offset: self.txn_first_offset.unwrap_or(-1),
        }
    }

    pub(crate) fn from_snapshot(wall_ms: i64, entry: &SnapshotEntry) -> ProducerEntry {
        let mut state = ProducerEntry::unknown();
        state.epoch = entry.producer_epoch;
        state.coordinator_epoch = entry.coordinator_epoch;
        state.last_timestamp = entry.timestamp;
        state.touched_ms = wall_ms;
        state.txn_first_offset = (entry.current_txn_first_offset >= 0).then_some(entry.current_txn_first_offset);
        // A negative sequence marks a producer of which only a marker is known. The other numbers come from a file and
        // are bounded here so that later arithmetic on them cannot overflow.
        if entry.last_sequence >= 0 && entry.last_offset >= 0 && entry.offset_delta >= 0 {
            state.window[0] = BatchMeta {
                last_sequence: entry.last_sequence,
                last_offset: entry.last_offset,
                offset_delta: entry.offset_delta,
                timestamp: entry.timestamp,
            };
            state.held = 1;
            state.partial = true;
        }
        state
    }
}
