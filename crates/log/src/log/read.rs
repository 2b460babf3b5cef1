//! Reads: from memory at once, from files by a plan.

use std::rc::Rc;

use base::Offset;
use bytes::Bytes;
use reactor::AlignedBuf;
use reactor::fs::{File, OpenOptions};

use super::inner::LogInner;
use crate::format::index::SparseIndex;
use crate::format::names;
use crate::io::{Context, read_if_there, write_file};
use crate::scan::{Check, Window, scan};
use crate::segment::{Segment, Stage, TailRead};
use crate::{ColdRange, ColdRead, LogError, ReadOutcome, ReadRequest};

/// Bytes read at once while looking for a batch's beginning: an index interval and a header lie within.
const LOOK_BYTES: usize = 16 << 10;

/// A segment file and what is known of it, for a read outside of any borrow.
pub(crate) struct Source {
    pub base: Offset,
    pub path: std::path::PathBuf,
    pub file: File,
    /// Bytes that may be read.
    pub size: u64,
}

impl LogInner {
    /// See [`crate::Log::read`].
    pub fn read(&self, request: ReadRequest) -> Result<ReadOutcome, LogError> {
        let state = self.state.borrow();
        self.readable(&state)?;
        if request.from < state.start || request.from > state.end() {
            return Err(self.out_of_range(&state, request.from));
        }
        if request.from >= request.upper {
            return Ok(ReadOutcome::Empty);
        }
        for segment in state.segments.range(state.segment_at(request.from)..) {
            // Compaction may have left nothing of a segment at or behind the offset: the next one has the next batch.
            if request.from >= segment.end || segment.size() == 0 {
                continue;
            }
            match segment.read_tail(&request, || self.core.pinned_too_much()) {
                TailRead::Found { chunks, len, first_offset, next_offset } => {
                    return Ok(ReadOutcome::Tail { chunks, len, first_offset, next_offset });
                }
                TailRead::Nothing if segment.base >= request.upper => break,
                TailRead::Nothing => return Ok(ReadOutcome::Empty),
                TailRead::Cold => return Ok(ReadOutcome::Cold(ColdRead { request, segment: segment.base })),
            }
        }
        Ok(ReadOutcome::Empty)
    }

    /// The segment with this base offset as a source for reads.
    pub async fn source(&self, base: Offset) -> Result<Source, LogError> {
        let size = {
            let state = self.state.borrow();
            self.readable(&state)?;
            let found = state.segments.get(state.segment_at(base)).filter(|segment| segment.base == base);
            let segment = found.ok_or_else(|| self.out_of_range(&state, base))?;
            if segment.stage == Stage::Complete { segment.size() } else { segment.written }
        };
        let path = self.path(names::segment_file(base, names::LOG));
        let file = match self.core.cold.file(self.id.key, base) {
            Some(file) => file,
            None => {
                let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
                // Whoever sends a range of it says what it will need next.
                file.read_only_what_is_asked();
                self.core.cold.keep_file(self.id.key, base, file.clone());
                file
            }
        };
        Ok(Source { base, path, file, size })
    }

    /// Asks the indexes of a segment, wherever they are.
    pub async fn with_index<T>(&self, base: Offset, ask: impl Fn(&SparseIndex) -> T) -> Result<T, LogError> {
        {
            let state = self.state.borrow();
            let found = state.segments.get(state.segment_at(base));
            if let Some(segment) = found.filter(|s: &&Segment| s.base == base && s.stage != Stage::Complete) {
                return Ok(ask(&segment.index));
            }
        }
        if let Some(index) = self.core.cold.index(self.id.key, base) {
            return Ok(ask(&index));
        }
        let index = Rc::new(self.load_index(&self.source(base).await?).await?);
        self.core.cold.keep_index(self.id.key, base, Rc::clone(&index));
        Ok(ask(&index))
    }

