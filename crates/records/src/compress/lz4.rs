//! The LZ4 frame format as far as Kafka uses it: one frame of independent blocks.

use super::xxhash::xxhash32;
use super::{Block, corrupt};
use crate::{BatchError, BuildError, Codec};
use lz4_flex::block;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Flags Kafka writes: version 1, independent blocks.
const FLAGS: u8 = 0x60;
const FLAG_RESERVED: u8 = 0x03;
const FLAG_CONTENT_SIZE: u8 = 0x08;
const FLAG_BLOCK_CHECKSUM: u8 = 0x10;
const FLAGS_REQUIRED_MASK: u8 = 0xe0;
/// Block descriptor Kafka writes: blocks of at most 64 KiB.
const BLOCK_64K: u8 = 0x40;
const BLOCK_BYTES: usize = 64 << 10;
/// Set in a block's length when it is stored as it is.
const STORED: u32 = 1 << 31;
/// No byte of LZ4 makes more than 255 bytes of output, so a block need not get more room than this many times its size.
const RATIO_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Context {
    pub(super) block: Block,
}

impl Context {
    pub(super) fn stream<'a>(&'a mut self, input: &'a [u8]) -> Result<Stream<'a>, BatchError> {
        self.block.clear();
        let short = || corrupt(Codec::Lz4, "the frame header is cut off");
        let (magic, rest) = input.split_first_chunk::<4>().ok_or_else(short)?;
        if *magic != MAGIC {
            return Err(corrupt(Codec::Lz4, "not an LZ4 frame"));
        }
        let (&[flags, descriptor], _) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        if flags & FLAG_RESERVED != 0 {
            return Err(corrupt(Codec::Lz4, "reserved flags are set"));
        }
        // Java's reader, which is what most consumers use, knows no other frames; storing one would poison the topic.
        if flags & FLAGS_REQUIRED_MASK != FLAGS {
            return Err(corrupt(Codec::Lz4, "only version 1 with independent blocks is supported"));
        }
        if descriptor & 0x8f != 0 || descriptor >> 4 < 4 {
            return Err(corrupt(Codec::Lz4, format_args!("invalid block descriptor {descriptor:#04x}")));
        }
        let header_len = if flags & FLAG_CONTENT_SIZE != 0 { 10 } else { 2 };
        let (header, rest) = rest.split_at_checked(header_len).ok_or_else(short)?;
        let (&checksum, rest) = rest.split_first().ok_or_else(short)?;
        if checksum != (xxhash32(header) >> 8) as u8 {
            return Err(corrupt(Codec::Lz4, "frame header checksum mismatch"));
        }
        let block_bytes_max = 1usize << (2 * (descriptor >> 4) + 8);
        let checksums = flags & FLAG_BLOCK_CHECKSUM != 0;
        Ok(Stream { block: &mut self.block, input: rest, block_bytes_max, checksums, ended: false })
    }
}

/// Decompresses block by block.
pub struct Stream<'a> {
    block: &'a mut Block,
    input: &'a [u8],
    block_bytes_max: usize,
    checksums: bool,
    ended: bool,
}

impl Stream<'_> {
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, BatchError> {
        loop {
            let n = self.block.take(out);
            if n > 0 || self.ended {
                return Ok(n);
            }
            let n = self.next_block(out)?;
            if n > 0 {
                return Ok(n);
            }
        }
    }

    /// Decompresses the next block: into `out` if it fits there for sure, and returns its length; else into the buffer.
    fn next_block(&mut self, out: &mut [u8]) -> Result<usize, BatchError> {
        let short = || corrupt(Codec::Lz4, "the frame ends too early");
        let (&length, rest) = self.input.split_first_chunk::<4>().ok_or_else(short)?;
        let length = u32::from_le_bytes(length);
        let len = (length & !STORED) as usize;
        if len == 0 {
            // The end mark. A checksum of the content may follow; Java's reader does not look at it either.
            self.ended = true;
            return Ok(0);
        }
        if len > self.block_bytes_max {
            return Err(corrupt(Codec::Lz4, format_args!("a block of {len} bytes exceeds {}", self.block_bytes_max)));
        }
        let (data, rest) = rest.split_at_checked(len).ok_or_else(short)?;
        self.input = rest;
        if self.checksums {
            let (&stored, rest) = self.input.split_first_chunk::<4>().ok_or_else(short)?;
            if u32::from_le_bytes(stored) != xxhash32(data) {
                return Err(corrupt(Codec::Lz4, "block checksum mismatch"));
            }
            self.input = rest;
        }
        let room = if length & STORED != 0 { len } else { self.block_bytes_max.min(len * RATIO_MAX) };
        let direct = out.len() >= room;
        let target = if direct { &mut out[..room] } else { self.block.room(room) };
        let n = if length & STORED != 0 {
            target.copy_from_slice(data);
            len
        } else {
            block::decompress_into(data, target).map_err(|e| corrupt(Codec::Lz4, e))?
        };
        if direct {
            return Ok(n);
        }
        self.block.filled(n);
        Ok(0)
    }
}

pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), BuildError> {
    out.extend_from_slice(&MAGIC);
    let header = [FLAGS, BLOCK_64K];
    out.extend_from_slice(&header);
    out.push((xxhash32(&header) >> 8) as u8);
    for block in input.chunks(BLOCK_BYTES) {
        let at = out.len();
        let start = at + 4;
        out.resize(start + block::get_maximum_output_size(block.len()), 0);
        let compressed = block::compress_into(block, &mut out[start..]).unwrap_or(usize::MAX);
        let length = if compressed < block.len() {
            out.truncate(start + compressed);
            compressed as u32
        } else {
            out.truncate(start);
            out.extend_from_slice(block);
            block.len() as u32 | STORED
        };
        out[at..start].copy_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}
