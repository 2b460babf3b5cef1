//! Snappy blocks as snappy-java frames them: a 16-byte header, then blocks of at most 32 KiB with their length in front.
//! Some producers send one bare block instead; it is read too, as Java's reader does.

use super::{Block, corrupt, failed};
use crate::{BatchError, BuildError, Codec};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_BYTES: usize = 16;
/// Version of the framing, and the oldest that can read it.
const VERSION: u32 = 1;
/// What snappy-java puts into one block by default.
const BLOCK_BYTES: usize = 32 << 10;
/// No three bytes of Snappy make more than 64 bytes of output (a copy of the longest kind), so a block that claims more
/// than this many times its size lies.
const RATIO_MAX: usize = 22;

#[derive(Default)]
pub(super) struct Context {
    pub(super) block: Block,
}

impl Context {
    pub(super) fn stream<'a>(&'a mut self, input: &'a [u8]) -> Result<Stream<'a>, BatchError> {
        self.block.clear();
        if input.is_empty() {
            return Err(corrupt(Codec::Snappy, "the input is empty"));
        }
        if input.len() < HEADER_BYTES || !input.starts_with(&MAGIC) {
            decompress_block(input, &mut [], &mut self.block)?;
            return Ok(Stream { block: &mut self.block, input: &[] });
        }
        check_version(input)?;
        Ok(Stream { block: &mut self.block, input: &input[HEADER_BYTES..] })
    }
}

fn check_version(header: &[u8]) -> Result<(), BatchError> {
    let version = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if (version as i32) < VERSION as i32 {
        return Err(corrupt(Codec::Snappy, format_args!("framing version {version} is not supported")));
    }
    Ok(())
}

/// Decompresses one block: into `out` if it fits there, and returns its length; else into `block`.
fn decompress_block(input: &[u8], out: &mut [u8], block: &mut Block) -> Result<usize, BatchError> {
    let len = snap::raw::decompress_len(input).map_err(|e| corrupt(Codec::Snappy, e))?;
    if len > input.len().saturating_mul(RATIO_MAX) {
        return Err(corrupt(Codec::Snappy, format_args!("{} bytes cannot hold a block of {len}", input.len())));
    }
    let direct = out.len() >= len;
    let target = if direct { &mut out[..len] } else { block.room(len) };
    let n = snap::raw::Decoder::new().decompress(input, target).map_err(|e| corrupt(Codec::Snappy, e))?;
    if direct {
        return Ok(n);
    }
    block.filled(n);
    Ok(0)
}

/// Decompresses block by block.
pub struct Stream<'a> {
    block: &'a mut Block,
    input: &'a [u8],
}

impl<'a> Stream<'a> {
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, BatchError> {
        loop {
            let n = self.block.take(out);
            if n > 0 {
                return Ok(n);
            }
            let Some(chunk) = self.next_block()? else { return Ok(0) };
            let n = decompress_block(chunk, out, self.block)?;
            if n > 0 {
                return Ok(n);
            }
        }
    }

    /// The next block; none at the end, which is also where less than a length is left.
    fn next_block(&mut self) -> Result<Option<&'a [u8]>, BatchError> {
        while let Some((&length, rest)) = self.input.split_first_chunk::<4>() {
            if length == MAGIC[..4] {
                // Another stream may follow, header and all.
                if self.input.len() < HEADER_BYTES {
                    return Err(corrupt(Codec::Snappy, "the header is cut off"));
                }
                if !self.input.starts_with(&MAGIC) {
                    return Ok(None);
                }
                check_version(self.input)?;
                self.input = &self.input[HEADER_BYTES..];
                continue;
            }
            let Ok(len) = usize::try_from(i32::from_be_bytes(length)) else {
                return Err(corrupt(Codec::Snappy, "negative block length"));
            };
            let Some((chunk, rest)) = rest.split_at_checked(len) else {
                return Err(corrupt(Codec::Snappy, "a block is cut off"));
            };
            self.input = rest;
            return Ok(Some(chunk));
        }
        Ok(None)
    }
}

pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), BuildError> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&VERSION.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(BLOCK_BYTES) {
        let at = out.len();
        let start = at + 4;
        out.resize(start + snap::raw::max_compress_len(block.len()), 0);
        let n = encoder.compress(block, &mut out[start..]).map_err(|e| failed(Codec::Snappy, e))?;
        out[at..start].copy_from_slice(&(n as u32).to_be_bytes());
        out.truncate(start + n);
    }
    Ok(())
}
