//! The directory `__cluster_metadata-0`: found or made, read from the newest snapshot to the end of the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Now, Offset, Uuid};
use controller::{Controller, ControllerConfig};
use metadata::{MetadataImage, VersionedRecord};
use raft::{ControlRecord, ElectionState, OffsetAndEpoch, Raft, RaftConfig};
use reactor::fs;
use records::{Batch, Scratch};
use tracing::{info, warn};

use crate::batches::{LogRecord, for_each_record};
use crate::config::QuorumConfig;
use crate::error::QuorumError;
use crate::segments::{SegmentLimits, SegmentLog};
use crate::snapshot::{self, BOOTSTRAP};

/// Name of the directory.
const DIRECTORY: &str = "__cluster_metadata-0";

/// Everything that was read at the start.
pub(crate) struct Store {
    pub(crate) dir: PathBuf,
    pub(crate) log: SegmentLog,
    pub(crate) raft: Raft,
    pub(crate) controller: Controller,
    /// What the cluster was formatted with.
    pub(crate) bootstrap: Vec<VersionedRecord<'static>>,
    pub(crate) election: Option<ElectionState>,
    pub(crate) snapshot: Option<OffsetAndEpoch>,
    /// Time and term of the last batch.
    pub(crate) last_batch: (i64, i32),
    /// Bytes of the log that the newest snapshot does not cover.
    pub(crate) bytes_since_snapshot: u64,
}

/// Removes what an interrupted start or snapshot left, and gives the snapshots that are there, oldest first.
async fn clean(dir: &Path) -> Result<Vec<OffsetAndEpoch>, QuorumError> {
    let mut snapshots = Vec::new();
    for entry in fs::read_dir(dir).await? {
        let unfinished = [".part", ".deleted", ".tmp"].iter().any(|suffix| entry.name.ends_with(suffix));
        if unfinished && !entry.is_dir {
            fs::remove_file(dir.join(&entry.name)).await?;
        }
        snapshots.extend(snapshot::id_of(&entry.name));
    }
    snapshots.sort_unstable();
    Ok(snapshots)
}

