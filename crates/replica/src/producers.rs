use std::collections::BTreeMap;

use base::{Offset, ProducerId};

use crate::batch::{BatchInfo, NO_PRODUCER_EPOCH, Origin, follows};
use crate::entry::{BatchMeta, Forgotten, ProducerEntry, SnapshotEntry};
use crate::error::ProducerError;

/// What the state of its producer says about a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProducerCheck {
    /// The batch is new and may be appended.
    Fresh,
    /// The batch is in the log already; the retry is answered with what the first attempt got.
    Duplicate(BatchMeta),
}

/// A transaction that a marker ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletedTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    /// True if the marker was COMMIT.
    pub committed: bool,
    /// First offset that other open transactions still hold back, or the one behind the marker.
    pub last_stable_offset: Offset,
}

/// The producers of one partition. Ordered by id rather than hashed, because clients choose the ids and the order of a
/// snapshot should not depend on chance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerStates {
    entries: BTreeMap<ProducerId, ProducerEntry>,
    /// Open transactions by first offset.
    ongoing: BTreeMap<Offset, ProducerId>,
    /// Ended transactions whose marker the high watermark has not passed: first offset to marker offset.
    unreplicated: BTreeMap<Offset, Offset>,
    /// Offset behind the last batch that was taken in.
    end_offset: Offset,
    producers_max: usize,
}

impl ProducerStates {
    /// Producers kept per partition unless configured otherwise. An entry takes about 200 bytes, so a partition stays
    /// under 60 MiB when clients invent producer ids.
    pub const PRODUCERS_MAX_DEFAULT: usize = 262_144;

    /// No producers, for a log that begins at `end_offset`. When more than `producers_max` are known, those idle for
    /// longest are forgotten, which turns them into unknown producers that may continue with any sequence.
    pub fn new(end_offset: Offset, producers_max: usize) -> ProducerStates {
        assert!(producers_max > 0, "a partition keeps the state of at least one producer");
        ProducerStates {
            entries: BTreeMap::new(),
            ongoing: BTreeMap::new(),
            unreplicated: BTreeMap::new(),
            end_offset,
            producers_max,
        }
    }

    /// Decides on a batch that would be appended at `offset`; changes nothing. `verified` says that the transaction
    /// coordinator vouched for the producer's transaction in this partition.
    ///
    /// # Errors
    /// A [`ProducerError`], never for [`Origin::Replication`].
    pub fn check(
        &self,
        origin: Origin,
        batch: &BatchInfo,
        offset: Offset,
        verified: bool,
    ) -> Result<ProducerCheck, ProducerError> {
        if !batch.has_producer_id() || origin == Origin::Replication {
            return Ok(ProducerCheck::Fresh);
        }
        let unknown = ProducerEntry::unknown();
        let entry = self.entries.get(&batch.producer_id).unwrap_or(&unknown);
        if batch.control {
            check_marker(entry, batch, offset)?;
            return Ok(ProducerCheck::Fresh);
        }
        if origin == Origin::Client
            && let Some(first_attempt) = entry.duplicate_of(batch)
        {
            return Ok(ProducerCheck::Duplicate(first_attempt));
        }
        let open = entry.txn_first_offset().is_some();
        if batch.transactional && !verified && !(open && entry.epoch() == batch.producer_epoch) {
            return Err(ProducerError::NoOngoingTxn { producer_id: batch.producer_id });
        }
        check_epoch(entry, batch, offset)?;
        if origin == Origin::Client {
            check_sequence(entry, batch, offset)?;
        }
        if open && !batch.transactional {
            return Err(ProducerError::ExpectedTransactional { producer_id: batch.producer_id, offset });
        }
        Ok(ProducerCheck::Fresh)
    }

    /// Where the log may hold the first attempt of a batch that [`ProducerStates::check`] found out of order, if it may
    /// be a retry that a restart made us forget: a snapshot keeps one batch of a producer.
    pub fn forgotten_before(&self, batch: &BatchInfo) -> Option<Forgotten> {
        self.entries.get(&batch.producer_id)?.forgotten_before(batch)
    }

    /// Fills a producer's window up with the batches, oldest first, that were found in the log before its oldest
    /// remembered one. Whatever was found, it is asked for once only.
    pub fn remember_older(&mut self, producer_id: ProducerId, older: &[BatchMeta]) {
        if let Some(entry) = self.entries.get_mut(&producer_id) {
            entry.remember_older(older);
        }
    }

    /// Takes in a batch that stands in the log at `base_offset`. Returns the transaction it ended, if it is a marker of
    /// one.
    pub fn replay(&mut self, wall_ms: i64, base_offset: Offset, batch: &BatchInfo) -> Option<CompletedTxn> {
        let last_offset = base_offset + Offset::from(batch.last_offset_delta);
        self.end_offset = self.end_offset.max(last_offset + 1);
        if !batch.has_producer_id() {
            return None;
        }
        if batch.control {
            return self.replay_marker(wall_ms, base_offset, batch);
        }
        let entry = self.entry_mut(batch.producer_id);
        let open_before = entry.txn_first_offset();
        entry.add_batch(wall_ms, batch, base_offset);
        if let (None, Some(first)) = (open_before, entry.txn_first_offset()) {
            self.ongoing.insert(first, batch.producer_id);
        }
        None
    }

