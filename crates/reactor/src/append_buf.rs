//! Memory that its owner appends to while others read what is already there.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::buf::AlignedBuf;

/// A page-aligned buffer of fixed capacity that grows at its end only. [`AppendBuf::view`] shares what is there without a
/// copy, and more can be appended behind it while views are alive: bytes never change once they are appended.
pub struct AppendBuf {
    memory: Arc<Memory>,
    start: NonNull<u8>,
    len: usize,
}

/// The allocation. Views of it and the one appender share it; it is given back with the last of them.
struct Memory(AlignedBuf);

/// Memory that views keep after their [`AppendBuf`] is gone.
#[derive(Debug)]
pub struct Pinned {
    memory: Weak<Memory>,
    bytes: usize,
}

impl Pinned {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there still are views.
    pub fn is_held(&self) -> bool {
        self.memory.strong_count() > 0
    }
}

struct View {
    _memory: Arc<Memory>,
    start: *const u8,
    len: usize,
}

// SAFETY: a view only reads, and only bytes that were written before the view was made and are never written again; the
// allocation may be freed on any thread.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start..start + len` lies within the allocation that `_memory` keeps alive and was initialized before the
        // view was made. Nobody writes to it: the appender writes behind its `len`, which was at or past the end of the
        // view when the view was made and only grows.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

// SAFETY: the appender may move to another thread; what it shares with views is read-only memory and a reference count.
unsafe impl Send for AppendBuf {}

impl AppendBuf {
    /// An empty buffer with room for at least `bytes`.
    pub fn with_capacity(bytes: usize) -> AppendBuf {
        let mut buf = AlignedBuf::with_capacity(bytes);
        let start = NonNull::new(buf.spare_capacity_mut().as_mut_ptr().cast()).expect("a buffer's memory is not null");
        // The length inside the aligned buffer stays 0: it must make no reference to bytes that views share.
        AppendBuf { memory: Arc::new(Memory(buf)), start, len: 0 }
    }

    /// Bytes the buffer can hold.
    pub fn capacity(&self) -> usize {
        self.memory.0.capacity()
    }

    /// Bytes appended so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before the first append.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that can still be appended.
    pub fn spare(&self) -> usize {
        self.capacity() - self.len
    }

    /// Appends bytes, which must fit.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.spare(), "{} bytes do not fit into {} spare ones", bytes.len(), self.spare());
        // SAFETY: the target lies within the allocation, behind all that was appended, so that no view covers it, and
        // `&mut self` is the only appender. `bytes` cannot overlap it: safe code has no reference to memory not appended.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(self.len), bytes.len()) };
        self.len += bytes.len();
    }

    /// What was appended.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialized and are not written again.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Ends the buffer. Its memory is free at once, which is told by `None`, or when the last view of it is gone.
    pub fn release(self) -> Option<Pinned> {
        let pinned = Pinned { memory: Arc::downgrade(&self.memory), bytes: self.capacity() };
        drop(self);
        Some(pinned).filter(Pinned::is_held)
    }

    /// Shares a part of what was appended.
    pub fn view(&self, range: Range<usize>) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.len, "a view of {range:?} of {} bytes", self.len);
        // SAFETY: the start lies within the allocation.
        let start = unsafe { self.start.as_ptr().add(range.start) };
        Bytes::from_owner(View { _memory: Arc::clone(&self.memory), start, len: range.len() })
    }
}

impl std::fmt::Debug for AppendBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AppendBuf({} of {} bytes)", self.len, self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_stay_while_more_is_appended_and_outlive_the_buffer() {
        let mut buf = AppendBuf::with_capacity(5000);
        assert_eq!((buf.capacity(), buf.is_empty()), (8192, true));
        buf.extend_from_slice(b"hello ");
        let hello = buf.view(0..5);
        buf.extend_from_slice(b"world");
        let both = buf.view(3..11);
        assert_eq!((&hello[..], &both[..], buf.as_slice()), (&b"hello"[..], &b"lo world"[..], &b"hello world"[..]));
        assert_eq!(hello.as_ptr().align_offset(4096), 0);
        drop(buf);
        let moved = std::thread::spawn(move || both.len()).join().unwrap();
        assert_eq!((moved, &hello[..]), (8, &b"hello"[..]));
    }

    #[test]
    #[should_panic(expected = "a view of 0..2 of 1 bytes")]
    fn a_view_never_reaches_behind_the_end() {
        let mut buf = AppendBuf::with_capacity(1);
        buf.extend_from_slice(b"x");
        let _ = buf.view(0..2);
    }
}
