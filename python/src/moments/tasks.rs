//! Tasks of a request on other threads, and garbage collections.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::kept::word;
use crate::{names, safe_point};

/// A running task, with what restores its thread's request at its end.
#[pyclass(frozen)]
pub struct Task {
    request: u64,
    queued_ns: u64,
    begin_ns: u64,
    /// The request that the thread worked for before.
    before: u64,
}

/// The name of tasks.
static EXECUTOR: names::Own = names::Own::new("executor");

/// A task of `request` begins on this thread; it was in a queue since `queued_ns` (of
/// `time.monotonic_ns`).
#[pyfunction]
pub fn task_begin(py: Python<'_>, request: u64, queued_ns: u64) -> Task {
    let (before, begin_ns) = (names::swap_current(py, request), sys::clock::now_ns());
    if let Some(recorder) = recorder::current() {
        let name = EXECUTOR.id(recorder);
        recorder::task_begins(name, queued_ns, begin_ns, request);
    }
    Task { request, queued_ns, begin_ns, before }
}

/// The task ends.
#[pyfunction]
pub fn task_end(py: Python<'_>, task: &Task) {
    names::restore(py, task.request, task.before);
    if let Some(recorder) = recorder::current() {
        let name = EXECUTOR.id(recorder);
        recorder::task(name, task.queued_ns, task.begin_ns, task.request);
    }
}

/// When the running collection began. There is one at a time, without the GIL, too; a collection of
/// another interpreter could interfere, then one pause is recorded with a wrong begin. Relaxed: the
/// thread that collects sets and takes it.
static GC_BEGAN_NS: AtomicU64 = AtomicU64::new(0);

/// For `gc.callbacks`: a callback from the collector, see `safe_point`. `info` is a dict of
/// CPython's.
#[pyfunction]
pub fn gc_callback(py: Python<'_>, phase: &str, info: &Bound<'_, PyDict>) {
    if phase == "start" {
        safe_point::collection_begins();
        GC_BEGAN_NS.store(sys::clock::now_ns(), Ordering::Relaxed);
        return;
    }
    safe_point::collection_ends();
    let began = GC_BEGAN_NS.swap(0, Ordering::Relaxed);
    if began != 0 {
        let number = |key| -> u64 {
            info.get_item(key).ok().flatten().and_then(|v| v.extract().ok()).unwrap_or(0)
        };
        let generation = number(word!(py, "generation")) as u16;
        recorder::gc(generation, began, number(word!(py, "collected")));
    }
}
