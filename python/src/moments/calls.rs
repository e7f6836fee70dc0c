//! Calls to other services as spans: a statement of a database, a command of Redis, a request of
//! HTTP or of a cloud's API.
//!
//! How it works: each function here is the `around` of a hook (`crate::hooks`). It names the call
//! (`call_names`), begins a span, calls the original, and ends the span behind it; that of an
//! async function begins and ends with the coroutine (`awaited`). The span has an attribute `call`
//! with the kind: `sql`, `redis`, `http`, `api`.
//!
//! What it promises: what cannot be named is called all the same, without a span; an exception that
//! interrupts the program is passed on.
//!
//! Missing on purpose: which functions are hooked (python/dashcam/_integrations/calls.py).

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::awaited;
use super::call_names::{
    Api, Command, End, Given, Http, Naming, Pipeline, Statement, IS_ARGUMENT, IS_ATTRIBUTE,
    IS_COMMIT, IS_EXIT, IS_POOL, IS_REQUEST, IS_RESPONSE, IS_ROLLBACK, IS_SELF,
};
use super::call_span::Call;
use crate::aside::Aside;
use crate::call::{method, quietly, wrong_call};
use crate::interrupts::unless_it_interrupts;
use crate::process::recording;

extern "C" {
    static mut PyMethod_Type: ffi::PyTypeObject;
    fn PyMethod_Self(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// The call by its name; None: it is not recorded. Err: an exception that interrupts the program is
/// set.
///
/// Safety: as `Given::get`.
unsafe fn named<N: Naming>(py: Python<'_>, given: &Given<'_>) -> Result<Option<Call>, ()> {
    let Some(recorder) = recording(py) else { return Ok(None) };
    // SAFETY: promised by the caller.
    match quietly(Ok(None), || unsafe { N::name(py, recorder, given) }) {
        Ok(name) => Ok(name.map(|name| Call::new(recorder, name, N::KIND))),
        // What the library looks like is not what is expected: no span.
        Err(error) => unless_it_interrupts(py, error).map(|_| None),
    }
}

/// `around(original, ...)`: the original's call as a span.
unsafe extern "C" fn around<N: Naming, const IS_ASYNC: bool>(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL; `count` arguments and one for each keyword are held
    // by the caller. The first is a bound method, whose `self` it holds.
    unsafe {
        if count < 1 || ffi::Py_TYPE(*args) != &raw mut PyMethod_Type {
            return wrong_call(c"this function takes a bound method and its arguments");
        }
        let py = Python::assume_attached();
        let (original, first) = (*args, args.add(1));
        let positional = std::slice::from_raw_parts(first, count as usize - 1);
        let own = PyMethod_Self(original);
        let Ok(call) = named::<N>(py, &Given { own, positional, first, keywords }) else {
            return null_mut();
        };
        let call = if IS_ASYNC { call } else { call.map(|call| call.begun(py)) };
        let result = ffi::PyObject_Vectorcall(original, first, positional.len() as _, keywords);
        match call {
            None => result,
            Some(call) if IS_ASYNC && !result.is_null() => awaited::pass_call(result, call),
            Some(call) => {
                match result.is_null() {
                    true => Aside::around(|aside| call.end(&aside.kind())),
                    false => call.end(""),
                }
                result
            }
        }
    }
}

/// The functions around calls.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method(
            c"call_execute",
            around::<Statement<0, IS_SELF>, false>,
            c"Around `execute(self, statement)` of a driver's cursor.",
        ),
        method(c"call_execute_async", around::<Statement<0, IS_SELF>, true>, c"The same, async."),
        method(
            c"call_of_cursor",
            around::<Statement<1, IS_ARGUMENT>, false>,
            c"Around `f(self, cursor, statement)`.",
        ),
        method(
            c"call_with_cursor",
            around::<Statement<0, IS_ATTRIBUTE>, false>,
            c"Around `f(self, statement)`, where `self.cursor` is the driver's.",
        ),
        method(c"call_commit", around::<End<IS_COMMIT>, false>, c"Around `commit(self)`."),
        method(c"call_rollback", around::<End<IS_ROLLBACK>, false>, c"Around `rollback(self)`."),
        method(
            c"call_exit",
            around::<End<IS_EXIT>, false>,
            c"Around `__exit__(self, exc_type, ...)` of a connection.",
        ),
        method(
            c"call_command",
            around::<Command<1>, false>,
            c"Around `f(self, connection, command)`.",
        ),
        method(c"call_command_async", around::<Command<1>, true>, c"The same, async."),
        method(
            c"call_pipeline",
            around::<Pipeline, false>,
            c"Around `execute(self)` of a pipeline.",
        ),
        method(c"call_pipeline_async", around::<Pipeline, true>, c"The same, async."),
        method(
            c"call_pool",
            around::<Http<IS_POOL>, false>,
            c"Around `f(self, method)`, where `self` has host and port.",
        ),
        method(c"call_request", around::<Http<IS_REQUEST>, false>, c"Around `f(self, request)`."),
        method(c"call_request_async", around::<Http<IS_REQUEST>, true>, c"The same, async."),
        method(
            c"call_response_async",
            around::<Http<IS_RESPONSE>, true>,
            c"Around an async `f(self)`, where `self` has method and url.",
        ),
        method(
            c"call_api",
            around::<Api, false>,
            c"Around `f(self, operation)` of a client of botocore.",
        ),
    ]
}
