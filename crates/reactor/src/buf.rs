//! Buffers that operations take over and give back.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::arena::{ARENA_BYTES_MIN, Arena, ArenaShared, Block};
use crate::op::Held;

/// Alignment of [`AlignedBuf`] and of everything direct I/O touches, in bytes: the page, which is also the largest
/// logical block of common disks.
pub const ALIGNMENT: usize = 4096;

/// The largest buffer that comes from the pool; larger ones come from the allocator and go back to it.
const POOLED_BUFFER_BYTES_MAX: usize = ARENA_BYTES_MIN;

mod sealed {
    use crate::op::Held;

    pub trait Sealed: Sized + 'static {
        fn into_held(self) -> Held;
        fn from_held(held: Held) -> Self;
    }
}
pub(crate) use sealed::Sealed;

/// A buffer that can be written from. Sealed: the operation table must know every kind of memory it owns.
pub trait IoBuf: Sealed {}

/// A buffer that can be read into: bytes are appended within its spare capacity, which does not grow.
pub trait IoBufMut: IoBuf {}

macro_rules! io_buf {
    ($type:ty, $variant:ident) => {
        impl Sealed for $type {
            fn into_held(self) -> Held {
                Held::$variant(self)
            }
            fn from_held(held: Held) -> Self {
                match held {
                    Held::$variant(buf) => buf,
                    _ => panic!("an operation gives back the kind of buffer it was given"),
                }
            }
        }
        impl IoBuf for $type {}
    };
}

io_buf!(Bytes, Bytes);
io_buf!(BytesMut, BytesMut);
io_buf!(Vec<u8>, Vec);
io_buf!(AlignedBuf, Aligned);
impl IoBufMut for BytesMut {}
impl IoBufMut for Vec<u8> {}
impl IoBufMut for AlignedBuf {}

/// A buffer whose memory begins on a page, for direct I/O; taken from the current thread's pool and returned to it. The
/// first choice is memory that is registered with the ring, if there is some ([`crate::RuntimeConfig::registered_bytes`]).
/// The capacity is a power of two times [`ALIGNMENT`] up to 2 MiB, a multiple of it above.
pub struct AlignedBuf {
    memory: NonNull<u8>,
    capacity: usize,
    len: usize,
    /// Where pooled memory goes back to.
    home: Option<(Arc<ArenaShared>, Block)>,
}

// SAFETY: the buffer owns its memory exclusively. Where it goes when dropped is safe on any thread: the dropping thread's
// pool, or home through a locked list.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for AlignedBuf {}

/// A thread's memory for buffers. Pieces are used in order of their index, so that those behind fall idle and can go.
#[derive(Default)]
struct Pool {
    arenas: Vec<Option<Arena>>,
    /// The first arena is registered with the ring and stays.
    registered: bool,
}

impl Pool {
    fn take(&mut self, capacity: usize) -> Option<AlignedBuf> {
        if capacity > POOLED_BUFFER_BYTES_MAX {
            return None;
        }
        let mut vacant = self.arenas.len();
        for (index, arena) in self.arenas.iter_mut().enumerate() {
            match arena {
                Some(arena) => {
                    if let Some(found) = Self::cut(arena, capacity) {
                        return Some(found);
                    }
                }
                None => vacant = vacant.min(index),
            }
        }
        let mut arena = Arena::new(ARENA_BYTES_MIN, vacant);
        let found = Self::cut(&mut arena, capacity);
        if vacant == self.arenas.len() {
            self.arenas.push(Some(arena));
        } else {
            self.arenas[vacant] = Some(arena);
        }
        found
    }

    fn cut(arena: &mut Arena, capacity: usize) -> Option<AlignedBuf> {
        let (block, capacity) = arena.take(capacity)?;
        let home = Arc::clone(&arena.shared);
        Some(AlignedBuf { memory: home.memory(block), capacity, len: 0, home: Some((home, block)) })
    }

    /// Frees memory if it is this thread's.
    fn put(&mut self, home: &Arc<ArenaShared>, block: Block) -> bool {
        match self.arenas.get_mut(home.index) {
            Some(Some(arena)) if Arc::ptr_eq(&arena.shared, home) => {
                arena.put(block);
                true
            }
            _ => false,
        }
    }

    /// Gives pieces back to the system that were idle at this look and the one before; one idle piece is kept.
    fn release_idle(&mut self) {
        let kept = usize::from(self.registered);
        let mut spare = true;
        for place in self.arenas.iter_mut().skip(kept) {
            let Some(arena) = place else { continue };
            let idle = arena.is_idle();
            if idle && !std::mem::replace(&mut spare, false) && arena.was_idle {
                *place = None;
            } else {
                arena.was_idle = idle;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.arenas.iter().flatten().map(|arena| arena.shared.range().1).sum()
    }
}

/// Makes registered memory the first choice of this thread's buffers, or ends that.
pub(crate) fn set_arena(arena: Option<Arena>) {
    let before = POOL.with(|pool| {
        let mut pool = pool.borrow_mut();
        pool.registered = arena.is_some();
        // Blocks of what goes find their place taken when they come home, and end with their arena.
        std::mem::replace(&mut pool.arenas, arena.into_iter().map(Some).collect())
    });
    drop(before);
}

/// Gives buffer memory of this thread that was of no use since the last call, and at it, back to the system. Meant to be
/// called every few seconds.
pub fn release_idle_buffers() {
    POOL.with(|pool| pool.borrow_mut().release_idle());
}

/// Bytes of address space that this thread's pool of buffers has now, in use or not.
pub fn buffer_pool_bytes() -> usize {
    POOL.with(|pool| pool.borrow().bytes())
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::default());
}

/// Memory of a layout of at least one page.
fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() >= ALIGNMENT);
    // SAFETY: the layout's size is at least one page.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("buffer sizes stay far below the address space")
}

