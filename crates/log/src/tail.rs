//! The bytes of a segment that are in memory: those not written yet, and recent ones for readers.
//!
//! Chunks lie end to end and begin on block boundaries of the file, so that any run of whole blocks can be written from
//! where it is. The last, partial block is always in memory, since the next write has to contain it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

use base::Offset;
use bytes::Bytes;
use reactor::{ALIGNMENT, AlignedBuf, AppendBuf, Pinned};

/// The smallest chunk, in bytes: what a partition of little traffic occupies.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// The largest chunk, in bytes: small enough that the one that each of a few hundred busy partitions is filling leaves most
/// of the budget to those that are full. A write gathers several.
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// A chunk that fills faster than this is followed by one of twice the size, in ns.
const CHUNK_FILL_FAST_NS: u64 = 1_000_000_000;
/// A chunk that fills slower than this is followed by one of half the size, in ns.
const CHUNK_FILL_SLOW_NS: u64 = 10_000_000_000;

const BLOCK: u64 = ALIGNMENT as u64;

/// The block boundary at or before `position`.
pub(crate) fn block_floor(position: u64) -> u64 {
    position - position % BLOCK
}

/// The first batch that begins in a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstBatch {
    pub position: u64,
    pub offset: Offset,
}

struct Chunk {
    start: u64,
    buf: AppendBuf,
    first_batch: Option<FirstBatch>,
    created_ns: u64,
    /// A shared view of what the chunk held when it was last read.
    shared: RefCell<Bytes>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.buf.len() as u64
    }

    fn view(&self, range: Range<u64>) -> Bytes {
        let range = (range.start - self.start) as usize..(range.end - self.start) as usize;
        let mut shared = self.shared.borrow_mut();
        if shared.len() < range.end {
            *shared = self.buf.view(0..self.buf.len());
        }
        shared.slice(range)
    }
}

/// The bytes of one segment from some position to its end.
pub(crate) struct Tail {
    chunks: VecDeque<Chunk>,
    /// The last, partial block while there is no chunk.
    residue: Vec<u8>,
    end: u64,
    next_chunk_bytes: usize,
}

impl Tail {
    /// Of a segment of `end` bytes, none of them in memory but those of the last, partial block.
    pub fn new(end: u64, residue: Vec<u8>) -> Tail {
        assert_eq!(residue.len() as u64, end % BLOCK, "the bytes behind the last block boundary of {end}");
        Tail { chunks: VecDeque::new(), residue, end, next_chunk_bytes: CHUNK_BYTES_MIN }
    }

    /// Of a segment of `end` bytes that takes no more appends; none of them are in memory.
    pub fn complete(end: u64) -> Tail {
        Tail { chunks: VecDeque::new(), residue: Vec::new(), end, next_chunk_bytes: CHUNK_BYTES_MIN }
    }

    /// Position behind the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The first batch that is wholly in memory from its first byte on.
    pub fn first_batch(&self) -> Option<FirstBatch> {
        self.chunks.iter().find_map(|chunk| chunk.first_batch)
    }

    /// Position from which on every byte is in memory.
    pub fn start(&self) -> u64 {
        self.chunks.front().map_or(block_floor(self.end), |chunk| chunk.start)
    }

    /// Appends a batch in two pieces; calls `added` with start and capacity of every chunk it makes.
    pub fn append(&mut self, offset: Offset, pieces: [&[u8]; 2], now_ns: u64, mut added: impl FnMut(u64, usize)) {
        let first = FirstBatch { position: self.end, offset };
        let mut wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut placed = false;
        for mut piece in pieces {
            while !piece.is_empty() {
                if self.chunks.back().is_none_or(|chunk| chunk.buf.spare() == 0) {
                    let (start, capacity) = self.add_chunk(wanted, now_ns);
                    added(start, capacity);
                }
                let chunk = self.chunks.back_mut().expect("a chunk was just made sure of");
                if !placed {
                    placed = true;
                    chunk.first_batch.get_or_insert(first);
                }
                let (now, later) = piece.split_at(piece.len().min(chunk.buf.spare()));
                chunk.buf.extend_from_slice(now);
                self.end += now.len() as u64;
                wanted -= now.len();
                piece = later;
            }
        }
    }

    fn add_chunk(&mut self, wanted: usize, now_ns: u64) -> (u64, usize) {
        if let Some(last) = self.chunks.back() {
            let filled_in = now_ns.saturating_sub(last.created_ns);
            if filled_in < CHUNK_FILL_FAST_NS {
                self.next_chunk_bytes = (self.next_chunk_bytes * 2).min(CHUNK_BYTES_MAX);
            } else if filled_in > CHUNK_FILL_SLOW_NS {
                self.next_chunk_bytes = (self.next_chunk_bytes / 2).max(CHUNK_BYTES_MIN);
            }
        }
        let wanted = (wanted + self.residue.len()).min(CHUNK_BYTES_MAX).max(self.next_chunk_bytes);
        let mut buf = AppendBuf::with_capacity(wanted);
        buf.extend_from_slice(&self.residue);
        let start = self.end - self.residue.len() as u64;
        self.residue = Vec::new();
        let capacity = buf.capacity();
        let shared = RefCell::new(Bytes::new());
        self.chunks.push_back(Chunk { start, buf, first_batch: None, created_ns: now_ns, shared });
        (start, capacity)
    }

