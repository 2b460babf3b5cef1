//! Cutting a byte stream into frames, without a socket: four bytes of length, then that many bytes.
//!
//! Frames that fit into the read chunk are cut out of it; a longer frame gets a buffer of its own of exactly its length,
//! into which the socket is read directly. In both cases the frame is handed out as [`Bytes`], so record bytes inside it
//! stay a slice of the buffer the kernel wrote to.

use bytes::{Buf, Bytes, BytesMut};

/// Length prefix of a frame, in bytes.
const PREFIX_BYTES: usize = 4;

/// First size of a connection's read chunk: an idle connection holds no more than this, and most of what idle ones send, a
/// heartbeat or a fetch in a session, fits in.
pub(crate) const CHUNK_BYTES_MIN: usize = 512;

/// Largest read chunk: enough that a busy pipelining client is served with few receives, small enough that what a
/// connection holds beyond its admitted frames does not matter.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Why a connection's bytes cannot be cut into frames; the connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is negative.
    #[error("frame length {0} is negative")]
    Negative(i32),
    /// The length is above `socket.request.max.bytes`.
    #[error("frame length {len} is above socket.request.max.bytes {max}")]
    TooLarge {
        /// What the prefix said, in bytes.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
}

/// What the reader needs next.
#[derive(PartialEq, Eq, Debug)]
pub enum Progress {
    /// More bytes from the socket.
    More,
    /// Permission to take in a frame of this many bytes; call [`FrameReader::admit`] when it is granted.
    Admit(usize),
    /// One whole frame without its prefix.
    Frame(Bytes),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Prefix,
    Asking { len: usize },
    Body { len: usize },
}

/// The state machine of one connection's incoming side.
#[derive(Debug)]
pub struct FrameReader {
    buf: BytesMut,
    state: State,
    frame_bytes_max: usize,
    chunk_bytes: usize,
}

impl FrameReader {
    /// A reader that refuses frames above `frame_bytes_max` bytes (`socket.request.max.bytes`).
    pub fn new(frame_bytes_max: usize) -> FrameReader {
        FrameReader { buf: BytesMut::new(), state: State::Prefix, frame_bytes_max, chunk_bytes: CHUNK_BYTES_MIN }
    }

    /// True when a frame was begun and is not complete: the peer owes bytes.
    pub fn mid_frame(&self) -> bool {
        self.state != State::Prefix || !self.buf.is_empty()
    }

    /// Moves on with the bytes received so far.
    ///
    /// # Errors
    /// [`FrameError`] when the length prefix cannot be served.
    pub fn advance(&mut self) -> Result<Progress, FrameError> {
        if self.state == State::Prefix {
            if self.buf.len() < PREFIX_BYTES {
                return Ok(Progress::More);
            }
            let len = self.buf.get_i32();
            let size = usize::try_from(len).map_err(|_| FrameError::Negative(len))?;
            if size > self.frame_bytes_max {
                return Err(FrameError::TooLarge { len: size, max: self.frame_bytes_max });
            }
            self.state = State::Asking { len: size };
        }
        match self.state {
            State::Asking { len } => Ok(Progress::Admit(len)),
            State::Body { len } if self.buf.len() >= len => {
                let frame = self.buf.split_to(len).freeze();
                self.state = State::Prefix;
                Ok(Progress::Frame(frame))
            }
            _ => Ok(Progress::More),
        }
    }

    /// The frame that [`Progress::Admit`] asked for may be taken in.
    pub fn admit(&mut self) {
        let State::Asking { len } = self.state else {
            panic!("admit without a question: state {:?}", self.state);
        };
        self.state = State::Body { len };
        if self.buf.len() < len && self.buf.capacity() < len {
            // The address space is taken at once, the memory only page by page as bytes arrive.
            let mut body = BytesMut::with_capacity(len);
            body.extend_from_slice(&self.buf);
            self.buf = body;
        }
    }

    /// Lends the buffer for a receive into its spare capacity, of which there is some.
    pub fn lend(&mut self) -> BytesMut {
        let mut buf = std::mem::take(&mut self.buf);
        match self.state {
            State::Body { len } if buf.len() < len && buf.capacity() >= len => {}
            _ => {
                if buf.capacity() - buf.len() < self.chunk_bytes / 2 {
                    buf.reserve(self.chunk_bytes);
                }
            }
        }
        debug_assert!(buf.capacity() > buf.len());
        buf
    }