/// Frees what was allocated page-aligned with this capacity.
fn free(memory: NonNull<u8>, capacity: usize) {
    // SAFETY: every buffer was allocated with exactly this layout and is freed once: its owner is consumed.
    unsafe { dealloc(memory.as_ptr(), layout(capacity)) }
}

impl AlignedBuf {
    /// An empty buffer with room for at least `bytes`.
    pub fn with_capacity(bytes: usize) -> AlignedBuf {
        let wanted = bytes.max(1).next_multiple_of(ALIGNMENT);
        let capacity = if wanted <= POOLED_BUFFER_BYTES_MAX { wanted.next_power_of_two() } else { wanted };
        let pooled = POOL.try_with(|pool| pool.borrow_mut().take(capacity)).ok().flatten();
        pooled.unwrap_or_else(|| AlignedBuf { memory: allocate(layout(capacity)), capacity, len: 0, home: None })
    }

    /// Bytes the buffer can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets the contents.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends bytes; they must fit the capacity.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let spare = self.spare_capacity_mut();
        assert!(bytes.len() <= spare.len(), "{} bytes do not fit into {} spare ones", bytes.len(), spare.len());
        spare[..bytes.len()].write_copy_of_slice(bytes);
        self.len += bytes.len();
    }

    /// Makes the length `len`, within the capacity; new bytes are `value`.
    pub fn resize(&mut self, len: usize, value: u8) {
        assert!(len <= self.capacity, "a length of {len} in a buffer of {}", self.capacity);
        if len > self.len {
            let grown = len - self.len;
            self.spare_capacity_mut()[..grown].fill(MaybeUninit::new(value));
        }
        self.len = len;
    }

    /// Fills up to the next multiple of [`ALIGNMENT`] with zeroes, as a direct write wants.
    pub fn pad_to_alignment(&mut self) {
        self.resize(self.len.next_multiple_of(ALIGNMENT), 0);
    }

    /// The free room behind the contents.
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: len <= capacity, the memory is owned, and MaybeUninit does not need initialized bytes.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.len).cast(), self.capacity - self.len) }
    }

    /// # Safety
    /// The first `len` bytes have been written.
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity);
        self.len = len;
    }

    /// The contents as shared bytes, without a copy; the memory returns to a pool with the last reference.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        match self.home.take() {
            Some((home, block)) => {
                let mine = POOL.try_with(|pool| pool.borrow_mut().put(&home, block)).unwrap_or(false);
                if !mine {
                    home.give_back(block);
                }
            }
            None => free(self.memory, self.capacity),
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialized and owned.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUF: usize = 256 << 10;

    #[test]
    fn memory_is_used_again_and_goes_back_when_it_stays_idle() {
        std::thread::spawn(|| {
            let held: Vec<_> = (0..64).map(|_| AlignedBuf::with_capacity(BUF)).collect();
            assert_eq!(buffer_pool_bytes(), 64 * BUF);
            drop(held);
            let again: Vec<_> = (0..64).map(|_| AlignedBuf::with_capacity(BUF)).collect();
            assert_eq!(buffer_pool_bytes(), 64 * BUF, "what was freed is used again");
            let first = again.into_iter().next();
            release_idle_buffers();
            assert_eq!(buffer_pool_bytes(), 64 * BUF, "idle once is not enough");
            release_idle_buffers();
            assert_eq!(buffer_pool_bytes(), 2 * ARENA_BYTES_MIN, "one in use, one spare");
            drop(first);
            let most = AlignedBuf::with_capacity(POOLED_BUFFER_BYTES_MAX);
            let more = AlignedBuf::with_capacity(POOLED_BUFFER_BYTES_MAX + 1);
            assert_eq!((most.capacity(), more.capacity()), (2 << 20, (2 << 20) + ALIGNMENT));
            assert_eq!(buffer_pool_bytes(), 2 * ARENA_BYTES_MIN);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn buffers_end_on_other_threads_and_after_their_own() {
        let (mut kept, pool) = std::thread::spawn(|| {
            let mut kept = AlignedBuf::with_capacity(BUF);
            kept.extend_from_slice(b"still here");
            let others: Vec<_> = (0..7).map(|_| AlignedBuf::with_capacity(BUF)).collect();
            std::thread::spawn(move || drop(others)).join().unwrap();
            let again: Vec<_> = (0..7).map(|_| AlignedBuf::with_capacity(BUF)).collect();
            drop(again);
            (kept, buffer_pool_bytes())
        })
        .join()
        .unwrap();
        assert_eq!(pool, ARENA_BYTES_MIN, "what other threads freed is found");
        assert_eq!(&kept[..], b"still here");
        kept.resize(BUF, 1);
    }
}
