//! Clears a partition's directory of what earlier runs left unfinished.

use std::path::Path;

use base::Offset;
use reactor::fs::{self, File, OpenOptions};

use crate::LogError;
use crate::format::names;
use crate::io::{Context, remove_if_there};
use crate::scan::{Check, Window, scan};

/// The files that count.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Base offsets of the segments, sorted.
    pub bases: Vec<Offset>,
    /// Offsets of the producer snapshots, sorted.
    pub snapshots: Vec<Offset>,
}

const SIDE_FILES: [&str; 3] = [names::INDEX, names::TIME_INDEX, names::TXN_INDEX];

/// Removes what was about to be deleted and what compaction did not complete, completes what it did, and lists the rest.
pub(crate) async fn tidy(dir: &Path) -> Result<Files, LogError> {
    let mut files = Files::default();
    let (mut side_files, mut cleaned, mut swaps) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).await.context("list", dir)? {
        let Some(file) = names::parse_segment_file(&entry.name) else { continue };
        match (file.suffix, file.extension) {
            (Some(names::DELETED), _) => remove_if_there(&dir.join(&entry.name)).await?,
            (Some(names::CLEANED), _) => cleaned.push((file.offset, entry.name.clone())),
            (Some(names::SWAP), extension) => swaps.push((file.offset, extension == names::LOG, entry.name.clone())),
            (Some(_), _) => {}
            (None, names::LOG) => files.bases.push(file.offset),
            (None, names::SNAPSHOT) => files.snapshots.push(file.offset),
            (None, _) => side_files.push((file.offset, entry.name.clone())),
        }
    }
    // A cleaned file that is still there says that the swap it belongs to was not complete: the originals count.
    if let Some(first) = cleaned.iter().map(|(offset, _)| *offset).min() {
        for (offset, _, name) in &swaps {
            if *offset >= first {
                remove_if_there(&dir.join(name)).await?;
            }
        }
        swaps.retain(|(offset, _, _)| *offset < first);
    }
    for (_, name) in cleaned {
        remove_if_there(&dir.join(name)).await?;
    }
    if !swaps.is_empty() {
        complete_swaps(dir, &mut files, swaps).await?;
    }
    files.bases.sort_unstable();
    files.bases.dedup();
    files.snapshots.sort_unstable();
    for (offset, name) in side_files {
        if files.bases.binary_search(&offset).is_err() {
            remove_if_there(&dir.join(name)).await?;
        }
    }
    Ok(files)
}

/// Puts compacted segments in the place of those they were made from.
async fn complete_swaps(dir: &Path, files: &mut Files, swaps: Vec<(Offset, bool, String)>) -> Result<(), LogError> {
    let (mut first, mut end) = (Offset::MAX, Offset::MIN);
    for (base, _, name) in swaps.iter().filter(|(_, is_log, _)| *is_log) {
        let path = dir.join(name);
        let file = File::open(&path, OpenOptions::READ).await.context("open", &path)?;
        let size = file.size().context("stat", &path)?;
        let found = scan(&mut Window::new(&file, &path, size), 0, *base, Check::Headers, |_| {}).await?;
        first = first.min(*base);
        end = end.max(found.offset);
    }
    for base in files.bases.extract_if(.., |base| (first..end).contains(base)) {
        remove_if_there(&dir.join(names::segment_file(base, names::LOG))).await?;
        for extension in SIDE_FILES {
            remove_if_there(&dir.join(names::segment_file(base, extension))).await?;
        }
    }
    for (base, is_log, name) in swaps {
        let target = name.strip_suffix(".swap").unwrap_or(&name);
        fs::rename(dir.join(&name), dir.join(target)).await.context("rename", &dir.join(&name))?;
        if is_log {
            files.bases.push(base);
        }
    }
    fs::sync_dir(dir).await.context("sync", dir)
}
