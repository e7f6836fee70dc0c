//! Objects of Python's whose making may fail.
//!
//! How it works: PyO3's `PyString::new`, `PyDict::new`, `PyTuple::new` and the conversions of
//! numbers and texts panic where there is no memory, and call the program's
//! `sys.unraisablehook` before. The functions here return the MemoryError. `Id` and `Text` are
//! what functions of the module return in place of `u64` and `String`.
//!
//! What it promises: an `Err` has fetched the exception; nothing is printed. Missing on purpose:
//! objects that are made when the module is imported, and those that are made once and kept
//! (`kept`).

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

/// A new reference that a call of CPython's returned, or its exception.
///
/// Safety: the GIL is held; the reference is owned, or NULL with an exception.
unsafe fn owned(py: Python<'_>, made: *mut ffi::PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: promised by the caller.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// A str.
pub fn text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: UTF-8 of that length; the call makes a str.
    unsafe {
        let made = ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as _);
        Ok(owned(py, made)?.cast_into_unchecked())
    }
}

/// An int.
pub fn int(py: Python<'_>, number: u64) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: no pointers.
    unsafe { owned(py, ffi::PyLong_FromUnsignedLongLong(number)) }
}

/// A float.
pub fn float(py: Python<'_>, number: f64) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: no pointers.
    unsafe { owned(py, ffi::PyFloat_FromDouble(number)) }
}

/// An empty dict.
pub fn dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    // SAFETY: the call makes a dict.
    unsafe { Ok(owned(py, ffi::PyDict_New())?.cast_into_unchecked()) }
}

/// A tuple of these.
pub fn tuple<'py>(py: Python<'py>, items: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: a new tuple, each place of which is set once, to a reference of its own.
    unsafe {
        let made = owned(py, ffi::PyTuple_New(items.len() as _))?;
        for (at, item) in items.iter().enumerate() {
            ffi::PyTuple_SET_ITEM(made.as_ptr(), at as _, item.clone().into_ptr());
        }
        Ok(made.cast_into_unchecked())
    }
}

/// A number that a function returns.
pub struct Id(pub u64);

impl<'py> IntoPyObject<'py> for Id {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        int(py, self.0)
    }
}

/// A text that a function returns.
pub struct Text(pub String);

impl<'py> IntoPyObject<'py> for Text {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text(py, &self.0)
    }
}
