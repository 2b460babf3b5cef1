//! The log of `__cluster_metadata-0` in Kafka's segment files. Every append is durable when it returns: the log is short
//! and slow compared with others, and everything waits for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::{Now, Offset};
use bytes::Bytes;
use raft::LogPosition;
use reactor::fs::{self, File, OpenOptions};
use records::{Batch, BatchHeader};
use tracing::warn;

use crate::error::QuorumError;
use crate::scan::{BatchScan, Scanned};

/// Bytes of the log between two entries of its indexes.
const INDEX_INTERVAL_BYTES: u64 = 4096;

/// One segment.
#[derive(Debug)]
struct Segment {
    base_offset: Offset,
    /// Offset after its last record.
    end_offset: Offset,
    /// Bytes of the `.log` file.
    size: u64,
    /// Largest timestamp in it and the offset of the batch that has it; -1 when empty.
    max_timestamp: (i64, Offset),
    /// Entries of `.index`: offset and position.
    offsets: Vec<(Offset, u64)>,
    /// Entries of `.timeindex`: timestamp and offset.
    times: Vec<(i64, Offset)>,
    /// Bytes since the last index entry.
    unindexed: u64,
    /// When it was begun, wall ms.
    created_ms: i64,
}

impl Segment {
    fn new(base_offset: Offset, created_ms: i64) -> Segment {
        Segment {
            base_offset,
            end_offset: base_offset,
            size: 0,
            max_timestamp: (-1, -1),
            offsets: Vec::new(),
            times: Vec::new(),
            unindexed: 0,
            created_ms,
        }
    }

    fn note(&mut self, header: &BatchHeader) {
        let last = header.last_offset();
        if header.max_timestamp > self.max_timestamp.0 {
            self.max_timestamp = (header.max_timestamp, last);
        }
        if self.unindexed > INDEX_INTERVAL_BYTES {
            self.offsets.push((last, self.size));
            self.note_time();
            self.unindexed = 0;
        }
        self.size += header.size() as u64;
        self.unindexed += header.size() as u64;
        self.end_offset = header.next_offset();
    }

    fn note_time(&mut self) {
        let (timestamp, offset) = self.max_timestamp;
        if timestamp >= 0 && self.times.last().is_none_or(|(last, _)| timestamp > *last) {
            self.times.push((timestamp, offset));
        }
    }

    fn index_bytes(&self) -> Vec<u8> {
        let relative = |offset: &Offset| ((offset - self.base_offset) as i32).to_be_bytes();
        let entry = |(offset, position): &(Offset, u64)| [relative(offset), (*position as i32).to_be_bytes()].concat();
        self.offsets.iter().flat_map(entry).collect()
    }

    fn time_index_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 * self.times.len());
        for (timestamp, offset) in &self.times {
            bytes.extend_from_slice(&timestamp.to_be_bytes());
            bytes.extend_from_slice(&((offset - self.base_offset) as i32).to_be_bytes());
        }
        bytes
    }
}

/// How segments are rolled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentLimits {
    pub(crate) bytes: u64,
    pub(crate) ms: u64,
}

/// The log's files, the last one open for appending.
pub(crate) struct SegmentLog {
    dir: PathBuf,
    limits: SegmentLimits,
    segments: BTreeMap<Offset, Segment>,
    active: File,
    /// Term and the offset at which it begins, for terms that have records in the log.
    epochs: Vec<(i32, Offset)>,
}

pub(crate) fn file_name(offset: Offset, suffix: &str) -> String {
    format!("{offset:020}.{suffix}")
}

/// The base offset in a segment's file name.
fn base_offset_of(name: &str) -> Option<Offset> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

