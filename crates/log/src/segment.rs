//! One segment of one log, as its core knows it.

use base::Offset;
use bytes::Bytes;
use reactor::fs::File;
use records::{BatchHeader, field};

use crate::format::index::{OffsetEntry, SparseIndex, TimeEntry};
use crate::format::journal::Link;
use crate::tail::Tail;
use crate::{AbortedTxn, AppendBatch, LogConfig, ProducerEntry, ReadRequest};

/// How far a segment is from being a plain, complete file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Exists in memory only; its file is made when all earlier segments are complete.
    Planned,
    /// Has a preallocated file that is being written.
    Open,
    /// The file has exactly its bytes and the indexes are on disk.
    Complete,
}

/// Timestamps of a segment, for rolling, retention and searches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// Largest timestamp, -1 if none.
    pub max: i64,
    /// Last offset of the first batch that has it.
    pub max_offset: Offset,
    /// Largest timestamp of the first batch: its age decides about rolling by time.
    pub first: Option<i64>,
    /// Wall clock when the segment was made or opened.
    pub created_ms: i64,
}

impl Times {
    pub fn new(base: Offset, created_ms: i64) -> Times {
        Times { max: -1, max_offset: base, first: None, created_ms }
    }

    /// Largest timestamp, or when the segment was made if its records have none.
    pub fn largest_or_created(&self) -> i64 {
        if self.max >= 0 { self.max } else { self.created_ms }
    }

    fn note(&mut self, header: &BatchHeader) {
        self.first.get_or_insert(header.max_timestamp);
        if header.max_timestamp > self.max {
            self.max = header.max_timestamp;
            self.max_offset = header.last_offset();
        }
    }
}

pub(crate) struct Segment {
    pub base: Offset,
    /// Offset behind the last batch.
    pub end: Offset,
    pub stage: Stage,
    /// The bytes in memory; its end is the segment's size.
    pub tail: Tail,
    /// Bytes the journal has, or is about to have, or that are written.
    pub committed: u64,
    /// Offset behind the last committed batch.
    pub committed_end: Offset,
    /// What the first batch that is not committed continues.
    pub committed_link: Link,
    /// What a batch appended now continues.
    pub link: Link,
    /// Bytes before which a direct write was asked for; what lies beyond `written` is not promised by the journal.
    pub direct: u64,
    /// Bytes that are in the file.
    pub written: u64,
    /// Bytes for which the file has room.
    pub allocated: u64,
    /// The file, for direct writes, while the segment is open.
    pub file: Option<File>,
    /// The indexes while the segment is not complete; later they are read when needed.
    pub index: SparseIndex,
    pub since_index: u64,
    pub times: Times,
    /// False until `times` of a complete segment was read from its index.
    pub times_known: bool,
    pub txns: Vec<AbortedTxn>,
    /// Producer state at the base offset, to be written with the file.
    pub snapshot: Option<Vec<ProducerEntry>>,
}

/// What the memory of a segment has for a reader.
pub(crate) enum TailRead {
    Found {
        chunks: Vec<Bytes>,
        len: usize,
        first_offset: Offset,
        next_offset: Offset,
    },
    /// It begins before what is in memory.
    Cold,
    Nothing,
}

/// The fields of a batch header that a walk needs.
#[derive(Clone, Copy)]
struct Step {
    base: Offset,
    last: Offset,
    len: u64,
}

impl Segment {
    /// A new, empty segment behind a log that `link` ends.
    pub fn planned(base: Offset, link: Link, created_ms: i64) -> Segment {
        Segment::new(base, base, Stage::Planned, Tail::new(0, Vec::new()), link, created_ms)
    }

    /// A segment whose bytes up to the end of `tail` are all in the file.
    pub fn new(base: Offset, end: Offset, stage: Stage, tail: Tail, link: Link, created_ms: i64) -> Segment {
        let size = tail.end();
        Segment {
            base,
            end,
            stage,
            tail,
            committed: size,
            committed_end: end,
            committed_link: link,
            link,
            direct: size,
            written: size,
            allocated: size,
            file: None,
            index: SparseIndex::default(),
            since_index: 0,
            times: Times::new(base, created_ms),
            times_known: true,
            txns: Vec::new(),
            snapshot: None,
        }
    }

    /// Bytes of the segment, those in memory included.
    pub fn size(&self) -> u64 {
        self.tail.end()
    }

    /// Takes a batch in at the end.
    pub fn append(&mut self, batch: &AppendBatch, interval: u32, now_ns: u64, added: impl FnMut(u64, usize)) {
        let mut head = [0; field::RECORDS];
        head.copy_from_slice(&batch.bytes[..field::RECORDS]);
        records::stamp(&mut head, batch.base_offset, batch.leader_epoch);
        let header = BatchHeader { base_offset: batch.base_offset, ..batch.header };
        let position = self.size();
        self.index_batch(&header, position, interval);
        self.tail.append(batch.base_offset, [&head, &batch.bytes[field::RECORDS..]], now_ns, added);
        self.link = Link::After(header.crc);
        self.end = header.next_offset();
    }

    /// Notes a batch at `position` in the indexes, with Kafka's spacing.
    pub fn index_batch(&mut self, header: &BatchHeader, position: u64, interval: u32) {
        self.times.note(header);
        if self.since_index > u64::from(interval) {
            let relative = (header.last_offset() - self.base) as i32;
            self.index.push_offset(OffsetEntry { relative, position: position as i32 });
            self.index_time();
            self.since_index = 0;
        }
        self.since_index += header.size() as u64;
    }

