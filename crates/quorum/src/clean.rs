//! Which snapshots may go, and with them the log before the oldest that stays.

use std::path::Path;

use base::{Now, Offset};
use raft::OffsetAndEpoch;
use reactor::fs;
use tracing::info;

use crate::error::QuorumError;
use crate::snapshot::{file_name, last_timestamp};

/// What may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `metadata.max.retention.bytes`.
    pub(crate) bytes: Option<u64>,
    /// `metadata.max.retention.ms`.
    pub(crate) ms: Option<u64>,
}

/// Removes the oldest snapshots while there are others and a limit is exceeded. Gives the end of the oldest one left when
/// any was removed: the log is not needed before it.
pub(crate) async fn snapshots(
    dir: &Path,
    ids: Vec<OffsetAndEpoch>,
    log_bytes: u64,
    limits: Limits,
    now: Now,
) -> Result<Option<Offset>, QuorumError> {
    let mut sizes = Vec::with_capacity(ids.len());
    for id in &ids {
        let metadata = fs::metadata(dir.join(file_name(*id))).await?;
        sizes.push(metadata.map_or(0, |metadata| metadata.len));
    }
    let mut total = log_bytes + sizes.iter().sum::<u64>();
    let mut removed = None;
    for ((id, next), size) in ids.iter().zip(ids.iter().skip(1)).zip(sizes) {
        let too_large = limits.bytes.is_some_and(|max| total > max);
        if !too_large && !is_too_old(dir, *id, limits, now).await? {
            break;
        }
        info!(offset = id.offset, epoch = id.epoch, too_large, "metadata snapshot removed");
        fs::remove_file(dir.join(file_name(*id))).await?;
        total -= size;
        removed = Some(next.offset);
    }
    if removed.is_some() {
        fs::sync_dir(dir).await?;
    }
    Ok(removed)
}

async fn is_too_old(dir: &Path, id: OffsetAndEpoch, limits: Limits, now: Now) -> Result<bool, QuorumError> {
    let Some(max) = limits.ms else { return Ok(false) };
    let written = last_timestamp(&dir.join(file_name(id))).await?;
    Ok(u64::try_from(now.wall_ms - written).is_ok_and(|age| age > max))
}
