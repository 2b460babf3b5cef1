//! Opening a log: making its directory, or finding out what the directory holds.

mod end;
mod load;
mod replay;
mod tidy;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::Offset;
use reactor::fs::{self, File, OpenOptions};
use reactor::sync::{Notify, Semaphore};

use crate::core::CoreInner;
use crate::format::journal::Link;
use crate::format::names;
use crate::io::{Context, DIRECT, read_text, write_file};
use crate::log::{LogInner, LogState, Status, random_jitter};
use crate::segment::{Segment, Stage};
use crate::tail::Tail;
use crate::{EpochEntry, LogConfig, LogError, LogId, Progress, RecoverySink};

use end::last_indexed_below;
pub(crate) use end::{LogEnd, find_end, last_link};

/// What the files of a log turned out to hold.
pub(crate) struct Loaded {
    pub start: Offset,
    pub segments: VecDeque<Segment>,
    pub epochs: Vec<EpochEntry>,
    /// The epochs differ from their checkpoint.
    pub epochs_changed: bool,
}

/// See [`crate::LogCore::open_log`].
pub(crate) async fn open_log(
    core: &Rc<CoreInner>,
    id: LogId,
    config: Rc<LogConfig>,
    sink: &mut dyn RecoverySink,
) -> Result<Rc<LogInner>, LogError> {
    let name = id.dir_name();
    let dir = core.config.dir.join(&name);
    let existed = fs::exists(&dir).await.context("stat", &dir)?;
    let loaded = if existed {
        check_metadata(&dir, &id, &name).await?;
        load::load(core, &id, &dir, &name, &config, sink).await?
    } else {
        create(&core.config.dir, &dir, &id).await?
    };
    let end = loaded.segments.back().expect("a log has a segment").end;
    let epochs_saved = (existed && !loaded.epochs_changed).then(|| loaded.epochs.clone());
    let high_watermark = core.config.start.high_watermarks.get(&name).copied().unwrap_or(loaded.start);
    let jitter_ms = random_jitter(config.segment_jitter_ms);
    let state = LogState {
        config,
        jitter_ms,
        status: Status::Open,
        start: loaded.start,
        segments: loaded.segments,
        epochs: loaded.epochs,
        promised: end,
        in_segments: end,
        flushed: end,
        gaps: VecDeque::new(),
        pins: VecDeque::new(),
        flush_to: 0,
        dirty_since: None,
        high_watermark: high_watermark.clamp(loaded.start, end),
        held: false,
        told: Progress { written_end: end, durable_end: end, promised_end: end },
    };
    let log = Rc::new(LogInner {
        core: Rc::clone(core),
        id,
        name,
        dir: RefCell::new(dir),
        state: RefCell::new(state),
        changed: Notify::new(),
        in_line: Cell::new(false),
        writing: Cell::new(false),
        writer_stopped: Notify::new(),
        pressed: Notify::new(),
        writing_epochs: Cell::new(false),
        epoch_file: Semaphore::new(1),
        epochs_saved: RefCell::new(epochs_saved),
        exclusive: Semaphore::new(1),
        on_progress: RefCell::new(None),
        producers: RefCell::new(None),
    });
    if loaded.epochs_changed {
        log.save_epochs();
    }
    Ok(log)
}

/// Makes the directory of a new log with its first segment, durably.
async fn create(parent: &Path, dir: &PathBuf, id: &LogId) -> Result<Loaded, LogError> {
    fs::create_dir(dir).await.context("create", dir)?;
    let metadata = names::partition_metadata(id.key.topic_id).into_bytes();
    write_file(&dir.join(names::PARTITION_METADATA), metadata).await?;
    let segment = first_segment(dir, 0).await?;
    fs::sync_dir(dir).await.context("sync", dir)?;
    fs::sync_dir(parent).await.context("sync", parent)?;
    Ok(Loaded { start: 0, segments: VecDeque::from([segment]), epochs: Vec::new(), epochs_changed: false })
}

/// Makes the file of an empty segment; its name is durable when the directory is synced.
pub(crate) async fn first_segment(dir: &Path, base: Offset) -> Result<Segment, LogError> {
    let path = dir.join(names::segment_file(base, names::LOG));
    let file = File::open(&path, OpenOptions { create: true, truncate: true, ..DIRECT }).await;
    let file = file.context("create", &path)?;
    file.register();
    let tail = Tail::new(0, Vec::new());
    let mut segment = Segment::new(base, base, Stage::Open, tail, Link::Start, reactor::now().wall_ms);
    segment.file = Some(file);
    Ok(segment)
}

/// Compares the directory's topic id with the one asked for; writes it where there is none.
async fn check_metadata(dir: &Path, id: &LogId, name: &str) -> Result<(), LogError> {
    let path = dir.join(names::PARTITION_METADATA);
    let text = read_text(&path).await?;
    match text.as_deref().and_then(names::parse_partition_metadata) {
        Some(found) if found == id.key.topic_id => Ok(()),
        Some(found) => Err(LogError::TopicId { log: name.to_owned(), found, expected: id.key.topic_id }),
        None => {
            if text.is_some() {
                tracing::warn!(file = %path.display(), "the file is damaged and is written anew");
            }
            let metadata = names::partition_metadata(id.key.topic_id).into_bytes();
            write_file(&path, metadata).await?;
            fs::sync_dir(dir).await.context("sync", dir)
        }
    }
}