/// Snapshots in the directory, oldest first.
pub(crate) async fn snapshots(dir: &Path) -> Result<Vec<OffsetAndEpoch>, QuorumError> {
    let mut ids: Vec<OffsetAndEpoch> =
        fs::read_dir(dir).await?.iter().filter_map(|entry| snapshot::id_of(&entry.name)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Makes the directories that are missing and the file that says whose partition this is. Names are made durable whether
/// this start made them or one before it that was killed: nothing on disk tells the two apart.
async fn prepare(dir: &Path) -> Result<(), QuorumError> {
    fs::create_dir_all(dir).await?;
    for (steps, parent) in dir.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).enumerate() {
        let synced = fs::sync_dir(parent).await;
        // Further up, directories are not ours: where they cannot be opened, we have not made anything in them either.
        if steps == 0 {
            synced?;
        }
    }
    let metadata = dir.join("partition.metadata");
    if !fs::exists(&metadata).await? {
        let text = format!("version: 0\ntopic_id: {}", Uuid::METADATA_TOPIC);
        fs::write_atomic_durable(metadata, text.into_bytes()).await?;
    }
    Ok(())
}

/// The newest snapshot that can be read, its image and content.
async fn newest(
    dir: &Path,
    snapshots: &[OffsetAndEpoch],
) -> Result<Option<(OffsetAndEpoch, Arc<MetadataImage>, snapshot::Content)>, QuorumError> {
    for id in snapshots.iter().rev().filter(|id| **id != BOOTSTRAP) {
        match snapshot::load(dir, *id).await {
            Ok((image, content)) => return Ok(Some((*id, image, content))),
            // An older snapshot and the log may still hold everything; a gap between them is found later.
            Err(QuorumError::Corrupt { path, reason }) => {
                warn!(file = %path.display(), "a metadata snapshot is passed over: {reason}");
            }
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

/// The bootstrap records: in the first snapshot since 4.4, in a file of their own before.
async fn bootstrap(
    config: &QuorumConfig,
    dir: &Path,
    snapshots: &[OffsetAndEpoch],
) -> Result<(Vec<VersionedRecord<'static>>, snapshot::Content), QuorumError> {
    let (mut records, mut content) = (Vec::new(), snapshot::Content::default());
    if snapshots.contains(&BOOTSTRAP) {
        (records, content) = snapshot::read_bootstrap(&dir.join(snapshot::file_name(BOOTSTRAP))).await?;
    }
    let file = config.metadata_dir.join("bootstrap.checkpoint");
    if records.is_empty() && fs::exists(&file).await? {
        (records, _) = snapshot::read_bootstrap(&file).await?;
    }
    if records.is_empty() {
        records = controller::default_bootstrap();
    }
    Ok((records, content))
}

async fn read_election(dir: &Path) -> Result<Option<ElectionState>, QuorumError> {
    let path = dir.join("quorum-state");
    if !fs::exists(&path).await? {
        return Ok(None);
    }
    let bytes = fs::read(&path).await?;
    Ok(Some(ElectionState::decode(&String::from_utf8_lossy(&bytes))?))
}

/// Controller and raft while the log is read into them.
struct Loading {
    controller: Controller,
    raft: Raft,
    scratch: Scratch,
    snapshot_end: Offset,
    last_batch: (i64, i32),
    bytes_since_snapshot: u64,
}

impl Loading {
    fn batch(&mut self, batch: &Batch) -> Result<(), QuorumError> {
        let covered = batch.header.base_offset < self.snapshot_end;
        let (controller, raft) = (&mut self.controller, &mut self.raft);
        let outcome = for_each_record(batch, &mut self.scratch, |offset, record| {
            match record {
                LogRecord::Control(control) => {
                    raft.replay(offset, &control);
                    if let (ControlRecord::KraftVersion(level), false) = (control, covered) {
                        controller.set_kraft_version(level);
                    }
                }
                LogRecord::Data(_) if covered => {}
                LogRecord::Data(data) => {
                    controller.replay(offset, &data).map_err(|error| error.to_string())?;
                }
            }
            Ok(())
        });
        outcome.map_err(|(offset, reason)| QuorumError::Record { offset, reason })?;
        if !covered {
            self.last_batch = (batch.header.max_timestamp, batch.header.leader_epoch);
            self.bytes_since_snapshot += batch.bytes.len() as u64;
        }
        Ok(())
    }
}

impl Store {
    /// Opens the directory, makes it when it is not there, and reads everything.
    ///
    /// # Errors
    /// When files cannot be read, or what they hold does not fit together.
    pub(crate) async fn open(config: &QuorumConfig, now: Now) -> Result<Store, QuorumError> {
        let dir = config.metadata_dir.join(DIRECTORY);
        prepare(&dir).await?;
        let ids = clean(&dir).await?;
        let (bootstrap, formatted) = bootstrap(config, &dir, &ids).await?;
        let newest = newest(&dir, &ids).await?;
        let mut raft = Raft::new(RaftConfig {
            node_id: config.node_id,
            directory_id: config.directory_id,
            static_voters: config.static_voters.clone(),
            endpoints: config.endpoints.iter().map(|(endpoint, _)| endpoint.clone()).collect(),
        });
        replay_content(&mut raft, -1, &formatted);
        let snapshot = newest.as_ref().map(|(id, _, _)| *id);
        let snapshot_end = snapshot.map_or(0, |id| id.offset);
        let (image, content) = newest.map_or_else(Default::default, |(_, image, content)| (image, content));
        replay_content(&mut raft, snapshot_end - 1, &content);
        let voter_ids = config.static_voters.iter().map(|voter| voter.key.id).collect();
        let mut loading = Loading {
            controller: Controller::new(
                ControllerConfig {
                    node_id: config.node_id,
                    combined: config.combined,
                    cluster_id: config.cluster_id.clone(),
                    voter_ids,
                    config: config.config.clone(),
                },
                image.clone(),
                now,
            ),
            raft,
            scratch: Scratch::new(),
            snapshot_end,
            last_batch: (image.provenance.last_timestamp_ms, image.provenance.last_epoch),
            bytes_since_snapshot: 0,
        };
        if let Some(level) = formatted.kraft_version.filter(|_| snapshot.is_none()) {
            loading.controller.set_kraft_version(level);
        }
        let limits = SegmentLimits { bytes: config.segment_bytes, ms: config.segment_ms };
        let log = SegmentLog::open(&dir, limits, snapshot_end, now, |batch| loading.batch(batch)).await?;
        if log.start() > snapshot_end {
            return Err(QuorumError::Gap { log_start: log.start(), snapshot_end });
        }
        let election = read_election(&dir).await?;
        info!(
            dir = %dir.display(),
            snapshot_end,
            log_start = log.start(),
            log_end = log.end(),
            topics = loading.controller.image().topics.len(),
            "metadata log read"
        );
        let Loading { controller, raft, last_batch, bytes_since_snapshot, .. } = loading;
        Ok(Store { dir, log, raft, controller, bootstrap, election, snapshot, last_batch, bytes_since_snapshot })
    }
}

fn replay_content(raft: &mut Raft, offset: Offset, content: &snapshot::Content) {
    if let Some(level) = content.kraft_version {
        raft.replay(offset, &ControlRecord::KraftVersion(level));
    }
    if let Some(voters) = &content.voters {
        raft.replay(offset, &ControlRecord::Voters(voters.clone()));
    }
}