    fn replay_marker(&mut self, wall_ms: i64, last_offset: Offset, batch: &BatchInfo) -> Option<CompletedTxn> {
        // Without its record (compacted away) a control batch says nothing any more.
        let marker = batch.marker?;
        let entry = self.entry_mut(batch.producer_id);
        let coordinator_epoch = marker.coordinator_epoch;
        let first_offset = entry.end_txn(wall_ms, batch.producer_epoch, coordinator_epoch, batch.max_timestamp)?;
        self.ongoing.remove(&first_offset);
        self.unreplicated.insert(first_offset, last_offset);
        let last_stable_offset = self.ongoing.keys().next().copied().unwrap_or(last_offset + 1);
        let committed = marker.commit;
        Some(CompletedTxn { producer_id: batch.producer_id, first_offset, last_offset, committed, last_stable_offset })
    }

    /// First offset whose fate a read_committed reader does not know yet: that of the oldest transaction that is open
    /// or whose marker is not below the high watermark.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let open = self.ongoing.keys().next();
        let ended = self.unreplicated.keys().next();
        open.into_iter().chain(ended).min().copied()
    }

    /// Transactions whose marker lies below `high_watermark` are decided for every reader.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.unreplicated.retain(|_, marker_offset| *marker_offset >= high_watermark);
    }

    /// Forgets producers that have been idle for `expiration_ms` (`producer.id.expiration.ms`) and have no open
    /// transaction; returns how many.
    ///
    /// A producer counts as active at the timestamp of its last batch or when that batch was taken in, whichever is
    /// later: records that carry old timestamps must not cost a busy producer its duplicate detection.
    pub fn expire(&mut self, wall_ms: i64, expiration_ms: i64) -> usize {
        let before = self.entries.len();
        self.entries.retain(|_, e| e.txn_first_offset().is_some() || e.idle_ms(wall_ms) < expiration_ms);
        before - self.entries.len()
    }

    /// The producer's state, made if there is none yet.
    fn entry_mut(&mut self, producer_id: ProducerId) -> &mut ProducerEntry {
        if self.entries.len() >= self.producers_max && !self.entries.contains_key(&producer_id) {
            self.forget_idlest();
        }
        self.entries.entry(producer_id).or_insert_with(ProducerEntry::unknown)
    }

    /// Makes room when the table is full. A sixteenth goes at once, so that the sweep is paid once per that many new
    /// producers.
    fn forget_idlest(&mut self) {
        let victims = (self.producers_max / 16).max(1);
        let mut idle: Vec<(i64, ProducerId)> = self
            .entries
            .iter()
            .filter(|(_, e)| e.txn_first_offset().is_none())
            .map(|(id, e)| (e.last_active_ms(), *id))
            .collect();
        idle.sort_unstable();
        for (_, id) in idle.into_iter().take(victims) {
            self.entries.remove(&id);
        }
    }

    /// Replaces everything by the content of a snapshot taken at `offset`.
    pub fn load(&mut self, wall_ms: i64, offset: Offset, snapshot: impl IntoIterator<Item = SnapshotEntry>) {
        self.clear(offset);
        for entry in snapshot {
            let state = ProducerEntry::from_snapshot(wall_ms, &entry);
            if let Some(first) = state.txn_first_offset() {
                self.ongoing.insert(first, entry.producer_id);
            }
            *self.entry_mut(entry.producer_id) = state;
        }
    }

    /// Forgets everything; batches are expected from `end_offset` on.
    pub fn clear(&mut self, end_offset: Offset) {
        self.entries.clear();
        self.ongoing.clear();
        self.unreplicated.clear();
        self.end_offset = end_offset;
    }

    /// What a snapshot file taken now has to hold, ordered by producer id.
    pub fn snapshot(&self) -> Vec<SnapshotEntry> {
        self.entries.iter().map(|(id, e)| e.to_snapshot(*id)).collect()
    }

    /// Offset behind the last batch taken in.
    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }

    /// The state of one producer.
    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerEntry> {
        self.entries.get(&producer_id)
    }

    /// All producers by id.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerEntry)> {
        self.entries.iter().map(|(id, e)| (*id, e))
    }

    /// Number of known producers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no producer is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn check_epoch(entry: &ProducerEntry, batch: &BatchInfo, offset: Offset) -> Result<(), ProducerError> {
    if batch.producer_epoch < entry.epoch() {
        return Err(ProducerError::InvalidEpoch {
            producer_id: batch.producer_id,
            epoch: batch.producer_epoch,
            current: entry.epoch(),
            offset,
        });
    }
    Ok(())
}

fn check_sequence(entry: &ProducerEntry, batch: &BatchInfo, offset: Offset) -> Result<(), ProducerError> {
    // Nothing is known of the producer: its state expired or its records were deleted. It cannot know that, so it may
    // go on wherever it is.
    if entry.epoch() == NO_PRODUCER_EPOCH {
        return Ok(());
    }
    let sequence = batch.base_sequence;
    if batch.producer_epoch != entry.epoch() {
        if sequence == 0 {
            return Ok(());
        }
        return Err(ProducerError::NewEpochNotAtZero {
            producer_id: batch.producer_id,
            epoch: batch.producer_epoch,
            current: entry.epoch(),
            sequence,
            offset,
        });
    }
    let last = entry.last_sequence();
    if follows(last, sequence) {
        return Ok(());
    }
    Err(ProducerError::OutOfOrderSequence { producer_id: batch.producer_id, sequence, last, offset })
}

fn check_marker(entry: &ProducerEntry, batch: &BatchInfo, offset: Offset) -> Result<(), ProducerError> {
    let Some(marker) = batch.marker else { return Ok(()) };
    check_epoch(entry, batch, offset)?;
    if entry.coordinator_epoch() > marker.coordinator_epoch {
        return Err(ProducerError::CoordinatorFenced {
            producer_id: batch.producer_id,
            epoch: marker.coordinator_epoch,
            current: entry.coordinator_epoch(),
            offset,
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "producers_tests.rs"]
mod tests;