impl SegmentLog {
    /// Opens the log in `dir`. `visit` sees every batch in order. The last segment is cut at the first thing that is no
    /// whole batch: an interrupted write, nothing of which was answered. Earlier segments were durable before the next
    /// was begun, so damage there is an error. A log that ends before `snapshot_end` is begun anew there.
    ///
    /// # Errors
    /// When files cannot be read or are damaged.
    pub(crate) async fn open(
        dir: &Path,
        limits: SegmentLimits,
        snapshot_end: Offset,
        now: Now,
        mut visit: impl FnMut(&Batch) -> Result<(), QuorumError>,
    ) -> Result<SegmentLog, QuorumError> {
        let mut bases: Vec<Offset> =
            fs::read_dir(dir).await?.iter().filter_map(|entry| base_offset_of(&entry.name)).collect();
        bases.sort_unstable();
        let mut recovery = Recovery { dir, snapshot_end, segments: BTreeMap::new(), epochs: Vec::new() };
        for (index, base) in bases.iter().enumerate() {
            let last = index + 1 == bases.len();
            recovery.read_segment(*base, last, now, &mut visit).await?;
        }
        let Recovery { mut segments, mut epochs, .. } = recovery;
        let end = segments.last_key_value().map_or(0, |(_, segment)| segment.end_offset);
        if end < snapshot_end {
            for base in segments.keys() {
                remove_segment(dir, *base).await?;
            }
            segments.clear();
            epochs.clear();
        }
        let base = segments.last_key_value().map_or(snapshot_end.max(end), |(base, _)| *base);
        let active = File::open(dir.join(file_name(base, "log")), OpenOptions::READ_WRITE).await?;
        // What a killed process wrote may be in the page cache only. It counts from now on, so it has to be durable: a later
        // durable write makes just its own bytes so.
        active.sync_all().await?;
        segments.entry(base).or_insert_with(|| Segment::new(base, now.wall_ms));
        let log = SegmentLog { dir: dir.to_owned(), limits, segments, active, epochs };
        // The name of the active segment, and the absence of removed ones.
        fs::sync_dir(dir).await?;
        Ok(log)
    }

    fn active_segment(&self) -> &Segment {
        self.segments.last_key_value().expect("a log has an active segment").1
    }

    /// Offset after the last record.
    pub(crate) fn end(&self) -> Offset {
        self.active_segment().end_offset
    }

    /// First offset kept.
    pub(crate) fn start(&self) -> Offset {
        *self.segments.first_key_value().expect("a log has an active segment").0
    }

    /// What raft has to know of the log; `snapshot_epoch` is the term of the newest snapshot.
    pub(crate) fn position(&self, snapshot_epoch: i32) -> LogPosition {
        let last_epoch = self.epochs.last().map_or(snapshot_epoch, |(epoch, _)| *epoch);
        LogPosition { start: self.start(), end: self.end(), last_epoch }
    }

    /// Number of terms that have records in the log.
    pub(crate) fn epoch_count(&self) -> usize {
        self.epochs.len()
    }

    /// Bytes of all segments.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.size).sum()
    }

    /// Appends batches durably, in one write. They begin at [`SegmentLog::end`] and follow each other.
    ///
    /// # Errors
    /// When the write fails. What of it reached the disk is unknown then: the log must be opened anew.
    pub(crate) async fn append(&mut self, now: Now, batches: Vec<Bytes>) -> Result<(), QuorumError> {
        let bytes: u64 = batches.iter().map(|batch| batch.len() as u64).sum();
        let segment = self.active_segment();
        let age_ms = u64::try_from(now.wall_ms - segment.created_ms).unwrap_or(0);
        if segment.size > 0 && (segment.size + bytes > self.limits.bytes || age_ms > self.limits.ms) {
            self.roll(now).await?;
        }
        let position = self.active_segment().size;
        self.active.writev_at_durable(batches.clone(), position).await?;
        let mut segment = self.segments.last_entry().expect("a log has an active segment");
        for batch in &batches {
            let header = BatchHeader::parse(batch).expect("batches of our own making have headers");
            assert_eq!(header.base_offset, segment.get().end_offset, "a batch must follow the log's end");
            note_epoch(&mut self.epochs, &header);
            segment.get_mut().note(&header);
        }
        Ok(())
    }

    /// Closes the active segment and begins another at the log's end.
    async fn roll(&mut self, now: Now) -> Result<(), QuorumError> {
        self.write_indexes().await?;
        let base = self.end();
        let options = OpenOptions { create_new: true, ..OpenOptions::READ_WRITE };
        self.active = File::open(self.dir.join(file_name(base, "log")), options).await?;
        fs::sync_dir(&self.dir).await?;
        self.segments.insert(base, Segment::new(base, now.wall_ms));
        Ok(())
    }

    /// Writes the active segment's indexes. They are made for readers of the files only: whoever opens the log scans it.
    pub(crate) async fn write_indexes(&mut self) -> Result<(), QuorumError> {
        let mut segment = self.segments.last_entry().expect("a log has an active segment");
        segment.get_mut().note_time();
        let base = segment.get().base_offset;
        let files = [("index", segment.get().index_bytes()), ("timeindex", segment.get().time_index_bytes())];
        for (suffix, bytes) in files {
            fs::write_atomic_durable(self.dir.join(file_name(base, suffix)), bytes).await?;
        }
        Ok(())
    }

    /// Removes segments that lie wholly below `offset`, except the active one; gives the new start.
    ///
    /// # Errors
    /// When files cannot be removed.
    pub(crate) async fn trim(&mut self, offset: Offset) -> Result<Offset, QuorumError> {
        while self.segments.len() > 1 {
            let (base, segment) = self.segments.first_key_value().expect("a log has an active segment");
            if segment.end_offset > offset {
                break;
            }
            let base = *base;
            remove_segment(&self.dir, base).await?;
            self.segments.remove(&base);
        }
        fs::sync_dir(&self.dir).await?;
        let start = self.start();
        while self.epochs.len() > 1 && self.epochs[1].1 <= start {
            self.epochs.remove(0);
        }
        if let Some(first) = self.epochs.first_mut() {
            first.1 = first.1.max(start);
        }
        self.write_epochs().await?;
        Ok(start)
    }

    /// Writes `leader-epoch-checkpoint`.
    pub(crate) async fn write_epochs(&self) -> Result<(), QuorumError> {
        let mut text = format!("0\n{}\n", self.epochs.len());
        for (epoch, start) in &self.epochs {
            text.push_str(&format!("{epoch} {start}\n"));
        }
        fs::write_atomic_durable(self.dir.join("leader-epoch-checkpoint"), text.into_bytes()).await?;
        Ok(())
    }
}

