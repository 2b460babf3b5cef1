use crate::header::{crc_of, field};
use crate::{BatchError, BatchHeader, Codec, Decompressor, RecordIter};
use bytes::Bytes;

/// A whole batch: the decoded header and its bytes, a reference-counted slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The decoded header.
    pub header: BatchHeader,
    /// The whole batch, header included.
    pub bytes: Bytes,
}

impl Batch {
    /// The batch at the start of `bytes`; what follows it is not looked at. The checksum is not verified.
    ///
    /// # Errors
    /// As [`BatchHeader::parse`]; [`BatchError::Truncated`] when the batch is longer than `bytes`.
    pub fn parse(bytes: &Bytes) -> Result<Batch, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let need = header.size();
        if bytes.len() < need {
            return Err(BatchError::Truncated { have: bytes.len(), need });
        }
        Ok(Batch { header, bytes: bytes.slice(..need) })
    }

    /// Compares the stored checksum with the bytes.
    ///
    /// # Errors
    /// [`BatchError::Crc`].
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        let computed = crc_of(&self.bytes);
        if computed == self.header.crc {
            return Ok(());
        }
        Err(BatchError::Crc { stored: self.header.crc, computed })
    }

    /// The records, checked one by one as the iterator gets to them: borrowed from the batch, or from `scratch` when the
    /// batch is compressed, in which case they are decompressed now, to at most `limit` bytes.
    ///
    /// # Errors
    /// [`BatchError::Codec`], [`BatchError::Compression`] or [`BatchError::TooLarge`].
    pub fn records<'a>(&'a self, scratch: &'a mut Scratch, limit: usize) -> Result<RecordIter<'a>, BatchError> {
        let codec = self.header.attributes.codec()?;
        if codec == Codec::None {
            return Ok(RecordIter::new(&self.header, self.payload()));
        }
        // A batch without records has no payload to decompress, whatever its codec bits say.
        if self.header.record_count == 0 && self.payload().is_empty() {
            return Ok(RecordIter::new(&self.header, &[]));
        }
        scratch.reset();
        scratch.decompressor.decompress(codec, self.payload(), &mut scratch.buffer, limit)?;
        Ok(RecordIter::new(&self.header, &scratch.buffer))
    }

    /// What follows the header, compressed or not.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[field::RECORDS..]
    }
}

/// A decompressor and room for what it makes; keep one per core.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) decompressor: Decompressor,
    pub(crate) buffer: Vec<u8>,
    pub(crate) window: Vec<u8>,
}

/// A scratch buffer above this size is given back at the next use.
const SCRATCH_BYTES_KEPT: usize = 4 << 20;

impl Scratch {
    /// An empty one.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Bytes of the buffers held at the moment, beside the codecs' own tables.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity() + self.window.capacity() + self.decompressor.held_bytes()
    }

    pub(crate) fn reset(&mut self) {
        self.buffer.clear();
        if self.buffer.capacity() > SCRATCH_BYTES_KEPT {
            self.buffer = Vec::new();
        }
    }
}

/// Iterator over concatenated batches, as they lie in a segment, a produce request or a fetch response. The first error
/// ends it. A cut-off batch at the end is [`BatchError::Truncated`]; [`BatchIter::position`] tells where it begins.
#[derive(Clone, Debug)]
pub struct BatchIter {
    bytes: Bytes,
    position: usize,
    failed: bool,
}

impl BatchIter {
    /// Over `bytes`, from their start.
    pub fn new(bytes: Bytes) -> BatchIter {
        BatchIter { bytes, position: 0, failed: false }
    }

    /// Bytes up to the end of the last batch returned.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl Iterator for BatchIter {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Result<Batch, BatchError>> {
        if self.failed || self.position == self.bytes.len() {
            return None;
        }
        let batch = Batch::parse(&self.bytes.slice(self.position..));
        match &batch {
            Ok(batch) => self.position += batch.bytes.len(),
            Err(_) => self.failed = true,
        }
        Some(batch)
    }
}
