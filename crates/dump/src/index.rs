//! Indexes, checked against the segment they belong to.

use crate::Findings;
use base::Offset;
use records::{Batch, Scratch};
use std::fmt::Write as _;

/// Bytes of an entry of an offset index: relative offset and position.
const OFFSET_ENTRY_BYTES: usize = 8;
/// Bytes of an entry of a time index: timestamp and relative offset.
const TIME_ENTRY_BYTES: usize = 12;
/// Bytes of an entry of a transaction index: version, producer and three offsets.
const TXN_ENTRY_BYTES: usize = 34;
/// Bytes of a batch's records when decompressed, for their timestamps.
const RECORDS_BYTES_MAX: usize = 1 << 30;

/// An index file.
#[derive(Clone, Copy, Debug)]
pub struct IndexFile<'a> {
    /// Its path, for messages.
    pub file: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
    /// The first offset of its segment.
    pub base: Offset,
}

/// Finds a batch of the segment next to an index: the one that begins at a position, or `None` where there is none.
pub type SegmentAt<'a> = dyn FnMut(u64) -> Option<Batch> + 'a;

/// What is done with an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexCheck {
    /// Show the entries and compare them with the segment.
    #[default]
    Show,
    /// Compare them with the segment.
    VerifyOnly,
    /// Only check what a broker checks at its start.
    SanityOnly,
}

struct OffsetEntry {
    offset: Offset,
    position: u64,
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from(i32_at(bytes, at)) << 32 | i64::from(i32_at(bytes, at + 4) as u32)
}

fn offset_entries(bytes: &[u8], base: Offset) -> impl DoubleEndedIterator<Item = OffsetEntry> + '_ {
    bytes.chunks_exact(OFFSET_ENTRY_BYTES).map(move |entry| OffsetEntry {
        offset: base.wrapping_add(i64::from(i32_at(entry, 0))),
        position: u64::from(i32_at(entry, 4) as u32),
    })
}

/// Appends the entries of an offset index.
pub fn offset_index(
    index: &IndexFile<'_>,
    check: IndexCheck,
    segment: &mut SegmentAt<'_>,
    out: &mut String,
    findings: &mut Findings,
) {
    let IndexFile { file, bytes, base } = *index;
    if bytes.len() < OFFSET_ENTRY_BYTES {
        let _ = writeln!(out, "{file} is empty.");
        return;
    }
    if check == IndexCheck::SanityOnly {
        let last = offset_entries(bytes, base).next_back().map_or(base, |e| e.offset);
        let whole = bytes.len().is_multiple_of(OFFSET_ENTRY_BYTES);
        out.push_str(&sanity(file, whole && last >= base, last, bytes.len()));
        return;
    }
    for (i, entry) in offset_entries(bytes, base).enumerate() {
        // The rest of a file made in advance is zero.
        if entry.offset == base && i > 0 {
            return;
        }
        let found = segment(entry.position).map_or(-1, |batch| batch.header.last_offset());
        if found != entry.offset {
            let line = format!("  Index offset: {}, log offset: {found}", entry.offset);
            findings.add(format!("Mismatches in :{file}"), line);
        }
        if check == IndexCheck::Show {
            let _ = writeln!(out, "offset: {} position: {}", entry.offset, entry.position);
        }
    }
}

fn sanity(file: &str, good: bool, last: Offset, bytes: usize) -> String {
    if good {
        return format!("{file} passed sanity check.\n");
    }
    format!("{file} failed sanity check: last offset {last}, {bytes} bytes.\n")
}

/// Appends the entries of a time index, whose segment has the offset index `offsets`.
pub fn time_index(
    index: &IndexFile<'_>,
    offsets: &[u8],
    check: IndexCheck,
    segment: &mut SegmentAt<'_>,
    out: &mut String,
    findings: &mut Findings,
) {
    let IndexFile { file, bytes, base } = *index;
    let entries =
        || bytes.chunks_exact(TIME_ENTRY_BYTES).map(|e| (i64_at(e, 0), base.wrapping_add(i64::from(i32_at(e, 8)))));
    if check == IndexCheck::SanityOnly {
        let first = entries().next().map_or(i64::MIN, |e| e.0);
        let (time, last) = entries().next_back().unwrap_or((first, base));
        let whole = bytes.len().is_multiple_of(TIME_ENTRY_BYTES);
        out.push_str(&sanity(file, whole && time >= first && last >= base, last, bytes.len()));
        return;
    }
    let mut scratch = Scratch::new();
    let mut previous = -1;
    for (i, (timestamp, offset)) in entries().enumerate() {
        if offset == base && i > 0 {
            return;
        }
        match find(offsets, base, offset, segment) {
            Some(batch) if batch.header.last_offset() == offset => {
                let found = max_timestamp(&batch, &mut scratch);
                if found != timestamp {
                    let line = format!("  Index timestamp: {timestamp}, log timestamp: {found}");
                    findings.add(format!("Found timestamp mismatch in :{file}"), line);
                }
                if previous >= timestamp {
                    let line = format!("  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}");
                    findings.add(format!("Found out of order timestamp in :{file}"), line);
                }
            }
            other => {
                let found = other.map_or(-1, |batch| batch.header.last_offset());
                let line = format!("Indexed offset: {offset}, found log offset: {found}");
                findings.add(format!("The following indexed offsets are not found in :{file}"), line);
            }
        }
        if check == IndexCheck::Show {
            let _ = writeln!(out, "timestamp: {timestamp} offset: {offset}");
        }
        previous = timestamp;
    }
}

