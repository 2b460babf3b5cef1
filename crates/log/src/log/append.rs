//! Taking batches in, and handing them to the journal.

use std::rc::Rc;

use base::Offset;

use super::inner::{LogInner, LogState, Status};
use super::writer::WRITE_BEHIND_BYTES;
use crate::commit::{Builder, DIRECT_BYTES_MIN, Turn};
use crate::format::journal::{RecordHeader, RecordKind};
use crate::segment::Segment;
use crate::{AppendBatch, EpochEntry, LogError};

impl LogInner {
    /// See [`crate::Log::append`].
    pub fn append(self: &Rc<Self>, batch: &AppendBatch) -> Result<(), LogError> {
        let now = reactor::now();
        let len = batch.bytes.len();
        assert_eq!(batch.header.size(), len, "the batch appended to {} and its header", self.name);
        match self.must_roll(batch, now.wall_ms) {
            Ok(true) => self.roll(batch.base_offset, now.wall_ms),
            Ok(false) => {}
            Err(error) => {
                if matches!(error, LogError::Overloaded { .. }) {
                    self.core.make_room(now.mono_ns);
                }
                return Err(error);
            }
        }
        let new_epoch = {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let interval = state.config.index_interval_bytes;
            let segment = state.segments.back_mut().expect("a log has a segment");
            let base = segment.base;
            segment.append(batch, interval, now.mono_ns, |start, capacity| {
                self.core.add_chunk(Rc::downgrade(self), base, start, capacity);
            });
            if state.dirty_since.is_none() {
                state.dirty_since = Some(now.mono_ns);
                self.core.note_dirty(now.mono_ns, Rc::downgrade(self));
            }
            state.note_epoch(EpochEntry { epoch: batch.leader_epoch, start_offset: batch.base_offset })
        };
        self.core.add_unwritten(len as u64);
        self.core.line_up(self);
        if new_epoch {
            self.save_epochs();
        }
        self.core.relieve(now.mono_ns);
        self.core.evict();
        Ok(())
    }

    /// Checks that the batch can be taken; true if a new segment has to begin with it.
    fn must_roll(&self, batch: &AppendBatch, now_ms: i64) -> Result<bool, LogError> {
        let bound = self.core.config.unwritten_bytes_max;
        let unwritten = self.core.unwritten();
        let mut state = self.state.borrow_mut();
        if let Some(error) = self.status_error(&state.status) {
            return Err(error);
        }
        // A batch larger than the whole bound is let through alone, or it could never be taken.
        if unwritten > 0 && unwritten + batch.bytes.len() > bound {
            return Err(LogError::Overloaded { unwritten, bound });
        }
        let end = state.end();
        assert!(batch.base_offset >= end, "offset {} appended to {} at {end}", batch.base_offset, self.name);
        let (config, jitter) = (Rc::clone(&state.config), state.jitter_ms);
        Ok(state.active().is_full(&batch.header, batch.base_offset, &config, jitter, now_ms))
    }

    /// Begins a new segment at `base`.
    pub fn roll(self: &Rc<Self>, base: Offset, now_ms: i64) {
        let producers = self.producers.borrow().clone();
        let snapshot = producers.map(|source| source());
        let jitter_range = self.state.borrow().config.segment_jitter_ms;
        {
            let mut state = self.state.borrow_mut();
            state.active().index_time();
            let mut segment = Segment::planned(base, state.link(), now_ms);
            segment.snapshot = snapshot;
            state.segments.push_back(segment);
            state.jitter_ms = random_jitter(jitter_range);
        }
        self.start_writer();
    }

    /// Hands what is not committed to the next journal write, or has it written to the segment.
    pub fn take_turn(self: &Rc<Self>, builder: Option<&mut Builder>) -> Turn {
        let mut state = self.state.borrow_mut();
        if state.held || !matches!(state.status, Status::Open | Status::NoSpace) {
            return Turn::Done;
        }
        let uncommitted: u64 = state.incomplete().map(|segment| segment.uncommitted()).sum();
        if uncommitted == 0 {
            return Turn::Done;
        }
        // While a direct write is on its way, nothing behind it can be promised: whatever comes meanwhile gathers, and the
        // writer lines the log up again.
        if state.is_awaited() {
            return Turn::Done;
        }
        let mut bodies = state.incomplete().map(|segment| segment.uncommitted() as usize).filter(|len| *len > 0);
        match builder {
            Some(builder) if uncommitted < DIRECT_BYTES_MIN => {
                if builder.fits(&mut bodies) {
                    drop(bodies);
                    self.join_commit(&mut state, builder);
                    let gathered = state.unwritten() >= WRITE_BEHIND_BYTES;
                    drop(state);
                    if gathered {
                        self.start_writer();
                    }
                    return Turn::Done;
                }
                if !builder.is_empty() {
                    return Turn::Later;
                }
            }
            _ => {}
        }
        drop(bodies);
        for segment in state.incomplete() {
            segment.direct = segment.size();
            segment.commit_all();
        }
        drop(state);
        self.pressed.notify_all();
        self.start_writer();
        Turn::Done
    }

    fn join_commit(self: &Rc<Self>, state: &mut LogState, builder: &mut Builder) {
        let key = self.id.key;
        let mut span: Option<(Offset, Offset)> = None;
        for segment in state.incomplete().filter(|segment| segment.uncommitted() > 0) {
            let header = RecordHeader {
                kind: RecordKind::Append,
                key,
                leader_epoch: segment.epoch_at(segment.committed),
                base_offset: segment.committed_end,
                end_offset: segment.end,
                link: segment.committed_link,
                body_len: segment.uncommitted() as u32,
            };
            builder.push(&header, |show| segment.tail.pieces(segment.committed..segment.size(), show));
            span = Some((span.map_or(header.base_offset, |(from, _)| from), segment.end));
            segment.commit_all();
        }
        let Some((from, to)) = span else { return };
        builder.tell(Rc::clone(self), from, to);
        let file = builder.file_sequence();
        match state.pins.back_mut() {
            Some(last) if last.0 == file => last.1 = to,
            _ => {
                state.pins.push_back((file, to));
                if let Some(journal) = &self.core.journal {
                    journal.pin(file);
                }
            }
        }
    }
}

/// A random share of the jitter, in ms.
pub(crate) fn random_jitter(range_ms: i64) -> i64 {
    if range_ms <= 0 { 0 } else { (reactor::random_u64() % (range_ms as u64 + 1)) as i64 }
}
