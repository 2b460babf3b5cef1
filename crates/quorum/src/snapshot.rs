//! Snapshots: `<end offset>-<epoch>.checkpoint` files with a header, the quorum's state, the image and a footer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Offset;
use bytes::Bytes;
use metadata::{MetadataDelta, MetadataImage, Provenance, VersionedRecord};
use raft::{ControlRecord, OffsetAndEpoch, VoterSet};
use reactor::fs::{self, File, OpenOptions};
use records::{BatchBuilder, Scratch};
use wire::metadata_record::MetadataRecord;

use crate::batches::{LogRecord, Stamp, append, control_batch, finish, for_each_record};
use crate::error::QuorumError;
use crate::scan::{BatchScan, Scanned};

/// Most records in one batch of a snapshot, and the bytes after which a batch is closed earlier: a reader holds one
/// batch, and the writer's core encodes one without a pause.
const RECORDS_PER_BATCH_MAX: usize = 1_024;
const BYTES_PER_BATCH: usize = 1 << 20;

/// The snapshot that formatting writes: voters and bootstrap records, no metadata of its own.
pub(crate) const BOOTSTRAP: OffsetAndEpoch = OffsetAndEpoch { offset: 0, epoch: 0 };

/// Name of a snapshot's file.
pub(crate) fn file_name(id: OffsetAndEpoch) -> String {
    format!("{:020}-{:010}.checkpoint", id.offset, id.epoch)
}

/// The id in a snapshot's file name.
pub(crate) fn id_of(name: &str) -> Option<OffsetAndEpoch> {
    let (offset, epoch) = name.strip_suffix(".checkpoint")?.split_once('-')?;
    if offset.len() != 20 || epoch.len() != 10 {
        return None;
    }
    Some(OffsetAndEpoch { offset: offset.parse().ok()?, epoch: epoch.parse().ok()? })
}

/// What a snapshot holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Content {
    /// Append time of the last batch it covers.
    pub(crate) last_timestamp_ms: i64,
    /// `kraft.version`, when it says so.
    pub(crate) kraft_version: Option<i16>,
    /// The voters, when it names them.
    pub(crate) voters: Option<VoterSet>,
}

