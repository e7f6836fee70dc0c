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
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use sys::cell::StaticRef;

use super::arrivals::{begin_asgi, item};
use super::attributes::is_plain;
use super::awaited::{pass, pass_lazily, Role};
use super::request;
use super::sender::Sender;
use crate::call::{bound_to, quietly, wrong_call, Forwarded};
use crate::disguise::{slots, Disguise};
use crate::kept::word;
use crate::life::{class, make, Head, Life};
use crate::notice::Faults;
use crate::process::recording;
use crate::types::Class;

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
        static FAULTS: Faults = Faults::new();
        let begun = quietly(Ok(0), || begin_cycle(&original));
        let id = match FAULTS.or_note(py, begun, || "run_asgi".to_owned()) {
            Ok(Some(0) | None) => return meant.call(),
            Ok(Some(id)) => id,
            Err(error) => {
                error.restore(py);
                return null_mut();
            }
        };
        let served = Served::new(id, *meant.first);
        if served.is_null() {
            ffi::PyErr_Clear();
            quietly((), || request::end(py, id, false, ""));
            return meant.call();
        }
        let given: [*mut ffi::PyObject; 2] = [null_mut(), served.cast()];
        let flagged = 1 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let made = ffi::PyObject_Vectorcall(
            meant.callable,
            given.as_ptr().add(1),
            flagged as _,
            null_mut(),
        );
        ffi::Py_DECREF(served.cast());
        made
    }
}

/// Begins the request of a server's cycle, to which `run_asgi` is bound. 0: nothing is recorded.
fn begin_cycle(run_asgi: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = run_asgi.py();
    let cycle = match bound_to(run_asgi) {
        Some(cycle) => cycle,
        None => run_asgi.getattr(word!(py, "__self__"))?,
    };
    let (scope, transport) =
        (cycle.getattr(word!(py, "scope"))?, cycle.getattr(word!(py, "transport"))?);
    begin_asgi(&scope, Some(&transport), false)
}

/// The type of `Served`.
static SERVED: Class = Class::new();

/// The application that a server's cycle gets: it calls the program's, as the request that has
/// begun.
#[repr(C)]
struct Served {
    _head: Head,
    call: Option<ffi::vectorcallfunc>,
    /// The program's. Owned.
    application: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    request: u64,
}

// SAFETY: the layout above; the application is set once.
unsafe impl Life for Served {
    const WEAK: Option<usize> = Some(offset_of!(Served, weak));
    const CALL: Option<usize> = Some(offset_of!(Served, call));
    type Held = [*mut ffi::PyObject; 1];

    fn held(&self) -> Self::Held {
        [self.application]
    }
}

impl Disguise for Served {
    const OWN: &'static [&'static CStr] = &[c"__call__"];

    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { (*object.cast::<Served>()).application }
    }
}

impl Served {
    /// Owned; NULL and MemoryError.
    ///
    /// Safety: the GIL is held; `application` is a live object.
    unsafe fn new(request: u64, application: *mut ffi::PyObject) -> *mut Served {
        // SAFETY: promised by the caller; the type is that of a `Served`.
        unsafe {
            make(SERVED.get(), |_head| {
                ffi::Py_INCREF(application);
                Served { _head, call: Some(serve_begun), application, weak: null_mut(), request }
            })
        }
    }
}

/// `served(scope, receive, send)`; any other call is the program's application's.
unsafe extern "C" fn serve_begun(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    flagged: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Served`, which the caller holds, as the
    // arguments.
    unsafe {
        let Served { application, request, .. } = *object.cast::<Served>();
        if flagged & !ffi::PY_VECTORCALL_ARGUMENTS_OFFSET != 3 || !keywords.is_null() {
            return ffi::PyObject_Vectorcall(application, args, flagged as _, keywords);
        }
        serve(request, application, args)
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
        match quietly(Ok(false), || begins(py, given[scope])) {
            Ok(true) => {}
            Ok(false) => return meant.call(),
            Err(error) => {
                error.restore(py);
                return null_mut();
            }
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

/// Whether the call of an application with this scope is a request that was not begun before. Err:
/// an exception that interrupts the program.
unsafe fn begins(py: Python<'_>, scope: *mut ffi::PyObject) -> PyResult<bool> {
    // SAFETY: the caller holds the GIL and the object.
    let scope = unsafe { Bound::from_borrowed_ptr(py, scope) };
    if recording(py).is_none() || crate::names::open(py) != 0 {
        return Ok(false);
    }
    let kind = item(&scope, word!(py, "type"))?.and_then(|it| it.cast_into::<PyString>().ok());
    Ok(kind.is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind == "http")))
}

/// The transport of the connection that a context serves, if its server reports it.
static TRANSPORT: StaticRef<Py<PyAny>> = StaticRef::empty();

/// Makes the type of `Served`, and the context variable.
pub(super) fn make_kept(py: Python<'_>) -> PyResult<()> {
    let slots = slots::<Served>(Vec::new());
    SERVED.set(class::<Served>(py, null_mut(), c"dashcam._native.Served", 0, slots)?);
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
            false => Ok(None),
        };
        let role = match role {
            Ok(role) => role,
            Err(error) => {
                error.restore(Python::assume_attached());
                return null_mut();
            }
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
/// Err: an exception that interrupts the program.
unsafe fn role_of(message: *mut ffi::PyObject, failed: bool) -> PyResult<Option<Role>> {
    // SAFETY: the caller holds the GIL and the object; the text lives as long as its object.
    unsafe {
        let py = Python::assume_attached();
        let message = Bound::from_borrowed_ptr(py, message);
        let Some(kind) = item(&message, word!(py, "type"))? else { return Ok(None) };
        let mut length = 0;
        let text = ffi::PyUnicode_AsUTF8AndSize(kind.as_ptr(), &mut length);
        if text.is_null() {
            ffi::PyErr_Clear();
            return Ok(None);
        }
        Ok(match std::slice::from_raw_parts(text.cast::<u8>(), length as usize) {
            b"http.response.body" => {
                let more = item(&message, word!(py, "more_body"))?;
                let is_last = more.map_or(Some(true), |more| truth(&more).map(|more| !more));
                (is_last == Some(true)).then_some(Role::Last)
            }
            b"http.response.start" => {
                let status = item(&message, word!(py, "status"))?;
                // Of another type it would be asked for its `__index__`.
                let status = status.and_then(|status| status.cast_into::<PyInt>().ok());
                let status = status.and_then(|status| status.extract::<i64>().ok()).unwrap_or(0);
                (failed || status >= 500).then_some(Role::Status(status >= 500))
            }
            _ => None,
        })
    }
}

/// Whether it is true. None: only its `__bool__` or `__len__` knows, which may be the program's: it
/// is for the server to call, and to report what it raises. Then the request ends with the
/// application.
unsafe fn truth(object: &Bound<'_, PyAny>) -> Option<bool> {
    // SAFETY: the GIL is held; the types are CPython's own.
    let is_known = unsafe {
        let others = [
            &raw mut ffi::PyBytes_Type,
            &raw mut ffi::PyList_Type,
            &raw mut ffi::PyTuple_Type,
            &raw mut ffi::PyDict_Type,
        ];
        object.is_none() || is_plain(object.as_ptr()) || others.contains(&object.get_type_ptr())
    };
    is_known.then(|| object.is_truthy().ok()).flatten()
}
