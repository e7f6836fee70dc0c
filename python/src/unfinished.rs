//! Requests that an integration's Python code began and, interrupted or failed, will never end.
//!
//! How it works: a hook's actions (`crate::hooks`) begin and end requests by calls, and an
//! exception of a signal handler may come between any two of them: a worker's time limit, Ctrl-C.
//! The hook notes how many requests had begun before its call. If an action is interrupted, this
//! context's request ends if it began after that. A request that was begun for another context
//! (`enter = False`) is kept per thread until a context works for it; if the action fails before,
//! it ends.
//!
//! What it promises: no request stays open that only the failed action would have ended, and no
//! request that was open before the call is touched. Cost: two loads for each hooked call. Missing
//! on purpose: what integrations keep in context variables of their own; a number that names an
//! ended request does no harm.

use std::cell::Cell;

use pyo3::prelude::*;

use crate::aside::fetched;
use crate::call::quietly;
use crate::names;

thread_local! {
    /// The request that code of Python's began last on this thread for a context that is not known
    /// yet; 0 for none.
    static APART: Cell<u64> = const { Cell::new(0) };
}

/// Python code has begun a request for a context that it will name.
pub fn is_apart(id: u64) {
    APART.set(id);
}

/// A context works for the request from now on.
pub fn has_context(id: u64) {
    if APART.get() == id {
        APART.set(0);
    }
}

/// How many requests were begun so far.
pub fn begun() -> u64 {
    recorder::current().map_or(0, |recorder| recorder.open_requests().begun())
}

/// A hook's action has failed: no context will work for what it began apart. `kind`: the name of
/// the error's type, "" if the request is not to count as failed.
pub fn end_apart(py: Python<'_>, kind: &str) {
    end(py, APART.take(), kind);
}

/// The exception that is set interrupts a hook's action. Ends what the action began apart, and this
/// context's request if it began in the hooked call, after `begun` requests had.
pub fn end_interrupted(py: Python<'_>, begun: u64) {
    let error = fetched(py);
    quietly((), || {
        let kind = error.get_type(py).name().map_or_else(|_| String::new(), |it| it.to_string());
        end_apart(py, &kind);
        let current = names::open(py);
        if recorder::current().is_some_and(|it| it.open_requests().began_after(current, begun)) {
            end(py, current, &kind);
        }
    });
    error.restore(py);
}

/// The program's predicate is called later: an exception may be on its way.
fn end(py: Python<'_>, id: u64, kind: &str) {
    let Some(recorder) = recorder::current().filter(|_| id != 0) else { return };
    names::restore(py, id, 0);
    let Some(request) = recorder.open_requests().find(id) else { return };
    if !kind.is_empty() {
        request.fail(kind);
    }
    request.end_unasked(0, !kind.is_empty(), &[]);
}
