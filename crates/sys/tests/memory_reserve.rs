//! What the allocator refuses comes from the reserve: whole, unshared, and zeroed where that is
//! requested.

#![allow(clippy::expect_used, reason = "a test may fail")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use sys::reserve::{ran_out, Reserve};

struct Refusing;

static REFUSES: AtomicBool = AtomicBool::new(false);

// SAFETY: the system's allocator, or nothing.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match REFUSES.load(Ordering::Relaxed) {
            true => std::ptr::null_mut(),
            // SAFETY: as the caller promises.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: it came from there.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Reserve<Refusing> = Reserve::behind(Refusing);

#[test]
fn a_program_goes_on_when_its_memory_has_run_out() {
    let mut grows: Vec<u64> = (0..100).collect();
    assert!(!ran_out());
    REFUSES.store(true, Ordering::Relaxed);
    // Grows from the system's memory into the reserve, and within it.
    grows.extend(100..5000);
    let zeroed = vec![0u8; 100_000];
    let words: Vec<String> = (0..1000).map(|n| format!("word {n}")).collect();
    drop(Box::new(7u128));
    // More than is left: refused, not given twice.
    let mut large: Vec<u8> = Vec::new();
    let refused = large.try_reserve_exact(64 << 20).is_err();
    REFUSES.store(false, Ordering::Relaxed);
    assert!(ran_out() && refused);
    assert!(grows.iter().copied().eq(0..5000));
    assert!(zeroed.iter().all(|byte| *byte == 0));
    assert!(words.iter().enumerate().all(|(n, word)| *word == format!("word {n}")));
    // Back where it came from, or nowhere.
    drop((grows, zeroed, words));
}
