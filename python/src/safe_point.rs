//! The rule for destructors and for callbacks from the garbage collector: what they may do.
//!
//! CPython runs a destructor wherever the last reference goes, and up to 3.11 it runs the garbage
//! collector inside of any call that allocates a container. Both may happen in the middle of a C
//! function that does not expect to be re-entered. `ContextVar.set`, for one, reads the context's
//! old tree before it allocates the new one: a second `set` inside of that allocation leaves an
//! object with one reference too few, and the heap is damaged.
//!
//! The rule: a destructor of ours, and a callback of ours from the collector, releases references
//! and writes records, and nothing else. It sets no context variable, allocates no object, and
//! calls no code of the program. The request that ends there is recorded as ended at once. Its
//! context still names it, which the next query for the current request notices (`names::open`),
//! and the program's predicate is called at the next request's begin or end
//! (`recorder::ask_postponed`).
//!
//! | place | when it runs | what it does |
//! | --- | --- | --- |
//! | `life.rs` `dealloc` | last reference to one of the next seven | its `Life::end` |
//! | `moments/awaited/passing.rs` `impl Life for Passing` | an awaitable's | `request::abandon` |
//! | `moments/awaited/represented.rs` `impl Life for Steps` | its steps' | releases its own |
//! | `moments/awaited/wrapper.rs` `impl Life for Wrapper` | a wrapper's | releases its own |
//! | `moments/sender.rs` `impl Life for Sender` | a `send`'s | releases the server's |
//! | `moments/asgi.rs` `impl Life for Served` | a server's application's | releases the program's |
//! | `moments/handed.rs` `impl Life for Work` | handed-over work's | releases the function |
//! | `hooks/stand_in.rs` `impl Life for StandIn` | a stand-in's | releases callable and hook |
//! | `moments/making.rs` `dealloc` | last reference to a moment | ends an open one, pools memory |
//! | `moments/making.rs` `clear` | collector | releases the attributes |
//! | `moments/bound.rs` `unbind` | last reference to `__enter__`, `__exit__` | releases the owner |
//! | `moments/wsgi.rs` `impl Drop for Ending` | a body that was not closed | `request::abandon` |
//! | `moments/held.rs` `impl Drop for Held` | a record was made | releases attributes |
//! | `alone.rs` `impl Drop for Ends` | end of a critical section | ends it |
//! | `moments/attributes.rs` `impl Drop for Owned` | end of a scope of ours | releases a str |
//! | `moments/tasks.rs` `gc_callback` | begin and end of a collection | two stores, or one record |
//! | `metrics/handle.rs` `dealloc` | last reference to a metric's handle | releases a str |
//! | `moments/mod.rs` `end` (a capsule's) | end of the interpreter | frees the pools and names |
//!
//! `tools/check_destructors.py` fails for a destructor without a row here.
//!
//! A generator of the program's that is collected runs its `with` blocks, and so our `__exit__`:
//! that is code of the program, and may allocate as it would without us. Yet it may be inside of a
//! `ContextVar.set`, too; `in_collection` detects that, and `names::set_current` does nothing then.
//!
//! Collections are observed by a callback in `gc.callbacks`, which the program may clear. So each
//! query first checks that the callback is there. If it is not, up to 3.11, the query requests a
//! collection of the youngest generation: CPython refuses that inside of another collection, and
//! calls no callback then. If the program has disabled the collector, none is requested: its
//! collections are calls of its own, between bytecodes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(not(Py_GIL_DISABLED))]
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use sys::cell::StaticRef;

use crate::aside::Aside;
use crate::call::quietly;

/// The thread that runs a garbage collection, 0 none. By `pthread_self`, which a fork keeps.
/// Written by that thread, and compared with the reader's own: a thread always sees its own stores,
/// so relaxed is enough. There is one collection at a time: CPython refuses a second one, without
/// the GIL, too.
static COLLECTING: AtomicUsize = AtomicUsize::new(0);
/// In `COLLECTING`: an unknown thread. No thread's `pthread_self`, which is an address.
const SOME_THREAD: usize = usize::MAX;
/// Whether a collection began since this was cleared, on this thread. Up to 3.11 only, under the
/// GIL.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// How collections are observed; empty before recording begins.
static WATCH: StaticRef<Watch> = StaticRef::empty();

