use bytes::Bytes;

/// Record bytes in a message. They are never looked at here and never copied: decoding gives a slice that shares the
/// frame, encoding passes them on as segments.
///
/// The tag has the size of a word because values of this type are moved all the time: with a tag of one byte the compiler
/// copies the rest in pieces across word borders, which makes reading a Produce request half as fast.
#[derive(Clone, PartialEq, Debug)]
#[repr(usize)]
pub enum Records {
    /// One piece; what decoding gives.
    Bytes(Bytes),
    /// Several pieces that follow one another, for instance batches of a tail cache.
    Chain(Vec<Bytes>),
    /// Bytes that stay in a file until they are sent. The net layer knows what the token stands for.
    External {
        /// Number of bytes.
        len: u32,
        /// Names the bytes to the net layer.
        token: u32,
    },
}

impl Records {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Records::Bytes(bytes) => bytes.len(),
            Records::Chain(pieces) => pieces.iter().map(Bytes::len).sum(),
            Records::External { len, .. } => *len as usize,
        }
    }

    /// True when there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A piece of an encoded message; the pieces are sent one after the other.
#[derive(Clone, PartialEq, Debug)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes that the net layer moves from a file to the socket.
    External {
        /// Number of bytes.
        len: u32,
        /// Names the bytes to the net layer.
        token: u32,
    },
}

impl Segment {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Segment::Bytes(bytes) => bytes.len(),
            Segment::External { len, .. } => *len as usize,
        }
    }

    /// True when there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
