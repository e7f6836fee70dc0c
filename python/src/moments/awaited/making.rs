//! Makes a `Passing` around what a call returned.
//!
//! What it promises: what cannot be awaited, or cannot be represented, is handed over as it is.
//! Missing on purpose: what a `Passing` does (`passing`).

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;

use pyo3::ffi;
use pyo3::prelude::*;

use super::passing::{First, Passing, Role, COROUTINE};
use super::represented::{class_around, steps_itself};
use super::steps::{asked, is_generator_to_await};
use crate::life::make;
use crate::moments::call_span::Call;
use crate::moments::sender::Sender;
use crate::unfinished;

/// `made` in a `Passing`; `made` itself if it cannot be awaited, which the awaiting code will
/// report, or there is no memory. NULL: an exception is set. Takes over both references.
///
/// Safety: the GIL is held, both objects are alive.
pub unsafe fn pass(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe { pass_with(made, sender, role, First::Nothing, [null_mut(); 3]) }
}

/// As `pass`, for an application whose request begins with the first step. Takes over `transport`,
/// too.
///
/// Safety: as `pass`; `transport` may be NULL.
pub unsafe fn pass_lazily(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    scope: *mut ffi::PyObject,
    transport: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::Py_INCREF(scope);
        pass_with(made, sender, Role::Application, First::Begin, [null_mut(), scope, transport])
    }
}

/// `handling`, a handler's coroutine, as the work for a request that has arrived. The context that
/// awaits it works for the request, which ends with it. `judge(result)` returns whether, or with
/// which type of error, the request failed; `judge_error(exception)` does if it raised, without
/// which every exception is a failure.
#[pyfunction]
#[pyo3(signature = (request, handling, judge, judge_error = None))]
pub fn handling<'py>(
    request: u64,
    handling: Bound<'py, PyAny>,
    judge: Bound<'py, PyAny>,
    judge_error: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    unfinished::has_context(request);
    match request {
        0 => Ok(handling),
        _ => judged(request, handling, (judge, judge_error), First::Enter),
    }
}

/// `awaited`; `observer` gets the result before the awaiting code does.
#[pyfunction]
pub fn seen<'py>(
    awaited: Bound<'py, PyAny>,
    observer: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    judged(0, awaited, (observer, None), First::Nothing)
}

fn judged<'py>(
    request: u64,
    made: Bound<'py, PyAny>,
    (judge, judge_error): (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>),
    first: First,
) -> PyResult<Bound<'py, PyAny>> {
    let py = made.py();
    // SAFETY: the GIL is held; the references that are taken over are this function's own.
    unsafe {
        let sender = Sender::new(request, ffi::Py_None(), None);
        if sender.is_null() {
            return Err(PyErr::fetch(py));
        }
        let judge_error = judge_error.map_or(null_mut(), Bound::into_ptr);
        let more = [judge.into_ptr(), judge_error, null_mut()];
        let passing = pass_with(made.into_ptr(), sender, Role::Handler, first, more);
        Bound::from_owned_ptr_or_err(py, passing)
    }
}

/// Whether it is a coroutine, or answers as one: a framework's application is called by a server's.
unsafe fn is_as_a_coroutine(made: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller holds the GIL and the object.
    let class = unsafe { ffi::Py_TYPE(made) };
    class == &raw mut ffi::PyCoro_Type || class == COROUTINE.get()
}

/// As `pass`. `more`: judge, scope, transport, which are taken over.
unsafe fn pass_with(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
    first: First,
    more: [*mut ffi::PyObject; 3],
) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and all objects.
    unsafe {
        let is_coroutine = is_as_a_coroutine(made);
        let class = match is_coroutine {
            true => COROUTINE.get(),
            false if asked(made).is_some() || is_generator_to_await(made) => {
                class_around(ffi::Py_TYPE(made))
            }
            // What awaits it will report this.
            false => null_mut(),
        };
        let passing = match class.is_null() {
            true => null_mut(),
            false => put_together(class, made, sender, role, first, more, None),
        };
        if passing.is_null() {
            // The program's own object is awaited, by no request of ours.
            ffi::PyErr_Clear();
            let can_be = is_coroutine || asked(made).is_some() || is_generator_to_await(made);
            match role {
                Role::Application if !can_be => {
                    (*sender).fail(Python::assume_attached(), "TypeError");
                }
                _ => role.unseen(Python::assume_attached(), &*sender),
            }
            more.into_iter().for_each(|one| ffi::Py_XDECREF(one));
            ffi::Py_DECREF(sender.cast());
            return made;
        }
        passing
    }
}

/// `made`, the coroutine of a call, whose span begins with the first step and ends with it; `made`
/// itself if it is no coroutine, or there is no memory. Takes over the reference.
///
/// Safety: as `pass`.
pub unsafe fn pass_call(made: *mut ffi::PyObject, call: Call) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        if ffi::Py_TYPE(made) != &raw mut ffi::PyCoro_Type {
            return made;
        }
        let (class, sender, more) = (COROUTINE.get(), null_mut(), [null_mut(); 3]);
        let passing = put_together(class, made, sender, Role::Call, First::Call, more, Some(call));
        if passing.is_null() {
            ffi::PyErr_Clear();
            return made;
        }
        passing
    }
}

/// A new object of this type; NULL and MemoryError.
///
/// Safety: the GIL is held; `class` is a type made for `inner`. All references are taken over if
/// there is memory for it.
unsafe fn put_together(
    class: *mut ffi::PyTypeObject,
    inner: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
    first: First,
    more: [*mut ffi::PyObject; 3],
    call: Option<Call>,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        let steps_itself = is_as_a_coroutine(inner) || steps_itself(inner, class);
        let fields = |head| Passing {
            head,
            inner,
            sender: Cell::new(sender.cast()),
            role,
            first: Cell::new(first),
            more: more.map(Cell::new),
            call: Cell::new(call),
            steps_itself: AtomicBool::new(steps_itself),
            weak: null_mut(),
        };
        make(class, fields).cast()
    }
}
