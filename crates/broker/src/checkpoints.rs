//! The checkpoint files of the log directories, which hold lines of all cores.
//!
//! Core 0 writes them: at an interval while the broker runs, and once when it stops.

use crate::boot::StartError;
use crate::core::DataCore;
use crate::messages::{CoreReply, CoreRequest};
use base::CoreId;
use log::CheckpointEntry;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Entries of every log directory, in their order.
pub type ByDir = Vec<Vec<CheckpointEntry>>;

/// Shortest pause between two rounds, in milliseconds, whatever the options say.
const PAUSE_MS_MIN: u64 = 100;

/// Writes the files again and again: with the shortest of the three intervals that Kafka has for them, and only when
/// something changed.
pub async fn keep(core: Rc<DataCore>, dirs: Vec<PathBuf>) {
    let mut last = ByDir::new();
    loop {
        let config = core.config();
        let shortest = u64::from(config.log.recovery_checkpoint_interval_ms)
            .min(config.log.start_offset_checkpoint_interval_ms.into())
            .min(config.log.high_watermark_checkpoint_interval_ms);
        reactor::sleep(Duration::from_millis(shortest.max(PAUSE_MS_MIN))).await;
        let entries = collect(&core).await;
        if entries == last {
            continue;
        }
        match write(&dirs, entries.clone()).await {
            Ok(()) => last = entries,
            Err(error) => tracing::warn!(%error, "checkpoint files could not be written"),
        }
    }
}

/// The entries of all cores.
async fn collect(core: &Rc<DataCore>) -> ByDir {
    let mut waiting = Vec::new();
    for id in (0..core.layout.data_cores).map(CoreId) {
        waiting.push(core.ask(id, CoreRequest::Checkpoints));
    }
    let mut all = ByDir::new();
    for reply in reactor::join_all(waiting).await {
        let CoreReply::Checkpoints(entries) = reply else { unreachable!("checkpoints are answered by checkpoints") };
        add(&mut all, entries);
    }
    all
}

/// Adds the entries of one more core.
pub fn add(all: &mut ByDir, entries: ByDir) {
    all.resize_with(all.len().max(entries.len()), Vec::new);
    for (dir, of_core) in all.iter_mut().zip(entries) {
        dir.extend(of_core);
    }
}

/// Writes the files of all directories.
///
/// # Errors
/// [`StartError::Close`].
pub async fn write(dirs: &[PathBuf], entries: ByDir) -> Result<(), StartError> {
    for (dir, entries) in dirs.iter().zip(entries) {
        log::write_checkpoints(dir, entries).await.map_err(|error| StartError::Close(error.to_string()))?;
    }
    Ok(())
}
