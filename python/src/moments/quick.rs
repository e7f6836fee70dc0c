//! Actions of hooks that run in each request, without a frame of Python.
//!
//! How it works: each is a builtin function with the arguments of the hooked function, as
//! `crate::hooks` calls it. One that needs to know something (a context variable) has it as its
//! `self`. A function of Python in their place costs 0.5 to 1 us, which was most of the cost of
//! recording a request.
//!
//! | function | hook on | does |
//! | --- | --- | --- |
//! | `hand_over_first`, to `_third` | before `submit(self, f)`, ... | `f` has its request |
//! | `note_status` | before `start_response(self, status)` | 500 and more: the request failed |
//! | `note_response` | after Flask's dispatch | the same, where no server is hooked |
//! | `names_route(variable)` | before Flask's dispatch | names the request by its route |
//! | `names_path(variable)` | before Starlette's `Route.handle` | the same |
//! | `start_apart` | around `Thread.start` | the new thread works for no request |
//!
//! What it promises: what is not as expected raises here, which the hook puts into `status()`; the
//! hooked function is called all the same.
//!
//! Missing on purpose: which functions are hooked (python/dashcam/_integrations).

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::arrivals::{item, request_named};
use super::handed::work;
use super::{request, wsgi};
use crate::aside::Aside;
use crate::call::{function_of, guarded, method, none, quietly, wrong_call, Fast};
use crate::interrupts::ignored;
use crate::kept::word;
use crate::{made, names};

/// The arguments of a call by position.
///
/// Safety: as CPython calls a function with METH_FASTCALL, which gives these.
unsafe fn positional<'a>(
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> &'a [*mut ffi::PyObject] {
    match count {
        0 => &[],
        // SAFETY: promised by the caller.
        _ => unsafe { std::slice::from_raw_parts(args, count as usize) },
    }
}

/// `hand_over(...)`: the arguments of the call, in which the function at `AT` keeps the current
/// request; None without one.
pub(super) unsafe extern "C" fn hand_over<const AT: usize>(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL; `count` arguments and one for each keyword are held
    // by the caller.
    unsafe {
        let request = names::open(Python::assume_attached());
        if request == 0 || count <= AT as ffi::Py_ssize_t {
            return none();
        }
        guarded(|py| {
            let one = |at: usize| Bound::from_borrowed_ptr(py, *args.add(at));
            let mut given: Vec<_> = (0..count as usize).map(one).collect();
            given[AT] = work(request, &given[AT])?;
            let named = made::dict(py)?;
            if !keywords.is_null() {
                let keys = Bound::from_borrowed_ptr(py, keywords).cast_into::<PyTuple>()?;
                for (key, at) in keys.iter().zip(count as usize..) {
                    named.set_item(key, one(at))?;
                }
            }
            let given = made::tuple(py, &given)?.into_any();
            Ok(made::tuple(py, &[given, named.into_any()])?.into_ptr())
        })
    }
}

/// `note_status(self, status, ...)`.
pub(super) unsafe extern "C" fn note_status(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `hand_over`; a str with characters has a first one.
    unsafe {
        let status = match positional(args, count) {
            [_, status, ..] => *status,
            _ => named(args, count, keywords, c"status"),
        };
        let is_error = !status.is_null()
            && ffi::PyUnicode_Check(status) != 0
            && ffi::PyUnicode_GetLength(status) > 0
            && ffi::PyUnicode_ReadChar(status, 0) == u32::from('5');
        if is_error {
            let id = names::open(Python::assume_attached());
            quietly((), || request::request_failed(id, ""));
        }
        none()
    }
}

/// `note_response(response, ...)`: a failure by its `status_code`. A server with an integration
/// reports the status itself. Werkzeug's `status_code` is a property, whose function a profiler or
/// debugger of the program would see called once more: the attribute behind it is read.
pub(super) unsafe extern "C" fn note_response(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    if count < 1 || !wsgi::has_begun() {
        // SAFETY: called by CPython with the GIL.
        return unsafe { none() };
    }
    // SAFETY: as `hand_over`.
    unsafe {
        guarded(|py| {
            let response = Bound::from_borrowed_ptr(py, *args);
            let held = response.getattr(word!(py, "_status_code"));
            let status = match ignored(py, held)? {
                Some(status) => status,
                None => response.getattr(word!(py, "status_code"))?,
            };
            let status: i64 = status.extract()?;
            if status >= 500 {
                request::request_failed(names::open(py), "");
            }
            Ok(none())
        })
    }
}

