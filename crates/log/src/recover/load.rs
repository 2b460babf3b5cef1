//! Loads the segments of a log: believes those that were complete at the recovery point, reads and checks the others.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use base::Offset;
use reactor::ALIGNMENT;
use reactor::fs::{self, File, OpenOptions};

use super::{Loaded, first_segment, last_link};
use crate::core::CoreInner;
use crate::format::index::SparseIndex;
use crate::format::journal::Link;
use crate::format::{checkpoint, index, names};
use crate::io::{Context, DIRECT, read_if_there, read_text, remove_if_there, write_file};
use crate::recover::tidy::{Files, tidy};
use crate::scan::{Check, ScanEnd, Window, scan};
use crate::segment::{Segment, Stage};
use crate::tail::{Tail, block_floor};
use crate::{EpochEntry, LogConfig, LogError, LogId, RecoverySink, epochs};

/// A log that is being loaded.
pub(crate) struct Loader<'a> {
    pub dir: &'a Path,
    pub name: &'a str,
    pub interval: u32,
    pub segments: VecDeque<Segment>,
    /// `None` when the checkpoint is absent or damaged.
    pub epochs: Option<Vec<EpochEntry>>,
    /// The directory was stopped cleanly.
    pub clean: bool,
    /// Base offset of the first segment whose indexes were made anew.
    pub rebuilt_from: Option<Offset>,
}

pub(crate) async fn load(
    core: &CoreInner,
    id: &LogId,
    dir: &Path,
    name: &str,
    config: &LogConfig,
    sink: &mut dyn RecoverySink,
) -> Result<Loaded, LogError> {
    let start = &core.config.start;
    let files = tidy(dir).await?;
    let mut loader = Loader {
        dir,
        name,
        interval: config.index_interval_bytes,
        segments: VecDeque::new(),
        epochs: read_epochs(dir).await?,
        clean: start.clean,
        rebuilt_from: None,
    };
    let checkpointed = loader.epochs.clone();
    let trusted = match (start.clean, start.recovery_points.get(name)) {
        (true, _) => Offset::MAX,
        (false, Some(point)) => *point,
        (false, None) => 0,
    };
    loader.load_segments(&files, trusted).await?;
    loader.restore_epochs().await?;
    let start_offset = loader.believable_start(start.start_offsets.get(name).copied().unwrap_or(0));
    loader.ensure_last(start_offset).await?;
    let first = loader.segments.front().expect("a log has a segment").base;
    let start_offset = start_offset.max(first);
    epochs::truncate_start(loader.epochs.get_or_insert_default(), start_offset);
    loader.replay(&files, start_offset, sink).await?;
    let epochs = loader.epochs.take().unwrap_or_default();
    let epochs_changed = checkpointed.as_deref() != Some(&epochs[..]);
    tracing::debug!(log = name, topic_id = %id.key.topic_id, start_offset, clean = start.clean, "log is loaded");
    Ok(Loaded { start: start_offset, segments: loader.segments, epochs, epochs_changed })
}

async fn read_epochs(dir: &Path) -> Result<Option<Vec<EpochEntry>>, LogError> {
    let path = dir.join(names::EPOCHS);
    let Some(text) = read_text(&path).await? else { return Ok(None) };
    match checkpoint::parse_epochs(&text) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "the file is damaged and is made anew from the batches");
            Ok(None)
        }
    }
}

