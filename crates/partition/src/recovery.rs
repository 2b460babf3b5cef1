use base::{Now, Offset};
use log::RecoverySink;
use records::{BatchHeader, ControlRecordType, RecordIter, field};
use replica::{BatchInfo, CompletedTxn, EndTxnMarker, ProducerStates, SnapshotEntry};

/// Rebuilds the producers of a partition while its log is opened.
pub(crate) struct ProducerRecovery {
    now: Now,
    producers: ProducerStates,
}

impl ProducerRecovery {
    pub(crate) fn new(now: Now) -> ProducerRecovery {
        ProducerRecovery { now, producers: ProducerStates::new(0, ProducerStates::PRODUCERS_MAX_DEFAULT) }
    }

    /// The producers after all batches.
    pub(crate) fn finish(self) -> ProducerStates {
        self.producers
    }
}

impl RecoverySink for ProducerRecovery {
    fn producer_snapshot(&mut self, offset: Offset, entries: Vec<log::ProducerEntry>) {
        self.producers.load(self.now.wall_ms, offset, entries.iter().map(from_log_entry));
    }

    fn batch(&mut self, header: &BatchHeader, control: Option<&[u8]>) -> Option<log::AbortedTxn> {
        let marker = control.and_then(|bytes| end_txn_marker(header, bytes));
        let batch = BatchInfo::new(header, marker);
        let ended = self.producers.replay(self.now.wall_ms, header.base_offset, &batch)?;
        (!ended.committed).then(|| aborted_txn(&ended))
    }
}

/// The end-of-transaction marker in a batch, if it is a transactional control batch that holds one.
pub(crate) fn end_txn_marker(header: &BatchHeader, batch: &[u8]) -> Option<EndTxnMarker> {
    if !header.is_control() || !header.is_transactional() {
        return None;
    }
    let record = RecordIter::new(header, batch.get(field::RECORDS..)?).next()?.ok()?;
    let commit = match ControlRecordType::parse(record.key?)? {
        ControlRecordType::Abort => false,
        ControlRecordType::Commit => true,
        _ => return None,
    };
    let coordinator_epoch = records::EndTxnMarker::parse(record.value?)?.coordinator_epoch;
    Some(EndTxnMarker { commit, coordinator_epoch })
}

/// A transaction that was aborted, as the log's index holds it.
pub(crate) fn aborted_txn(ended: &CompletedTxn) -> log::AbortedTxn {
    log::AbortedTxn {
        producer_id: ended.producer_id,
        first_offset: ended.first_offset,
        last_offset: ended.last_offset,
        last_stable_offset: ended.last_stable_offset,
    }
}

pub(crate) fn to_log_entry(entry: &SnapshotEntry) -> log::ProducerEntry {
    log::ProducerEntry {
        producer_id: entry.producer_id,
        producer_epoch: entry.producer_epoch,
        last_sequence: entry.last_sequence,
        last_offset: entry.last_offset,
        offset_delta: entry.offset_delta,
        timestamp: entry.timestamp,
        coordinator_epoch: entry.coordinator_epoch,
        current_txn_first_offset: entry.current_txn_first_offset,
    }
}

fn from_log_entry(entry: &log::ProducerEntry) -> SnapshotEntry {
    SnapshotEntry {
        producer_id: entry.producer_id,
        producer_epoch: entry.producer_epoch,
        last_sequence: entry.last_sequence,
        last_offset: entry.last_offset,
        offset_delta: entry.offset_delta,
        timestamp: entry.timestamp,
        coordinator_epoch: entry.coordinator_epoch,
        current_txn_first_offset: entry.current_txn_first_offset,
    }
}
