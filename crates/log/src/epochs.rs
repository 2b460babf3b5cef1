//! The leader epochs of a log, in the order of `leader-epoch-checkpoint`.

use base::Offset;

use crate::EpochEntry;

/// Notes that an epoch begins; true if that was news. Entries that contradict it are dropped: they tell of records that
/// are gone.
pub(crate) fn assign(entries: &mut Vec<EpochEntry>, entry: EpochEntry) -> bool {
    if entry.epoch < 0 || entry.start_offset < 0 {
        return false;
    }
    if entries.last().is_some_and(|last| last.epoch == entry.epoch && last.start_offset <= entry.start_offset) {
        return false;
    }
    while entries.last().is_some_and(|e| e.epoch >= entry.epoch || e.start_offset >= entry.start_offset) {
        entries.pop();
    }
    entries.push(entry);
    true
}

/// Drops the epochs that begin at `end` or behind it.
pub(crate) fn truncate_end(entries: &mut Vec<EpochEntry>, end: Offset) -> bool {
    let before = entries.len();
    entries.retain(|entry| entry.start_offset < end);
    entries.len() != before
}

/// Drops the epochs that end before `start`; the one that contains it begins there.
pub(crate) fn truncate_start(entries: &mut Vec<EpochEntry>, start: Offset) -> bool {
    let older = entries.partition_point(|entry| entry.start_offset <= start);
    let Some(last) = older.checked_sub(1) else { return false };
    if last == 0 && entries[0].start_offset == start {
        return false;
    }
    entries.drain(..last);
    entries[0].start_offset = start;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(i32, i64)]) -> Vec<EpochEntry> {
        pairs.iter().map(|&(epoch, start_offset)| EpochEntry { epoch, start_offset }).collect()
    }

    #[test]
    fn assign_and_truncate() {
        let mut entries = Vec::new();
        for (epoch, start_offset, news) in [(0, 0, true), (0, 9, false), (2, 10, true), (3, 10, true), (5, 20, true)] {
            assert_eq!(assign(&mut entries, EpochEntry { epoch, start_offset }), news, "{epoch} {start_offset}");
        }
        assert_eq!(entries, list(&[(0, 0), (3, 10), (5, 20)]));
        assert!(!truncate_end(&mut entries, 21) && truncate_end(&mut entries, 20));
        assert_eq!(entries, list(&[(0, 0), (3, 10)]));
        assert!(truncate_start(&mut entries, 5) && !truncate_start(&mut entries, 5));
        assert_eq!(entries, list(&[(0, 5), (3, 10)]));
        assert!(truncate_start(&mut entries, 50));
        assert_eq!(entries, list(&[(3, 50)]));
    }
}
