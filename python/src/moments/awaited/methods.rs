//! `send`, `throw` and `close`, by which an awaitable is stepped without an iterator.
//!
//! How it works: a type of ours says what one of the three does (`Stepped`); the functions that
//! CPython calls, and whether a call fits, are the same for all types.
//!
//! What it promises: a call that does not fit is refused by the program's own method, in its own
//! words. Methods are asked for by kept strs: one made for a call would remain in CPython's cache
//! of types' attributes. Missing on purpose: what a step is (`steps`).

use std::ffi::CStr;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::call::Fast;
use crate::kept::word;

/// One of the methods.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Method {
    Send,
    Throw,
    Close,
}

/// Arguments as CPython hands them over, which its caller holds.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub first: *const *mut ffi::PyObject,
    pub count: ffi::Py_ssize_t,
    pub keywords: *mut ffi::PyObject,
}

impl Given {
    /// None.
    pub const NONE: Given = Given { first: std::ptr::null(), count: 0, keywords: null_mut() };
}

impl Method {
    pub fn name(self) -> &'static CStr {
        match self {
            Method::Send => c"send",
            Method::Throw => c"throw",
            Method::Close => c"close",
        }
    }

    /// Whether a call with these arguments fits it.
    pub fn fits(self, given: &Given) -> bool {
        let counts = match self {
            Method::Send => 1..=1,
            Method::Throw => 1..=3,
            Method::Close => 0..=0,
        };
        given.keywords.is_null() && counts.contains(&given.count)
    }

    /// Calls it. NULL: an exception is set.
    ///
    /// Safety: the GIL is held, by a call with these arguments; the object is alive.
    pub unsafe fn call(self, object: *mut ffi::PyObject, given: Given) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe {
            let py = Python::assume_attached();
            let name = match self {
                Method::Send => word!(py, "send"),
                Method::Throw => word!(py, "throw"),
                Method::Close => word!(py, "close"),
            };
            called(object, name, given)
        }
    }
}

/// Calls a method of an object. NULL: an exception is set.
///
/// Safety: the GIL is held, by a call with these arguments; the object is alive.
pub(super) unsafe fn called(
    object: *mut ffi::PyObject,
    name: &Bound<'_, PyString>,
    given: Given,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        let method = ffi::PyObject_GetAttr(object, name.as_ptr());
        if method.is_null() {
            return null_mut();
        }
        let Given { first, count, keywords } = given;
        let result = ffi::PyObject_Vectorcall(method, first, count as _, keywords);
        ffi::Py_DECREF(method);
        result
    }
}

/// A type whose objects have the methods.
pub(super) trait Stepped: 'static {
    /// A call of one. NULL: an exception is set.
    ///
    /// Safety: called by CPython with the GIL and such an object, which its caller holds.
    unsafe fn stepped(
        object: *mut ffi::PyObject,
        method: Method,
        given: Given,
    ) -> *mut ffi::PyObject;
}

/// The methods, and the functions that CPython calls for them.
pub(super) fn of<T: Stepped>() -> [(Method, Fast); 3] {
    [(Method::Send, send::<T>), (Method::Throw, throw::<T>), (Method::Close, close::<T>)]
}

unsafe extern "C" fn send<T: Stepped>(
    object: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { T::stepped(object, Method::Send, Given { first, count, keywords }) }
}

unsafe extern "C" fn throw<T: Stepped>(
    object: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { T::stepped(object, Method::Throw, Given { first, count, keywords }) }
}

unsafe extern "C" fn close<T: Stepped>(
    object: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { T::stepped(object, Method::Close, Given { first, count, keywords }) }
}
