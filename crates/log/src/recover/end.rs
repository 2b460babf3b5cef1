//! Where a log ends on disk, for the journal to continue.

use std::path::Path;

use base::{LeaderEpoch, Offset};
use reactor::fs::{self, File, OpenOptions};
use records::BatchHeader;

use crate::format::index::SparseIndex;
use crate::format::journal::Link;
use crate::format::{checkpoint, names};
use crate::io::{Context, read_if_there, read_text};
use crate::scan::{Check, Window, scan};
use crate::{EpochEntry, LogError};

/// The end of a log and what may be appended to it.
pub(crate) struct LogEnd {
    /// Offset behind the last batch.
    pub offset: Offset,
    /// Checksum of the last batch, if the segments hold one.
    pub last_crc: Option<u32>,
    /// Leader epoch of the last batch.
    pub last_epoch: LeaderEpoch,
    /// The leader epoch checkpoint, as far as it is readable.
    pub epochs: Vec<EpochEntry>,
    segment: Offset,
    position: u64,
    /// What to append: base offset of the segment, position in it, bytes.
    pending: Vec<(Offset, u64, Vec<u8>)>,
}

/// Base offsets of the segments in a directory, sorted.
pub(crate) async fn segment_bases(path: &Path) -> Result<Vec<Offset>, LogError> {
    let entries = fs::read_dir(path).await.context("list", path)?;
    let mut bases: Vec<Offset> = entries
        .iter()
        .filter_map(|entry| names::parse_segment_file(&entry.name))
        .filter(|file| file.extension == names::LOG && file.suffix.is_none())
        .map(|file| file.offset)
        .collect();
    bases.sort_unstable();
    Ok(bases)
}

/// Finds the end of the log in `path`: behind the last good batch of its last segment.
pub(crate) async fn find_end(path: &Path) -> Result<LogEnd, LogError> {
    let bases = segment_bases(path).await?;
    let segment = bases.last().copied().unwrap_or(0);
    fs::sync_dir(path).await.context("sync", path)?;
    let epochs = read_text(&path.join(names::EPOCHS)).await?;
    let mut end = LogEnd {
        offset: segment,
        last_crc: None,
        last_epoch: -1,
        epochs: epochs.and_then(|text| checkpoint::parse_epochs(&text).ok()).unwrap_or_default(),
        segment,
        position: 0,
        pending: Vec::new(),
    };
    for base in bases.into_iter().rev() {
        // Only the last segment can be short; the ones before are asked for their last batch when it is empty.
        let (check, last) = if base == segment { (Check::Crc, None) } else { (Check::Headers, Some(base)) };
        let file_path = path.join(names::segment_file(base, names::LOG));
        let file = File::open(&file_path, OpenOptions::READ).await.context("open", &file_path)?;
        if base == segment {
            // The journal goes once this was read: what the file holds without being durable must not go with it.
            file.sync_all().await.context("sync", &file_path)?;
        }
        let size = file.size().context("stat", &file_path)?;
        let from = match last {
            Some(base) => last_indexed(path, base, size).await?,
            None => 0,
        };
        let mut window = Window::new(&file, &file_path, size);
        let mut batch: Option<BatchHeader> = None;
        let found = scan(&mut window, from, base, check, |scanned| batch = Some(scanned.header)).await?;
        if base == segment {
            (end.offset, end.position) = (found.offset, found.position);
        }
        if let Some(batch) = batch {
            (end.last_crc, end.last_epoch) = (Some(batch.crc), batch.leader_epoch);
            break;
        }
    }
    Ok(end)
}

/// Position of a batch near the end of a complete segment: the last one in its index, if that is readable.
pub(crate) async fn last_indexed(path: &Path, base: Offset, size: u64) -> Result<u64, LogError> {
    let offsets = read_if_there(&path.join(names::segment_file(base, names::INDEX))).await?.unwrap_or_default();
    let index = SparseIndex::parse(&offsets, &[], size).unwrap_or_default();
    Ok(index.last_offset().map_or(0, |entry| entry.position as u64))
}

/// What a batch behind a complete segment continues.
pub(crate) async fn last_link(dir: &Path, base: Offset, size: u64) -> Result<Link, LogError> {
    let path = dir.join(names::segment_file(base, names::LOG));
    let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
    let from = last_indexed(dir, base, size).await?;
    let mut link = Link::Start;
    scan(&mut Window::new(&file, &path, size), from, base, Check::Headers, |scanned| {
        link = Link::After(scanned.header.crc);
    })
    .await?;
    Ok(link)
}

/// Position of a batch of a complete segment that ends before `offset`, as near as the index tells.
pub(crate) async fn last_indexed_below(path: &Path, base: Offset, size: u64, offset: Offset) -> Result<u64, LogError> {
    let offsets = read_if_there(&path.join(names::segment_file(base, names::INDEX))).await?.unwrap_or_default();
    let index = SparseIndex::parse(&offsets, &[], size).unwrap_or_default();
    Ok(index.last_below(offset - base).map_or(0, |entry| entry.position as u64))
}

impl LogEnd {
    /// Takes a batch in behind the end.
    pub fn push(&mut self, header: &BatchHeader, bytes: &[u8]) {
        let far = header.next_offset() - self.segment > i64::from(i32::MAX);
        let large = self.position > 0 && self.position + bytes.len() as u64 > i32::MAX as u64;
        if far || large {
            (self.segment, self.position) = (header.base_offset, 0);
        }
        match self.pending.last_mut() {
            Some((segment, _, pending)) if *segment == self.segment => pending.extend_from_slice(bytes),
            _ => self.pending.push((self.segment, self.position, bytes.to_vec())),
        }
        self.position += bytes.len() as u64;
        self.offset = header.next_offset();
        (self.last_crc, self.last_epoch) = (Some(header.crc), header.leader_epoch);
    }

    /// Makes what was taken in part of the segments, durably.
    pub async fn write(self, path: &Path) -> Result<(), LogError> {
        for (segment, position, bytes) in self.pending {
            let file_path = path.join(names::segment_file(segment, names::LOG));
            let file = File::open(&file_path, OpenOptions::READ_WRITE).await.context("open", &file_path)?;
            file.set_len(position).await.context("truncate", &file_path)?;
            file.write_all_at(bytes, position).await.0.context("write", &file_path)?;
            file.sync_all().await.context("sync", &file_path)?;
        }
        fs::sync_dir(path).await.context("sync", path)
    }
}
