//! What `__await__()` of a `Passing` around a coroutine returns, as a coroutine's returns its
//! wrapper: the iterator of its steps.
//!
//! What it promises: each step is one of the `Passing`, so its end is observed. The program finds
//! the coroutine's wrapper in it, except by `type()`. Missing on purpose: `await`, which steps the
//! `Passing` itself.

use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::coroutine::{self, itself, OfCoroutine};
use super::kinds::derive_from;
use super::methods::{self, called, Given, Method, Stepped};
use super::passing::Passing;
use crate::call::{leaked, method};
use crate::kept::word;
use crate::life::{class, make, Head, Life};
use crate::types::{class_of, rename, slot, Class};

static WRAPPER: Class = Class::new();
const DOC: &CStr = c"As of a coroutine's wrapper.";

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
    _: *mut ffi::PyObject,
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

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Wrapper`, which holds its `Passing`.
    unsafe { coroutine::next(passing(object)) }
}

impl Stepped for Wrapper {
    /// A method of the `Passing`, or of a wrapper of the coroutine's, which refuses wrong arguments
    /// in its own words.
    unsafe fn stepped(
        object: *mut ffi::PyObject,
        method: Method,
        given: Given,
    ) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller. The wrapper holds its `Passing`, which holds the
        // coroutine.
        unsafe {
            let passing = passing(object);
            if method.fits(&given) {
                return OfCoroutine::stepped(passing, method, given);
            }
            let coroutine = (*passing.cast::<Passing>()).inner;
            let name = word!(Python::assume_attached(), "__await__");
            let theirs = called(coroutine, name, Given::NONE);
            if theirs.is_null() {
                return null_mut();
            }
            let result = method.call(theirs, given);
            ffi::Py_DECREF(theirs);
            result
        }
    }
}

/// Makes the types, those of `Passing` included.
pub fn make_types(py: Python<'_>) -> PyResult<()> {
    // Of all types that have what is awaited in the first word behind their head: the sampler finds
    // them by this name.
    let (name, size) = (c"dashcam._native.Passing", size_of::<Wrapper>());
    let base = class_of(py, name, size, ffi::Py_TPFLAGS_BASETYPE, vec![])?;
    let methods = methods::of::<Wrapper>();
    let methods = methods.map(|(step, function)| method(step.name(), function, DOC));
    let slots = vec![
        slot(ffi::Py_tp_iter, itself as *const c_void),
        slot(ffi::Py_tp_iternext, next as *const c_void),
        slot(ffi::Py_tp_methods, leaked(methods.to_vec()).cast()),
    ];
    let class = class::<Wrapper>(py, base, c"builtins.coroutine_wrapper", 0, slots)?;
    rename(class, c"coroutine_wrapper", &[]);
    WRAPPER.set(class);
    derive_from(base);
    coroutine::make_type(py, base, wrapped)
}
