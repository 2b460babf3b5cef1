//! The sparse indexes of a segment. Offsets in them are relative to the segment's base offset. Big endian.

use base::Offset;

use super::FormatError;
use super::snapshot::{i32_at, i64_at};
use crate::AbortedTxn;

/// Bytes of an entry of `.index`.
pub const OFFSET_ENTRY_BYTES: usize = 8;
/// Bytes of an entry of `.timeindex`.
pub const TIME_ENTRY_BYTES: usize = 12;
/// Bytes of an entry of `.txnindex`.
pub const TXN_ENTRY_BYTES: usize = 34;
const TXN_VERSION: i16 = 0;

/// An entry of `.index`: the last offset of a batch and where the batch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetEntry {
    /// Last offset of the batch, relative to the base offset.
    pub relative: i32,
    /// Position of the batch in the segment file, in bytes.
    pub position: i32,
}

/// An entry of `.timeindex`: the largest timestamp so far and the batch it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeEntry {
    /// Largest timestamp of the segment up to this batch, ms.
    pub timestamp: i64,
    /// Last offset of the first batch with that timestamp, relative to the base offset.
    pub relative: i32,
}

/// Both sparse indexes of one segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SparseIndex {
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
}

impl SparseIndex {
    /// Adds an offset entry; entries come in order.
    pub fn push_offset(&mut self, entry: OffsetEntry) {
        debug_assert!(self.offsets.last().is_none_or(|last| last.relative < entry.relative));
        self.offsets.push(entry);
    }

    /// Adds a time entry if both of its columns grow, as Kafka's `maybeAppend` does.
    pub fn push_time(&mut self, entry: TimeEntry) {
        let grows = self.times.last().is_none_or(|l| l.timestamp < entry.timestamp && l.relative < entry.relative);
        if grows {
            self.times.push(entry);
        }
    }

    /// Number of offset entries.
    pub fn offset_count(&self) -> usize {
        self.offsets.len()
    }

    /// Number of time entries.
    pub fn time_count(&self) -> usize {
        self.times.len()
    }

    /// Memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.offsets.capacity() * size_of::<OffsetEntry>() + self.times.capacity() * size_of::<TimeEntry>()
    }

    /// The last entry whose offset is not behind `relative`: a batch to start from when looking for that offset.
    pub fn floor(&self, relative: i64) -> Option<OffsetEntry> {
        let at = self.offsets.partition_point(|e| i64::from(e.relative) <= relative);
        at.checked_sub(1).map(|i| self.offsets[i])
    }

    /// The last entry whose batch ends before offset `relative`.
    pub fn last_below(&self, relative: i64) -> Option<OffsetEntry> {
        let at = self.offsets.partition_point(|e| i64::from(e.relative) < relative);
        at.checked_sub(1).map(|i| self.offsets[i])
    }

    /// The last entry whose batch begins at or before `position`.
    pub fn floor_position(&self, position: u64) -> Option<OffsetEntry> {
        let at = self.offsets.partition_point(|e| u64::from(e.position.unsigned_abs()) <= position);
        at.checked_sub(1).map(|i| self.offsets[i])
    }

    /// The last time entry whose timestamp is not larger than `timestamp`.
    pub fn floor_time(&self, timestamp: i64) -> Option<TimeEntry> {
        let at = self.times.partition_point(|e| e.timestamp <= timestamp);
        at.checked_sub(1).map(|i| self.times[i])
    }

    /// The last time entry.
    pub fn last_time(&self) -> Option<TimeEntry> {
        self.times.last().copied()
    }

    /// The last offset entry.
    pub fn last_offset(&self) -> Option<OffsetEntry> {
        self.offsets.last().copied()
    }

    /// Drops what lies at or behind `position` or offset `relative`.
    pub fn truncate(&mut self, relative: i64, position: u64) {
        let keep = |e: &OffsetEntry| i64::from(e.relative) < relative && (e.position as u64) < position;
        let at = self.offsets.partition_point(keep);
        self.offsets.truncate(at);
        let at = self.times.partition_point(|e| i64::from(e.relative) < relative);
        self.times.truncate(at);
    }

    /// The bytes of `.index`.
    pub fn offset_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.offsets.len() * OFFSET_ENTRY_BYTES);
        for e in &self.offsets {
            out.extend_from_slice(&e.relative.to_be_bytes());
            out.extend_from_slice(&e.position.to_be_bytes());
        }
        out
    }

    /// The bytes of `.timeindex`.
    pub fn time_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.times.len() * TIME_ENTRY_BYTES);
        for e in &self.times {
            out.extend_from_slice(&e.timestamp.to_be_bytes());
            out.extend_from_slice(&e.relative.to_be_bytes());
        }
        out
    }

    /// Reads both files of a segment of `size` bytes that is not written any more.
    ///
    /// # Errors
    /// A length that is no multiple of the entry's, columns that do not grow, or positions outside the segment.
    pub fn parse(offsets: &[u8], times: &[u8], size: u64) -> Result<SparseIndex, FormatError> {
        Ok(SparseIndex { offsets: parse_offsets(offsets, size)?, times: parse_times(times)? })
    }
}

