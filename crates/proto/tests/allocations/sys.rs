//! An allocator that counts allocations.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Number of allocations of this thread since [`count`] was called; `None` before that.
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts this thread's allocations from now on.
pub(crate) fn count() {
    COUNTED.set(Some(0));
}

/// Stops counting and returns the number.
pub(crate) fn counted() -> u64 {
    COUNTED.take().unwrap_or_default()
}

fn note() {
    COUNTED.set(COUNTED.get().map(|n| n + 1));
}

// SAFETY: every call is forwarded unchanged to the system's allocator. To count, `note` accesses a thread-local number,
// which needs neither an allocation nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller upholds the contract of `alloc`, which is also the contract of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `alloc` or `realloc` above, and so from `System`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: `place` came from `System`, and the caller upholds `realloc`'s contract.
        unsafe { System.realloc(place, layout, size) }
    }
}
