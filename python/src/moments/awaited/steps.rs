//! Steps of an awaitable, as CPython takes them.
//!
//! How it works: each function is one of the ways in which the interpreter steps a coroutine or an
//! iterator. It returns how the step ended as a `Step`, since there are three ways to report it (a
//! result, an exception, a StopIteration that carries the result).
//!
//! What it promises: yielded, returned and raised objects are passed on unchanged.
//!
//! Missing on purpose: the use of the result (`passing`).

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::kept::word;

/// The code flag of generators that may be awaited (`types.coroutine`).
pub(super) const ITERABLE_COROUTINE: i64 = 0x100;

/// How a step ended.
pub(super) enum Step {
    /// It yielded; owned.
    Yielded(*mut ffi::PyObject),
    /// It returned; owned, NULL if its StopIteration is set.
    Returned(*mut ffi::PyObject),
    /// An exception is set.
    Raised,
}

/// What an `await` asks an object for, if its type says so.
///
/// Safety: the GIL is held, the object is alive.
pub(super) unsafe fn asked(made: *mut ffi::PyObject) -> Option<ffi::unaryfunc> {
    // SAFETY: promised by the caller.
    unsafe {
        let methods = (*ffi::Py_TYPE(made)).tp_as_async;
        if methods.is_null() {
            None
        } else {
            (*methods).am_await
        }
    }
}

/// Whether it is a generator that may be awaited.
///
/// Safety: as `asked`.
pub(super) unsafe fn is_generator_to_await(made: *mut ffi::PyObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        if ffi::PyGen_CheckExact(made) == 0 {
            return false;
        }
        let py = Python::assume_attached();
        let flags = Bound::from_borrowed_ptr(py, made)
            .getattr(word!(py, "gi_code"))
            .and_then(|code| code.getattr(word!(py, "co_flags")))
            .and_then(|flags| flags.extract::<i64>());
        flags.is_ok_and(|flags| flags & ITERABLE_COROUTINE != 0)
    }
}

/// Returns a value as iterators do; takes the reference over. NULL.
pub(super) unsafe fn returned(value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and the value, if there is one.
    unsafe {
        if !value.is_null() && value != ffi::Py_None() {
            // Made by a call: the elements of a tuple given to PyErr_SetObject would become its
            // arguments.
            let class = ffi::PyExc_StopIteration;
            let stop = ffi::PyObject_Vectorcall(class, [value].as_ptr(), 1, null_mut());
            if !stop.is_null() {
                ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop);
                ffi::Py_DECREF(stop);
            }
        }
        ffi::Py_XDECREF(value);
        null_mut()
    }
}

/// One step of a coroutine or iterator, with the value sent.
pub(super) unsafe fn sent(inner: *mut ffi::PyObject, value: *mut ffi::PyObject) -> Step {
    // SAFETY: the caller holds the GIL and both objects.
    unsafe {
        #[cfg(Py_3_10)]
        {
            let mut result = null_mut();
            match ffi::PyIter_Send(inner, value, &mut result) {
                ffi::PySendResult::PYGEN_NEXT => Step::Yielded(result),
                ffi::PySendResult::PYGEN_RETURN => Step::Returned(result),
                ffi::PySendResult::PYGEN_ERROR => Step::Raised,
            }
        }
        #[cfg(not(Py_3_10))]
        {
            let next = (*ffi::Py_TYPE(inner)).tp_iternext;
            match next.filter(|_| value == ffi::Py_None()) {
                Some(next) => ended(next(inner)),
                None => {
                    let name = word!(Python::assume_attached(), "send").as_ptr();
                    let given = [inner, value];
                    ended(ffi::PyObject_VectorcallMethod(name, given.as_ptr(), 2, null_mut()))
                }
            }
        }
    }
}

/// The end of a call that reports a returned value by StopIteration, which remains set.
pub(super) unsafe fn ended(result: *mut ffi::PyObject) -> Step {
    // SAFETY: the caller holds the GIL.
    unsafe {
        if !result.is_null() {
            return Step::Yielded(result);
        }
        let error = ffi::PyErr_Occurred();
        match error.is_null() || ffi::PyErr_ExceptionMatches(ffi::PyExc_StopIteration) != 0 {
            true => Step::Returned(null_mut()),
            false => Step::Raised,
        }
    }
}

/// A method of `inner`, if it has it; NULL without an exception: it has none.
pub(super) unsafe fn found(
    inner: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and both objects.
    unsafe {
        let method = ffi::PyObject_GetAttr(inner, name);
        if method.is_null() && ffi::PyErr_ExceptionMatches(ffi::PyExc_AttributeError) != 0 {
            ffi::PyErr_Clear();
        }
        method
    }
}

/// One step of a coroutine or iterator into which an exception is thrown.
pub(super) unsafe fn thrown(inner: *mut ffi::PyObject, error: *mut ffi::PyObject) -> Step {
    // SAFETY: the caller holds the GIL and both objects.
    unsafe { thrown_all(inner, [error].as_ptr(), 1) }
}

/// As `thrown`, with the arguments of `throw`.
pub(super) unsafe fn thrown_all(
    inner: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> Step {
    // SAFETY: the caller holds the GIL and all objects.
    unsafe {
        let method = found(inner, word!(Python::assume_attached(), "throw").as_ptr());
        if method.is_null() {
            if ffi::PyErr_Occurred().is_null() {
                raise(args, count);
            }
            return Step::Raised;
        }
        let result = ffi::PyObject_Vectorcall(method, args, count as _, null_mut());
        ffi::Py_DECREF(method);
        ended(result)
    }
}

/// Raises the arguments of `throw`: the inner awaitable cannot take them.
#[allow(deprecated)] // As `Aside`.
unsafe fn raise(args: *const *mut ffi::PyObject, count: ffi::Py_ssize_t) {
    // SAFETY: the caller holds the GIL and the arguments; each gets a reference of its own.
    unsafe {
        let given = |at: isize| match at < count && *args.offset(at) != ffi::Py_None() {
            true => *args.offset(at),
            false => null_mut(),
        };
        let (kind, value, trace) = match ffi::PyExceptionInstance_Check(*args) {
            0 => (*args, given(1), given(2)),
            _ => (ffi::Py_TYPE(*args).cast(), *args, given(2)),
        };
        if ffi::PyExceptionClass_Check(kind) == 0 {
            let text = c"exceptions must be classes or instances deriving from BaseException";
            ffi::PyErr_SetString(ffi::PyExc_TypeError, text.as_ptr());
            return;
        }
        for one in [kind, value, trace] {
            ffi::Py_XINCREF(one);
        }
        ffi::PyErr_Restore(kind, value, trace);
    }
}

/// The result of a method, where an iterator's slot may return NULL without an exception.
pub(super) unsafe fn as_method(result: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL.
    unsafe {
        if result.is_null() && ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_SetNone(ffi::PyExc_StopIteration);
        }
    }
    result
}
