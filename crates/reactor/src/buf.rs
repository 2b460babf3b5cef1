//! Buffers that operations take over and give back.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::arena::{Arena, ArenaShared, Block};
use crate::op::Held;

/// Alignment of [`AlignedBuf`] and of everything direct I/O touches, in bytes: the page, which is also the largest
/// logical block of common disks.
pub const ALIGNMENT: usize = 4096;

/// Size classes of the pool: 4 KiB times a power of two.
const CLASSES: usize = 11;
/// The largest pooled buffer, 4 MiB; larger ones go back to the allocator.
const POOLED_BUFFER_BYTES_MAX: usize = ALIGNMENT << (CLASSES - 1);
/// What one core's pool keeps for reuse: a few full sets of write buffers; the rest goes back to the allocator.
const POOL_BYTES_MAX: usize = 32 << 20;

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

/// A buffer whose memory begins on a page, for direct I/O; taken from the current thread's pool and returned to it. As long
/// as there is some, it is memory that is registered with the ring ([`crate::RuntimeConfig::registered_bytes`]).
/// The capacity is a power of two times [`ALIGNMENT`] up to 4 MiB, a multiple of it above.
pub struct AlignedBuf {
    memory: NonNull<u8>,
    capacity: usize,
    len: usize,
    /// Where registered memory goes back to.
    home: Option<(Arc<ArenaShared>, Block)>,
}

// SAFETY: the buffer owns its memory exclusively. Where it goes when dropped is safe on any thread: the dropping thread's
// pool, or home through a locked list.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for AlignedBuf {}

#[derive(Default)]
struct Pool {
    classes: [Vec<NonNull<u8>>; CLASSES],
    kept_bytes: usize,
    arena: Option<Arena>,
}

impl Pool {
    /// Registered memory, if there is enough.
    fn take_registered(&mut self, capacity: usize) -> Option<AlignedBuf> {
        let arena = self.arena.as_mut()?;
        let (block, capacity) = arena.take(capacity)?;
        let home = Arc::clone(&arena.shared);
        Some(AlignedBuf { memory: home.memory(block), capacity, len: 0, home: Some((home, block)) })
    }

    fn take(&mut self, capacity: usize) -> Option<AlignedBuf> {
        if let Some(buf) = self.take_registered(capacity) {
            return Some(buf);
        }
        let memory = self.classes[class_of(capacity)?].pop()?;
        self.kept_bytes -= capacity;
        Some(AlignedBuf { memory, capacity, len: 0, home: None })
    }

    /// Keeps memory for reuse; false when there is enough of it.
    fn keep(&mut self, memory: NonNull<u8>, capacity: usize) -> bool {
        let Some(class) = class_of(capacity) else { return false };
        let fits = self.kept_bytes + capacity <= POOL_BYTES_MAX;
        if fits {
            self.kept_bytes += capacity;
            self.classes[class].push(memory);
        }
        fits
    }

    /// Frees registered memory if it is this thread's.
    fn put_registered(&mut self, home: &Arc<ArenaShared>, block: Block) -> bool {
        match &mut self.arena {
            Some(arena) if Arc::ptr_eq(&arena.shared, home) => {
                arena.put(block);
                true
            }
            _ => false,
        }
    }
}

/// Makes registered memory the first choice of this thread's buffers, or ends that.
pub(crate) fn set_arena(arena: Option<Arena>) {
    let before = POOL.with(|pool| std::mem::replace(&mut pool.borrow_mut().arena, arena));
    drop(before);
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, buffers) in self.classes.iter().enumerate() {
            for memory in buffers {
                free(*memory, ALIGNMENT << class);
            }
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::default());
}

/// Memory of a layout of at least one page.
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() >= ALIGNMENT);
    // SAFETY: the layout's size is at least one page.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("buffer sizes stay far below the address space")
}

/// Frees what was allocated page-aligned with this capacity.
pub(crate) fn free(memory: NonNull<u8>, capacity: usize) {
    // SAFETY: every buffer was allocated with exactly this layout and is freed once: its owner is consumed.
    unsafe { dealloc(memory.as_ptr(), layout(capacity)) }
}

fn class_of(capacity: usize) -> Option<usize> {
    (capacity <= POOLED_BUFFER_BYTES_MAX).then(|| (capacity / ALIGNMENT).trailing_zeros() as usize)
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
        let (memory, capacity) = (self.memory, self.capacity);
        if let Some((home, block)) = self.home.take() {
            let mine = POOL.try_with(|pool| pool.borrow_mut().put_registered(&home, block)).unwrap_or(false);
            if !mine {
                home.give_back(block);
            }
            return;
        }
        if !POOL.try_with(|pool| pool.borrow_mut().keep(memory, capacity)).unwrap_or(false) {
            free(memory, capacity);
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
