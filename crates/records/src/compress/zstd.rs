use super::{corrupt, failed};
use crate::{BatchError, BuildError, Codec};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Kafka's default.
const LEVEL_DEFAULT: i32 = 3;
const LEVEL_MIN: i32 = -131_072;
const LEVEL_MAX: i32 = 22;
/// The largest window a frame may ask for, as a power of two: the library's own limit, which level 22 needs and Java's
/// reader has too.
const WINDOW_LOG_MAX: u32 = 27;
/// Decoders that had to make a larger window than this are not kept. Level 19 and below need no more.
const WINDOW_BYTES_KEPT: u64 = 8 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[derive(Default)]
pub(super) struct Context {
    decoder: Option<Decoder<'static>>,
    /// The decoder made a window larger than is worth keeping.
    oversized: bool,
}

impl Context {
    pub(super) fn stream<'a>(&'a mut self, input: &'a [u8]) -> Result<Stream<'a>, BatchError> {
        if std::mem::take(&mut self.oversized) {
            self.decoder = None;
        }
        match &mut self.decoder {
            Some(decoder) => decoder.reinit().map_err(|e| corrupt(Codec::Zstd, e))?,
            none => {
                let mut decoder = Decoder::new().map_err(|e| corrupt(Codec::Zstd, e))?;
                decoder
                    .set_parameter(zstd::stream::raw::DParameter::WindowLogMax(WINDOW_LOG_MAX))
                    .map_err(|e| corrupt(Codec::Zstd, e))?;
                *none = Some(decoder);
            }
        }
        Ok(Stream { context: self, input, in_frame: false })
    }
}

/// Decompresses one or more frames.
pub struct Stream<'a> {
    context: &'a mut Context,
    input: &'a [u8],
    in_frame: bool,
}

impl Stream<'_> {
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, BatchError> {
        loop {
            if !self.in_frame {
                if self.input.is_empty() {
                    return Ok(0);
                }
                self.context.oversized |= window_bytes(self.input).is_none_or(|w| w > WINDOW_BYTES_KEPT);
            }
            let mut from = InBuffer::around(self.input);
            let mut to = OutBuffer::around(out);
            let Some(decoder) = &mut self.context.decoder else {
                return Err(corrupt(Codec::Zstd, "no decoder"));
            };
            let hint = decoder.run(&mut from, &mut to).map_err(|e| corrupt(Codec::Zstd, e))?;
            let (consumed, produced) = (from.pos(), to.pos());
            self.input = &self.input[consumed..];
            // A hint of 0 is the end of a frame that has been handed out in full.
            self.in_frame = hint != 0;
            if produced > 0 {
                return Ok(produced);
            }
            if self.in_frame && consumed == 0 {
                return Err(corrupt(Codec::Zstd, "the frame ends too early"));
            }
        }
    }
}

/// The window the frame at the start of `input` asks for in bytes; `None` when there is no header of a frame.
fn window_bytes(input: &[u8]) -> Option<u64> {
    let header = input.strip_prefix(&MAGIC)?;
    let descriptor = *header.first()?;
    let single_segment = descriptor & 0x20 != 0;
    if !single_segment {
        let window = *header.get(1)?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The content is the window; its size stands behind the dictionary id.
    let at = 1 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut bytes = [0u8; 8];
    bytes[..size].copy_from_slice(header.get(at..at + size)?);
    Some(u64::from_le_bytes(bytes))
}

pub(super) fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), BuildError> {
    let level = level.unwrap_or(LEVEL_DEFAULT).clamp(LEVEL_MIN, LEVEL_MAX);
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(input.len()), 0);
    let n = zstd::bulk::Compressor::new(level)
        .and_then(|mut c| c.compress_to_buffer(input, &mut out[start..]))
        .map_err(|e| failed(Codec::Zstd, e))?;
    out.truncate(start + n);
    Ok(())
}
