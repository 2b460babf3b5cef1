//! What concerns a whole log directory: opening it once for all cores, and the text files that all cores share.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use base::{Offset, PartitionIndex};
use reactor::fs::{self, File, OpenOptions};

use crate::format::{checkpoint, marker, names};
use crate::io::{Context, read_text, remove_if_there};
use crate::journal::replay;
use crate::{DirStart, FoundLog, LogCore, LogError};

/// Opens a log directory once per start of the broker, before any core opens its part: reads and removes the clean
/// shutdown marker, applies what leftover journals (of all cores of the last run) hold beyond the segments, and removes
/// the journals.
///
/// # Errors
/// [`LogError::Io`] when the directory cannot be used at all. Damage in single partitions is not an error here.
pub async fn open_dir(dir: &Path) -> Result<DirStart, LogError> {
    make_dir(dir).await?;
    let marker_path = dir.join(names::CLEAN_SHUTDOWN);
    let marker_text = read_text(&marker_path).await?;
    let clean = marker_text.is_some();
    let found = find_logs(dir).await?;
    let recovery_points = read_offsets(dir, names::RECOVERY_POINTS).await?;
    let mut generation = reactor::now().wall_ms.max(0) as u64;
    if clean {
        replay::discard(dir).await?;
    } else if let Some(seen) = replay::apply(dir, &found).await? {
        generation = generation.max(seen + 1);
    }
    // Only now: a start that dies before this finds the marker again and is as clean as this one.
    remove_if_there(&marker_path).await?;
    fs::sync_dir(dir).await.context("sync", dir)?;
    Ok(DirStart {
        clean,
        broker_epoch: marker_text.map_or(-1, |text| marker::broker_epoch(&text)),
        generation,
        found: Arc::new(found),
        recovery_points: Arc::new(recovery_points),
        start_offsets: Arc::new(read_offsets(dir, names::START_OFFSETS).await?),
        high_watermarks: Arc::new(read_offsets(dir, names::HIGH_WATERMARKS).await?),
    })
}

/// Makes the directory and those above it that are missing, durably.
async fn make_dir(dir: &Path) -> Result<(), LogError> {
    let mut missing = Vec::new();
    for above in dir.ancestors() {
        if above.as_os_str().is_empty() || fs::exists(above).await.context("stat", above)? {
            break;
        }
        missing.push(above);
    }
    fs::create_dir_all(dir).await.context("create", dir)?;
    for made in missing {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::sync_dir(parent).await.context("sync", parent)?;
    }
    // A run before this one may have been killed between making the directory and syncing its name. A parent that cannot
    // be opened was not made by us.
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let _ = fs::sync_dir(parent).await;
    }
    Ok(())
}

/// The partition directories; directories of deleted partitions are unlinked on the way.
async fn find_logs(dir: &Path) -> Result<Vec<FoundLog>, LogError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).await.context("list", dir)? {
        if !entry.is_dir {
            continue;
        }
        let path = dir.join(&entry.name);
        if names::is_delete_dir(&entry.name) {
            fs::remove_dir_all(&path).await.context("remove", &path)?;
            continue;
        }
        let Some((topic, partition)) = names::parse_partition_dir(&entry.name) else { continue };
        let metadata = read_text(&path.join(names::PARTITION_METADATA)).await?;
        let topic_id = metadata.and_then(|text| names::parse_partition_metadata(&text));
        found.push(FoundLog { topic, partition, topic_id });
    }
    Ok(found)
}

/// An offset checkpoint by directory name; empty when it is absent or damaged.
async fn read_offsets(dir: &Path, name: &str) -> Result<HashMap<String, Offset>, LogError> {
    let path = dir.join(name);
    let Some(text) = read_text(&path).await? else { return Ok(HashMap::new()) };
    match checkpoint::parse_offsets(&text) {
        Ok(lines) => Ok(lines.into_iter().map(|l| (format!("{}-{}", l.topic, l.partition), l.offset)).collect()),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "the checkpoint is damaged and is not used");
            Ok(HashMap::new())
        }
    }
}

/// One partition's lines in the checkpoint files of its log directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointEntry {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition index.
    pub partition: PartitionIndex,
    /// Records before this are safe in the segments.
    pub recovery_point: Offset,
    /// Log start offset.
    pub start_offset: Offset,
    /// High watermark as last noted by [`crate::Log::set_high_watermark`].
    pub high_watermark: Offset,
}

