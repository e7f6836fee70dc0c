//! An ASGI request: from the arrival of its data until the last part of its response is handed
//! over.
//!
//! How it works: a server's hook begins the request where it is read (`run`, `asgi_arrives`), which
//! is not yet the task that will work for it. In that task `serve` calls the application, with a
//! `send` of ours, and returns the application's awaitable to the server inside of a `Passing`,
//! which observes its end:
//!
//! ```text
//!   server's coroutine -> Passing -> application's coroutine -> ... -> Sender -> server's send
//!                            `------------- request, failed ------------'
//! ```
//!
//! The awaitable of the server's `send` is handed to the application unchanged, unless its end
//! matters: for the last part of a body, or for a reply of 500 and more. Only these are in a
//! `Passing`, too.
//!
//! A framework's application is called by `asgi_call` instead, which has no time of arrival: its
//! request begins with the first step, in the task that works for it.
//!
//! What it promises: the server's `send` is called once for each message, with the message given.
//! Our `send` answers every query as the server's does (see `disguise`). No scope and no message
//! causes an error of ours.
//!
//! Missing on purpose: work after the response (background tasks), since the client does not wait
//! for it. Websockets and lifespan are no requests.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sys::cell::StaticRef;

use super::arrivals::{begin_asgi, item};
use super::awaited::{pass, pass_lazily, Role};
use super::request;
use super::sender::Sender;
use crate::call::{quietly, wrong_call, Definition, Forwarded};
use crate::kept::word;
use crate::made;
use crate::notice::Faults;
use crate::process::recording;

/// `around(original, application)` of a server's `run_asgi`, which is called where the request is
/// read and makes the coroutine of the task that serves it. The request begins here; the server
/// gets an application that serves it.
///
/// Safety: as CPython calls a function with METH_FASTCALL and METH_KEYWORDS.
pub(super) unsafe extern "C" fn run(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and `count` arguments, which the caller holds.
    unsafe {
        let Some(meant) = Forwarded::of(args, count, keywords) else {
            return wrong_call(c"asgi_run() takes a bound method and its arguments");
        };
        let py = Python::assume_attached();
        if meant.count != 1 || !keywords.is_null() || recording(py).is_none() {
            return meant.call();
        }
        let original = Bound::from_borrowed_ptr(py, meant.callable);
        let application = Bound::from_borrowed_ptr(py, *meant.first);
        static FAULTS: Faults = Faults::new();
        let served = quietly(Ok(None), || of_cycle(&original, &application));
        let served = match FAULTS.or_note(py, served, || "run_asgi".to_owned()) {
            Ok(Some(Some(served))) => served,
            Ok(_) => return meant.call(),
            Err(error) => {
                error.restore(py);
                return null_mut();
            }
        };
        let given = [null_mut(), served.as_ptr()];
        let flagged = 1 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        ffi::PyObject_Vectorcall(meant.callable, given.as_ptr().add(1), flagged as _, null_mut())
    }
}

/// The application that serves the request of a server's cycle, to which `run_asgi` is bound. None:
/// nothing is recorded.
fn of_cycle<'py>(
    run_asgi: &Bound<'py, PyAny>,
    application: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = run_asgi.py();
    let cycle = run_asgi.getattr(word!(py, "__self__"))?;
    let (scope, transport) =
        (cycle.getattr(word!(py, "scope"))?, cycle.getattr(word!(py, "transport"))?);
    let id = begin_asgi(&scope, Some(&transport), false)?;
    if id == 0 {
        return Ok(None);
    }
    static SERVED: Definition = Definition::new(c"application", served);
    let state = made::tuple(py, &[made::int(py, id)?, application.clone()])?;
    SERVED.with(state.into_any()).map(Some)
}

/// The application that `of_cycle` makes; its `self` is the request and the program's application.
unsafe extern "C" fn served(
    state: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, the function's `self`, which `of_cycle` made and the
    // function holds, and `count` arguments, which the caller holds.
    unsafe {
        let (id, application) = (ffi::PyTuple_GET_ITEM(state, 0), ffi::PyTuple_GET_ITEM(state, 1));
        if count != 3 || !keywords.is_null() {
            return ffi::PyObject_Vectorcall(application, args, count as _, keywords);
        }
        serve(ffi::PyLong_AsUnsignedLongLong(id), application, args)
    }
}