    /// Adds the largest timestamp so far to the time index.
    pub fn index_time(&mut self) {
        if self.times.max >= 0 {
            let relative = (self.times.max_offset - self.base) as i32;
            self.index.push_time(TimeEntry { timestamp: self.times.max, relative });
        }
    }

    /// Must a segment be rolled before a batch with this header and these bytes is appended?
    pub fn is_full(&self, header: &BatchHeader, base: Offset, config: &LogConfig, jitter_ms: i64, now_ms: i64) -> bool {
        let len = header.size() as u64;
        let last = base.saturating_add(i64::from(header.last_offset_delta));
        if last - self.base > i64::from(i32::MAX) {
            return true;
        }
        if self.size() == 0 {
            return false;
        }
        let waited = match self.times.first {
            Some(first) if first >= 0 => header.max_timestamp.saturating_sub(first),
            _ => now_ms.saturating_sub(self.times.created_ms),
        };
        let index_entries_max = config.segment_index_bytes as usize / crate::format::index::OFFSET_ENTRY_BYTES;
        let time_entries_max = config.segment_index_bytes as usize / crate::format::index::TIME_ENTRY_BYTES;
        self.size() + len > u64::from(config.segment_bytes)
            || self.size() + len > i32::MAX as u64
            || waited > config.segment_ms.saturating_sub(jitter_ms)
            || self.index.offset_count() >= index_entries_max.max(1)
            || self.index.time_count() + 1 >= time_entries_max.max(2)
    }

    /// Bytes that neither the journal nor the file has been given.
    pub fn uncommitted(&self) -> u64 {
        self.size() - self.committed
    }

    /// Notes that everything is committed.
    pub fn commit_all(&mut self) {
        self.committed = self.size();
        self.committed_end = self.end;
        self.committed_link = self.link;
    }

    /// Bytes that are not in the file.
    pub fn unwritten(&self) -> u64 {
        self.size() - self.written
    }

    /// Leader epoch of the batch at `position`, which must be in memory.
    pub fn epoch_at(&self, position: u64) -> i32 {
        let mut bytes = [0; 4];
        self.tail.copy(position + field::LEADER_EPOCH as u64, &mut bytes);
        i32::from_be_bytes(bytes)
    }

    fn step(&self, position: u64) -> Step {
        let mut h = [0; field::LAST_OFFSET_DELTA + 4];
        self.tail.copy(position, &mut h);
        let base = i64::from_be_bytes(h[..8].try_into().expect("eight bytes"));
        let length = i32::from_be_bytes(h[8..12].try_into().expect("four bytes"));
        let delta = i32::from_be_bytes(h[field::LAST_OFFSET_DELTA..].try_into().expect("four bytes"));
        Step { base, last: base + i64::from(delta), len: (length as u64) + field::LOG_OVERHEAD as u64 }
    }

    /// Reads whole batches that are in memory. Where readers hold enough of it already, that is what is not in the file yet,
    /// as a copy and a batch at a time.
    pub fn read_tail(&self, request: &ReadRequest, pinned_too_much: impl FnOnce() -> bool) -> TailRead {
        let Some(first) = self.tail.first_batch() else { return TailRead::Cold };
        if request.from < first.offset && first.position > 0 {
            return TailRead::Cold;
        }
        let mut position = first.position;
        if let Some(entry) = self.index.last_below(request.from - self.base) {
            position = position.max(entry.position as u64);
        }
        let end = self.size();
        let mut step;
        loop {
            if position >= end {
                return TailRead::Nothing;
            }
            step = self.step(position);
            if step.last >= request.from {
                break;
            }
            position += step.len;
        }
        if step.last >= request.upper || (step.len > request.max_bytes as u64 && !request.min_one_batch) {
            return TailRead::Nothing;
        }
        if pinned_too_much() {
            let upto = position + step.len;
            if upto <= self.written {
                return TailRead::Cold;
            }
            let chunks = vec![self.tail.copied(position..upto)];
            return TailRead::Found {
                chunks,
                len: step.len as usize,
                first_offset: step.base,
                next_offset: step.last + 1,
            };
        }
        let (upto, next_offset) = self.extent(position, step, request);
        let chunks = self.tail.views(position..upto);
        TailRead::Found { chunks, len: (upto - position) as usize, first_offset: step.base, next_offset }
    }

    /// Where the batches end that fit the request, when the first one, at `start`, does.
    fn extent(&self, start: u64, first: Step, request: &ReadRequest) -> (u64, Offset) {
        let bound = start.saturating_add(request.max_bytes as u64);
        let (mut position, mut next) = (start + first.len, first.last + 1);
        if self.size() <= bound && self.end <= request.upper {
            return (self.size(), self.end);
        }
        // Both indexes give batches that surely fit; the walk begins at the earlier of them.
        let below = self.index.last_below(request.upper - self.base);
        let within = self.index.floor_position(bound);
        if let (Some(a), Some(b)) = (below, within) {
            let jump = if a.position < b.position { a } else { b };
            if jump.position as u64 > position {
                position = jump.position as u64;
                next = self.step(position).base;
            }
        }
        while position < self.size() {
            let step = self.step(position);
            if step.last >= request.upper || position + step.len > bound {
                break;
            }
            position += step.len;
            next = step.last + 1;
        }
        (position, next)
    }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