    /// The connection has fallen idle: a large buffer is let go of, unless it holds part of a frame.
    pub fn slim(&mut self) {
        self.chunk_bytes = CHUNK_BYTES_MIN;
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
    }

    /// Takes the buffer back after a receive that added `received` bytes to it.
    pub fn give_back(&mut self, buf: BytesMut, received: usize) {
        if buf.len() == buf.capacity() && received >= self.chunk_bytes / 2 {
            self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX);
        } else if received < self.chunk_bytes / 8 {
            self.chunk_bytes = (self.chunk_bytes / 2).max(CHUNK_BYTES_MIN);
        }
        self.buf = buf;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;
    use bytes::BufMut;

    const MAX: usize = 1 << 20;

    /// Feeds `stream` in pieces of at most `piece` bytes and returns the frames cut from it.
    fn cut(stream: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<Bytes>, Option<FrameError>) {
        let mut reader = FrameReader::new(MAX);
        let (mut frames, mut at) = (Vec::new(), 0);
        loop {
            match reader.advance() {
                Err(error) => return (frames, Some(error)),
                Ok(Progress::Frame(frame)) => frames.push(frame),
                Ok(Progress::Admit(_)) => reader.admit(),
                Ok(Progress::More) if at == stream.len() => return (frames, None),
                Ok(Progress::More) => {
                    let mut buf = reader.lend();
                    let spare = buf.capacity() - buf.len();
                    let n = piece().min(stream.len() - at).min(spare);
                    buf.put_slice(&stream[at..at + n]);
                    at += n;
                    reader.give_back(buf, n);
                }
            }
        }
    }

    fn framed(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for body in bodies {
            out.put_i32(body.len() as i32);
            out.put_slice(body);
        }
        out
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let sizes = [0, 1, 30, 4096, 70_000, 300_000];
            let bodies: Vec<Vec<u8>> = (0..prng.below(12))
                .map(|_| {
                    let size = sizes[prng.below(6) as usize] + prng.below(5) as usize;
                    (0..size).map(|_| prng.next_u64() as u8).collect()
                })
                .collect();
            let top = [1, 7, 5000, 100_000][prng.below(4) as usize];
            if top < 5000 && bodies.iter().any(|b| b.len() > 100_000) {
                continue;
            }
            let (frames, error) = cut(&framed(&bodies), || 1 + prng.below(top) as usize);
            assert_eq!(error, None, "seed {seed}");
            assert_eq!(frames.len(), bodies.len(), "seed {seed}");
            assert!(frames.iter().zip(&bodies).all(|(f, b)| f[..] == b[..]), "seed {seed}");
        }
    }

    #[test]
    fn lying_lengths_are_refused_before_anything_is_allocated() {
        let cases = [(-1, FrameError::Negative(-1)), (i32::MIN, FrameError::Negative(i32::MIN))];
        for (len, expect) in cases {
            assert_eq!(cut(&len.to_be_bytes(), || 4).1, Some(expect));
        }
        let len = MAX + 1;
        assert_eq!(cut(&(len as i32).to_be_bytes(), || 4).1, Some(FrameError::TooLarge { len, max: MAX }));
        assert_eq!(cut(&(MAX as i32).to_be_bytes(), || 4).1, None, "the limit itself is allowed");
    }

    #[test]
    fn a_large_frame_is_read_into_a_buffer_of_its_own() {
        let mut reader = FrameReader::new(MAX);
        let mut buf = reader.lend();
        buf.put_i32(500_000);
        reader.give_back(buf, 4);
        assert_eq!(reader.advance(), Ok(Progress::Admit(500_000)));
        assert!(reader.mid_frame());
        reader.admit();
        let buf = reader.lend();
        assert!(buf.is_empty() && buf.capacity() >= 500_000);
    }

    #[test]
    fn the_chunk_follows_the_traffic_and_stays_bounded() {
        let mut reader = FrameReader::new(MAX);
        for _ in 0..10 {
            let mut buf = reader.lend();
            let spare = buf.capacity() - buf.len();
            buf.put_bytes(0, spare);
            reader.give_back(buf, spare);
            while let Ok(progress) = reader.advance() {
                match progress {
                    Progress::Admit(_) => reader.admit(),
                    Progress::Frame(_) => {}
                    Progress::More => break,
                }
            }
        }
        assert_eq!(reader.chunk_bytes, CHUNK_BYTES_MAX);
        for _ in 0..10 {
            let buf = reader.lend();
            reader.give_back(buf, 0);
        }
        assert_eq!(reader.chunk_bytes, CHUNK_BYTES_MIN);
    }
}
