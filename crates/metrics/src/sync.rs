//! Atomics and locks; under `--cfg loom` those of the model.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
};

/// Sets a flag: a plain store.
#[cfg(not(loom))]
pub(crate) fn set(flag: &AtomicBool) {
    flag.store(true, Ordering::Relaxed);
}

/// In the model an exchange: loom does not know that a store made after an exchange has read the
/// value before it also comes after it in the flag's history, and would let the exchange's value
/// come back (the C++ memory model, [atomics.order], rules that out).
#[cfg(loom)]
pub(crate) fn set(flag: &AtomicBool) {
    flag.swap(true, Ordering::Relaxed);
}