    /// Reads the index files of a complete segment; makes them anew when they are of no use.
    async fn load_index(&self, source: &Source) -> Result<SparseIndex, LogError> {
        let name = |extension| self.path(names::segment_file(source.base, extension));
        let offsets = read_if_there(&name(names::INDEX)).await?;
        let times = read_if_there(&name(names::TIME_INDEX)).await?;
        let reason = match (offsets, times) {
            (Some(offsets), Some(times)) => match SparseIndex::parse(&offsets, &times, source.size) {
                Ok(index) if self.covers(&index, source).await? => return Ok(index),
                Ok(_) => "batches at the end of the segment are newer than its last time entry".to_owned(),
                Err(error) => error.to_string(),
            },
            _ => "an index file is missing".to_owned(),
        };
        tracing::warn!(log = %self.name, segment = source.base, reason, "the indexes are made anew");
        let interval = self.state.borrow().config.index_interval_bytes;
        let mut segment = Segment::planned(source.base, crate::format::journal::Link::Start, 0);
        let mut window = Window::new(&source.file, &source.path, source.size);
        scan(&mut window, 0, source.base, Check::Headers, |scanned| {
            segment.index_batch(&scanned.header, scanned.position, interval);
        })
        .await?;
        segment.index_time();
        write_file(&name(names::INDEX), segment.index.offset_bytes()).await?;
        write_file(&name(names::TIME_INDEX), segment.index.time_bytes()).await?;
        Ok(segment.index)
    }

    /// A cut-off time index parses like a whole one, but the batches behind the last offset entry give it away: the last
    /// time entry of a complete segment has the segment's largest timestamp.
    async fn covers(&self, index: &SparseIndex, source: &Source) -> Result<bool, LogError> {
        let from = index.last_offset().map_or(0, |entry| entry.position as u64);
        let largest = index.last_time().map_or(-1, |entry| entry.timestamp);
        let mut window = Window::sized(&source.file, &source.path, source.size, LOOK_BYTES);
        let mut newer = false;
        scan(&mut window, from, source.base, Check::Headers, |scanned| {
            newer |= scanned.header.max_timestamp > largest;
        })
        .await?;
        Ok(!newer)
    }

    /// See [`crate::Log::locate`].
    pub async fn locate(&self, read: ColdRead) -> Result<Option<ColdRange>, LogError> {
        let request = read.request;
        let source = self.source(read.segment).await?;
        let from = request.from - source.base;
        let start =
            self.with_index(source.base, |index| index.last_below(from).map_or(0, |e| e.position as u64)).await?;
        let mut window = Window::sized(&source.file, &source.path, source.size, LOOK_BYTES);
        let mut position = start;
        let first = loop {
            if position >= source.size {
                return Ok(None);
            }
            let header = self.header(&mut window, position, &source).await?;
            if header.last_offset() >= request.from {
                break header;
            }
            position += header.size() as u64;
        };
        let begin = position;
        if first.last_offset() >= request.upper || (first.size() > request.max_bytes && !request.min_one_batch) {
            return Ok(None);
        }
        let bound = begin.saturating_add(request.max_bytes as u64).min(source.size);
        let upper = request.upper - source.base;
        // Batches that surely fit are not looked at one by one.
        let jump = self.with_index(source.base, |index| {
            let (below, within) = (index.last_below(upper), index.floor_position(bound));
            below.zip(within).map_or(0, |(a, b)| a.position.min(b.position) as u64)
        });
        position = (begin + first.size() as u64).max(jump.await?);
        let mut next_offset = first.next_offset();
        while position < source.size {
            let header = match window.header(position, source.base).await? {
                Ok(header) => header,
                // The last batch of a segment that is being written may be in the file in part.
                Err(_) => break,
            };
            next_offset = next_offset.max(header.base_offset);
            if header.last_offset() >= request.upper || position + header.size() as u64 > bound {
                break;
            }
            position += header.size() as u64;
            next_offset = header.next_offset();
        }
        let len = (position - begin) as usize;
        Ok(Some(ColdRange { file: source.file, position: begin, len, first_offset: first.base_offset, next_offset }))
    }

    async fn header(
        &self,
        window: &mut Window<'_>,
        position: u64,
        source: &Source,
    ) -> Result<records::BatchHeader, LogError> {
        window.header(position, source.base).await?.map_err(|reason| {
            let error = LogError::Corrupt { file: source.path.display().to_string(), position, reason };
            self.fence(&error.to_string());
            error
        })
    }

    /// Reads a byte range of a segment.
    pub async fn read_range(&self, range: &ColdRange) -> Result<Bytes, LogError> {
        let buf = AlignedBuf::with_capacity(range.len);
        let (result, buf) = range.file.read_exact_at(buf, range.position, range.len).await;
        result.context("read", &self.dir.borrow())?;
        Ok(buf.freeze())
    }
}