/// Reads a file of batches with snapshot header and footer; `visit` gets the metadata records in order.
///
/// # Errors
/// When the file is damaged, cut off, or `visit` refuses a record.
pub(crate) async fn read(
    path: &Path,
    mut visit: impl FnMut(&MetadataRecord<'_>) -> Result<(), String>,
) -> Result<Content, QuorumError> {
    let corrupt = |reason: String| QuorumError::Corrupt { path: path.to_owned(), reason };
    let mut scan = BatchScan::open(path).await?;
    let mut scratch = Scratch::new();
    let mut content = Content::default();
    let (mut begun, mut ended) = (false, false);
    loop {
        let batch = match scan.next().await? {
            Scanned::Batch(batch) => batch,
            Scanned::End => break,
            Scanned::Bad(reason) => return Err(corrupt(format!("at position {}: {reason}", scan.position()))),
        };
        let outcome = for_each_record(&batch, &mut scratch, |_, record| {
            if ended {
                return Err("a record follows the footer".to_owned());
            }
            match record {
                LogRecord::Control(ControlRecord::SnapshotHeader { last_contained_log_timestamp }) => {
                    content.last_timestamp_ms = last_contained_log_timestamp;
                    begun = true;
                }
                LogRecord::Control(ControlRecord::KraftVersion(level)) => content.kraft_version = Some(level),
                LogRecord::Control(ControlRecord::Voters(voters)) => content.voters = Some(voters),
                LogRecord::Control(ControlRecord::SnapshotFooter) => ended = true,
                LogRecord::Control(ControlRecord::LeaderChange { .. }) => {}
                LogRecord::Data(data) => visit(&data)?,
            }
            Ok(())
        });
        outcome.map_err(|(offset, reason)| corrupt(format!("record {offset}: {reason}")))?;
        if !begun {
            return Err(corrupt("it does not begin with a snapshot header".to_owned()));
        }
    }
    if !ended {
        return Err(corrupt("it has no footer: it is cut off".to_owned()));
    }
    Ok(content)
}

/// The image that a snapshot holds.
///
/// # Errors
/// When the file cannot be read in full.
pub(crate) async fn load(dir: &Path, id: OffsetAndEpoch) -> Result<(Arc<MetadataImage>, Content), QuorumError> {
    let mut delta = MetadataDelta::new(Arc::default());
    let path = dir.join(file_name(id));
    let content = read(&path, |record| delta.replay(record).map_err(|error| error.to_string())).await?;
    if let Some(level) = content.kraft_version {
        delta.set_kraft_version(level);
    }
    delta.finish(Provenance {
        last_offset: id.offset - 1,
        last_epoch: id.epoch,
        last_timestamp_ms: content.last_timestamp_ms,
    });
    Ok((delta.image().clone(), content))
}

/// The metadata records of the snapshot that formatting wrote, or of a `bootstrap.checkpoint`.
///
/// # Errors
/// When the file cannot be read in full.
pub(crate) async fn read_bootstrap(path: &Path) -> Result<(Vec<VersionedRecord<'static>>, Content), QuorumError> {
    let mut records = Vec::new();
    let content = read(path, |record| {
        // Bootstrap records are written in the version that every reader knows.
        records.push((record.clone().into_static(), 0));
        Ok(())
    })
    .await?;
    Ok((records, content))
}

/// A snapshot in the making.
struct Writer {
    file: File,
    position: u64,
    next_offset: Offset,
    epoch: i32,
    timestamp_ms: i64,
}

impl Writer {
    fn stamp(&self) -> Stamp {
        Stamp { base_offset: self.next_offset, epoch: self.epoch, timestamp_ms: self.timestamp_ms }
    }

    async fn write(&mut self, batch: Bytes, records: usize) -> Result<(), QuorumError> {
        let length = batch.len() as u64;
        let (result, _) = self.file.write_all_at(batch, self.position).await;
        result?;
        self.position += length;
        self.next_offset += records as Offset;
        Ok(())
    }

    async fn control(&mut self, records: &[ControlRecord]) -> Result<(), QuorumError> {
        let batch = control_batch(self.stamp(), records).map_err(|error| self.unwritable(&error.0))?;
        self.write(batch, records.len()).await
    }

    fn unwritable(&self, reason: &str) -> QuorumError {
        QuorumError::Record { offset: self.next_offset, reason: reason.to_owned() }
    }

    async fn image(&mut self, image: &MetadataImage) -> Result<(), QuorumError> {
        let mut records = image.records().peekable();
        while records.peek().is_some() {
            let mut builder = BatchBuilder::new(self.next_offset).leader_epoch(self.epoch);
            while builder.count() < RECORDS_PER_BATCH_MAX && builder.size() < BYTES_PER_BATCH {
                let Some((record, version)) = records.next() else { break };
                append(&mut builder, self.timestamp_ms, &record, version).map_err(|error| self.unwritable(&error.0))?;
            }
            let count = builder.count();
            let batch = finish(&builder).map_err(|error| self.unwritable(&error.0))?;
            self.write(batch, count).await?;
            reactor::yield_now().await;
        }
        Ok(())
    }
}

/// Writes the snapshot of a committed image durably and gives its id and size. It has its name only once it is whole.
///
/// # Errors
/// When it cannot be written; the unfinished file is removed at the next start.
pub(crate) async fn write(
    dir: &Path,
    image: &MetadataImage,
    quorum: (i16, Option<VoterSet>),
    now_ms: i64,
) -> Result<(OffsetAndEpoch, u64), QuorumError> {
    let provenance = image.provenance;
    let id = OffsetAndEpoch { offset: provenance.last_offset + 1, epoch: provenance.last_epoch };
    let path = dir.join(file_name(id));
    let part = PathBuf::from(format!("{}.part", path.display()));
    let options = OpenOptions { truncate: true, ..OpenOptions::READ_WRITE };
    let file = File::open(&part, options).await?;
    let mut writer = Writer { file, position: 0, next_offset: 0, epoch: id.epoch, timestamp_ms: now_ms };
    let last_contained_log_timestamp = provenance.last_timestamp_ms.max(0);
    let mut header = vec![ControlRecord::SnapshotHeader { last_contained_log_timestamp }];
    let (kraft_version, voters) = quorum;
    if kraft_version > raft::KRAFT_VERSION_STATIC {
        header.push(ControlRecord::KraftVersion(kraft_version));
        header.extend(voters.map(ControlRecord::Voters));
    }
    writer.control(&header).await?;
    writer.image(image).await?;
    writer.control(&[ControlRecord::SnapshotFooter]).await?;
    writer.file.sync_all().await?;
    fs::rename(&part, &path).await?;
    fs::sync_dir(dir).await?;
    Ok((id, writer.position))
}

/// Append time of the last batch that a snapshot covers.
///
/// # Errors
/// When the file does not begin with a snapshot header.
pub(crate) async fn last_timestamp(path: &Path) -> Result<i64, QuorumError> {
    let corrupt = |reason: &str| QuorumError::Corrupt { path: path.to_owned(), reason: reason.to_owned() };
    let Scanned::Batch(batch) = BatchScan::open(path).await?.next().await? else {
        return Err(corrupt("it does not begin with a batch"));
    };
    let mut timestamp = None;
    let outcome = for_each_record(&batch, &mut Scratch::new(), |_, record| {
        if let LogRecord::Control(ControlRecord::SnapshotHeader { last_contained_log_timestamp }) = record {
            timestamp = Some(last_contained_log_timestamp);
        }
        Ok(())
    });
    outcome.map_err(|(_, reason)| corrupt(&reason))?;
    timestamp.ok_or_else(|| corrupt("it does not begin with a snapshot header"))
}
