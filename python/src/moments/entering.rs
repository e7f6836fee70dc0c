//! What a `with` statement calls: `__enter__` and `__exit__` of spans and requests.
//!
//! How it works: methods of the type. With the GIL a door in front of each gives one that is bound
//! to its object already (`doors`).
//!
//! What it promises: a panic of ours is caught, and `__exit__` never swallows an exception. Missing
//! on purpose: what a span or a request does (`span`, `request`).

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::object::{Kind, Moment};
use crate::call::{quietly, wrong_call};

pub(super) unsafe extern "C" fn enter_unbound<K: Kind>(
    object: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: a method of the type: CPython has checked that the object is of it.
    unsafe { entered::<K>(object.cast()) }
}

pub(super) unsafe extern "C" fn exit_unbound<K: Kind>(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        if count != 3 {
            return wrong_call(c"__exit__() takes three arguments: type, value, traceback");
        }
        exited::<K>(object.cast(), *args)
    }
}

#[inline]
pub(super) unsafe fn entered<K: Kind>(moment: *mut Moment) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and the object.
    unsafe {
        let py = Python::assume_attached();
        let done = quietly(Ok(()), || K::enter(py, &*moment));
        if done.is_err() {
            return null_mut();
        }
        ffi::Py_INCREF(moment.cast());
        moment.cast()
    }
}

#[inline]
pub(super) unsafe fn exited<K: Kind>(
    moment: *mut Moment,
    error: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL, the object and the argument.
    unsafe {
        let py = Python::assume_attached();
        quietly((), || K::exit(py, &*moment, error));
        let no = ffi::Py_False();
        ffi::Py_INCREF(no);
        no
    }
}
