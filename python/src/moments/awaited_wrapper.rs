//! What `__await__()` of a `Passing` around a coroutine returns, as a coroutine's returns its
//! wrapper: the iterator of its steps.
//!
//! What it promises: each step is one of the `Passing`, so its end is observed. The program finds
//! the coroutine's wrapper in it, except by `type()`. Missing on purpose: `await`, which steps the
//! `Passing` itself.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut};

use pyo3::ffi;
use pyo3::prelude::*;

use super::awaited::Passing;
use super::awaited_kinds::derive_from;
use super::awaited_type::{self, called, fits, Args};
use crate::call::{leaked, method, Fast};
use crate::types::{class_below, class_of, rename, slot, visit_all, Class};

static WRAPPER: Class = Class::new();

/// The iterator. The sampler reads its first word behind the head.
#[repr(C)]
struct Wrapper {
    base: UnsafeCell<ffi::PyObject>,
    /// A `Passing`, owned.
    passing: *mut ffi::PyObject,
}

/// `__await__()`.
unsafe extern "C" fn wrapped(
    object: *mut ffi::PyObject,
    _args: Args,
    _count: ffi::Py_ssize_t,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`. The fields of the new object are set
    // before anything else has it.
    unsafe {
        let made: *mut Wrapper = ffi::PyObject_GC_New(WRAPPER.get());
        if !made.is_null() {
            ffi::Py_INCREF(object);
            (&raw mut (*made).passing).write(object);
            ffi::PyObject_GC_Track(made.cast());
        }
        made.cast()
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
    unsafe { awaited_type::next(passing(object)) }
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
    unsafe { forward(object, c"send", awaited_type::send, (args, count, keywords)) }
}

unsafe extern "C" fn throw(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { forward(object, c"throw", awaited_type::throw, (args, count, keywords)) }
}

unsafe extern "C" fn close(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython.
    unsafe { forward(object, c"close", awaited_type::close, (args, count, keywords)) }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. Each object
    // holds a reference to its type.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let (passing, class) = (passing(object), ffi::Py_TYPE(object));
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(passing);
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `Wrapper`, under the GIL.
    unsafe { visit_all(&[passing(object), ffi::Py_TYPE(object).cast()], visit, arg) }
}

/// Makes the types, those of `Passing` included.
pub(super) fn make_types(py: Python<'_>) -> PyResult<()> {
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
        slot(ffi::Py_tp_dealloc, dealloc as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_tp_iter, itself as *const c_void),
        slot(ffi::Py_tp_iternext, next as *const c_void),
        slot(ffi::Py_tp_methods, methods.cast()),
    ];
    let (flags, name) = (ffi::Py_TPFLAGS_HAVE_GC, c"builtins.coroutine_wrapper");
    let class = class_below(py, base, name, size, flags, slots)?;
    rename(class, c"coroutine_wrapper", &[]);
    WRAPPER.set(class);
    derive_from(base);
    awaited_type::make_type(py, base, wrapped)
}
