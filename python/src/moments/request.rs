//! Requests: in a `with`, and by function call, for servers' integrations.

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use recorder::Connection;

use super::object::{Kind, Moment, REQUESTS};
use super::pool::Pool;
use super::span::{with_attributes, with_kind};
use crate::alone::alone;
use crate::aside::error_name;
use crate::event_loop;
use crate::made::Id;
use crate::names;
use crate::process::recording;
use crate::safe_point;
use crate::unfinished;

/// Requests.
pub(super) struct Requests;

impl Kind for Requests {
    const TYPE: &'static CStr = c"dashcam._native.Request";
    const NOUN: &'static str = "request";

    #[inline]
    fn pool() -> &'static Pool<Moment> {
        &REQUESTS
    }

    fn enter(py: Python<'_>, request: &Moment) -> Result<(), ()> {
        if recording(py).is_none() {
            return Ok(());
        }
        // SAFETY: the caller holds the GIL and the object.
        unsafe { request.settle(py)? };
        // Only now: while a value's `str()` ran, another recorder may have started.
        let Some(recorder) = recording(py) else { return Ok(()) };
        // SAFETY: a name is exactly a str.
        let name = unsafe { names::request_id(recorder, request.name.get()) };
        let task = event_loop::running_task(py);
        let open = recorder::Request::begin(name, task.is_some(), 0);
        if let Some(task) = task {
            open.set_task(task);
        }
        if open.id == 0 {
            return Ok(());
        }
        let previous = names::swap_current(py, open.id);
        let begin = || {
            request.begin_ns.set(open.begin_ns);
            request.id.set(open.id);
            request.previous.set(previous);
        };
        // SAFETY: the caller holds the GIL and the object.
        unsafe { alone(request.as_object(), begin) };
        Ok(())
    }

    /// An exception of a signal handler came between `__enter__` and the block, where CPython (from
    /// 3.14 on) calls no `__exit__`; or the program dropped what it had entered itself.
    fn lost(id: u64) {
        abandon(id, false, "");
    }

    fn exit(py: Python<'_>, request: &Moment, error: *mut ffi::PyObject) {
        let end = || {
            let (id, begin_ns) = (request.id.replace(0), request.begin_ns.replace(0));
            (recorder::Request { id, begin_ns }, request.previous.get())
        };
        // SAFETY: the caller holds the GIL and the object.
        let (open, previous) = unsafe { alone(request.as_object(), end) };
        if open.id == 0 {
            return;
        }
        if let Some(recorder) = recorder::current() {
            // SAFETY: the caller holds the GIL and both objects; a name is exactly a str.
            unsafe {
                let failed = error != ffi::Py_None();
                if failed {
                    open.fail(&error_name(error));
                }
                let name = names::request_id(recorder, request.name.get());
                with_attributes(recorder, request, error, |list| {
                    // A generator that is collected leaves its `with` in the middle of any other
                    // code.
                    match safe_point::in_collection(py) {
                        true => open.end_unasked(name, failed, list),
                        false => open.end(name, failed, list),
                    }
                });
            }
        }
        names::restore(py, open.id, previous);
    }
}

/// Begins a request that remains current in this context until `request_end`. 0 when off. `fd` is
/// the request's connection: if data was waiting there, the request began when the data came.
/// Without `enter` this context does not work for it yet: another context will call
/// `request_enter`.
#[pyfunction]
#[pyo3(signature = (name, on_loop = false, fd = -1, enter = true))]
pub fn request_begin(name: &Bound<'_, PyString>, on_loop: bool, fd: i32, enter: bool) -> Id {
    let Some(recorder) = recording(name.py()) else { return Id(0) };
    let id = names::request_name(recorder, name);
    let request = begin(name.py(), id, on_loop, Connection::of(fd), enter);
    if !enter {
        unfinished::is_apart(request);
    }
    Id(request)
}

