//! Batches of a file, one after the other, without holding the file in memory.

use std::io;
use std::path::Path;

use bytes::Bytes;
use reactor::fs::{File, OpenOptions};
use records::{Batch, BatchHeader, field};

use crate::batches::BATCH_BYTES_MAX;

/// Bytes read at a time: large enough that a read costs little, small enough to keep many.
const READ_BYTES: usize = 256 << 10;

/// Reads batches from the start of a file.
pub(crate) struct BatchScan {
    file: File,
    size: u64,
    /// Position of `window` in the file.
    at: u64,
    window: Bytes,
}

/// What stands at the scan's position.
pub(crate) enum Scanned {
    /// A whole batch with the right checksum.
    Batch(Batch),
    /// The end of the file.
    End,
    /// Something that is no batch.
    Bad(String),
}

impl BatchScan {
    /// A scan over the file at `path`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) async fn open(path: &Path) -> io::Result<BatchScan> {
        let file = File::open(path, OpenOptions::READ).await?;
        let size = file.size()?;
        Ok(BatchScan { file, size, at: 0, window: Bytes::new() })
    }

    /// Position of the next batch.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// The next batch; does not move past something bad.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) async fn next(&mut self) -> io::Result<Scanned> {
        if self.at == self.size {
            return Ok(Scanned::End);
        }
        let left = self.size - self.at;
        if left < field::RECORDS as u64 {
            return Ok(Scanned::Bad(format!("{left} bytes are less than a batch header")));
        }
        self.fill(field::RECORDS).await?;
        let header = match BatchHeader::parse(&self.window) {
            Ok(header) => header,
            Err(error) => return Ok(Scanned::Bad(error.to_string())),
        };
        let size = header.size();
        if size as u64 > left {
            return Ok(Scanned::Bad(format!("a batch of {size} bytes is cut off after {left}")));
        }
        // Kafka checks the bound when it writes; leave room for what other software may have counted otherwise.
        if size > 2 * BATCH_BYTES_MAX {
            return Ok(Scanned::Bad(format!("a batch of {size} bytes is larger than any reader accepts")));
        }
        self.fill(size).await?;
        let batch = match Batch::parse(&self.window) {
            Ok(batch) => batch,
            Err(error) => return Ok(Scanned::Bad(error.to_string())),
        };
        if let Err(error) = batch.verify_crc() {
            return Ok(Scanned::Bad(error.to_string()));
        }
        self.window = self.window.slice(size..);
        self.at += size as u64;
        Ok(Scanned::Batch(batch))
    }

    /// Makes the window at least `wanted` bytes long; the file is that long.
    async fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.window.len() >= wanted {
            return Ok(());
        }
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let length = wanted.max(READ_BYTES).min(left);
        let (result, bytes) = self.file.read_exact_at(Vec::with_capacity(length), self.at, length).await;
        result?;
        self.window = Bytes::from(bytes);
        Ok(())
    }
}
