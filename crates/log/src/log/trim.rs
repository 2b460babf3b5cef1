//! Removing records: from the front by retention and DeleteRecords, from the end by truncation, all by deletion.

use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::Duration;

use base::Offset;
use reactor::fs::{self, File, OpenOptions};
use reactor::{Class, spawn};

use super::inner::{LogInner, Status};
use crate::format::journal::{Link, RecordHeader, RecordKind};
use crate::format::names;
use crate::io::{Context, DIRECT, remove_if_there};
use crate::recover::{first_segment, last_link};
use crate::scan::{Check, Window, scan};
use crate::segment::{Segment, Stage};
use crate::tail::{Tail, block_floor};
use crate::{LogError, epochs};

/// Files of a segment, the producer snapshot at its base offset included.
const EXTENSIONS: [&str; 5] = [names::LOG, names::INDEX, names::TIME_INDEX, names::TXN_INDEX, names::SNAPSHOT];

impl LogInner {
    /// Runs an operation that changes the set of files, alone and to its end, also when nobody waits for it any more.
    pub async fn exclusively<T, F, O>(self: &Rc<Self>, operation: O) -> T
    where
        T: 'static,
        F: Future<Output = T> + 'static,
        O: FnOnce(Rc<Self>) -> F + 'static,
    {
        let log = Rc::clone(self);
        spawn(Class::Normal, async move {
            let _permit = log.exclusive.acquire().await;
            operation(Rc::clone(&log)).await
        })
        .await
    }

    /// See [`crate::Log::apply_retention`].
    pub async fn apply_retention(self: Rc<Self>, limit: Offset) -> Result<usize, LogError> {
        let now_ms = reactor::now().wall_ms;
        self.learn_all_times().await?;
        if self.active_expired(limit, now_ms)? {
            let end = self.state.borrow().end();
            self.roll(end, now_ms);
            self.flush_all().await?;
            self.settle().await;
        }
        let (removed, start) = {
            let mut state = self.state.borrow_mut();
            self.readable(&state)?;
            let count = deletable(&mut state, limit, now_ms);
            // Offsets that are gone raise the start; a start that moves into a segment leaves it whole.
            let start = state.segments.get(count).map_or(state.start, |next| next.base.max(state.start));
            (state.segments.drain(..count).collect::<Vec<_>>(), start)
        };
        let count = removed.len();
        if count == 0 {
            return Ok(0);
        }
        let delay_ms = {
            let mut state = self.state.borrow_mut();
            state.start = start;
            epochs::truncate_start(&mut state.epochs, start);
            state.config.file_delete_delay_ms
        };
        for segment in &removed {
            self.core.sub_tail(segment.tail.capacity());
            self.core.cold.forget(self.id.key, segment.base);
        }
        let bases: Vec<Offset> = removed.iter().map(|segment| segment.base).collect();
        tracing::info!(log = %self.name, segments = ?bases, start, "retention removes segments");
        self.save_epochs();
        self.retire(bases, delay_ms).await?;
        Ok(count)
    }

    /// True when the segment that takes the appends holds only records that time retention no longer keeps.
    fn active_expired(&self, limit: Offset, now_ms: i64) -> Result<bool, LogError> {
        let state = self.state.borrow();
        self.readable(&state)?;
        let (config, active) = (&state.config, state.segments.back().expect("a log has a segment"));
        let by_time = config.delete_policy && config.retention_ms >= 0;
        let age = now_ms.saturating_sub(active.times.largest_or_created());
        Ok(by_time && active.size() > 0 && active.end <= limit && age > config.retention_ms)
    }

    /// Waits until rolled segments are complete.
    async fn settle(&self) {
        while self.writing.get() {
            self.writer_stopped.notified().await;
        }
    }