impl Loader<'_> {
    pub fn path(&self, base: Offset, extension: &str) -> PathBuf {
        self.dir.join(names::segment_file(base, extension))
    }

    async fn load_segments(&mut self, files: &Files, trusted: Offset) -> Result<(), LogError> {
        let bases = &files.bases;
        for (i, &base) in bases.iter().enumerate() {
            let next = bases.get(i + 1).copied();
            let txns = self.read_txns(base).await?;
            // The recovery point lies in or behind a segment that ends after it; those that end before are complete.
            let believe = txns.is_some() && next.is_some_and(|next| next <= trusted);
            let txns = txns.unwrap_or_default();
            if believe {
                self.believe(base, next.expect("only a segment with a successor is believed")).await?;
                continue;
            }
            if next.is_none() && self.clean && self.load_last(base, txns).await? {
                continue;
            }
            let stop = self.rebuild(base, next.is_none()).await?;
            if let Some(next) = next.filter(|_| stop) {
                tracing::warn!(log = self.name, from = next, "segments behind the damage are removed");
                self.remove_segments(&bases[i + 1..]).await?;
                break;
            }
        }
        Ok(())
    }

    /// The transaction index; `None` when it is damaged.
    async fn read_txns(&self, base: Offset) -> Result<Option<Vec<crate::AbortedTxn>>, LogError> {
        let path = self.path(base, names::TXN_INDEX);
        let bytes = read_if_there(&path).await?.unwrap_or_default();
        match index::parse_txns(&bytes, base) {
            Ok(entries) => Ok(Some(entries)),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "the index is damaged and is made anew");
                Ok(None)
            }
        }
    }

    /// Takes a complete segment as it is; its indexes are read when they are needed.
    async fn believe(&mut self, base: Offset, next: Offset) -> Result<(), LogError> {
        let path = self.path(base, names::LOG);
        let size = fs::metadata(&path).await.context("stat", &path)?.map_or(0, |found| found.len);
        let now = reactor::now().wall_ms;
        let mut segment = Segment::new(base, next, Stage::Complete, Tail::complete(size), Link::Start, now);
        segment.times_known = false;
        self.segments.push_back(segment);
        Ok(())
    }

    /// Takes the last segment of a clean stop: reads the batches behind its last index entry. False when something does
    /// not fit, and it has to be read whole.
    async fn load_last(&mut self, base: Offset, txns: Vec<crate::AbortedTxn>) -> Result<bool, LogError> {
        let path = self.path(base, names::LOG);
        let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
        let size = file.size().context("stat", &path)?;
        let offsets = read_if_there(&self.path(base, names::INDEX)).await?;
        let times = read_if_there(&self.path(base, names::TIME_INDEX)).await?;
        let (Some(offsets), Some(times)) = (offsets, times) else {
            return Ok(size == 0 && self.load_empty(base).await?);
        };
        let Ok(index) = SparseIndex::parse(&offsets, &times, size) else { return Ok(false) };
        let mut segment = Segment::new(base, base, Stage::Open, Tail::complete(0), Link::Start, reactor::now().wall_ms);
        let mut window = Window::new(&file, &path, size);
        if size > 0 {
            let Ok(first) = window.header(0, base).await? else { return Ok(false) };
            segment.times.first = Some(first.max_timestamp);
        }
        if let Some(last) = index.last_time() {
            segment.times.max = last.timestamp;
            segment.times.max_offset = base + i64::from(last.relative);
        }
        let from = index.last_offset().map_or(0, |entry| entry.position as u64);
        segment.index = index;
        let found = scan(&mut window, from, base, Check::Headers, |scanned| {
            // The batch of the last entry is counted without getting a second one.
            segment.index_batch(&scanned.header, scanned.position, u32::MAX);
            segment.link = Link::After(scanned.header.crc);
        })
        .await?;
        // The last time entry is written at the close and has the largest timestamp: if a batch has a larger one, entries
        // are missing.
        if found.stop.is_some() || segment.times.max > segment.index.last_time().map_or(-1, |entry| entry.timestamp) {
            return Ok(false);
        }
        segment.txns = txns;
        self.add_last(segment, &found).await?;
        Ok(true)
    }

    async fn load_empty(&mut self, base: Offset) -> Result<bool, LogError> {
        let segment = Segment::new(base, base, Stage::Open, Tail::complete(0), Link::Start, reactor::now().wall_ms);
        self.add_last(segment, &ScanEnd { position: 0, offset: base, stop: None }).await?;
        Ok(true)
    }

    /// Reads a segment batch by batch, cuts it at the first bad one and makes its indexes anew. True if it was cut.
    async fn rebuild(&mut self, base: Offset, last: bool) -> Result<bool, LogError> {
        self.rebuilt_from.get_or_insert(base);
        let path = self.path(base, names::LOG);
        let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
        let size = file.size().context("stat", &path)?;
        file.sync_data().await.context("sync", &path)?;
        let mut segment = Segment::new(base, base, Stage::Open, Tail::complete(0), Link::Start, reactor::now().wall_ms);
        let mut window = Window::new(&file, &path, size);
        let (interval, known) = (self.interval, &mut self.epochs);
        let found = scan(&mut window, 0, base, Check::Crc, |scanned| {
            segment.index_batch(&scanned.header, scanned.position, interval);
            segment.link = Link::After(scanned.header.crc);
            if let Some(known) = known {
                let entry = EpochEntry { epoch: scanned.header.leader_epoch, start_offset: scanned.header.base_offset };
                if known.last().is_none_or(|last| last.epoch < entry.epoch) {
                    epochs::assign(known, entry);
                }
            }
        })
        .await?;
        if let Some(reason) = &found.stop {
            let lost = size - found.position;
            if self.only_zeroes(&mut window, found.position, size).await? {
                let (log, end) = (self.name, found.offset);
                tracing::info!(
                    log,
                    segment = base,
                    end,
                    zeroes = lost,
                    "the preallocated rest of the segment is cut off"
                );
            } else {
                let (log, end, at) = (self.name, found.offset, found.position);
                tracing::warn!(
                    log,
                    segment = base,
                    end,
                    at,
                    lost,
                    reason,
                    "the segment is cut before its first bad batch"
                );
            }
        }
        let cut = found.stop.is_some();
        if last || cut {
            self.add_last(segment, &found).await?;
        } else {
            segment.index_time();
            self.add_complete(segment, &found).await?;
        }
        Ok(cut)
    }

    async fn only_zeroes(&self, window: &mut Window<'_>, mut position: u64, end: u64) -> Result<bool, LogError> {
        // A look at the first blocks tells a preallocated rest from damage; it only decides the words of a log line.
        let end = end.min(position + 4 * ALIGNMENT as u64);
        while position < end {
            let bytes = window.at(position, 1).await?;
            let len = (bytes.len() as u64).min(end - position);
            if bytes[..len as usize].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            position += len;
        }
        Ok(true)
    }

    /// Adds the segment that takes the appends, its file cut to what is good.
    async fn add_last(&mut self, mut segment: Segment, found: &ScanEnd) -> Result<(), LogError> {
        let base = segment.base;
        let path = self.path(base, names::LOG);
        let file = File::open(&path, DIRECT).await.context("open", &path)?;
        // The length is set also when it is right: that waits for writes of a process that was killed a moment ago.
        file.set_len(found.position).await.context("truncate", &path)?;
        if !self.clean {
            // What was found may have been written without being durable, and is promised from now on.
            file.sync_all().await.context("sync", &path)?;
            fs::sync_dir(self.dir).await.context("sync", self.dir)?;
        }
        let from = block_floor(found.position);
        let mut residue = vec![0; (found.position - from) as usize];
        if !residue.is_empty() {
            let reader = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
            let (result, bytes) = reader.read_exact_at(Vec::with_capacity(residue.len()), from, residue.len()).await;
            result.context("read", &path)?;
            residue = bytes;
        }
        file.register();
        let tail = Tail::new(found.position, residue);
        let link = match (segment.link, self.segments.back()) {
            (Link::Start, Some(before)) => last_link(self.dir, before.base, before.size()).await?,
            (link, _) => link,
        };
        let old = segment;
        segment = Segment::new(base, found.offset, Stage::Open, tail, link, old.times.created_ms);
        segment.file = Some(file);
        segment.index = old.index;
        segment.since_index = old.since_index;
        segment.times = old.times;
        segment.txns = old.txns;
        self.segments.push_back(segment);
        Ok(())
    }

    /// Adds a segment that was read whole and has a successor, with new indexes on disk.
    async fn add_complete(&mut self, segment: Segment, found: &ScanEnd) -> Result<(), LogError> {
        let base = segment.base;
        write_file(&self.path(base, names::INDEX), segment.index.offset_bytes()).await?;
        write_file(&self.path(base, names::TIME_INDEX), segment.index.time_bytes()).await?;
        let created = segment.times.created_ms;
        let mut complete =
            Segment::new(base, found.offset, Stage::Complete, Tail::complete(found.position), segment.link, created);
        complete.times = segment.times;
        self.segments.push_back(complete);
        Ok(())
    }

    /// Removes segments from the end on, one durably after the other: the names that are left never have a hole.
    async fn remove_segments(&self, bases: &[Offset]) -> Result<(), LogError> {
        for base in bases.iter().rev() {
            for extension in [names::LOG, names::INDEX, names::TIME_INDEX, names::TXN_INDEX] {
                remove_if_there(&self.path(*base, extension)).await?;
            }
            fs::sync_dir(self.dir).await.context("sync", self.dir)?;
        }
        Ok(())
    }

    /// Makes sure of a segment that takes appends, and that it does not end before the log starts.
    async fn ensure_last(&mut self, start: Offset) -> Result<(), LogError> {
        let end = self.segments.back().map(|segment| segment.end);
        if end.is_some_and(|end| end >= start) {
            return Ok(());
        }
        if let Some(end) = end {
            tracing::warn!(log = self.name, end, start, "the log ends before its start and begins anew there");
        }
        let bases: Vec<Offset> = self.segments.drain(..).map(|segment| segment.base).collect();
        self.remove_segments(&bases).await?;
        self.segments.push_back(first_segment(self.dir, start.max(0)).await?);
        fs::sync_dir(self.dir).await.context("sync", self.dir)
    }

    /// The checkpointed log start offset, unless it may be that of an earlier log of the same name: whoever moves the
    /// start saves the leader epochs first, and the oldest of them begins at the start then.
    fn believable_start(&self, checkpointed: Offset) -> Offset {
        let oldest = self.epochs.as_ref().and_then(|entries| entries.first());
        match oldest {
            Some(oldest) if !self.clean && oldest.start_offset < checkpointed => {
                let (log, believed) = (self.name, oldest.start_offset);
                tracing::warn!(log, checkpointed, believed, "the log start offset is not that of this log");
                believed
            }
            _ => checkpointed,
        }
    }

    /// Fits the leader epochs to the batches that are there; reads them from the batches if their file is of no use.
    async fn restore_epochs(&mut self) -> Result<(), LogError> {
        let Some(end) = self.segments.back().map(|segment| segment.end) else { return Ok(()) };
        let mut entries = match self.epochs.take() {
            Some(entries) => entries,
            None => self.read_epochs_of_batches().await?,
        };
        // An epoch that begins at the end may be a new leader's that has not appended yet: it stays.
        epochs::truncate_end(&mut entries, end + 1);
        self.epochs = Some(entries);
        Ok(())
    }

    async fn read_epochs_of_batches(&self) -> Result<Vec<EpochEntry>, LogError> {
        let mut entries: Vec<EpochEntry> = Vec::new();
        for segment in &self.segments {
            let path = self.path(segment.base, names::LOG);
            let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
            let mut window = Window::new(&file, &path, segment.size());
            scan(&mut window, 0, segment.base, Check::Headers, |scanned| {
                let (epoch, start_offset) = (scanned.header.leader_epoch, scanned.header.base_offset);
                if entries.last().is_none_or(|last| last.epoch < epoch) {
                    epochs::assign(&mut entries, EpochEntry { epoch, start_offset });
                }
            })
            .await?;
        }
        Ok(entries)
    }
}
