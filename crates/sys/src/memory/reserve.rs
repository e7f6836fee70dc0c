//! An allocator with some memory left when there is none, so that a failed allocation of dashcam
//! does not end the host.
//!
//! How it works: what the allocator below refuses comes from an area of this library, from its
//! begin to its end; it is never reused. Rust ends the process when an allocation fails, and a
//! program that survives a full memory (Python raises MemoryError) must not be ended by its
//! recorder. Code that records checks `ran_out`, and stops.
//!
//! What it promises: `AREA_BYTES` of small allocations behind the first that was refused; pages
//! that are not used cost address space only. What it does not: a single allocation of more than is
//! left still ends the process. For libraries that are loaded into a program (Python's, C's); in a
//! Rust program the allocator is the program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const AREA_BYTES: usize = 8 << 20;

#[repr(align(4096))]
struct Area(UnsafeCell<[u8; AREA_BYTES]>);

// SAFETY: the cell is reached only through `take`, which hands out each byte once: `NEXT` never
// decreases. Reuse of what was given back, or a reference to the array, would break it.
unsafe impl Sync for Area {}

static AREA: Area = Area(UnsafeCell::new([0; AREA_BYTES]));
/// Bytes in use. Relaxed: the exchange alone makes a place one's own.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The allocator `A`, and the area behind it.
#[derive(Debug, Default)]
pub struct Reserve<A>(A);

impl Reserve<System> {
    /// Behind the C library's allocator.
    pub const fn new() -> Reserve<System> {
        Reserve(System)
    }
}

impl<A> Reserve<A> {
    /// Behind another one.
    pub const fn behind(allocator: A) -> Reserve<A> {
        Reserve(allocator)
    }
}

/// Whether an allocation was refused since the process began.
pub fn ran_out() -> bool {
    NEXT.load(Ordering::Relaxed) > 0
}

fn begin() -> *mut u8 {
    AREA.0.get().cast()
}

fn is_in_area(at: *mut u8) -> bool {
    (begin() as usize..begin() as usize + AREA_BYTES).contains(&(at as usize))
}

/// Zeroed memory of the area; null when none is left.
fn take(layout: Layout) -> *mut u8 {
    // The area itself is aligned to a page.
    let place = |next: usize| {
        let at = next.checked_next_multiple_of(layout.align().max(16))?;
        let end = at.checked_add(layout.size())?;
        (layout.align() <= 4096 && end <= AREA_BYTES).then_some((at, end))
    };
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        place(next).map(|(_, end)| end.max(1))
    });
    match taken.ok().and_then(place) {
        // SAFETY: `place` has checked, for the very value that the exchange replaced, that `at` and
        // the size behind it end within the area. Computed from another load it could be too far.
        Some((at, _)) => unsafe { begin().add(at) },
        None => ptr::null_mut(),
    }
}

// SAFETY: memory comes from `A`, or from the area, each byte of which is handed out once; it goes
// back to `A` only if it came from there.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserve<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `A` wants.
        let at = unsafe { self.0.alloc(layout) };
        if at.is_null() {
            take(layout)
        } else {
            at
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let at = unsafe { self.0.alloc_zeroed(layout) };
        if at.is_null() {
            take(layout)
        } else {
            at
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_in_area(at) {
            // SAFETY: it came from `A`, with this layout.
            unsafe { self.0.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_in_area(at) {
            // SAFETY: it came from `A`, with this layout.
            let grown = unsafe { self.0.realloc(at, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // A size that overflows is refused, as it is by `A`, whatever the caller promises.
        let wanted = Layout::from_size_align(size, layout.align());
        let other = wanted.map_or(ptr::null_mut(), take);
        if !other.is_null() {
            // SAFETY: the old block has `layout.size()` bytes, the new one `size`; `other` was
            // handed out just now, so they do not overlap. `at` goes back once: where `A` moved it,
            // this has returned above. Falling through after that would free it twice.
            unsafe {
                ptr::copy_nonoverlapping(at, other, layout.size().min(size));
                self.dealloc(at, layout);
            }
        }
        other
    }
}
