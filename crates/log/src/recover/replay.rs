//! Tells the partition's brain what it has to know of the batches: the newest usable producer snapshot, then every batch
//! behind it.

use base::Offset;
use reactor::fs::{File, OpenOptions};

use super::last_indexed_below;
use super::load::Loader;
use super::tidy::Files;
use crate::format::{index, names, snapshot};
use crate::io::{Context, read_if_there, remove_if_there, write_file};
use crate::scan::{Check, Window, scan};
use crate::segment::Stage;
use crate::{LogError, ProducerEntry, RecoverySink};

impl Loader<'_> {
    pub async fn replay(&mut self, files: &Files, start: Offset, sink: &mut dyn RecoverySink) -> Result<(), LogError> {
        let end = self.segments.back().expect("a log has a segment").end;
        // Transaction indexes that are made anew need the producers' state at the begin of their segment.
        let bound = self.rebuilt_from.map_or(end, |base| base.min(end));
        let mut from = start;
        if let Some((offset, entries)) = self.newest_snapshot(files, bound, end).await? {
            sink.producer_snapshot(offset, entries);
            from = from.max(offset);
        }
        for i in 0..self.segments.len() {
            if self.segments[i].end > from {
                self.replay_segment(i, from, sink).await?;
            }
        }
        Ok(())
    }

    /// The newest readable snapshot at or before `bound`. Snapshots behind the end of the log and unreadable ones go.
    async fn newest_snapshot(
        &self,
        files: &Files,
        bound: Offset,
        end: Offset,
    ) -> Result<Option<(Offset, Vec<ProducerEntry>)>, LogError> {
        let mut newest = None;
        for &offset in files.snapshots.iter().rev() {
            let path = self.path(offset, names::SNAPSHOT);
            if offset > end {
                remove_if_there(&path).await?;
                continue;
            }
            if offset > bound || newest.is_some() {
                continue;
            }
            let bytes = read_if_there(&path).await?.unwrap_or_default();
            match snapshot::parse(&bytes) {
                Ok(entries) => newest = Some((offset, entries)),
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "the snapshot is damaged and is not used");
                    remove_if_there(&path).await?;
                }
            }
        }
        Ok(newest)
    }

    async fn replay_segment(&mut self, i: usize, from: Offset, sink: &mut dyn RecoverySink) -> Result<(), LogError> {
        let (base, size) = (self.segments[i].base, self.segments[i].size());
        let rebuilt = self.rebuilt_from.is_some_and(|rebuilt| base >= rebuilt);
        let path = self.path(base, names::LOG);
        let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
        let position = if from <= base {
            0
        } else if self.segments[i].stage == Stage::Complete && !rebuilt {
            last_indexed_below(self.dir, base, size, from).await?
        } else {
            self.segments[i].index.last_below(from - base).map_or(0, |entry| entry.position as u64)
        };
        let mut aborted = Vec::new();
        let mut window = Window::new(&file, &path, size);
        let found = scan(&mut window, position, base, Check::Headers, |scanned| {
            if scanned.header.next_offset() > from {
                aborted.extend(sink.batch(&scanned.header, scanned.control));
            }
        })
        .await?;
        if let Some(reason) = found.stop {
            let (log, at) = (self.name, found.position);
            tracing::error!(log, segment = base, at, reason, "a segment that was believed is damaged");
        }
        if rebuilt {
            let segment = &mut self.segments[i];
            if segment.stage == Stage::Complete {
                let txn_path = self.path(base, names::TXN_INDEX);
                if aborted.is_empty() {
                    remove_if_there(&txn_path).await?;
                } else {
                    write_file(&txn_path, index::write_txns(&aborted)).await?;
                }
            } else {
                segment.txns = aborted;
            }
        }
        Ok(())
    }
}
