//! An allocator that counts, for tests which hold a path to a number of allocations.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, counting what it is asked for. To be the `global_allocator` of a test's program.
pub struct CountingAlloc;

impl CountingAlloc {
    /// Allocations so far, those that move or grow a block included, of all threads that are not exempt.
    pub fn count() -> u64 {
        COUNT.load(Ordering::SeqCst)
    }

    /// What the calling thread asks for is not counted from here on: it is the one that tests.
    pub fn exempt_this_thread() {
        EXEMPT.set(true);
    }

    fn note() {
        // A thread that ends has no such value any more; it counts.
        if !EXEMPT.try_with(Cell::get).unwrap_or(false) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call is the system's with the same arguments; counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CountingAlloc::note();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CountingAlloc::note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CountingAlloc::note();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) };
    }
}