    async fn learn_all_times(&self) -> Result<(), LogError> {
        let unknown: Vec<Offset> = {
            let state = self.state.borrow();
            let by_time = state.config.retention_ms >= 0;
            let unknown = state.segments.iter().take_while(|segment| by_time && !segment.times_known);
            unknown.map(|segment| segment.base).collect()
        };
        for base in unknown {
            self.learn_times(base).await?;
        }
        Ok(())
    }

    /// Renames the files of segments that are no longer part of the log, and unlinks them after the delay. One segment
    /// durably after the other, oldest first: the names that are left after a power cut never have a hole.
    async fn retire(&self, bases: Vec<Offset>, delay_ms: i64) -> Result<(), LogError> {
        let mut retired: Vec<PathBuf> = Vec::new();
        for base in bases {
            for extension in EXTENSIONS {
                let path = self.path(names::segment_file(base, extension));
                let mut target = path.clone().into_os_string();
                target.push(".");
                target.push(names::DELETED);
                match fs::rename(&path, &target).await {
                    Ok(()) => retired.push(target.into()),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(crate::io::failed("rename", &path, &error)),
                }
            }
            let dir = self.dir.borrow().clone();
            fs::sync_dir(&dir).await.context("sync", &dir)?;
        }
        spawn(Class::Background, async move {
            reactor::sleep(Duration::from_millis(delay_ms.max(0) as u64)).await;
            for path in retired {
                // The directory may have been renamed or removed meanwhile, which removes the file as well.
                if let Err(error) = remove_if_there(&path).await {
                    tracing::warn!(file = %path.display(), %error, "a retired file stays");
                }
            }
        })
        .detach();
        Ok(())
    }

    /// See [`crate::Log::advance_start_offset`].
    pub async fn advance_start_offset(self: Rc<Self>, offset: Offset) -> Result<(), LogError> {
        {
            let mut state = self.state.borrow_mut();
            self.readable(&state)?;
            if offset > state.end() {
                return Err(self.out_of_range(&state, offset));
            }
            if offset <= state.start {
                return Ok(());
            }
            state.start = offset;
            epochs::truncate_start(&mut state.epochs, offset);
        }
        // Before any checkpoint names the new start: recovery believes that only together with these epochs.
        self.write_epochs().await
    }

    /// See [`crate::Log::truncate_to`].
    pub async fn truncate_to(self: Rc<Self>, offset: Offset) -> Result<(), LogError> {
        {
            let state = self.state.borrow();
            self.readable(&state)?;
            if offset >= state.end() {
                return Ok(());
            }
            if offset < state.start {
                return Err(self.out_of_range(&state, offset));
            }
        }
        // What is before the cut has to be in the segments, since the journal's records of it may share batches with what
        // is behind.
        self.flush_all().await?;
        self.hold().await;
        let result = self.cut(offset).await;
        self.finish_cut(result)
    }

    /// See [`crate::Log::truncate_fully_and_start_at`].
    pub async fn restart_at(self: Rc<Self>, offset: Offset) -> Result<(), LogError> {
        self.readable(&self.state.borrow())?;
        self.hold().await;
        let result = self.cut_all(offset).await;
        self.finish_cut(result)
    }

    fn finish_cut(self: &Rc<Self>, result: Result<(), LogError>) -> Result<(), LogError> {
        if let Err(error) = &result {
            self.fence(&format!("truncation failed: {error}"));
        }
        self.release();
        self.save_epochs();
        self.tell(self.state.borrow().progress(self.core.durable()));
        result
    }