fn note_epoch(epochs: &mut Vec<(i32, Offset)>, header: &BatchHeader) {
    if epochs.last().is_none_or(|(last, _)| header.leader_epoch > *last) {
        epochs.push((header.leader_epoch, header.base_offset));
    }
}

async fn remove_segment(dir: &Path, base: Offset) -> Result<(), QuorumError> {
    for suffix in ["log", "index", "timeindex"] {
        let path = dir.join(file_name(base, suffix));
        if fs::exists(&path).await? {
            fs::remove_file(&path).await?;
        }
    }
    Ok(())
}

/// A log being read for the first time.
struct Recovery<'d> {
    dir: &'d Path,
    snapshot_end: Offset,
    segments: BTreeMap<Offset, Segment>,
    epochs: Vec<(i32, Offset)>,
}

impl Recovery<'_> {
    async fn read_segment(
        &mut self,
        base: Offset,
        last: bool,
        now: Now,
        visit: &mut impl FnMut(&Batch) -> Result<(), QuorumError>,
    ) -> Result<(), QuorumError> {
        let path = self.dir.join(file_name(base, "log"));
        let corrupt = |reason: String| QuorumError::Corrupt { path: path.clone(), reason };
        let before_end = self.segments.last_key_value().map_or(base, |(_, before)| before.end_offset);
        if before_end != base {
            if base > self.snapshot_end {
                return Err(corrupt(format!("the segment before it ends at offset {before_end}")));
            }
            // Trimming removes names one by one, and a power cut keeps some of them. The snapshot covers them all.
            for base in std::mem::take(&mut self.segments).into_keys() {
                remove_segment(self.dir, base).await?;
            }
            self.epochs.clear();
        }
        let mut scan = BatchScan::open(&path).await?;
        let mut segment = Segment::new(base, now.wall_ms);
        loop {
            let reason = match scan.next().await? {
                Scanned::End => break,
                Scanned::Batch(batch) => match self.misfit(&segment, &batch.header) {
                    None => {
                        note_epoch(&mut self.epochs, &batch.header);
                        segment.note(&batch.header);
                        if segment.size == batch.header.size() as u64 && batch.header.max_timestamp >= 0 {
                            segment.created_ms = batch.header.max_timestamp;
                        }
                        visit(&batch)?;
                        continue;
                    }
                    Some(reason) => reason,
                },
                Scanned::Bad(reason) => reason,
            };
            if !last {
                return Err(corrupt(format!("at position {}: {reason}", segment.size)));
            }
            self.cut(&path, &segment, &reason).await?;
            break;
        }
        self.segments.insert(base, segment);
        Ok(())
    }

    /// Why a whole batch cannot stand where it does.
    fn misfit(&self, segment: &Segment, header: &BatchHeader) -> Option<String> {
        if header.base_offset != segment.end_offset {
            return Some(format!("a batch of offset {} stands at offset {}", header.base_offset, segment.end_offset));
        }
        let last = self.epochs.last().map_or(-1, |(epoch, _)| *epoch);
        (header.leader_epoch < last).then(|| format!("a batch of epoch {} follows epoch {last}", header.leader_epoch))
    }

    async fn cut(&self, path: &Path, segment: &Segment, reason: &str) -> Result<(), QuorumError> {
        let file = File::open(path, OpenOptions::READ_WRITE).await?;
        let size = file.size()?;
        warn!(
            file = %path.display(),
            position = segment.size,
            next_offset = segment.end_offset,
            dropped_bytes = size - segment.size,
            "the metadata log is cut at the end of its last whole batch: {reason}"
        );
        file.set_len(segment.size).await?;
        file.sync_all().await?;
        Ok(())
    }
}
