//! Reads a segment file batch by batch, trusting nothing but checksums.

use std::path::Path;

use base::Offset;
use reactor::fs::File;
use records::{BatchHeader, field};

use crate::LogError;
use crate::io::Context;

/// Bytes read at once.
const WINDOW_BYTES: usize = 1 << 20;
/// Control batches up to this size, in bytes, are shown whole; markers are under a hundred bytes.
const CONTROL_BYTES_MAX: usize = 64 << 10;

/// How a scan looks at batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// Compare every checksum.
    Crc,
    /// Look at headers only: the file was closed cleanly.
    Headers,
}

/// Where a scan ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScanEnd {
    /// Behind the last good batch.
    pub position: u64,
    /// Offset behind the last good batch.
    pub offset: Offset,
    /// Why the bytes behind are no batch; `None` at the end of the file.
    pub stop: Option<String>,
}

/// What a scan says of a batch.
pub(crate) struct Scanned<'a> {
    pub position: u64,
    pub header: BatchHeader,
    /// The whole batch, if it is a control batch.
    pub control: Option<&'a [u8]>,
}

/// A window that moves over a file.
pub(crate) struct Window<'a> {
    file: &'a File,
    path: &'a Path,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
    window_bytes: usize,
}

impl<'a> Window<'a> {
    /// Over `file` up to `end`.
    pub fn new(file: &'a File, path: &'a Path, end: u64) -> Window<'a> {
        Window::sized(file, path, end, WINDOW_BYTES)
    }

    /// As [`Window::new`], reading this many bytes at once.
    pub fn sized(file: &'a File, path: &'a Path, end: u64, window_bytes: usize) -> Window<'a> {
        Window { file, path, end, start: 0, bytes: Vec::new(), window_bytes }
    }

    /// Bytes from `position` on: at least `want`, or up to the end of the file.
    pub async fn at(&mut self, position: u64, want: usize) -> Result<&[u8], LogError> {
        let want = want.min(usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX));
        let held = self.start..self.start + self.bytes.len() as u64;
        if want == 0 {
            return Ok(&[]);
        }
        if !held.contains(&position) || position + want as u64 > held.end {
            let len = (self.window_bytes as u64).max(want as u64).min(self.end - position) as usize;
            let mut buf = std::mem::take(&mut self.bytes);
            buf.clear();
            buf.reserve(len);
            let (result, buf) = self.file.read_exact_at(buf, position, len).await;
            self.bytes = buf;
            self.start = position;
            result.context("read", self.path)?;
        }
        Ok(&self.bytes[(position - self.start) as usize..])
    }

    /// The CRC-32C of a range.
    async fn crc(&mut self, mut position: u64, end: u64) -> Result<u32, LogError> {
        let mut crc = 0;
        while position < end {
            let want = (end - position).min(self.window_bytes as u64) as usize;
            let bytes = self.at(position, want).await?;
            let bytes = &bytes[..want];
            crc = base::crc32c_append(crc, bytes);
            position += want as u64;
        }
        Ok(crc)
    }

    /// Header of the batch at `position`, or why there is none. The batch lies within the file and does not begin before
    /// `next`.
    pub async fn header(&mut self, position: u64, next: Offset) -> Result<Result<BatchHeader, String>, LogError> {
        let end = self.end;
        let bytes = self.at(position, field::RECORDS).await?;
        let header = match BatchHeader::parse(bytes) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let len = header.size() as u64;
        Ok(if position + len > end {
            Err(format!("a batch of {len} bytes ends {} bytes behind the file", position + len - end))
        } else if header.base_offset < next || header.last_offset_delta < 0 {
            let (base, delta) = (header.base_offset, header.last_offset_delta);
            Err(format!("a batch begins at offset {base} with delta {delta} where {next} was next"))
        } else {
            Ok(header)
        })
    }
}

/// Shows the batches of `file` from `position` on, whose first offset is at least `next`, until one is not good.
pub(crate) async fn scan(
    window: &mut Window<'_>,
    mut position: u64,
    mut next: Offset,
    check: Check,
    mut see: impl FnMut(Scanned<'_>),
) -> Result<ScanEnd, LogError> {
    loop {
        if position >= window.end {
            return Ok(ScanEnd { position, offset: next, stop: None });
        }
        let header = match window.header(position, next).await? {
            Ok(header) => header,
            Err(reason) => return Ok(ScanEnd { position, offset: next, stop: Some(reason) }),
        };
        let end = position + header.size() as u64;
        if check == Check::Crc {
            let computed = window.crc(position + field::ATTRIBUTES as u64, end).await?;
            if computed != header.crc {
                let reason = format!("checksum {:#010x} is stored, {computed:#010x} computed", header.crc);
                return Ok(ScanEnd { position, offset: next, stop: Some(reason) });
            }
        }
        let control = if header.is_control() && header.size() <= CONTROL_BYTES_MAX {
            Some(&window.at(position, header.size()).await?[..header.size()])
        } else {
            None
        };
        see(Scanned { position, header, control });
        position = end;
        next = header.next_offset();
    }
}
