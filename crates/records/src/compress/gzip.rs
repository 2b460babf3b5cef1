use super::{corrupt, failed};
use crate::{BatchError, BuildError, Codec};
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

const HEADER_BYTES: usize = 10;
const TRAILER_BYTES: usize = 8;
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

/// The inflater's tables, some 40 KiB.
#[derive(Default)]
pub(super) struct Context {
    inflate: Option<Decompress>,
}

impl Context {
    pub(super) fn stream<'a>(&'a mut self, input: &'a [u8]) -> Result<Stream<'a>, BatchError> {
        let mut input = input;
        skip_header(&mut input)?;
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(false));
        inflate.reset(false);
        Ok(Stream { inflate, input, crc: Crc::new(), state: State::Body })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Body,
    End,
}

/// Decompresses one or more members. What follows the last one and does not begin like another is ignored, as Java's
/// reader does.
pub struct Stream<'a> {
    inflate: &'a mut Decompress,
    input: &'a [u8],
    crc: Crc,
    state: State,
}

impl Stream<'_> {
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, BatchError> {
        while self.state == State::Body {
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let status =
                self.inflate.decompress(self.input, out, FlushDecompress::None).map_err(|e| corrupt(Codec::Gzip, e))?;
            let consumed = (self.inflate.total_in() - in_before) as usize;
            let produced = (self.inflate.total_out() - out_before) as usize;
            self.input = &self.input[consumed..];
            self.crc.update(&out[..produced]);
            if status == Status::StreamEnd {
                self.end_of_member()?;
            } else if consumed == 0 && produced == 0 {
                return Err(corrupt(Codec::Gzip, "the input ends too early"));
            }
            if produced > 0 {
                return Ok(produced);
            }
        }
        Ok(0)
    }

    fn end_of_member(&mut self) -> Result<(), BatchError> {
        let Some((trailer, rest)) = self.input.split_first_chunk::<TRAILER_BYTES>() else {
            return Err(corrupt(Codec::Gzip, "the input ends too early"));
        };
        let [a, b, c, d, e, f, g, h] = *trailer;
        if u32::from_le_bytes([a, b, c, d]) != self.crc.sum() {
            return Err(corrupt(Codec::Gzip, "checksum mismatch"));
        }
        if u32::from_le_bytes([e, f, g, h]) != self.crc.amount() {
            return Err(corrupt(Codec::Gzip, "length mismatch"));
        }
        self.input = rest;
        self.state = State::End;
        let mut next = rest;
        if rest.starts_with(&MAGIC) && skip_header(&mut next).is_ok() {
            self.input = next;
            self.inflate.reset(false);
            self.crc = Crc::new();
            self.state = State::Body;
        }
        Ok(())
    }
}

fn skip_header(input: &mut &[u8]) -> Result<(), BatchError> {
    let short = || corrupt(Codec::Gzip, "the header is cut off");
    let (header, mut rest) = input.split_first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
    if !header.starts_with(&MAGIC) {
        return Err(corrupt(Codec::Gzip, "not in gzip format"));
    }
    let flags = header[3];
    if flags & FLAG_EXTRA != 0 {
        let (len, tail) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        rest = tail.get(usize::from(u16::from_le_bytes(*len))..).ok_or_else(short)?;
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&b| b == 0).ok_or_else(short)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        let (stored, tail) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        let mut crc = Crc::new();
        crc.update(&input[..input.len() - rest.len()]);
        if u16::from_le_bytes(*stored) != crc.sum() as u16 {
            return Err(corrupt(Codec::Gzip, "header checksum mismatch"));
        }
        rest = tail;
    }
    *input = rest;
    Ok(())
}

/// Kafka's default is that of zlib, written -1 there.
const LEVEL_DEFAULT: u32 = 6;

pub(super) fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), BuildError> {
    let level = match level {
        None | Some(-1) => LEVEL_DEFAULT,
        Some(level) => level.clamp(1, 9) as u32,
    };
    // No name, no time, no system: the same records give the same bytes.
    out.extend_from_slice(&[MAGIC[0], MAGIC[1], MAGIC[2], 0, 0, 0, 0, 0, 0, 0]);
    let mut deflate = Compress::new(Compression::new(level), false);
    // Half of the input at first is what text needs; the vector doubles when that was too little.
    out.reserve(input.len() / 2 + 64);
    loop {
        let consumed = deflate.total_in() as usize;
        let status =
            deflate.compress_vec(&input[consumed..], out, FlushCompress::Finish).map_err(|e| failed(Codec::Gzip, e))?;
        match status {
            Status::StreamEnd => break,
            _ => out.reserve(out.capacity().max(64)),
        }
    }
    let mut crc = Crc::new();
    crc.update(input);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    Ok(())
}
