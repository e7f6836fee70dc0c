//! Names and the current request, seen from Python.
//!
//! How it works: a name in a program's text is one str object for as long as its code lives, so its
//! id is found by its address (`held`; `immortal` on a free-threaded build). A str whose address is
//! not there is looked up in a dict, by its characters. Ids belong to a recorder, whose epoch is
//! stored beside them.
//!
//! What it promises: one multiplication and three comparisons for a name whose address is known.

#[cfg(not(Py_GIL_DISABLED))]
mod held;
mod ids;
#[cfg(Py_GIL_DISABLED)]
mod immortal;
#[cfg(not(Py_GIL_DISABLED))]
mod routes;
mod table;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use recorder::Recorder;
use sys::cell::StaticRef;

use crate::made::exactly;
use crate::safe_point;
use table::Table;

/// Names of spans, events and attributes.
static NAMES: Table = Table::new();
/// Names of requests, whose limits are looked up once.
static REQUESTS: Table = Table::new();
/// The id of the request this context works for; 0 none.
static CURRENT: StaticRef<Py<PyAny>> = StaticRef::empty();

/// Makes what is kept: the context variable, once, and the tables' dicts.
pub fn make_kept(py: Python<'_>) -> PyResult<()> {
    // SAFETY: a plain C API call with a static, NUL-terminated name; null means a Python error,
    // which `from_owned_ptr_or_err` fetches.
    let variable = unsafe {
        let made = ffi::PyContextVar_New(c"dashcam_request".as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    CURRENT.put(variable.unbind()).map_err(|_| crate::call::elsewhere())?;
    NAMES.make(py)?;
    REQUESTS.make(py)
}

/// The id of the request this context works for; 0 none. Cost: CPython keeps the last result for a
/// thread until its context changes, some ns; else a lookup in a tree, some 20.
#[inline]
pub fn current(_py: Python<'_>) -> u64 {
    let Some(variable) = CURRENT.get() else { return 0 };
    let mut value: *mut ffi::PyObject = null_mut();
    // SAFETY: `variable` is a context variable; on success `value` is NULL (unset) or a new
    // reference, given back here. The GIL is held (`py`).
    unsafe {
        if ffi::PyContextVar_Get(variable.as_ptr(), null_mut(), &mut value) != 0 {
            ffi::PyErr_Clear();
            return 0;
        }
        if value.is_null() {
            return 0;
        }
        let id = ffi::PyLong_AsUnsignedLongLong(value);
        ffi::Py_DECREF(value);
        if id == u64::MAX {
            // Other code has set the variable; no request has this id.
            ffi::PyErr_Clear();
            return 0;
        }
        id
    }
}

/// The time between two contexts of one request is recorded from now on; see `contexts`. The caller
/// has no exception set.
#[cfg(Py_3_14)]
pub fn watch_contexts(_py: Python<'_>) {
    if let Some(variable) = CURRENT.get() {
        crate::contexts::watch(variable.as_ptr());
    }
}

/// The id of the request this context works for, if that is open; else 0. A request that ended in a
/// destructor, or in another context, is still this context's current one: new spans and events are
/// not part of it. Cost: as `current`, and two loads.
#[inline]
pub fn open(py: Python<'_>) -> u64 {
    match current(py) {
        0 => 0,
        id if recorder::current()
            .is_some_and(|recorder| recorder.open_requests().has_ended(id)) =>
        {
            0
        }
        id => id,
    }
}

/// Makes `id` the current request; not while this thread collects garbage, which may be in the
/// middle of setting a variable (see `safe_point`).
pub fn set_current(py: Python<'_>, id: u64) {
    let Some(variable) = CURRENT.get().filter(|_| !safe_point::in_collection(py)) else { return };
    // SAFETY: live objects, the GIL is held; NULL is an error, cleared here.
    unsafe {
        let value = ffi::PyLong_FromUnsignedLongLong(id);
        let token = match value.is_null() {
            true => null_mut(),
            false => ffi::PyContextVar_Set(variable.as_ptr(), value),
        };
        if token.is_null() {
            ffi::PyErr_Clear();
        }
        ffi::Py_XDECREF(token);
        ffi::Py_XDECREF(value);
    }
    #[cfg(Py_3_14)]
    crate::contexts::is_of(id);
}

/// As `set_current`; returns the request that was current before. No token is kept: it would hold
/// its context, and with that the program's values in it.
pub fn swap_current(py: Python<'_>, id: u64) -> u64 {
    let before = current(py);
    set_current(py, id);
    before
}

/// Makes `before` current again if `id` still is: in another context (a generator that was moved)
/// another request may be.
pub fn restore(py: Python<'_>, id: u64, before: u64) {
    if current(py) == id {
        set_current(py, before);
    }
}

/// The id of a name.
///
/// Safety: the GIL is held; `text` is exactly a str, held by the caller.
#[inline]
pub unsafe fn id(recorder: &Recorder, text: *mut ffi::PyObject) -> u32 {
    // SAFETY: promised by the caller.
    unsafe { NAMES.id(recorder, text, |text| recorder.tables().name(text)) }
}

/// The id of a request's name.
///
/// Safety: as `id`.
#[inline]
pub unsafe fn request_id(recorder: &Recorder, text: *mut ffi::PyObject) -> u32 {
    // SAFETY: promised by the caller.
    unsafe { REQUESTS.id(recorder, text, |text| recorder.request_name(text)) }
}

/// The id of a name, of any kind of str; 0: there is no memory.
pub fn name(recorder: &Recorder, text: &Bound<'_, PyString>) -> u32 {
    let Ok(text) = exactly(text) else { return 0 };
    NAMES.by_characters(recorder, &text, |text| recorder.tables().name(text))
}

/// The id of a request's name, of any kind of str; 0: there is no memory.
pub fn request_name(recorder: &Recorder, text: &Bound<'_, PyString>) -> u32 {
    let Ok(text) = exactly(text) else { return 0 };
    REQUESTS.by_characters(recorder, &text, |text| recorder.request_name(text))
}

/// The id of `method route`, a request's name that `make` makes. With the GIL it is found by the
/// route's address.
#[inline]
pub fn route_id(
    recorder: &Recorder,
    method: &str,
    route: &Bound<'_, PyString>,
    make: impl FnOnce() -> u32,
) -> u32 {
    #[cfg(not(Py_GIL_DISABLED))]
    let id = routes::id(method, route, recorder.epoch(), make);
    #[cfg(Py_GIL_DISABLED)]
    let id = {
        let _ = (recorder, method, route);
        make()
    };
    id
}

/// A name of ours: its id is asked for once a recorder, which takes a lock.
pub struct Own {
    text: &'static str,
    /// As `ids::packed`. Release and Acquire: a thread that has the id sees the name behind it.
    known: AtomicU64,
}

impl Own {
    /// The name of this text.
    pub const fn new(text: &'static str) -> Own {
        Own { text, known: AtomicU64::new(0) }
    }

    /// Its id.
    pub fn id(&self, recorder: &Recorder) -> u32 {
        let (epoch, known) = (recorder.epoch(), self.known.load(Ordering::Acquire));
        if let Some(id) = ids::unpacked(known, epoch) {
            return id;
        }
        let id = recorder.tables().name(self.text);
        self.known.store(ids::packed(epoch, id), Ordering::Release);
        id
    }
}

/// Forgets all ids: there is another recorder.
pub fn forget(py: Python<'_>) {
    NAMES.forget(py);
    REQUESTS.forget(py);
    #[cfg(not(Py_GIL_DISABLED))]
    routes::forget(py);
}
