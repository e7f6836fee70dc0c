//! Atomics, and the two sides of the asymmetric fence; under `--cfg loom`, those of the model.
//!
//! How it works: a writer pays a compiler fence, a thread that takes blocks back pays a
//! `membarrier` for both. So the order that Dekker's algorithm needs costs the hot path nothing.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The writer's side: between storing "I am inside" and loading the head. Costs nothing.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn light_fence() {
    sys::barrier::light();
}

/// The reclaimer's side: between storing the new head and loading which owners are inside. False:
/// the kernel refused.
#[cfg(not(loom))]
pub(crate) fn heavy_fence() -> bool {
    sys::barrier::heavy()
}

/// In the model both sides pay, which gives the same order.
#[cfg(loom)]
pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Publishes a head by its owner: a plain release store.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn publish(head: &AtomicU64, value: u64) {
    head.store(value, Ordering::Release);
}

/// In the model an exchange: loom does not know that a store made after a compare-and-swap has read
/// the value before it also comes after it in the word's history, and would let the swap's value
/// come back (the C++ memory model, [atomics.order], rules that out).
#[cfg(loom)]
pub(crate) fn publish(head: &AtomicU64, value: u64) {
    head.swap(value, Ordering::Release);
}

#[cfg(not(loom))]
pub(crate) fn can_take_back() -> bool {
    sys::barrier::available()
}

#[cfg(loom)]
pub(crate) fn can_take_back() -> bool {
    true
}

/// The caller's CPU, a hint.
#[cfg(not(loom))]
pub(crate) fn here() -> usize {
    sys::thread::cpu()
}

#[cfg(loom)]
pub(crate) fn here() -> usize {
    0
}

/// Asks for the cache line of a word that the caller is going to write. A hint: it changes nothing.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
pub(crate) fn fetch_line(word: &AtomicU64) {
    use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    // SAFETY: every x86-64 has the instruction; it neither changes memory nor faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) }
}

#[cfg(any(not(target_arch = "x86_64"), loom))]
pub(crate) fn fetch_line(_: &AtomicU64) {}