fn parse_offsets(bytes: &[u8], size: u64) -> Result<Vec<OffsetEntry>, FormatError> {
    let what = "offset index";
    if !bytes.len().is_multiple_of(OFFSET_ENTRY_BYTES) {
        return Err(FormatError::new(what, format!("{} bytes are no whole entries", bytes.len())));
    }
    let mut entries: Vec<OffsetEntry> = Vec::with_capacity(bytes.len() / OFFSET_ENTRY_BYTES);
    for raw in bytes.chunks_exact(OFFSET_ENTRY_BYTES) {
        let entry = OffsetEntry { relative: i32_at(raw, 0), position: i32_at(raw, 4) };
        let grows = match entries.last() {
            Some(last) => last.relative < entry.relative && last.position < entry.position,
            None => entry.relative >= 0 && entry.position >= 0,
        };
        if !grows || entry.position as u64 >= size {
            return Err(FormatError::new(what, format!("entry {} is {entry:?}, out of order", entries.len())));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn parse_times(bytes: &[u8]) -> Result<Vec<TimeEntry>, FormatError> {
    let what = "time index";
    if !bytes.len().is_multiple_of(TIME_ENTRY_BYTES) {
        return Err(FormatError::new(what, format!("{} bytes are no whole entries", bytes.len())));
    }
    let mut entries: Vec<TimeEntry> = Vec::with_capacity(bytes.len() / TIME_ENTRY_BYTES);
    for raw in bytes.chunks_exact(TIME_ENTRY_BYTES) {
        let entry = TimeEntry { timestamp: i64_at(raw, 0), relative: i32_at(raw, 8) };
        let grows = match entries.last() {
            Some(last) => last.timestamp < entry.timestamp && last.relative < entry.relative,
            None => entry.relative >= 0,
        };
        if !grows {
            return Err(FormatError::new(what, format!("entry {} is {entry:?}, out of order", entries.len())));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The bytes of `.txnindex`.
pub fn write_txns(entries: &[AbortedTxn]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * TXN_ENTRY_BYTES);
    for e in entries {
        out.extend_from_slice(&TXN_VERSION.to_be_bytes());
        for field in [e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset] {
            out.extend_from_slice(&field.to_be_bytes());
        }
    }
    out
}

/// The entries of `.txnindex` of the segment with base offset `base`.
///
/// # Errors
/// A length that is no multiple of the entry's, another version, or offsets out of order or before the segment.
pub fn parse_txns(bytes: &[u8], base: Offset) -> Result<Vec<AbortedTxn>, FormatError> {
    let what = "transaction index";
    if !bytes.len().is_multiple_of(TXN_ENTRY_BYTES) {
        return Err(FormatError::new(what, format!("{} bytes are no whole entries", bytes.len())));
    }
    let mut entries: Vec<AbortedTxn> = Vec::with_capacity(bytes.len() / TXN_ENTRY_BYTES);
    for raw in bytes.chunks_exact(TXN_ENTRY_BYTES) {
        let version = i16::from_be_bytes([raw[0], raw[1]]);
        let entry = AbortedTxn {
            producer_id: i64_at(raw, 2),
            first_offset: i64_at(raw, 10),
            last_offset: i64_at(raw, 18),
            last_stable_offset: i64_at(raw, 26),
        };
        let grows = entries.last().is_none_or(|last| last.last_offset < entry.last_offset);
        if version != TXN_VERSION || !grows || entry.last_offset < base {
            let place = entries.len();
            return Err(FormatError::new(what, format!("entry {place} is {entry:?}, version {version}")));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    fn index() -> SparseIndex {
        let mut index = SparseIndex::default();
        for (relative, position) in [(9, 0), (19, 5000), (39, 9000)] {
            index.push_offset(OffsetEntry { relative, position });
        }
        for (timestamp, relative) in [(100, 9), (200, 19), (200, 39), (150, 45), (300, 50)] {
            index.push_time(TimeEntry { timestamp, relative });
        }
        index
    }

    #[test]
    fn lookups() {
        let index = index();
        assert_eq!(index.time_count(), 3, "entries that do not grow are left out");
        for (relative, floor, below) in [
            (0, None, None),
            (8, None, None),
            (9, Some(0), None),
            (10, Some(0), Some(0)),
            (39, Some(9000), Some(5000)),
            (1 << 40, Some(9000), Some(9000)),
        ] {
            assert_eq!(index.floor(relative).map(|e| e.position), floor, "floor {relative}");
            assert_eq!(index.last_below(relative).map(|e| e.position), below, "below {relative}");
        }
        for (position, expect) in [(0, Some(9)), (4999, Some(9)), (5000, Some(19)), (u64::MAX, Some(39))] {
            assert_eq!(index.floor_position(position).map(|e| e.relative), expect, "{position}");
        }
        for (time, expect) in [(99, None), (100, Some(9)), (250, Some(19)), (300, Some(50))] {
            assert_eq!(index.floor_time(time).map(|e| e.relative), expect, "{time}");
        }
    }

    #[test]
    fn round_trip_and_truncation() {
        let mut index = index();
        let back = SparseIndex::parse(&index.offset_bytes(), &index.time_bytes(), 9001).unwrap();
        assert_eq!(back, index);
        assert!(SparseIndex::parse(&index.offset_bytes(), &index.time_bytes(), 9000).is_err());
        index.truncate(20, 6000);
        assert_eq!((index.offset_count(), index.time_count()), (2, 2));
        index.truncate(20, 5000);
        assert_eq!(index.offset_count(), 1);
    }

    #[test]
    fn damage_never_gives_entries_out_of_order() {
        let (offsets, times) = (index().offset_bytes(), index().time_bytes());
        let mut prng = Prng::new(3);
        for _ in 0..1000 {
            let (mut o, mut t) = (offsets.clone(), times.clone());
            for file in [&mut o, &mut t] {
                match prng.below(3) {
                    0 => file.truncate(prng.below(file.len() as u64) as usize),
                    1 => {
                        let at = prng.below(file.len() as u64) as usize;
                        file[at] = prng.next_u64() as u8;
                    }
                    _ => file.extend_from_slice(&[0; 24]),
                }
            }
            if let Ok(parsed) = SparseIndex::parse(&o, &t, 10_000) {
                assert!(parsed.offsets.windows(2).all(|w| w[0].relative < w[1].relative));
                assert!(parsed.times.windows(2).all(|w| w[0].timestamp < w[1].timestamp));
            }
        }
    }

    #[test]
    fn aborted_transactions_round_trip() {
        let entries = [
            AbortedTxn { producer_id: 7, first_offset: 10, last_offset: 20, last_stable_offset: 10 },
            AbortedTxn { producer_id: 8, first_offset: 5, last_offset: 30, last_stable_offset: 21 },
        ];
        let bytes = write_txns(&entries);
        assert_eq!(bytes.len(), 2 * TXN_ENTRY_BYTES);
        assert_eq!(parse_txns(&bytes, 0).unwrap(), entries);
        assert!(parse_txns(&bytes, 25).is_err(), "an entry before the segment");
        assert!(parse_txns(&bytes[..40], 0).is_err());
        let mut other = bytes.clone();
        other[1] = 1;
        assert!(parse_txns(&other, 0).is_err());
    }
}
