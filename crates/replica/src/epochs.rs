use base::{LeaderEpoch, Offset};

/// The offset at which a leader epoch began, one line of `leader-epoch-checkpoint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of the first record it could write.
    pub start_offset: Offset,
}

/// The answer to "where did this epoch end?" (OffsetForLeaderEpoch, KIP-101, KIP-320).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// Largest epoch known here that is not larger than the one asked for.
    pub epoch: LeaderEpoch,
    /// Offset behind the last record of that epoch.
    pub end_offset: Offset,
}

/// What clients and files say where no epoch is known.
const NO_EPOCH: LeaderEpoch = -1;

/// The history of leader epochs of one log: epochs and start offsets both strictly increase.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EpochCache {
    entries: Vec<EpochEntry>,
}

impl EpochCache {
    /// A cache from checkpoint entries. Entries that break the order (a damaged file) push out those before them, as
    /// if they had been assigned one after the other.
    pub fn from_entries(entries: impl IntoIterator<Item = EpochEntry>) -> EpochCache {
        let mut cache = EpochCache::default();
        for entry in entries {
            cache.assign(entry.epoch, entry.start_offset);
        }
        cache
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The oldest epoch that still has records, or had when the log start moved into it.
    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }

    /// Notes that `epoch` began at `start_offset`; true if that was news. Later entries that contradict it are dropped:
    /// they describe records that are no longer there.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if epoch < 0 || start_offset < 0 {
            return false;
        }
        if let Some(last) = self.latest()
            && last.epoch == epoch
            && start_offset >= last.start_offset
        {
            return false;
        }
        while self.entries.last().is_some_and(|e| e.epoch >= epoch || e.start_offset >= start_offset) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start_offset });
        true
    }

    /// Drops the epochs that began at or behind `end_offset`, when the log is cut there. True if any did.
    pub fn truncate_end(&mut self, end_offset: Offset) -> bool {
        let before = self.entries.len();
        while self.entries.last().is_some_and(|e| e.start_offset >= end_offset) {
            self.entries.pop();
        }
        self.entries.len() != before
    }

    /// Drops the epochs that ended before `start_offset`; the one that contains it now begins there. True if anything
    /// changed.
    pub fn truncate_start(&mut self, start_offset: Offset) -> bool {
        let older = self.entries.partition_point(|e| e.start_offset <= start_offset);
        let Some(last) = older.checked_sub(1) else { return false };
        if last == 0 && self.entries[0].start_offset == start_offset {
            return false;
        }
        self.entries.drain(..last);
        self.entries[0].start_offset = start_offset;
        true
    }

    /// The epoch in which `offset` was written.
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        let upto = self.entries.partition_point(|e| e.start_offset <= offset);
        upto.checked_sub(1).map(|i| self.entries[i].epoch)
    }

    /// Where `epoch` ended, or `None` when this log cannot tell: the epoch is -1, which stands for none, or newer than all it knows. An
    /// epoch older than all known ones ends where the oldest known one began.
    pub fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        if epoch == NO_EPOCH {
            return None;
        }
        if self.latest().is_some_and(|last| last.epoch == epoch) {
            return Some(EpochEnd { epoch, end_offset: log_end });
        }
        let next = self.entries.partition_point(|e| e.epoch <= epoch);
        let higher = self.entries.get(next)?;
        let epoch = next.checked_sub(1).map_or(epoch, |floor| self.entries[floor].epoch);
        Some(EpochEnd { epoch, end_offset: higher.start_offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    fn cache(entries: &[(LeaderEpoch, Offset)]) -> EpochCache {
        EpochCache::from_entries(entries.iter().map(|&(epoch, start_offset)| EpochEntry { epoch, start_offset }))
    }

    fn listed(cache: &EpochCache) -> Vec<(LeaderEpoch, Offset)> {
        cache.entries().iter().map(|e| (e.epoch, e.start_offset)).collect()
    }

    #[test]
    fn assigning_keeps_both_columns_increasing() {
        for (before, assign, expect) in [
            (&[][..], (0, 0), &[(0, 0)][..]),
            (&[(0, 0)], (0, 5), &[(0, 0)]),
            (&[(0, 0)], (1, 5), &[(0, 0), (1, 5)]),
            (&[(0, 0), (1, 5)], (2, 5), &[(0, 0), (2, 5)]),
            (&[(0, 0), (1, 5), (3, 9)], (2, 7), &[(0, 0), (1, 5), (2, 7)]),
            (&[(0, 0), (1, 5)], (1, 3), &[(0, 0), (1, 3)]),
            (&[(4, 10)], (2, 0), &[(2, 0)]),
            (&[(4, 10)], (-1, 0), &[(4, 10)]),
            (&[(4, 10)], (5, -1), &[(4, 10)]),
        ] {
            let mut c = cache(before);
            let changed = c.assign(assign.0, assign.1);
            assert_eq!(listed(&c), expect, "{before:?} then {assign:?}");
            assert_eq!(changed, before != expect, "{before:?} then {assign:?}");
        }
    }

    #[test]
    fn end_of_an_epoch() {
        let c = cache(&[(2, 10), (4, 20), (7, 35)]);
        for (epoch, expect) in [
            (-1, None),
            (-2, Some((-2, 10))),
            (0, Some((0, 10))),
            (1, Some((1, 10))),
            (2, Some((2, 20))),
            (3, Some((2, 20))),
            (4, Some((4, 35))),
            (6, Some((4, 35))),
            (7, Some((7, 50))),
            (8, None),
        ] {
            assert_eq!(c.end_of(epoch, 50).map(|e| (e.epoch, e.end_offset)), expect, "epoch {epoch}");
        }
        assert_eq!(cache(&[]).end_of(0, 50), None);
    }

    #[test]
    fn truncation_from_both_sides() {
        let full = [(2, 10), (4, 20), (7, 35)];
        for (end, expect) in [(50, &full[..]), (35, &full[..2]), (36, &full[..]), (20, &full[..1]), (10, &[]), (0, &[])]
        {
            let mut c = cache(&full);
            assert_eq!(c.truncate_end(end), expect.len() != 3, "end {end}");
            assert_eq!(listed(&c), expect, "end {end}");
        }
        for (start, expect) in [
            (0, &full[..]),
            (10, &full[..]),
            (15, &[(2, 15), (4, 20), (7, 35)]),
            (20, &[(4, 20), (7, 35)]),
            (34, &[(4, 34), (7, 35)]),
            (60, &[(7, 60)]),
        ] {
            let mut c = cache(&full);
            assert_eq!(c.truncate_start(start), expect != full, "start {start}");
            assert_eq!(listed(&c), expect, "start {start}");
        }
    }

    #[test]
    fn epoch_of_an_offset() {
        let c = cache(&[(2, 10), (4, 20)]);
        for (offset, expect) in [(9, None), (10, Some(2)), (19, Some(2)), (20, Some(4)), (99, Some(4))] {
            assert_eq!(c.epoch_of(offset), expect, "offset {offset}");
        }
    }

    /// The naive model keeps the epoch of every offset and answers by scanning.
    #[test]
    fn agrees_with_a_list_of_epochs_per_offset() {
        for seed in 0..300 {
            let mut prng = Prng::new(seed);
            let mut cache = EpochCache::default();
            let mut model: Vec<LeaderEpoch> = Vec::new();
            let (mut epoch, mut start) = (0, 0usize);
            for _ in 0..60 {
                match prng.below(10) {
                    0..=5 => {
                        cache.assign(epoch, model.len() as Offset);
                        model.extend(std::iter::repeat_n(epoch, 1 + prng.below(4) as usize));
                    }
                    6..=7 => epoch += 1 + prng.below(2) as LeaderEpoch,
                    8 if model.len() > start => {
                        let cut = start + prng.below((model.len() - start) as u64) as usize;
                        model.truncate(cut);
                        cache.truncate_end(cut as Offset);
                    }
                    _ => {
                        start += prng.below((model.len() - start) as u64 / 4 + 1) as usize;
                        cache.truncate_start(start as Offset);
                    }
                }
                for (offset, epoch) in model.iter().enumerate().skip(start) {
                    assert_eq!(cache.epoch_of(offset as Offset), Some(*epoch), "seed {seed} offset {offset}");
                }
                for asked in 0..=epoch {
                    // Epochs that still have records at or behind the start; the model cannot see those that were
                    // assigned to nothing, and neither may the cache.
                    let Some(last) = model.last() else { continue };
                    if start == model.len() || asked >= *last {
                        continue;
                    }
                    let end = model.iter().position(|e| *e > asked).unwrap().max(start);
                    let known = model[start..].iter().filter(|e| **e <= asked).max().copied();
                    let expect = EpochEnd { epoch: known.unwrap_or(asked), end_offset: end as Offset };
                    let got = cache.end_of(asked, model.len() as Offset);
                    assert_eq!(got, Some(expect), "seed {seed} asked {asked} {cache:?} start {start}");
                }
            }
        }
    }
}