    async fn cut(self: &Rc<Self>, offset: Offset) -> Result<(), LogError> {
        let (base, first) = {
            let state = self.state.borrow();
            let at = state.segment_at(offset);
            (state.segments[at].base, at)
        };
        // The segments behind go first, the newest one before the others, so that the log has no hole at any moment.
        let behind: Vec<Offset> = self.state.borrow().segments.iter().skip(first + 1).map(|s| s.base).rev().collect();
        for base in &behind {
            self.remove_segment_files(*base).await?;
        }
        let mut segment = self.reopen_cut(base, offset).await?;
        if segment.link == Link::Start && first > 0 {
            let before = {
                let state = self.state.borrow();
                (state.segments[first - 1].base, state.segments[first - 1].size())
            };
            let dir = self.dir.borrow().clone();
            segment.link = last_link(&dir, before.0, before.1).await?;
            segment.committed_link = segment.link;
        }
        let end = segment.end;
        segment
            .file
            .as_ref()
            .expect("a reopened segment has a file")
            .sync_all()
            .await
            .context("sync", &self.path(""))?;
        let dir = self.dir.borrow().clone();
        fs::sync_dir(&dir).await.context("sync", &dir)?;
        {
            let mut state = self.state.borrow_mut();
            let known: Vec<_> = state.segments[first].txns.iter().copied().filter(|t| t.last_offset < end).collect();
            segment.txns = known;
            self.drop_segments_from(&mut state, first);
            state.segments.push_back(segment);
            epochs::truncate_end(&mut state.epochs, end);
            self.reset_ends(&mut state, end);
        }
        self.unpin(Offset::MAX);
        self.core.note(RecordHeader::bare(RecordKind::Cut, self.id.key, end)).await
    }

    async fn cut_all(self: &Rc<Self>, offset: Offset) -> Result<(), LogError> {
        let bases: Vec<Offset> = self.state.borrow().segments.iter().map(|segment| segment.base).rev().collect();
        for base in bases {
            self.remove_segment_files(base).await?;
        }
        let dir = self.dir.borrow().clone();
        let segment = first_segment(&dir, offset).await?;
        fs::sync_dir(&dir).await.context("sync", &dir)?;
        {
            let mut state = self.state.borrow_mut();
            self.drop_segments_from(&mut state, 0);
            state.segments.push_back(segment);
            state.epochs.clear();
            state.start = offset;
            self.reset_ends(&mut state, offset);
        }
        self.unpin(Offset::MAX);
        self.core.note(RecordHeader::bare(RecordKind::Removed, self.id.key, offset)).await
    }

    fn reset_ends(&self, state: &mut super::inner::LogState, end: Offset) {
        (state.promised, state.in_segments, state.flushed) = (end, end, end);
        state.gaps.clear();
        state.flush_to = 0;
        state.dirty_since = None;
        state.told = state.progress(self.core.durable());
    }

    /// Forgets segments, with their part of the budgets.
    fn drop_segments_from(&self, state: &mut super::inner::LogState, first: usize) {
        for segment in state.segments.drain(first..) {
            self.core.sub_unwritten(segment.unwritten());
            self.core.sub_tail(segment.tail.capacity());
            self.core.cold.forget(self.id.key, segment.base);
        }
    }

    async fn remove_segment_files(&self, base: Offset) -> Result<(), LogError> {
        for extension in EXTENSIONS {
            remove_if_there(&self.path(names::segment_file(base, extension))).await?;
        }
        let dir = self.dir.borrow().clone();
        fs::sync_dir(&dir).await.context("sync", &dir)
    }

    /// Cuts a segment's file before the batch that holds `offset`, and opens it for appends.
    async fn reopen_cut(&self, base: Offset, offset: Offset) -> Result<Segment, LogError> {
        let path = self.path(names::segment_file(base, names::LOG));
        let reader = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
        let size = {
            let state = self.state.borrow();
            state.segments[state.segment_at(base)].size()
        };
        let interval = self.state.borrow().config.index_interval_bytes;
        let mut window = Window::new(&reader, &path, size);
        let mut segment = Segment::planned(base, Link::Start, reactor::now().wall_ms);
        let (mut position, mut end) = (0, base);
        let found = scan(&mut window, 0, base, Check::Headers, |scanned| {
            if scanned.header.next_offset() <= offset {
                segment.index_batch(&scanned.header, scanned.position, interval);
                segment.link = Link::After(scanned.header.crc);
                position = scanned.position + scanned.header.size() as u64;
                end = scanned.header.next_offset();
            }
        })
        .await?;
        if let Some(reason) = found.stop {
            return Err(LogError::Corrupt { file: path.display().to_string(), position: found.position, reason });
        }
        let file = File::open(&path, DIRECT).await.context("open", &path)?;
        file.set_len(position).await.context("truncate", &path)?;
        file.register();
        let from = block_floor(position);
        let residue = window.at(from, (position - from) as usize).await?[..(position - from) as usize].to_vec();
        let mut cut = Segment::new(base, end, Stage::Open, Tail::new(position, residue), segment.link, 0);
        cut.file = Some(file);
        (cut.index, cut.times, cut.since_index) = (segment.index, segment.times, segment.since_index);
        Ok(cut)
    }