/// Of the gc module, as it was when recording began: a program may put others there later.
struct Watch {
    callbacks: Py<PyList>,
    callback: Py<PyAny>,
    collect: Py<PyAny>,
    isenabled: Py<PyAny>,
}

impl Watch {
    /// Whether the callback is at its place. Another thread may change the list meanwhile, so its
    /// items are held.
    #[cfg(Py_GIL_DISABLED)]
    fn is_in_place(&self, py: Python<'_>) -> bool {
        self.callbacks.bind(py).iter().any(|one| one.is(&self.callback))
    }

    /// Whether the callback is at its place. Calls nothing and allocates nothing.
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline]
    fn is_in_place(&self, _py: Python<'_>) -> bool {
        let (list, wanted) = (self.callbacks.as_ptr(), self.callback.as_ptr());
        // SAFETY: the caller holds the GIL: a list, read within its size, and compared by address.
        unsafe {
            (0..ffi::PyList_GET_SIZE(list)).any(|at| ffi::PyList_GET_ITEM(list, at) == wanted)
        }
    }

    /// Puts the callback back. Whether the calling thread may be in a collection.
    fn resume(&self, py: Python<'_>) -> PyResult<bool> {
        self.callbacks.bind(py).append(self.callback.bind(py))?;
        COLLECTING.store(0, Ordering::Relaxed);
        // From 3.12 on the collector runs between bytecodes only.
        if cfg!(Py_3_12) || !self.isenabled.bind(py).call0()?.is_truthy()? {
            return Ok(false);
        }
        HAS_BEGUN.store(false, Ordering::Relaxed);
        self.collect.bind(py).call1((0,))?;
        let is_refused = !HAS_BEGUN.load(Ordering::Relaxed);
        if is_refused {
            // Its end calls the callback, whose place it finds in the list by then.
            COLLECTING.store(SOME_THREAD, Ordering::Relaxed);
        }
        Ok(is_refused)
    }
}

/// Begins to watch collections: `callback` is `moments::gc_callback`. Once a process.
#[pyfunction]
pub fn watch_collections(gc: &Bound<'_, PyModule>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let callbacks = gc.getattr("callbacks")?.cast_into::<PyList>()?;
    callbacks.append(callback)?;
    let function = |name| gc.getattr(name).map(Bound::unbind);
    let (collect, isenabled) = (function("collect")?, function("isenabled")?);
    let callback = callback.clone().unbind();
    let watch = Watch { callbacks: callbacks.unbind(), callback, collect, isenabled };
    WATCH.get_or_make(|| watch);
    Ok(())
}

/// The calling thread begins a collection.
pub fn collection_begins() {
    COLLECTING.store(this_thread(), Ordering::Relaxed);
    HAS_BEGUN.store(true, Ordering::Relaxed);
}

/// The collection is over.
pub fn collection_ends() {
    COLLECTING.store(0, Ordering::Relaxed);
}

/// Whether the calling thread may be inside of a garbage collection: then the caller may be in the
/// middle of any C function of CPython's. Not for destructors: it may allocate, and collect. Cost:
/// three loads.
#[inline]
pub fn in_collection(py: Python<'_>) -> bool {
    match WATCH.get() {
        Some(watch) if !watch.is_in_place(py) => in_unseen_collection(py, watch),
        _ => {
            let collecting = COLLECTING.load(Ordering::Relaxed);
            collecting != 0 && (collecting == this_thread() || collecting == SOME_THREAD)
        }
    }
}

#[cold]
fn in_unseen_collection(py: Python<'_>, watch: &Watch) -> bool {
    // Without memory for the callback nothing is known, so nothing is set.
    let resume = |_: &Aside| quietly(true, || watch.resume(py).unwrap_or(true));
    // SAFETY: the GIL is held (`py`).
    unsafe { Aside::around(resume) }
}

fn this_thread() -> usize {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::pthread_self() as usize }
}