impl LogCore {
    /// What this core has to say for the directory's checkpoint files. Send it to the core that writes them, with those
    /// of all other cores ([`write_checkpoints`] replaces the files as a whole).
    pub fn checkpoint(&self) -> Vec<CheckpointEntry> {
        let logs = self.inner.logs.borrow();
        let entries = logs.values().map(|log| {
            let state = log.state.borrow();
            CheckpointEntry {
                topic: Arc::clone(&log.id.topic),
                partition: log.id.key.partition,
                recovery_point: state.flushed,
                start_offset: state.start,
                high_watermark: state.high_watermark,
            }
        });
        entries.collect()
    }
}

/// Replaces the three checkpoint files of a log directory by the entries of all its cores. Lines of partitions that are
/// in the directory and in none of the entries (strays, or not opened yet) stay. One core does this at an interval
/// (`log.flush.offset.checkpoint.interval.ms`, `replica.high.watermark.checkpoint.interval.ms`), after DeleteRecords, and
/// before the clean shutdown marker; two must not do it at the same time.
///
/// # Errors
/// [`LogError::Io`], [`LogError::NoSpace`].
pub async fn write_checkpoints(dir: &Path, entries: Vec<CheckpointEntry>) -> Result<(), LogError> {
    type Field = fn(&CheckpointEntry) -> Offset;
    let files: [(&str, Field); 3] = [
        (names::RECOVERY_POINTS, |e| e.recovery_point),
        (names::START_OFFSETS, |e| e.start_offset),
        (names::HIGH_WATERMARKS, |e| e.high_watermark),
    ];
    for (name, field) in files {
        let path = dir.join(name);
        let old = read_text(&path).await?.and_then(|text| checkpoint::parse_offsets(&text).ok()).unwrap_or_default();
        let mut lines: BTreeMap<(&str, PartitionIndex), Offset> = BTreeMap::new();
        lines.extend(entries.iter().map(|e| ((&*e.topic, e.partition), field(e))));
        for line in &old {
            let key = (&*line.topic, line.partition);
            let partition = dir.join(format!("{}-{}", line.topic, line.partition));
            if !lines.contains_key(&key) && fs::exists(&partition).await.context("stat", &partition)? {
                lines.insert(key, line.offset);
            }
        }
        let text =
            checkpoint::write_offsets(lines.iter().map(|((topic, partition), offset)| (*topic, *partition, *offset)));
        fs::write_atomic_durable(&path, text.into_bytes()).await.context("write", &path)?;
    }
    Ok(())
}

/// The lock on a log directory (`.lock`), held until this is dropped.
pub struct DirLock {
    file: File,
}

impl DirLock {
    /// Holds the lock until the process ends, also when this is dropped: cores end one after the other, and none may use
    /// the directory without the lock.
    ///
    /// # Errors
    /// [`LogError::Io`] when there are too many open files.
    pub fn keep_until_exit(&self) -> Result<(), LogError> {
        self.file.keep_open().context("keep", Path::new(names::LOCK))
    }
}

/// Takes the lock on a log directory, which Apache Kafka takes as well. The one core that does this keeps the lock as
/// long as any core uses the directory.
///
/// # Errors
/// [`LogError::Io`], also when another process holds the lock.
pub async fn lock_dir(dir: &Path) -> Result<DirLock, LogError> {
    make_dir(dir).await?;
    let path = dir.join(names::LOCK);
    let file = File::open(&path, OpenOptions::READ_WRITE).await.context("open", &path)?;
    if file.try_lock().context("lock", &path)? {
        return Ok(DirLock { file });
    }
    let error =
        "another process holds the lock: a broker is running on this directory. Stop that broker, or give this one \
                 a directory of its own (log.dirs, metadata.log.dir)"
            .to_owned();
    Err(LogError::Io { operation: "lock", file: path.display().to_string(), error })
}

/// Writes the clean shutdown marker, the very last thing of a clean stop.
///
/// # Errors
/// [`LogError::Io`].
pub async fn write_clean_shutdown(dir: &Path, broker_epoch: i64) -> Result<(), LogError> {
    let path = dir.join(names::CLEAN_SHUTDOWN);
    fs::write_atomic_durable(&path, marker::write(broker_epoch).into_bytes()).await.context("write", &path)
}