    /// See [`crate::Log::delete`].
    pub async fn delete(self: Rc<Self>) -> Result<(), LogError> {
        self.hold().await;
        let delay_ms = {
            let mut state = self.state.borrow_mut();
            if state.status == Status::Closed {
                return Ok(());
            }
            state.status = Status::Closed;
            self.drop_segments_but_one(&mut state);
            state.config.file_delete_delay_ms
        };
        self.tell(self.state.borrow().progress(self.core.durable()));
        self.unpin(Offset::MAX);
        self.core.logs.borrow_mut().remove(&self.id.key);
        let from = self.dir.borrow().clone();
        let unique = u128::from(reactor::random_u64()) << 64 | u128::from(reactor::random_u64());
        let name = names::delete_dir(&self.id.topic, self.id.key.partition, unique);
        let to = self.core.config.dir.join(name);
        fs::rename(&from, &to).await.context("rename", &from)?;
        *self.dir.borrow_mut() = to.clone();
        fs::sync_dir(&self.core.config.dir).await.context("sync", &self.core.config.dir)?;
        self.core.note(RecordHeader::bare(RecordKind::Removed, self.id.key, 0)).await?;
        let core = Rc::downgrade(&self.core);
        spawn(Class::Background, unlink_later(core, to, delay_ms)).detach();
        Ok(())
    }

    /// Empties a log that is closed; readers that hold it find an empty segment.
    fn drop_segments_but_one(&self, state: &mut super::inner::LogState) {
        let end = state.end();
        self.drop_segments_from(state, 0);
        state.segments.push_back(Segment::planned(end, Link::Start, 0));
        state.flush_to = 0;
    }
}

async fn unlink_later(core: Weak<crate::core::CoreInner>, dir: PathBuf, delay_ms: i64) {
    reactor::sleep(Duration::from_millis(delay_ms.max(0) as u64)).await;
    if core.upgrade().is_none_or(|core| core.closing.get()) {
        // The next start of the broker removes it.
        return;
    }
    if let Err(error) = fs::remove_dir_all(&dir).await {
        tracing::warn!(dir = %dir.display(), %error, "a deleted partition's directory stays");
    }
}

/// How many segments from the front retention removes: complete ones that end at or before `limit`.
fn deletable(state: &mut super::inner::LogState, limit: Offset, now_ms: i64) -> usize {
    let config = Rc::clone(&state.config);
    let mut size: u64 = state.segments.iter().map(Segment::size).sum();
    let start = state.start;
    let mut count = 0;
    for segment in &state.segments {
        if segment.stage != Stage::Complete || segment.end > limit {
            break;
        }
        let by_start = segment.end <= start;
        let by_time = config.delete_policy
            && config.retention_ms >= 0
            && segment.times_known
            && now_ms.saturating_sub(segment.times.largest_or_created()) > config.retention_ms;
        let by_size = config.delete_policy
            && config.retention_bytes >= 0
            && size.saturating_sub(segment.size()) >= config.retention_bytes as u64;
        if !(by_start || by_time || by_size) {
            break;
        }
        size -= segment.size();
        count += 1;
    }
    count
}
