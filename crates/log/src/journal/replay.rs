//! Brings what leftover journals hold beyond the segments into the segments, before any core opens a log.
//!
//! A record is applied only where it continues its log exactly: its offset is the log's end, the batch before it has the
//! checksum that the record names, and no newer leader epoch began at or before it. A journal that is older than what
//! another broker wrote to the same directory since therefore changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::{Offset, PartitionKey};
use bytes::Bytes;
use reactor::fs::{self, File, OpenOptions};
use records::{Batch, BatchError, BatchHeader, BatchIter};

use crate::FoundLog;
use crate::LogError;
use crate::format::journal::{CommitHeader, HEADER_BYTES, Link, RecordHeader, RecordKind, RecordWalk};
use crate::format::names;
use crate::io::Context;
use crate::recover::{LogEnd, find_end};

/// Batches that the journal holds of one partition, oldest first.
#[derive(Default)]
struct Entries {
    list: Vec<Entry>,
}

struct Entry {
    header: RecordHeader,
    body: Bytes,
    /// Batches that end behind this were cut off later.
    bound: Offset,
}

impl Entries {
    fn cut(&mut self, offset: Offset) {
        self.list.retain_mut(|entry| {
            entry.bound = entry.bound.min(offset);
            entry.header.base_offset < offset
        });
    }
}

/// A journal file that begins with a commit.
struct Leftover {
    path: PathBuf,
    first: CommitHeader,
}

/// Removes all journals unread: after a clean stop they hold nothing that the segments do not.
pub(crate) async fn discard(dir: &Path) -> Result<(), LogError> {
    for path in journal_files(dir).await? {
        fs::remove_file(&path).await.context("remove", &path)?;
    }
    Ok(())
}

/// Applies the journals of the newest run and removes all. Gives back the number of that run.
pub(crate) async fn apply(dir: &Path, found: &[FoundLog]) -> Result<Option<u64>, LogError> {
    let paths = journal_files(dir).await?;
    let mut leftovers = Vec::new();
    for path in &paths {
        if let Some(first) = first_commit(path).await? {
            leftovers.push(Leftover { path: path.clone(), first });
        }
    }
    let newest = leftovers.iter().map(|l| l.first.generation).max();
    let mut cores: BTreeMap<(u16, u64), Vec<Leftover>> = BTreeMap::new();
    for leftover in leftovers {
        if Some(leftover.first.generation) == newest {
            cores.entry((leftover.first.core, leftover.first.run)).or_default().push(leftover);
        }
    }
    // One core after the other: a partition's records are all in the journal of the core it lived on, and so the memory
    // needed is that of one journal.
    for ((core, _), mut files) in cores {
        files.sort_by_key(|file| file.first.sequence);
        let mut partitions: BTreeMap<PartitionKey, Entries> = BTreeMap::new();
        let mut expected = None;
        for file in &files {
            expected = collect(file, expected, &mut partitions).await?;
        }
        apply_core(dir, core, found, partitions).await?;
    }
    for path in paths {
        fs::remove_file(&path).await.context("remove", &path)?;
    }
    fs::sync_dir(dir).await.context("sync", dir)?;
    Ok(newest)
}

async fn journal_files(dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = fs::read_dir(dir).await.context("list", dir)?;
    let files = entries.into_iter().filter(|e| !e.is_dir && names::parse_journal_file(&e.name).is_some());
    Ok(files.map(|e| dir.join(e.name)).collect())
}

async fn first_commit(path: &Path) -> Result<Option<CommitHeader>, LogError> {
    let file = File::open(path, OpenOptions::READ).await.context("open", path)?;
    let (result, bytes) = file.read_at(Vec::with_capacity(HEADER_BYTES), 0).await;
    result.context("read", path)?;
    Ok(CommitHeader::decode(&bytes))
}

/// Reads a file's commits into `partitions`. Gives back the sequence that follows the last of them.
async fn collect(
    file: &Leftover,
    expected: Option<u64>,
    partitions: &mut BTreeMap<PartitionKey, Entries>,
) -> Result<Option<u64>, LogError> {
    let path = &file.path;
    if let Some(expected) = expected
        && file.first.sequence != expected
    {
        let found = file.first.sequence;
        tracing::warn!(file = %path.display(), expected, found, "the journal has a gap");
    }
    let bytes = Bytes::from(fs::read(path).await.context("read", path)?);
    let (mut position, mut sequence) = (0, file.first.sequence);
    while let Some(header) = bytes.get(position..).and_then(CommitHeader::decode) {
        let same =
            (header.run, header.core, header.generation) == (file.first.run, file.first.core, file.first.generation);
        if !same || header.sequence != sequence {
            break;
        }
        let body = bytes.slice((position + HEADER_BYTES).min(bytes.len())..);
        let mut walk = RecordWalk::new(&header, &body);
        loop {
            match walk.next_record() {
                Ok(None) => break,
                Ok(Some((record, range))) => note(partitions, record, body.slice(range)),
                Err(torn) => {
                    let missing = torn.missing;
                    let records = header.records;
                    tracing::info!(
                        file = %path.display(), position, sequence, records, missing,
                        "the last commit of the journal was not completed"
                    );
                    return Ok(Some(sequence + 1));
                }
            }
        }
        sequence += 1;
        position = position.saturating_add(usize::try_from(header.total_len()).unwrap_or(usize::MAX));
    }
    Ok(Some(sequence))
}