    /// Index of the chunk that holds `position`.
    fn at(&self, position: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end() <= position)
    }

    /// Copies bytes from `position` on into `out`. They must be in memory.
    pub fn copy(&self, position: u64, out: &mut [u8]) {
        let mut done = 0;
        self.pieces(position..position + out.len() as u64, |piece| {
            out[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        });
    }

    /// Shows the bytes of a range, which must be in memory, piece by piece.
    pub fn pieces(&self, range: Range<u64>, mut show: impl FnMut(&[u8])) {
        assert!(range.start >= self.start() && range.end <= self.end, "{range:?} of {}..{}", self.start(), self.end);
        if self.chunks.is_empty() {
            let start = block_floor(self.end);
            show(&self.residue[(range.start - start) as usize..(range.end - start) as usize]);
            return;
        }
        let mut position = range.start;
        for chunk in self.chunks.range(self.at(position)..) {
            if position >= range.end {
                break;
            }
            let upto = range.end.min(chunk.end());
            show(&chunk.buf.as_slice()[(position - chunk.start) as usize..(upto - chunk.start) as usize]);
            position = upto;
        }
    }

    /// A copy of the bytes of a range, which must be in memory.
    pub fn copied(&self, range: Range<u64>) -> Bytes {
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        self.pieces(range, |piece| out.extend_from_slice(piece));
        Bytes::from(out)
    }

    /// Shares the bytes of a range, which must be in memory, one element a chunk.
    pub fn views(&self, range: Range<u64>) -> Vec<Bytes> {
        assert!(range.start >= self.start() && range.end <= self.end, "{range:?} of {}..{}", self.start(), self.end);
        let mut out = Vec::with_capacity(2);
        let mut position = range.start;
        for chunk in self.chunks.range(self.at(position)..) {
            if position >= range.end {
                break;
            }
            let upto = range.end.min(chunk.end());
            out.push(chunk.view(position..upto));
            position = upto;
        }
        out
    }

    /// What a direct write of everything from the block boundary `from` on has to contain: shared whole blocks, and a
    /// padded copy of the last, partial one, which may not change while the device reads it.
    pub fn blocks(&self, from: u64) -> Vec<Bytes> {
        assert_eq!(from % BLOCK, 0, "a direct write begins on a block boundary");
        let whole = block_floor(self.end).max(from);
        let mut out = if whole > from { self.views(from..whole) } else { Vec::new() };
        if self.end > whole {
            let mut last = AlignedBuf::with_capacity(ALIGNMENT);
            self.pieces(whole..self.end, |piece| last.extend_from_slice(piece));
            last.pad_to_alignment();
            out.push(last.freeze());
        }
        out
    }

    /// Drops the first chunk if it begins at `start` and everything before `written` needs no memory. Gives back its
    /// capacity, and what readers hold of it.
    pub fn evict(&mut self, start: u64, written: u64) -> Option<(usize, Option<Pinned>)> {
        let first = self.chunks.front()?;
        if first.start != start || first.end() > written {
            return None;
        }
        if self.chunks.len() == 1 {
            // The last chunk goes only as a whole; what the next write needs of it stays.
            if self.end != written {
                return None;
            }
            let mut residue = vec![0; (self.end % BLOCK) as usize];
            let from = block_floor(self.end);
            if first.start <= from {
                self.copy(from, &mut residue);
            }
            self.residue = residue;
        } else if first.end() > block_floor(written) {
            return None;
        }
        self.chunks.pop_front().map(|Chunk { buf, shared, .. }| {
            drop(shared);
            (buf.capacity(), buf.release())
        })
    }

    /// Capacity of all chunks, in bytes.
    pub fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.buf.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    fn joined(chunks: &[Bytes]) -> Vec<u8> {
        chunks.concat()
    }

    /// Appends, reads, writes and evictions in random order agree with one flat vector.
    #[test]
    fn a_tail_is_a_window_on_one_sequence_of_bytes() {
        for seed in 0..40 {
            let mut prng = Prng::new(seed);
            let start = prng.below(10_000);
            let mut model: Vec<u8> = (0..start).map(|i| i as u8).collect();
            let mut tail = Tail::new(start, model[block_floor(start) as usize..].to_vec());
            let mut made: VecDeque<u64> = VecDeque::new();
            let (mut written, mut memory) = (start, 0);
            for step in 0..80 {
                match prng.below(4) {
                    0 | 1 => {
                        let bytes: Vec<u8> = (0..prng.below(40_000)).map(|_| prng.next_u64() as u8).collect();
                        let (a, b) = bytes.split_at(bytes.len().min(61));
                        tail.append(step, [a, b], step as u64 * prng.below(1 << 34), |start, capacity| {
                            made.push_back(start);
                            memory += capacity;
                        });
                        model.extend_from_slice(&bytes);
                    }
                    2 => {
                        let from = block_floor(written);
                        let block = joined(&tail.blocks(from));
                        assert_eq!(block.len() % ALIGNMENT, 0);
                        assert_eq!(&block[..model.len() - from as usize], &model[from as usize..], "seed {seed}");
                        written = model.len() as u64;
                    }
                    _ => {
                        while let Some((freed, _)) = made.front().and_then(|start| tail.evict(*start, written)) {
                            memory -= freed;
                            made.pop_front();
                        }
                    }
                }
                assert_eq!((tail.end(), tail.capacity()), (model.len() as u64, memory), "seed {seed}");
                assert!(tail.start() <= block_floor(written));
                let from = tail.start() + prng.below(tail.end() - tail.start() + 1);
                let to = from + prng.below(tail.end() - from + 1);
                let mut copy = vec![0; (to - from) as usize];
                tail.copy(from, &mut copy);
                assert_eq!(copy, model[from as usize..to as usize], "seed {seed}");
                if tail.first_batch().is_some() {
                    assert_eq!(joined(&tail.views(from..to)), copy);
                }
            }
        }
    }
}