/// As `request_begin`, with a known name.
pub(super) fn begin(
    py: Python<'_>,
    name: u32,
    on_loop: bool,
    connection: Connection,
    enter: bool,
) -> u64 {
    let waited_ns = recorder::waited_ns(connection);
    // A server with greenlets calls its application as one with threads does.
    if let Some(recorder) = recorder::current() {
        recorder::ask_postponed(recorder);
    }
    let task = match enter {
        true if on_loop => event_loop::running_task(py),
        true => event_loop::greenlet(py),
        false => None,
    };
    let request = recorder::Request::begin(name, on_loop || task.is_some(), waited_ns);
    if enter {
        names::set_current(py, request.id);
        if let Some(task) = task.filter(|_| request.id != 0) {
            request.set_task(task);
        }
    }
    request.id
}

/// From here on this context works for a request that began in another one, and so does the task
/// that runs in it.
#[pyfunction]
pub fn request_enter(py: Python<'_>, id: u64) {
    unfinished::has_context(id);
    names::set_current(py, id);
    adopt(py, id);
}

fn adopt(py: Python<'_>, id: u64) {
    if let (true, Some(task)) = (id != 0, event_loop::running_task(py)) {
        recorder::Request { id, begin_ns: 0 }.set_task(task);
    }
}

/// Ends a request of `request_begin`. `error`: whether it failed, or the name of the error's type.
/// Unknown ids are ignored. Err: of an object of the program's, which was asked whether it is true;
/// the request has ended as failed.
#[pyfunction]
#[pyo3(signature = (id, error = None))]
pub fn request_end(py: Python<'_>, id: u64, error: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let kind = error.and_then(|error| error.extract::<String>().ok());
    let failed = error.map_or(Ok(false), |error| error.is_truthy());
    end(py, id, *failed.as_ref().unwrap_or(&true), kind.as_deref().unwrap_or_default());
    failed.map(|_| ())
}

/// As `request_end`; `kind`: the name of the error's type, "" for none.
pub(super) fn end(py: Python<'_>, id: u64, failed: bool, kind: &str) {
    // It may be the name that the type itself has, and code of the program that runs below (a
    // destructor, the predicate) may rename the type. Without an error nothing is allocated.
    let kind = &*kind.to_owned();
    if safe_point::in_collection(py) {
        return abandon(id, failed, kind);
    }
    names::restore(py, id, 0);
    let Some(recorder) = recorder::current() else { return };
    recorder::ask_postponed(recorder);
    if let Some(request) = fail(recorder, id, kind) {
        with_kind(recorder, kind, &[], |list| request.end(0, failed, list));
    }
}

/// Ends a request from a destructor: by Rust alone, since any code of CPython's or of the program's
/// may be in progress around it (see `safe_point`).
pub(super) fn abandon(id: u64, failed: bool, kind: &str) {
    let Some(recorder) = recorder::current() else { return };
    if let Some(request) = fail(recorder, id, kind) {
        with_kind(recorder, kind, &[], |list| request.end_unasked(0, failed, list));
    }
}

/// The open request `id`, with the error it ends with.
fn fail(recorder: &recorder::Recorder, id: u64, kind: &str) -> Option<recorder::Request> {
    let request = recorder.open_requests().find(id)?;
    if !kind.is_empty() {
        request.fail(kind);
    }
    Some(request)
}

/// Records that an open request failed with an error of this type, which its server or framework
/// turns into a reply.
#[pyfunction]
pub fn request_failed(id: u64, kind: &str) {
    let Some(recorder) = recorder::current() else { return };
    if let Some(request) = recorder.open_requests().find(id) {
        request.fail(kind);
    }
}

/// Gives an open request another name.
#[pyfunction]
pub fn request_rename(id: u64, name: &Bound<'_, PyString>) {
    let Some(recorder) = recorder::current() else { return };
    let name = names::request_name(recorder, name);
    recorder::Request { id, begin_ns: 0 }.rename(name);
}

/// The id of the open request this context works for; 0 none.
#[pyfunction]
pub fn current_request(py: Python<'_>) -> Id {
    Id(names::open(py))
}