/// Calls the application with scope, receive, send as the request `id`, in the context of the
/// running task; the result has to be awaited.
///
/// Safety: the GIL is held; the caller holds the application and the three arguments.
unsafe fn serve(
    id: u64,
    application: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        let py = Python::assume_attached();
        quietly((), || request::request_enter(py, id));
        let sender = Sender::new(id, *args.add(2), Some(call));
        if sender.is_null() {
            ffi::PyErr_Clear();
            quietly((), || request::end(py, id, false, ""));
            return ffi::PyObject_Vectorcall(application, args, 3, null_mut());
        }
        // The place in front is for a callable that puts its `self` there.
        let given = [null_mut(), *args, *args.add(1), sender.cast()];
        let flagged = 3 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let made =
            ffi::PyObject_Vectorcall(application, given.as_ptr().add(1), flagged as _, null_mut());
        if made.is_null() {
            (*sender).fail_as_set();
            ffi::Py_DECREF(sender.cast());
            return null_mut();
        }
        pass(made, sender, Role::Application)
    }
}

/// `asgi_serve(request, application, scope, receive, send)`: calls the application as `request`, in
/// the context of the running task; the result has to be awaited.
///
/// Safety: as CPython calls a function with METH_FASTCALL and METH_KEYWORDS.
pub(super) unsafe extern "C" fn serve_with(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and `count` arguments, which the caller holds.
    unsafe {
        if count != 5 || !keywords.is_null() {
            return wrong_call(
                c"asgi_serve() takes five arguments: request, application, scope, receive, send",
            );
        }
        let id = ffi::PyLong_AsUnsignedLongLong(*args);
        if id == u64::MAX && !ffi::PyErr_Occurred().is_null() {
            return null_mut();
        }
        match id {
            0 => ffi::PyObject_Vectorcall(*args.add(1), args.add(2), 3, null_mut()),
            _ => serve(id, *args.add(1), args.add(2)),
        }
    }
}

/// `asgi_call(application, scope, receive, send, *more)`: calls the application, as a request if
/// this is one and no other is open here. The request begins when the result is awaited, in the
/// context that awaits it.
///
/// Safety: as CPython calls a function with METH_FASTCALL and METH_KEYWORDS.
pub(super) unsafe extern "C" fn call_application(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and `count` arguments, which the caller holds.
    unsafe {
        let Some(meant) = Forwarded::of(args, count, keywords) else {
            return wrong_call(c"asgi_call() takes an application and its arguments");
        };
        let py = Python::assume_attached();
        let named = if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) };
        let given = std::slice::from_raw_parts(args, (count + named) as usize);
        let Some((scope, send)) = scope_and_send(count as usize, keywords) else {
            return meant.call();
        };
        if !quietly(false, || begins(py, given[scope])) {
            return meant.call();
        }
        let sender = Sender::new(0, given[send], Some(call));
        if sender.is_null() {
            ffi::PyErr_Clear();
            return meant.call();
        }
        // The place in front is for a callable that puts its `self` there.
        let mut own = vec![null_mut()];
        own.extend_from_slice(&given[1..]);
        own[send] = sender.cast();
        let flagged = meant.count | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let made =
            ffi::PyObject_Vectorcall(meant.callable, own.as_ptr().add(1), flagged as _, keywords);
        if made.is_null() {
            ffi::Py_DECREF(sender.cast());
            return null_mut();
        }
        pass_lazily(made, sender, given[scope], transport(py))
    }
}

/// Where the scope and `send` are among the arguments behind an application, which are positional,
/// or all named.
///
/// Safety: the GIL is held; `keywords` is a tuple of strs, or NULL.
unsafe fn scope_and_send(count: usize, keywords: *mut ffi::PyObject) -> Option<(usize, usize)> {
    if keywords.is_null() {
        return (count >= 4).then_some((1, 3));
    }
    // SAFETY: promised by the caller; names are borrowed.
    let place = |wanted: &CStr| unsafe {
        let is_it = |at: &ffi::Py_ssize_t| {
            let name = ffi::PyTuple_GET_ITEM(keywords, *at);
            ffi::PyUnicode_CompareWithASCIIString(name, wanted.as_ptr()) == 0
        };
        (0..ffi::PyTuple_GET_SIZE(keywords)).find(is_it).map(|at| at as usize + 1)
    };
    match count {
        1 => Some((place(c"scope")?, place(c"send")?)),
        _ => None,
    }
}

