//! Buffer memory of one core: a few large pieces, each cut by the buddy method.
//!
//! A piece lies on a huge page where the system has one for it. Direct I/O then pins one page instead of hundreds, which is
//! most of what registering the memory with the ring would save and needs no locked memory; and the first touch of a buffer
//! costs no page fault. The memory belongs to the thread that asked for it; a buffer that ends elsewhere is sent home through
//! a list.
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeSet;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::buf::ALIGNMENT;

/// The largest buffer that is cut out of such memory, as a power of two of pages: 2 MiB, a huge page.
const ORDER_MAX: usize = 9;

/// Smallest piece, in bytes, and the alignment of all.
pub(crate) const ARENA_BYTES_MIN: usize = ALIGNMENT << ORDER_MAX;

/// Where a block lies: page number and size as a power of two of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    page: u32,
    order: u8,
}

/// The allocation; it lives until the last buffer in it is gone.
pub(crate) struct ArenaShared {
    base: NonNull<u8>,
    bytes: usize,
    /// Its place among the arenas of its thread.
    pub index: usize,
    /// Blocks that were freed by other threads, the last one first. Each holds the link to the one before it.
    returned: AtomicPtr<Returned>,
}

/// What stands in a block on its way home.
struct Returned {
    before: *mut Returned,
    block: Block,
}

/// Free blocks by size. Only on the core's thread.
pub(crate) struct Arena {
    pub shared: Arc<ArenaShared>,
    free: [BTreeSet<u32>; ORDER_MAX + 1],
    /// All of it has been free since the last look.
    pub was_idle: bool,
}

// SAFETY: the base pointer is only an address here; the blocks behind it are handed out one owner each.
unsafe impl Send for ArenaShared {}
// SAFETY: as above; the list of returned blocks is atomic, and a block in it has no other owner than the list.
unsafe impl Sync for ArenaShared {}

impl ArenaShared {
    /// Address and size of the whole.
    pub fn range(&self) -> (usize, usize) {
        (self.base.as_ptr().addr(), self.bytes)
    }