/// The first batch that reaches `offset`, searched from where the offset index points.
fn find(offsets: &[u8], base: Offset, offset: Offset, segment: &mut SegmentAt<'_>) -> Option<Batch> {
    let below = offset_entries(offsets, base).take_while(|e| e.offset <= offset);
    // Entries rise; those after the last real one are zero and do not.
    let mut position = 0;
    for entry in below {
        if entry.position < position {
            break;
        }
        position = entry.position;
    }
    loop {
        let batch = segment(position)?;
        if batch.header.last_offset() >= offset {
            return Some(batch);
        }
        position += batch.bytes.len() as u64;
    }
}

fn max_timestamp(batch: &Batch, scratch: &mut Scratch) -> i64 {
    let records = batch.records(scratch, RECORDS_BYTES_MAX);
    records.map_or(-1, |records| records.flatten().map(|r| r.timestamp).max().unwrap_or(-1))
}

/// Appends the entries of a transaction index: the transactions that were aborted.
pub fn txn_index(bytes: &[u8], out: &mut String) {
    for entry in bytes.chunks_exact(TXN_ENTRY_BYTES) {
        let version = i32_at(&[0, 0, entry[0], entry[1]], 0);
        let [producer, first, last, stable] = [2, 10, 18, 26].map(|at| i64_at(entry, at));
        let _ = write!(out, "version: {version} producerId: {producer} firstOffset: {first}");
        let _ = writeln!(out, " lastOffset: {last} lastStableOffset: {stable}");
    }
    let rest = bytes.len() % TXN_ENTRY_BYTES;
    if rest > 0 {
        let _ = writeln!(out, "Found {rest} invalid bytes at the end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{BatchBuilder, RecordData};

    /// Batches of two records each, with their positions.
    fn segment() -> Vec<(u64, Batch)> {
        let mut position = 0;
        (0..4i64)
            .map(|i| {
                let mut b = BatchBuilder::new(100 + 2 * i);
                for j in 0..2 {
                    b.append(&RecordData { timestamp: 1000 * i + j, ..RecordData::default() });
                }
                let batch = Batch::parse(&b.build().unwrap()).unwrap();
                let at = position;
                position += batch.bytes.len() as u64;
                (at, batch)
            })
            .collect()
    }

    fn index<'a>(file: &'a str, bytes: &'a [u8]) -> IndexFile<'a> {
        IndexFile { file, bytes, base: 100 }
    }

    fn entry8(relative: i32, position: u64) -> Vec<u8> {
        [relative.to_be_bytes(), (position as i32).to_be_bytes()].concat()
    }

    fn entry12(timestamp: i64, relative: i32) -> Vec<u8> {
        [&timestamp.to_be_bytes()[..], &relative.to_be_bytes()].concat()
    }

    #[test]
    fn offset_entries_are_compared_with_the_segment() {
        let batches = segment();
        let mut at = |p: u64| batches.iter().find(|(position, _)| *position == p).map(|(_, b)| b.clone());
        let bytes = [entry8(3, batches[1].0), entry8(4, batches[2].0), vec![0; 16]].concat();
        let (mut out, mut findings) = (String::new(), Findings::default());
        offset_index(&index("i", &bytes), IndexCheck::Show, &mut at, &mut out, &mut findings);
        let expect = format!("offset: 103 position: {}\noffset: 104 position: {}\n", batches[1].0, batches[2].0);
        assert_eq!(out, expect);
        assert_eq!(findings.text(), "Mismatches in :i\n  Index offset: 104, log offset: 105\n");
        out.clear();
        offset_index(&index("i", &bytes[..12]), IndexCheck::SanityOnly, &mut at, &mut out, &mut findings);
        assert_eq!(out, "i failed sanity check: last offset 103, 12 bytes.\n");
        out.clear();
        offset_index(&index("i", &[]), IndexCheck::Show, &mut at, &mut out, &mut findings);
        assert_eq!(out, "i is empty.\n");
    }

    #[test]
    fn time_entries_are_compared_with_the_records() {
        let batches = segment();
        let mut at = |p: u64| batches.iter().find(|(position, _)| *position == p).map(|(_, b)| b.clone());
        let offsets = entry8(3, batches[1].0);
        let times = [entry12(1, 1), entry12(1001, 3), entry12(999, 5), entry12(3001, 6), entry12(4000, 9)].concat();
        let (mut out, mut findings) = (String::new(), Findings::default());
        time_index(&index("t", &times), &offsets, IndexCheck::VerifyOnly, &mut at, &mut out, &mut findings);
        assert_eq!(out, "");
        assert_eq!(
            findings.text(),
            "Found timestamp mismatch in :t\n  Index timestamp: 999, log timestamp: 2001\n\
             Found out of order timestamp in :t\n  Index timestamp: 999, Previously indexed timestamp: 1001\n\
             The following indexed offsets are not found in :t\nIndexed offset: 106, found log offset: 107\n\
             Indexed offset: 109, found log offset: -1\n"
        );
    }

    #[test]
    fn aborted_transactions() {
        let mut bytes = vec![0, 0];
        for n in [7i64, 1, 9, 2] {
            bytes.extend(n.to_be_bytes());
        }
        bytes.push(1);
        let mut out = String::new();
        txn_index(&bytes, &mut out);
        let expect = "version: 0 producerId: 7 firstOffset: 1 lastOffset: 9 lastStableOffset: 2\n";
        assert_eq!(out, format!("{expect}Found 1 invalid bytes at the end\n"));
    }
}
