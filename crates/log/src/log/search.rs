//! Searches by timestamp.

use base::Offset;
use bytes::Bytes;
use records::{Batch, Scratch};

use super::inner::LogInner;
use crate::format::index::SparseIndex;
use crate::segment::Times;
use crate::{LogError, OffsetAtTime};

/// Bytes a batch may grow to when it is decompressed for a search.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// A segment as a search sees it.
#[derive(Clone, Copy)]
struct Candidate {
    base: Offset,
    end: Offset,
    times: Times,
}

impl LogInner {
    /// Segments that hold records, with their times, oldest first.
    async fn candidates(&self) -> Result<Vec<Candidate>, LogError> {
        let unknown: Vec<Offset> = {
            let state = self.state.borrow();
            self.readable(&state)?;
            state.segments.iter().filter(|segment| !segment.times_known).map(|segment| segment.base).collect()
        };
        for base in unknown {
            self.learn_times(base).await?;
        }
        let state = self.state.borrow();
        let filled = state.segments.iter().filter(|segment| segment.size() > 0 && segment.end > state.start);
        Ok(filled.map(|segment| Candidate { base: segment.base, end: segment.end, times: segment.times }).collect())
    }

    /// Reads the times of a complete segment from its index.
    pub async fn learn_times(&self, base: Offset) -> Result<(), LogError> {
        let last = self.with_index(base, SparseIndex::last_time).await?;
        let mut state = self.state.borrow_mut();
        let at = state.segment_at(base);
        if let Some(segment) = state.segments.get_mut(at).filter(|segment| segment.base == base) {
            if let Some(last) = last {
                segment.times.max = last.timestamp;
                segment.times.max_offset = base + i64::from(last.relative);
            }
            segment.times_known = true;
        }
        Ok(())
    }

    /// See [`crate::Log::find_timestamp`].
    pub async fn find_timestamp(&self, timestamp: i64, upper: Offset) -> Result<Option<OffsetAtTime>, LogError> {
        let mut scratch = Scratch::new();
        for candidate in self.candidates().await? {
            if candidate.times.max < timestamp {
                continue;
            }
            if candidate.base >= upper {
                return Ok(None);
            }
            let start = self.state.borrow().start.max(candidate.base);
            let from = self.time_floor(&candidate, timestamp, start).await?;
            let seek = |batch: &Batch, scratch: &mut Scratch| {
                batch.find_timestamp(timestamp, start, scratch, DECOMPRESSED_BYTES_MAX)
            };
            if let Some(found) = self.first_in(&candidate, from, &mut scratch, seek).await? {
                return Ok((found.offset < upper).then_some(found));
            }
        }
        Ok(None)
    }

    /// See [`crate::Log::max_timestamp`].
    pub async fn max_timestamp(&self) -> Result<Option<OffsetAtTime>, LogError> {
        let candidates = self.candidates().await?;
        let mut best: Option<Candidate> = None;
        for candidate in candidates {
            if candidate.times.max >= 0 && best.is_none_or(|best| candidate.times.max > best.times.max) {
                best = Some(candidate);
            }
        }
        let Some(best) = best else { return Ok(None) };
        let start = self.state.borrow().start;
        let from = best.times.max_offset.max(start);
        let (max, mut scratch) = (best.times.max, Scratch::new());
        let seek =
            |batch: &Batch, scratch: &mut Scratch| batch.find_timestamp(max, start, scratch, DECOMPRESSED_BYTES_MAX);
        self.first_in(&best, from, &mut scratch, seek).await
    }

    /// Offset to search from, near the first batch that can have the timestamp.
    async fn time_floor(&self, candidate: &Candidate, timestamp: i64, from: Offset) -> Result<Offset, LogError> {
        // Everything up to the entry's batch is older than `timestamp` if the entry is: the search begins with it.
        let entry = self.with_index(candidate.base, |index| index.floor_time(timestamp.saturating_sub(1))).await?;
        Ok(entry.map_or(from, |entry| from.max(candidate.base + i64::from(entry.relative))))
    }

    /// The first record that `seek` finds in the batches of a segment from the one that holds `from` on.
    async fn first_in(
        &self,
        candidate: &Candidate,
        from: Offset,
        scratch: &mut Scratch,
        seek: impl Fn(&Batch, &mut Scratch) -> Result<Option<records::TimestampOffset>, records::BatchError>,
    ) -> Result<Option<OffsetAtTime>, LogError> {
        let mut next = from;
        while next < candidate.end {
            let Some(bytes) = self.batches_at(candidate, next).await? else { return Ok(None) };
            for batch in records::BatchIter::new(bytes) {
                let found = batch.and_then(|batch| Ok((seek(&batch, scratch)?, batch.header)));
                let (found, header) = found.map_err(|error| LogError::Corrupt {
                    file: self.name.clone(),
                    position: next as u64,
                    reason: error.to_string(),
                })?;
                if let Some(found) = found {
                    let (offset, timestamp) = (found.offset, found.timestamp);
                    return Ok(Some(OffsetAtTime { offset, timestamp, leader_epoch: header.leader_epoch }));
                }
                next = header.next_offset();
            }
        }
        Ok(None)
    }

    /// Some whole batches from the one that holds `from` on.
    async fn batches_at(&self, candidate: &Candidate, from: Offset) -> Result<Option<Bytes>, LogError> {
        const STEP_BYTES: usize = 256 << 10;
        let request = crate::ReadRequest { from, max_bytes: STEP_BYTES, min_one_batch: true, upper: candidate.end };
        let outcome = self.read(request)?;
        match outcome {
            crate::ReadOutcome::Empty => Ok(None),
            crate::ReadOutcome::Tail { chunks, .. } => Ok(Some(match <[Bytes; 1]>::try_from(chunks) {
                Ok([one]) => one,
                Err(chunks) => Bytes::from(chunks.concat()),
            })),
            crate::ReadOutcome::Cold(read) => match self.locate(read).await? {
                Some(range) => Ok(Some(self.read_range(&range).await?)),
                None => Ok(None),
            },
        }
    }
}
