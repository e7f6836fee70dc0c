//! When the tasks of a request run: switches of context, as CPython 3.14 and later report them.
//!
//! How it works: each step of an asyncio task runs in the task's context, which has the request's
//! id. CPython calls `switched` when a thread enters a context and when it leaves one: so the time
//! between the two is, exactly, a time in which no code of the request ran there. The recorder
//! writes such a time if a sample of the request's task is in it (`recorder::context_switched`).
//!
//! ```text
//!   context      | request 7 |  none  | request 9 |  none  | request 7 |
//!   of request 7       left ->|----- suspended, exactly ------|<- entered
//! ```
//!
//! What it promises: `switched` runs in the middle of CPython's own switch, at times with an
//! exception set. It allocates nothing, calls no code of the program, raises nothing, and leaves
//! the exception. 21 ns for a switch, 68 where one of the two contexts has a request.
//!
//! What is missing on purpose: greenlets, which switch contexts without a report: once a request
//! runs in one, no more switches are used. Contexts of subinterpreters. Up to 3.13 there are no
//! reports at all.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::ffi;

thread_local! {
    /// The request of the context that this thread entered last.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// The context variable with the request's id, once switches are reported; it lives as long as the
/// process. Relaxed: set under the GIL, before the first report.
static VARIABLE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(null_mut());
/// Greenlets run requests: contexts are switched without a report. Relaxed: a flag on its own.
static HAS_GREENLETS: AtomicBool = AtomicBool::new(false);

extern "C" {
    fn PyContext_AddWatcher(
        callback: unsafe extern "C" fn(c_uint, *mut ffi::PyObject) -> c_int,
    ) -> c_int;
}

/// Asks CPython for reports, once. `variable`: the context variable with the request's id, which is
/// never freed. The caller holds the GIL, with no exception set.
pub fn watch(variable: *mut ffi::PyObject) {
    if !VARIABLE.swap(variable, Ordering::Relaxed).is_null() {
        return;
    }
    // SAFETY: called with the GIL; `switched` lives as long as the process, since the module is
    // never unloaded. -1: there is no room for one more, and an exception says so.
    unsafe {
        if PyContext_AddWatcher(switched) < 0 {
            ffi::PyErr_Clear();
        }
    }
}

/// A request runs in a greenlet.
pub fn refuse() {
    HAS_GREENLETS.store(true, Ordering::Relaxed);
}

/// The running context is now one of this request (0: of none).
#[inline]
pub fn is_of(request: u64) {
    if !VARIABLE.load(Ordering::Relaxed).is_null() {
        HERE.set(request);
    }
}

/// A `PyContext_WatchCallback`: the thread's context is another one from now on.
unsafe extern "C" fn switched(_event: c_uint, _context: *mut ffi::PyObject) -> c_int {
    if !recorder::is_on() || HAS_GREENLETS.load(Ordering::Relaxed) {
        recorder::context_switch_missed();
        return 0;
    }
    // SAFETY: CPython calls this with the GIL (on a free-threaded build: attached).
    let entered = unsafe { request_here() };
    recorder::context_switched(HERE.replace(entered), entered);
    0
}

/// The request of the running context; an exception that is set stays.
///
/// Safety: the thread is attached.
unsafe fn request_here() -> u64 {
    let variable = VARIABLE.load(Ordering::Relaxed);
    let mut value: *mut ffi::PyObject = null_mut();
    // SAFETY: `variable` is a live context variable (`watch`). CPython compares it with others by
    // address, so nothing is called that could raise. On success `value` is NULL (unset) or a new
    // reference, given back here: the context has another one, so nothing is freed.
    unsafe {
        let failed = ffi::PyContextVar_Get(variable, null_mut(), &mut value) != 0;
        if failed || value.is_null() {
            return 0;
        }
        // Other code may have set the variable to anything.
        let id = match ffi::PyLong_CheckExact(value) != 0 {
            true => ffi::PyLong_AsUnsignedLongLongMask(value),
            false => 0,
        };
        ffi::Py_DECREF(value);
        id
    }
}