    /// Sends a block home from another thread: it becomes the head of the list. Nobody waits for anybody, and since the
    /// owner takes the list as a whole, a head that is the same is the same list.
    pub fn give_back(&self, block: Block) {
        let node = self.memory(block).as_ptr().cast::<Returned>();
        let mut before = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller owned the block and gives it up; it is as large and as aligned as a page, and lives as long
            // as this. Until the exchange succeeds nobody else looks at it.
            unsafe { node.write(Returned { before, block }) };
            match self.returned.compare_exchange_weak(before, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// The start of a block.
    pub fn memory(&self, block: Block) -> NonNull<u8> {
        let at = block.page as usize * ALIGNMENT;
        NonNull::new(self.base.as_ptr().wrapping_add(at)).expect("inside an allocation is not null")
    }
}

impl Drop for ArenaShared {
    fn drop(&mut self) {
        // SAFETY: exactly this was mapped, and no buffer in it is left: each holds a reference.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Maps zeroed memory that begins on a huge page, and asks for huge pages. Memory is taken when it is touched.
fn map(bytes: usize) -> NonNull<u8> {
    let whole = bytes + ARENA_BYTES_MIN;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        handle_alloc_error(Layout::from_size_align(bytes, ALIGNMENT).expect("a size far below the address space"));
    }
    let before = raw.addr().next_multiple_of(ARENA_BYTES_MIN) - raw.addr();
    let start = raw.wrapping_byte_add(before);
    // SAFETY: both cut off what lies beside the aligned part of the mapping just made; the advice is about that part. A
    // refusal leaves address space mapped or small pages in use, which only costs a little.
    unsafe {
        if before > 0 {
            libc::munmap(raw, before);
        }
        if ARENA_BYTES_MIN > before {
            libc::munmap(start.wrapping_byte_add(bytes), ARENA_BYTES_MIN - before);
        }
        libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
    }
    NonNull::new(start.cast()).expect("a mapping is not at null")
}

impl Arena {
    /// Memory of about `bytes`, a multiple of the largest block, for place `index`.
    pub fn new(bytes: usize, index: usize) -> Arena {
        let bytes = bytes.max(ARENA_BYTES_MIN) / ARENA_BYTES_MIN * ARENA_BYTES_MIN;
        let shared = ArenaShared { base: map(bytes), bytes, index, returned: AtomicPtr::new(null_mut()) };
        let mut free: [BTreeSet<u32>; ORDER_MAX + 1] = Default::default();
        free[ORDER_MAX].extend((0..bytes / ARENA_BYTES_MIN).map(|block| (block << ORDER_MAX) as u32));
        Arena { shared: Arc::new(shared), free, was_idle: false }
    }

    /// A block of at least `bytes`, and its size in bytes.
    pub fn take(&mut self, bytes: usize) -> Option<(Block, usize)> {
        let order = bytes.div_ceil(ALIGNMENT).next_power_of_two().trailing_zeros() as usize;
        if order > ORDER_MAX {
            return None;
        }
        self.collect();
        let mut from = (order..=ORDER_MAX).find(|size| !self.free[*size].is_empty())?;
        let page = self.free[from].pop_first().expect("not empty");
        while from > order {
            from -= 1;
            self.free[from].insert(page + (1 << from));
        }
        self.was_idle = false;
        Some((Block { page, order: order as u8 }, ALIGNMENT << order))
    }

    /// Frees a block and joins it with its free neighbours.
    pub fn put(&mut self, block: Block) {
        let (mut page, mut order) = (block.page, usize::from(block.order));
        while order < ORDER_MAX && self.free[order].remove(&(page ^ (1 << order))) {
            page &= !(1 << order);
            order += 1;
        }
        let new = self.free[order].insert(page);
        assert!(new, "block {page} of order {order} was freed twice");
    }

    /// True when no block is in use.
    pub fn is_idle(&mut self) -> bool {
        self.collect();
        self.free[ORDER_MAX].len() == self.shared.bytes / ARENA_BYTES_MIN
    }

    fn collect(&mut self) {
        if self.shared.returned.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut node = self.shared.returned.swap(null_mut(), Ordering::Acquire);
        while !node.is_null() {
            // SAFETY: it was written before it entered the list, which the exchange above made visible, and this thread alone
            // has the list now.
            let Returned { before, block } = unsafe { node.read() };
            self.put(block);
            node = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Prng;

    use super::*;

    #[test]
    fn blocks_never_overlap_and_join_again() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let mut arena = Arena::new(2 * ARENA_BYTES_MIN, 0);
            let mut taken: Vec<Block> = Vec::new();
            for _ in 0..2000 {
                if prng.chance(1, 2) {
                    let bytes = 1 + prng.below(300_000) as usize;
                    if let Some((block, size)) = arena.take(bytes) {
                        assert!(size >= bytes);
                        let end = |b: &Block| b.page + (1 << b.order);
                        let clash = taken.iter().find(|b| b.page < end(&block) && block.page < end(b));
                        assert_eq!(clash, None, "seed {seed}: {block:?}");
                        taken.push(block);
                    }
                } else if !taken.is_empty() {
                    let block = taken.swap_remove(prng.below(taken.len() as u64) as usize);
                    if prng.chance(1, 2) { arena.put(block) } else { arena.shared.give_back(block) }
                }
            }
            taken.into_iter().for_each(|block| arena.put(block));
            arena.collect();
            assert!(arena.is_idle() && arena.free[ORDER_MAX].len() == 2, "seed {seed}");
            assert!(arena.take(ARENA_BYTES_MIN + 1).is_none());
        }
    }

    #[test]
    fn blocks_come_home_from_many_threads() {
        const THREADS: usize = 4;
        let mut arena = Arena::new(ARENA_BYTES_MIN, 0);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::channel::<Block>()).unzip();
        let threads: Vec<_> = receivers
            .into_iter()
            .map(|blocks| {
                let shared = Arc::clone(&arena.shared);
                std::thread::spawn(move || blocks.into_iter().for_each(|block| shared.give_back(block)))
            })
            .collect();
        let mut sent = 0;
        while sent < 20_000 {
            // An arena of 512 pages is soon empty: then some are on their way home.
            match arena.take(ALIGNMENT) {
                Some((block, _)) => {
                    senders[sent % THREADS].send(block).unwrap();
                    sent += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        drop(senders);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(arena.is_idle(), "a block was lost");
    }
}