/// `start_apart(original, ...)`: starts a thread in whose copy of this context no request is
/// current. CPython copies the context inside of the call (`sys.flags.thread_inherit_context`).
pub(super) unsafe extern "C" fn start_apart(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL; `count` arguments and one for each keyword are held
    // by the caller.
    unsafe {
        let [start, rest @ ..] = positional(args, count) else {
            return wrong_call(c"start_apart() takes a bound method and its arguments");
        };
        let py = Python::assume_attached();
        let request = names::current(py);
        if request != 0 {
            quietly((), || names::set_current(py, 0));
        }
        let result = ffi::PyObject_Vectorcall(*start, rest.as_ptr(), rest.len() as _, keywords);
        if request != 0 {
            Aside::around(|_| quietly((), || names::restore(py, 0, request)));
        }
        result
    }
}

/// The value of a keyword, borrowed; NULL: it is not given.
pub(super) unsafe fn named(
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
    name: &std::ffi::CStr,
) -> *mut ffi::PyObject {
    // SAFETY: as `hand_over`; keywords are strs.
    unsafe {
        let names = if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) };
        let is = |at: &ffi::Py_ssize_t| {
            let key = ffi::PyTuple_GET_ITEM(keywords, *at);
            ffi::PyUnicode_CompareWithASCIIString(key, name.as_ptr()) == 0
        };
        (0..names).find(is).map_or(null_mut(), |at| *args.add((count + at) as usize))
    }
}

/// The value of a context variable in the calling context, or its default; None: neither.
///
/// Safety: the GIL is held; `variable` is a live object.
unsafe fn value_of<'py>(
    py: Python<'py>,
    variable: *mut ffi::PyObject,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut value = null_mut();
    // SAFETY: promised by the caller; `value` is a new reference or NULL.
    unsafe {
        match ffi::PyContextVar_Get(variable, null_mut(), &mut value) {
            0 => Ok(Bound::from_owned_ptr_or_opt(py, value)),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// A hook's action: names the current request by the route of the object that Flask keeps in the
/// context variable.
#[pyfunction]
pub fn names_route<'py>(variable: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    function_of(variable, method(c"names_route", of_flask, c"Names the request by its route."))
}

unsafe extern "C" fn of_flask(
    variable: *mut ffi::PyObject,
    _args: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and the function's `self`.
    unsafe {
        let id = names::open(Python::assume_attached());
        if id == 0 {
            return none();
        }
        guarded(|py| {
            let Some(context) = value_of(py, variable)? else { return Ok(none()) };
            let request = context.getattr(word!(py, "request"))?;
            let rule = request.getattr(word!(py, "url_rule"))?;
            if !rule.is_none() {
                let (method, route) =
                    (request.getattr(word!(py, "method"))?, rule.getattr(word!(py, "rule"))?);
                request_named(id, &method, &route);
            }
            Ok(none())
        })
    }
}

/// A hook's action: names the current request by the route of Starlette's `Route`, behind the path
/// of the application it was mounted in: (request, path) in the context variable.
#[pyfunction]
pub fn names_path<'py>(variable: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    function_of(variable, method(c"names_path", of_starlette, c"Names the request by its route."))
}

unsafe extern "C" fn of_starlette(
    variable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, the function's `self`, and arguments that the caller
    // holds.
    unsafe {
        let id = names::open(Python::assume_attached());
        let given = positional(args, count);
        let scope = match given.get(1) {
            Some(scope) => *scope,
            None => named(args, count, keywords, c"scope"),
        };
        if id == 0 || given.is_empty() || scope.is_null() {
            return none();
        }
        guarded(|py| {
            let route = Bound::from_borrowed_ptr(py, given[0]);
            let scope = Bound::from_borrowed_ptr(py, scope);
            let Some(method) = item(&scope, word!(py, "method"))? else { return Ok(none()) };
            let path = route.getattr(word!(py, "path"))?;
            let mounted: Option<(u64, Bound<'_, PyString>)> =
                value_of(py, variable)?.map(|value| value.extract()).transpose()?;
            match mounted.filter(|(of, _)| *of == id) {
                Some((_, prefix)) => request_named(id, &method, &prefix.add(path)?),
                None => request_named(id, &method, &path),
            }
            Ok(none())
        })
    }
}

/// The functions that need to know nothing.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    let with = |name, function: Fast, doc| method(name, function, doc);
    vec![
        with(c"hand_over_first", hand_over::<0>, c"Arguments whose first keeps its request."),
        with(c"hand_over_second", hand_over::<1>, c"Arguments whose second keeps its request."),
        with(c"hand_over_third", hand_over::<2>, c"Arguments whose third keeps its request."),
        with(c"note_response", note_response, c"As note_status, for the application's response."),
        with(c"start_apart", start_apart, c"Starts a thread that works for no request."),
        with(c"note_status", note_status, c"A status of 500 and more is a failure."),
    ]
}