fn note(partitions: &mut BTreeMap<PartitionKey, Entries>, header: RecordHeader, body: Bytes) {
    let entries = partitions.entry(header.key).or_default();
    match header.kind {
        RecordKind::Append => entries.list.push(Entry { header, body, bound: Offset::MAX }),
        RecordKind::Cut => entries.cut(header.base_offset),
        RecordKind::Removed => entries.list.clear(),
    }
}

async fn apply_core(
    dir: &Path,
    core: u16,
    found: &[FoundLog],
    partitions: BTreeMap<PartitionKey, Entries>,
) -> Result<(), LogError> {
    let mut logs = 0;
    let mut batches = 0;
    let mut sorted: Vec<_> = partitions.into_iter().filter(|(_, entries)| !entries.list.is_empty()).collect();
    sorted.sort_by_key(|(key, _)| *key);
    for (key, entries) in sorted {
        let is_it = |log: &&FoundLog| log.topic_id == Some(key.topic_id) && log.partition == key.partition;
        let Some(log) = found.iter().find(is_it) else {
            tracing::info!(%key, "the journal has records of a partition that is not in the directory any more");
            continue;
        };
        let path = dir.join(format!("{}-{}", log.topic, log.partition));
        match apply_log(&path, &entries).await {
            Ok(0) => {}
            Ok(applied) => {
                logs += 1;
                batches += applied;
            }
            // One partition's damage is not the others': it is cut where it is when it is opened.
            Err(error) => tracing::error!(log = %path.display(), %error, "the journal cannot be applied"),
        }
    }
    tracing::info!(dir = %dir.display(), core, logs, batches, "the journal of the last run was applied");
    Ok(())
}

/// Appends what continues the log to its last segment. Gives back the number of batches.
async fn apply_log(path: &Path, entries: &Entries) -> Result<usize, LogError> {
    let mut end = find_end(path).await?;
    let mut applied = 0;
    'log: for entry in &entries.list {
        let mut before = match entry.header.link {
            Link::Start => None,
            Link::After(crc) => Some(crc),
        };
        let mut joins = entry.header.base_offset;
        for batch in BatchIter::new(entry.body.clone()) {
            let Some(batch) = sound(path, batch, entry) else { break };
            let header = batch.header;
            if header.base_offset >= end.offset {
                if let Some(reason) = refuse(&end, &header, joins, before) {
                    tracing::warn!(
                        log = %path.display(), offset = header.base_offset, end = end.offset, reason,
                        "records of the journal do not continue the log and are left out"
                    );
                    break 'log;
                }
                end.push(&header, &batch.bytes);
                applied += 1;
            }
            before = Some(header.crc);
            joins = header.next_offset();
        }
    }
    if applied > 0 {
        end.write(path).await?;
    }
    Ok(applied)
}

/// The next batch of an entry if it is whole and was not cut off.
fn sound(path: &Path, batch: Result<Batch, BatchError>, entry: &Entry) -> Option<Batch> {
    let checked = batch.and_then(|batch| batch.verify_crc().map(|()| batch));
    match checked {
        Ok(batch) => (batch.header.next_offset() <= entry.bound).then_some(batch),
        Err(error) => {
            let from = entry.header.base_offset;
            tracing::warn!(log = %path.display(), from, %error, "a batch in the journal is damaged: the log ends before it");
            None
        }
    }
}

/// Why a batch that was appended at `joins`, behind a batch with the checksum `before`, does not continue the log.
fn refuse(end: &LogEnd, header: &BatchHeader, joins: Offset, before: Option<u32>) -> Option<&'static str> {
    if joins != end.offset {
        return Some("records between are missing");
    }
    // Where the segments hold no batch at all (retention took the last one), there is nothing to compare with.
    if end.last_crc.is_some() && before != end.last_crc {
        return Some("the batch before it is another one");
    }
    if header.leader_epoch < end.last_epoch {
        return Some("the log has records of a newer leader epoch");
    }
    let newer = end.epochs.iter().any(|e| e.epoch > header.leader_epoch && e.start_offset <= header.base_offset);
    newer.then_some("a newer leader epoch begins before it")
}
