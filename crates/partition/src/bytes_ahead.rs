use std::collections::VecDeque;

use base::Offset;
use replica::Isolation;

/// Batches remembered between append and high watermark, and as many again between high watermark and last stable
/// offset. Beyond it neighbours are merged, so that a waiting fetch learns of their bytes together, with the last of
/// them. More are in flight only when a disk stalls or a transaction stays open, and then nobody waits for single
/// batches.
const PENDING_BATCHES_MAX: usize = 2048;

/// Counts the bytes that readers of each isolation have been able to see since the partition was opened. The difference
/// of two readings is what a waiting fetch gained in between, without looking at the log.
#[derive(Debug)]
pub(crate) struct BytesAhead {
    appended: u64,
    visible: u64,
    stable: u64,
    /// Batches not yet stable: end offset and size. The first `visible_batches` of them are below the high watermark.
    pending: VecDeque<(Offset, u64)>,
    visible_batches: usize,
}

impl BytesAhead {
    /// For a log that ends at `log_end` and of which readers see everything below `visible_end`. Sizes of what lies in
    /// between are not known and count as one byte an offset, so that nobody waits for more than there is.
    pub(crate) fn new(visible_end: Offset, log_end: Offset) -> BytesAhead {
        let mut bytes = BytesAhead { appended: 0, visible: 0, stable: 0, pending: VecDeque::new(), visible_batches: 0 };
        if log_end > visible_end {
            bytes.appended(log_end, (log_end - visible_end).unsigned_abs());
        }
        bytes
    }

    /// A batch of `size` bytes now ends the log at `end`.
    pub(crate) fn appended(&mut self, end: Offset, size: u64) {
        self.appended += size;
        let invisible = self.pending.len() - self.visible_batches;
        match self.pending.back_mut() {
            Some(last) if invisible >= PENDING_BATCHES_MAX => {
                last.0 = end;
                last.1 += size;
            }
            _ => self.pending.push_back((end, size)),
        }
    }

    /// The high watermark and the last stable offset are now these.
    pub(crate) fn advance(&mut self, high_watermark: Offset, last_stable_offset: Offset) {
        while let Some(&(end, size)) = self.pending.get(self.visible_batches)
            && end <= high_watermark
        {
            self.visible += size;
            self.visible_batches += 1;
        }
        while self.visible_batches > 0
            && let Some(&(end, size)) = self.pending.front()
            && end <= last_stable_offset
        {
            self.stable += size;
            self.visible_batches -= 1;
            self.pending.pop_front();
        }
        while self.visible_batches > PENDING_BATCHES_MAX {
            // The removed one lies just before the few that are not visible yet, so little moves.
            let (_, size) = self.pending.remove(self.visible_batches - 2).unwrap_or_default();
            self.visible_batches -= 1;
            self.pending[self.visible_batches - 1].1 += size;
        }
    }

    /// Bytes that readers of `isolation` have gained so far.
    pub(crate) fn total(&self, isolation: Isolation) -> u64 {
        match isolation {
            Isolation::LogEnd => self.appended,
            Isolation::ReadUncommitted => self.visible,
            Isolation::ReadCommitted => self.stable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(bytes: &BytesAhead) -> (u64, u64, u64) {
        let of = |isolation| bytes.total(isolation);
        (of(Isolation::LogEnd), of(Isolation::ReadUncommitted), of(Isolation::ReadCommitted))
    }

    #[test]
    fn each_isolation_sees_bytes_when_its_bound_passes_the_batch() {
        let mut bytes = BytesAhead::new(5, 5);
        bytes.appended(8, 100);
        bytes.appended(9, 20);
        assert_eq!(totals(&bytes), (120, 0, 0));
        bytes.advance(7, 7);
        assert_eq!(totals(&bytes), (120, 0, 0), "half a batch is none");
        bytes.advance(9, 7);
        assert_eq!(totals(&bytes), (120, 120, 0));
        bytes.appended(10, 3);
        bytes.advance(9, 8);
        assert_eq!(totals(&bytes), (123, 120, 100));
        bytes.advance(10, 10);
        assert_eq!(totals(&bytes), (123, 123, 123));
        assert!(bytes.pending.is_empty());
    }

    #[test]
    fn what_was_there_before_counts_by_offsets() {
        let mut bytes = BytesAhead::new(5, 9);
        bytes.advance(9, 9);
        assert_eq!(totals(&bytes), (4, 4, 4));
    }

    #[test]
    fn the_memory_is_bounded_and_no_byte_is_lost() {
        let mut bytes = BytesAhead::new(0, 0);
        let batches = 3 * PENDING_BATCHES_MAX as u64;
        for i in 0..batches {
            bytes.appended(i as Offset + 1, 10);
            if i == 100 {
                bytes.advance(50, 0);
            }
        }
        assert!(bytes.pending.len() <= 2 * PENDING_BATCHES_MAX);
        bytes.advance(batches as Offset, batches as Offset);
        assert_eq!(totals(&bytes), (10 * batches, 10 * batches, 10 * batches));
        // A partition whose transaction never ends keeps visible batches; those are merged too once it is full.
        for i in 0..batches {
            bytes.appended((batches + i) as Offset + 1, 10);
            bytes.advance((batches + i) as Offset + 1, batches as Offset);
        }
        assert!(bytes.pending.len() <= 2 * PENDING_BATCHES_MAX);
        bytes.advance(2 * batches as Offset, 2 * batches as Offset);
        assert_eq!(totals(&bytes), (20 * batches, 20 * batches, 20 * batches));
    }
}
