//! What `__await__()` of a `Passing` around a coroutine returns, as a coroutine's returns its
//! wrapper: the iterator of its steps.
//!
//! What it promises: each step is one of the `Passing`, so its end is observed. The program finds
//! the coroutine's wrapper in it, except by `type()`. Missing on purpose: `await`, which steps the
//! `Passing` itself.

use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};

use pyo3::ffi;
use pyo3::prelude::*;

use super::coroutine::{self, called, fits, Args};
use super::kinds::derive_from;
use super::passing::Passing;
use crate::call::{leaked, method, Fast};
use crate::life::{class, make, Head, Life};
use crate::types::{class_of, rename, slot, Class};

static WRAPPER: Class = Class::new();

/// The iterator. The sampler reads its first word behind the head.
#[repr(C)]
struct Wrapper {
    _head: Head,
    /// A `Passing`, owned.
    passing: *mut ffi::PyObject,
}

// SAFETY: the layout above; the reference is set once.
unsafe impl Life for Wrapper {
    type Held = [*mut ffi::PyObject; 1];

    fn held(&self) -> Self::Held {
        [self.passing]
    }
}

/// `__await__()`.
unsafe extern "C" fn wrapped(
    object: *mut ffi::PyObject,
    _args: Args,
    _count: ffi::Py_ssize_t,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; the type is that of a `Wrapper`.
    unsafe {
        let wrapper = |_head| {
            ffi::Py_INCREF(object);
            Wrapper { _head, passing: object }
        };
        make(WRAPPER.get(), wrapper).cast()
    }
}

/// The `Passing` of a wrapper, borrowed.
///
/// Safety: the object is a `Wrapper`.
unsafe fn passing(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller; the field is set once.
    unsafe { (*object.cast::<Wrapper>()).passing }
}

unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a live object.
    unsafe { ffi::Py_INCREF(object) };
    object
}

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Wrapper`, which holds its `Passing`.
    unsafe { coroutine::next(passing(object)) }
}

/// A method of the `Passing`, or of a wrapper of the coroutine's, which refuses wrong arguments in
/// its own words.
///
/// Safety: called by CPython with the GIL and a `Wrapper`; the arguments are the caller's.
unsafe fn forward(
    object: *mut ffi::PyObject,
    name: &CStr,
    method: Fast,
    (args, count, keywords): (Args, ffi::Py_ssize_t, *mut ffi::PyObject),
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller. The wrapper holds its `Passing`, which holds the coroutine.
    unsafe {
        let passing = passing(object);
        if fits(name, count, keywords) {
            return method(passing, args, count, keywords);
        }
        let coroutine = (*passing.cast::<Passing>()).inner;
        let theirs = called(coroutine, c"__await__", (null(), 0, null_mut()));
        if theirs.is_null() {
            return null_mut();
        }
        let result = called(theirs, name, (args, count, keywords));
        ffi::Py_DECREF(theirs);
        result
    }
}

unsafe extern "C" fn send(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { forward(object, c"send", coroutine::send, (args, count, keywords)) }
}

unsafe extern "C" fn throw(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { forward(object, c"throw", coroutine::throw, (args, count, keywords)) }
}

unsafe extern "C" fn close(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { forward(object, c"close", coroutine::close, (args, count, keywords)) }
}

/// Makes the types, those of `Passing` included.
pub fn make_types(py: Python<'_>) -> PyResult<()> {
    // Of all types that have what is awaited in the first word behind their head: the sampler finds
    // them by this name.
    let (name, size) = (c"dashcam._native.Passing", size_of::<Wrapper>());
    let base = class_of(py, name, size, ffi::Py_TPFLAGS_BASETYPE, vec![])?;
    let methods = leaked(vec![
        method(c"send", send, c"As of a coroutine's wrapper."),
        method(c"throw", throw, c"As of a coroutine's wrapper."),
        method(c"close", close, c"As of a coroutine's wrapper."),
    ]);
    let slots = vec![
        slot(ffi::Py_tp_iter, itself as *const c_void),
        slot(ffi::Py_tp_iternext, next as *const c_void),
        slot(ffi::Py_tp_methods, methods.cast()),
    ];
    let class = class::<Wrapper>(py, base, c"builtins.coroutine_wrapper", 0, slots)?;
    rename(class, c"coroutine_wrapper", &[]);
    WRAPPER.set(class);
    derive_from(base);
    coroutine::make_type(py, base, wrapped)
}
