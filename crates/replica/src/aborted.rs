use base::{Offset, ProducerId};

/// One aborted transaction, as in a `.txnindex` file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
    /// Offset of the ABORT marker.
    pub last_offset: Offset,
    /// Last stable offset once this transaction had ended: every transaction that overlaps offsets before it ended at or
    /// before this one, which lets a search stop.
    pub last_stable_offset: Offset,
}

/// The aborted transactions of one log, in the order of their markers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AbortedTxns {
    entries: Vec<AbortedTxn>,
}

impl AbortedTxns {
    /// Adds a transaction whose marker lies behind all known ones; an entry that does not is ignored, it was replayed
    /// already.
    pub fn push(&mut self, txn: AbortedTxn) {
        if self.entries.last().is_none_or(|last| last.last_offset < txn.last_offset) {
            self.entries.push(txn);
        }
    }

    /// The transactions a read_committed reader of `from..upper` has to skip, sorted by first offset.
    pub fn overlapping(&self, from: Offset, upper: Offset) -> Vec<AbortedTxn> {
        let begin = self.entries.partition_point(|t| t.last_offset < from);
        let mut found = Vec::new();
        for txn in &self.entries[begin..] {
            if txn.first_offset < upper {
                found.push(*txn);
            }
            if txn.last_stable_offset >= upper {
                break;
            }
        }
        found.sort_by_key(|t| t.first_offset);
        found
    }

    /// Forgets transactions that ended before `log_start`.
    pub fn truncate_start(&mut self, log_start: Offset) {
        let gone = self.entries.partition_point(|t| t.last_offset < log_start);
        self.entries.drain(..gone);
    }

    /// Forgets transactions whose marker was cut off with everything at or behind `end_offset`.
    pub fn truncate_end(&mut self, end_offset: Offset) {
        let keep = self.entries.partition_point(|t| t.last_offset < end_offset);
        self.entries.truncate(keep);
    }

    /// All entries, by marker offset.
    pub fn entries(&self) -> &[AbortedTxn] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(
        producer_id: ProducerId,
        first_offset: Offset,
        last_offset: Offset,
        last_stable_offset: Offset,
    ) -> AbortedTxn {
        AbortedTxn { producer_id, first_offset, last_offset, last_stable_offset }
    }

    #[test]
    fn lookups_cover_the_range_and_are_sorted_by_first_offset() {
        // Producer 1 spans producer 2's transaction and ends last.
        let mut list = AbortedTxns::default();
        for t in [txn(2, 5, 8, 2), txn(1, 2, 20, 21), txn(3, 30, 35, 36)] {
            list.push(t);
        }
        list.push(txn(9, 0, 20, 21));
        let ids = |from, upper| list.overlapping(from, upper).iter().map(|t| t.producer_id).collect::<Vec<_>>();
        assert_eq!(ids(0, 40), [1, 2, 3]);
        assert_eq!(ids(0, 5), [1]);
        assert_eq!(ids(9, 21), [1]);
        assert_eq!(ids(21, 30), Vec::<ProducerId>::new());
        assert_eq!(ids(21, 31), [3]);
        let mut cut = list.clone();
        cut.truncate_end(35);
        assert_eq!(cut.entries().len(), 2);
        cut.truncate_start(9);
        assert_eq!(cut.entries().len(), 1);
    }
}
