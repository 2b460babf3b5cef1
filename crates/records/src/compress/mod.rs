//! The four codecs, in the framings Kafka's clients write and read.
//!
//! Decompression is a stream: bytes appear as they are asked for, so that a batch of which 1 MiB claims to be 10 GiB
//! costs no more memory than the caller's window. Compression works on whole buffers, as the broker builds whole batches.

mod gzip;
mod lz4;
mod snappy;
mod xxhash;
mod zstd;

use crate::{BatchError, BuildError, Codec};

/// The first chunk by which a buffer grows when the size of the result is unknown; later ones double.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// The largest chunk by which a buffer grows ahead of the bytes that come.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// What decompressing needs besides input and output. Keep one per core: the codecs' own tables are large, and are made
/// anew only when they have been blown up by an unusual batch.
#[derive(Default)]
pub struct Decompressor {
    gzip: gzip::Context,
    snappy: snappy::Context,
    lz4: lz4::Context,
    zstd: zstd::Context,
}

impl Decompressor {
    /// An empty one; each codec's tables are made at first use.
    pub fn new() -> Decompressor {
        Decompressor::default()
    }

    /// A stream over what `input` holds in compressed form.
    ///
    /// # Errors
    /// [`BatchError::Compression`] when its beginning is not what the codec expects.
    pub fn stream<'a>(&'a mut self, codec: Codec, input: &'a [u8]) -> Result<DecompressStream<'a>, BatchError> {
        Ok(match codec {
            Codec::None => DecompressStream::Plain(input),
            Codec::Gzip => DecompressStream::Gzip(self.gzip.stream(input)?),
            Codec::Snappy => DecompressStream::Snappy(self.snappy.stream(input)?),
            Codec::Lz4 => DecompressStream::Lz4(self.lz4.stream(input)?),
            Codec::Zstd => DecompressStream::Zstd(self.zstd.stream(input)?),
        })
    }

    /// Bytes of the buffers held at the moment, beside the codecs' own tables.
    pub(crate) fn held_bytes(&self) -> usize {
        self.snappy.block.bytes.capacity() + self.lz4.block.bytes.capacity()
    }

    /// Appends to `out` all that `input` holds, at most `limit` bytes.
    ///
    /// # Errors
    /// [`BatchError::Compression`] for corrupt input, [`BatchError::TooLarge`] for more than `limit` bytes. `out` then
    /// holds an unspecified part.
    pub fn decompress(
        &mut self,
        codec: Codec,
        input: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), BatchError> {
        let start = out.len();
        let mut stream = self.stream(codec, input)?;
        let mut chunk = CHUNK_BYTES_MIN;
        let mut filled = start;
        loop {
            // One byte of room past the limit tells "exactly the limit" from "more than the limit".
            let room = limit.saturating_sub(filled - start).saturating_add(1).min(chunk);
            out.resize(filled + room, 0);
            let n = stream.read(&mut out[filled..])?;
            filled += n;
            if n == 0 {
                out.truncate(filled);
                return Ok(());
            }
            if filled - start > limit {
                return Err(BatchError::TooLarge { limit });
            }
            if n == room {
                chunk = (chunk * 2).min(CHUNK_BYTES_MAX);
            }
        }
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

/// A stream of decompressed bytes.
pub enum DecompressStream<'a> {
    /// No codec: the input itself.
    Plain(&'a [u8]),
    /// RFC 1952.
    Gzip(gzip::Stream<'a>),
    /// Framed or raw Snappy.
    Snappy(snappy::Stream<'a>),
    /// An LZ4 frame.
    Lz4(lz4::Stream<'a>),
    /// Zstandard frames.
    Zstd(zstd::Stream<'a>),
}

impl DecompressStream<'_> {
    /// Fills the beginning of `out` and tells how much of it; 0 only at the end (or for an empty `out`).
    ///
    /// # Errors
    /// [`BatchError::Compression`].
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, BatchError> {
        if out.is_empty() {
            return Ok(0);
        }
        match self {
            DecompressStream::Plain(rest) => {
                let n = rest.len().min(out.len());
                out[..n].copy_from_slice(&rest[..n]);
                *rest = &rest[n..];
                Ok(n)
            }
            DecompressStream::Gzip(s) => s.read(out),
            DecompressStream::Snappy(s) => s.read(out),
            DecompressStream::Lz4(s) => s.read(out),
            DecompressStream::Zstd(s) => s.read(out),
        }
    }
}

impl std::fmt::Debug for DecompressStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DecompressStream")
    }
}

/// Appends the compressed form of `input` to `out`. `level` is in the codec's own scale and is brought into its range;
/// `None` is Kafka's default (gzip 6, LZ4 9, Zstandard 3). LZ4 has one compressor here, the fast one that is Kafka's
/// default, so its level changes nothing.
///
/// # Errors
/// [`BuildError::Compression`] when the codec's library fails, which it has no reason to.
pub fn compress(codec: Codec, level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), BuildError> {
    match codec {
        Codec::None => {
            out.extend_from_slice(input);
            Ok(())
        }
        Codec::Gzip => gzip::compress(level, input, out),
        Codec::Snappy => snappy::compress(input, out),
        Codec::Lz4 => lz4::compress(input, out),
        Codec::Zstd => zstd::compress(level, input, out),
    }
}

/// An error of `codec` while reading.
fn corrupt(codec: Codec, reason: impl std::fmt::Display) -> BatchError {
    BatchError::Compression { codec: codec.name(), reason: reason.to_string() }
}

/// An error of `codec` while writing.
fn failed(codec: Codec, reason: impl std::fmt::Display) -> BuildError {
    BuildError::Compression { codec: codec.name(), reason: reason.to_string() }
}

/// A block that was decompressed whole and is handed out in pieces.
#[derive(Default)]
struct Block {
    /// Only the first `len` bytes mean anything.
    bytes: Vec<u8>,
    len: usize,
    taken: usize,
}

/// Block buffers above this size are given back after the batch that needed them.
const BLOCK_BYTES_KEPT: usize = 256 << 10;

impl Block {
    fn clear(&mut self) {
        self.filled(0);
        if self.bytes.capacity() > BLOCK_BYTES_KEPT {
            self.bytes = Vec::new();
        }
    }

    /// Room for a block of up to `n` bytes, to be followed by [`Block::filled`].
    fn room(&mut self, n: usize) -> &mut [u8] {
        self.filled(0);
        if self.bytes.len() < n {
            self.bytes.resize(n, 0);
        }
        &mut self.bytes[..n]
    }

    fn filled(&mut self, len: usize) {
        self.len = len;
        self.taken = 0;
    }

    fn take(&mut self, out: &mut [u8]) -> usize {
        let n = out.len().min(self.len - self.taken);
        out[..n].copy_from_slice(&self.bytes[self.taken..self.taken + n]);
        self.taken += n;
        n
    }
}

#[cfg(test)]
mod tests;
