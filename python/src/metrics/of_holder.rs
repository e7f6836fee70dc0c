//! Counting by the GIL's holder: into one shard for all threads.
//!
//! How it works: only one of the threads that hold the GIL runs at a time, and nothing here
//! releases the GIL in the middle of a count. A counter's handle keeps the address of its words in
//! that shard.
//!
//! What it promises: no lock, no system call, no allocation once a name is known. Free-threaded
//! builds count by thread (`of_threads`).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use ::metrics::{registry, Series, Shard};
use pyo3::prelude::*;
use sys::cell::StaticRef;

use crate::process::wake;

/// The shard of the GIL's holder, and the generation it was claimed in. Under the GIL.
static SHARD: StaticRef<Shard> = StaticRef::empty();
static SHARD_MARK: AtomicU64 = AtomicU64::new(0);

/// The shard to count into; None while counting is off. In a forked child the first call starts a
/// new recorder.
#[inline]
fn shard(py: Python<'_>) -> Option<&'static Shard> {
    let mark = registry().mark();
    match SHARD_MARK.load(Ordering::Relaxed) == mark {
        true => SHARD.get(),
        false => claim(py),
    }
}

#[cold]
fn claim(py: Python<'_>) -> Option<&'static Shard> {
    wake(py);
    // Only now: during the start of the recorder another thread may have come here.
    let mark = registry().mark();
    if mark == 0 {
        return None;
    }
    if SHARD_MARK.load(Ordering::Relaxed) != mark {
        SHARD.set(registry().claim().or_else(|| Some(registry().shared())));
        SHARD_MARK.store(mark, Ordering::Relaxed);
    }
    SHARD.get()
}

/// Counts a call into a series; `series` None: it was refused.
fn put(py: Python<'_>, series: Option<&'static Series>, put: impl FnOnce(&Shard, &'static Series)) {
    match (shard(py), series) {
        (None, _) => (),
        (Some(_), None) => registry().refuse_series(),
        (Some(shard), Some(series)) => put(shard, series),
    }
}

/// A counter's words.
pub(super) struct Words {
    /// The generation `words` belong to; 0 none.
    mark: Cell<u64>,
    /// In the shard of the GIL's holder.
    words: Cell<Option<&'static ::metrics::Cell>>,
}

impl Words {
    /// Adds to a counter's words, when they are known. False: nothing was done.
    #[inline]
    pub fn add(&self, _series: Option<&'static Series>, n: i64) -> bool {
        match self.words.get() {
            Some(words) if self.mark.get() == registry().mark() => words.add(n),
            _ => false,
        }
    }

    /// Adds, and keeps the address of the counter's words until the registry's mark changes.
    pub fn add_slowly(&self, py: Python<'_>, series: Option<&'static Series>, n: i64) {
        put(py, series, |shard, series| {
            registry().count(shard, series, n);
            if series.rate >= 1.0 && !std::ptr::eq(shard, registry().shared()) {
                self.words.set(Some(shard.cell(series)));
                self.mark.set(registry().mark());
            }
        });
    }
}

/// Adds a fraction to a counter.
pub(super) fn add_float(py: Python<'_>, series: Option<&'static Series>, n: f64) {
    put(py, series, |shard, series| registry().count_float(shard, series, n));
}

/// Adds a value.
pub(super) fn value(py: Python<'_>, series: Option<&'static Series>, value: f64) {
    put(py, series, |shard, series| registry().value(shard, series, value));
}

/// Sets a gauge.
pub(super) fn set(py: Python<'_>, series: Option<&'static Series>, value: f64) {
    put(py, series, |shard, series| registry().gauge_set(shard, series, value));
}

/// Changes a gauge.
pub(super) fn change(py: Python<'_>, series: Option<&'static Series>, delta: f64) {
    put(py, series, |shard, series| registry().gauge_add(shard, series, delta));
}

/// Adds a member of a set.
pub(super) fn member(py: Python<'_>, series: Option<&'static Series>, member: &str) {
    put(py, series, |shard, series| registry().member(shard, series, member));
}