/// Whether the call of an application with this scope is a request that was not begun before.
unsafe fn begins(py: Python<'_>, scope: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller holds the GIL and the object.
    let scope = unsafe { Bound::from_borrowed_ptr(py, scope) };
    let kind = || item(&scope, word!(py, "type"))?.cast_into::<PyString>().ok();
    recording(py).is_some()
        && crate::names::open(py) == 0
        && kind().is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind == "http"))
}

/// The transport of the connection that a context serves, if its server reports it.
static TRANSPORT: StaticRef<Py<PyAny>> = StaticRef::empty();

/// Makes the context variable.
pub(super) fn make_transport(py: Python<'_>) -> PyResult<()> {
    // SAFETY: a static, NUL-terminated name; NULL is fetched as an error.
    let made = unsafe {
        let made = ffi::PyContextVar_New(c"dashcam_transport".as_ptr(), null_mut());
        Bound::from_owned_ptr_or_err(py, made)?.unbind()
    };
    TRANSPORT.get_or_make(|| made);
    Ok(())
}

/// The calling context serves this transport's connection.
#[pyfunction]
pub fn asgi_on(transport: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = transport.py();
    let Some(variable) = TRANSPORT.get() else { return Ok(()) };
    // SAFETY: live objects, the GIL is held; the token is given back.
    unsafe {
        let token = ffi::PyContextVar_Set(variable.as_ptr(), transport.as_ptr());
        Bound::from_owned_ptr_or_err(py, token).map(drop)
    }
}

/// The transport of the calling context, owned; NULL if it is not known.
fn transport(py: Python<'_>) -> *mut ffi::PyObject {
    let mut value = null_mut();
    if let Some(variable) = TRANSPORT.get() {
        // SAFETY: a context variable; `value` is a new reference or NULL. The GIL is held (`py`).
        unsafe {
            if ffi::PyContextVar_Get(variable.bind(py).as_ptr(), null_mut(), &mut value) != 0 {
                ffi::PyErr_Clear();
            }
        }
    }
    value
}

/// `sender(message)`.
unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this with the GIL and a `Sender`, which the caller holds, as the
    // arguments.
    unsafe {
        let sender = &*object.cast::<Sender>();
        let given = count & !ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let any = given != 0 || !keywords.is_null() && ffi::PyTuple_GET_SIZE(keywords) != 0;
        let role = match any && sender.id() != 0 {
            true => role_of(*args, sender.failed.load(Ordering::Relaxed)),
            false => None,
        };
        let made = ffi::PyObject_Vectorcall(sender.inner, args, count, keywords);
        match role {
            Some(role) if !made.is_null() => {
                ffi::Py_INCREF(object);
                pass(made, object.cast(), role)
            }
            _ => made,
        }
    }
}

/// What it means that the server took this message. `failed`: what an earlier message reported.
unsafe fn role_of(message: *mut ffi::PyObject, failed: bool) -> Option<Role> {
    // SAFETY: the caller holds the GIL and the object; the text lives as long as its object.
    unsafe {
        let py = Python::assume_attached();
        let message = Bound::from_borrowed_ptr(py, message);
        let kind = item(&message, word!(py, "type"))?;
        let mut length = 0;
        let text = ffi::PyUnicode_AsUTF8AndSize(kind.as_ptr(), &mut length);
        if text.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        match std::slice::from_raw_parts(text.cast::<u8>(), length as usize) {
            b"http.response.body" => {
                let more = item(&message, word!(py, "more_body"));
                // The server will report an error in it.
                let more = more.is_some_and(|more| more.is_truthy().unwrap_or(true));
                (!more).then_some(Role::Last)
            }
            b"http.response.start" => {
                let status = item(&message, word!(py, "status"));
                let status = status.and_then(|status| status.extract::<i64>().ok()).unwrap_or(0);
                (failed || status >= 500).then_some(Role::Status(status >= 500))
            }
            _ => None,
        }
    }
}
