//! Counting without the GIL: each thread counts into its own shard, as threads of Rust do.
//!
//! How it works: the crate `metrics` finds the shard of the calling thread. What it promises: exact
//! counts, whatever threads run at once (the models of that crate). Missing on purpose: builds with
//! the GIL, where one shard does for all (`of_holder`).

use ::metrics::{registry, Series};
use pyo3::prelude::*;

use crate::process::wake;

/// Counts a call into a series; `series` None: it was refused.
fn put(py: Python<'_>, series: Option<&'static Series>, put: impl FnOnce(&'static Series)) {
    wake(py);
    match series {
        _ if registry().mark() == 0 => (),
        None => registry().refuse_series(),
        Some(series) => put(series),
    }
}

/// A counter's words are found by each thread.
pub(super) struct Words;

impl Words {
    /// Adds to a counter, where this thread has counted before. False: nothing was done.
    #[inline]
    pub fn add(&self, series: Option<&'static Series>, n: i64) -> bool {
        // Not in a forked child that is to start afresh: no thread of it has counted before.
        series.is_some_and(|series| ::metrics::count_at_once(series, n))
    }

    pub fn add_slowly(&self, py: Python<'_>, series: Option<&'static Series>, n: i64) {
        put(py, series, |series| ::metrics::count(series, n));
    }
}

pub(super) fn add_float(py: Python<'_>, series: Option<&'static Series>, n: f64) {
    put(py, series, |series| ::metrics::count_float(series, n));
}

pub(super) fn value(py: Python<'_>, series: Option<&'static Series>, value: f64) {
    put(py, series, |series| ::metrics::value(series, value));
}

pub(super) fn set(py: Python<'_>, series: Option<&'static Series>, value: f64) {
    put(py, series, |series| ::metrics::gauge_set(series, value));
}

pub(super) fn change(py: Python<'_>, series: Option<&'static Series>, delta: f64) {
    put(py, series, |series| ::metrics::gauge_add(series, delta));
}

pub(super) fn member(py: Python<'_>, series: Option<&'static Series>, member: &str) {
    put(py, series, |series| ::metrics::member(series, member));
}
