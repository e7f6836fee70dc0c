//! Objects of Python's whose making may fail.
//!
//! How it works: PyO3's `PyString::new`, `PyDict::new`, `PyTuple::new`, the conversions of numbers
//! and texts, and `to_string_lossy` panic where there is no memory, and call the program's
//! `sys.unraisablehook` before. The functions here return the MemoryError. `Id` and `Text` are what
//! functions of the module return in place of `u64` and `String`.
//!
//! What it promises: an `Err` has fetched the exception; nothing is printed. Objects that are kept
//! are made when the module is imported (`kept`).

use std::borrow::Cow;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

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

/// The same text as exactly a str, which holds nothing and is compared without code of the program.
pub fn exactly<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: a str or a subtype, for which the call makes exactly a str.
    unsafe {
        let exact = ffi::PyUnicode_FromObject(text.as_ptr());
        Ok(owned(text.py(), exact)?.cast_into_unchecked())
    }
}

/// The interpreter's only str of this text.
pub fn interned<'py>(py: Python<'py>, of: &str) -> PyResult<Bound<'py, PyString>> {
    let mut str = text(py, of)?.into_ptr();
    // SAFETY: an owned str, or the one in its place; a failure leaves the str as it was, without an
    // exception.
    unsafe {
        ffi::PyUnicode_InternInPlace(&mut str);
        Ok(Bound::from_owned_ptr(py, str).cast_into_unchecked())
    }
}

/// The characters of a str, with others in the place of lone surrogates, as Rust has them. Empty if
/// there is no memory.
pub fn characters<'text>(of: &'text Bound<'_, PyString>) -> Cow<'text, str> {
    all_characters(of).unwrap_or_default()
}

/// As `characters`. None: there is no memory.
pub fn all_characters<'text>(of: &'text Bound<'_, PyString>) -> Option<Cow<'text, str>> {
    if let Ok(text) = of.to_str() {
        return Some(Cow::Borrowed(text));
    }
    encoded(of).map(Cow::Owned)
}

/// A copy of at most so many characters, as `characters`. Nothing is added to the str, unlike
/// there: CPython keeps the UTF-8 of one that is not ASCII with it, as long as it lives.
pub fn first_characters(of: &Bound<'_, PyString>, most: isize) -> String {
    // SAFETY: a str, the GIL is held; an error is fetched, and a longer end is cut off.
    let first = unsafe { owned(of.py(), ffi::PyUnicode_Substring(of.as_ptr(), 0, most)) };
    let first = first.ok().and_then(|first| first.cast_into::<PyString>().ok());
    first.and_then(|first| encoded(&first)).unwrap_or_default()
}

/// None: there is no memory.
fn encoded(of: &Bound<'_, PyString>) -> Option<String> {
    // SAFETY: a str, the GIL is held; both texts are static. Errors are fetched.
    let encoded = unsafe {
        let (encoding, errors) = (c"utf-8".as_ptr(), c"surrogatepass".as_ptr());
        owned(of.py(), ffi::PyUnicode_AsEncodedString(of.as_ptr(), encoding, errors))
    };
    let bytes = encoded.ok().and_then(|bytes| bytes.cast_into::<PyBytes>().ok());
    Some(String::from_utf8_lossy(bytes?.as_bytes()).into_owned())
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

/// The pairs of a dict, copied at once: the program, or another thread, may change it meanwhile.
pub fn pairs<'py>(
    dict: &Bound<'py, PyDict>,
) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    // SAFETY: a dict. Iterating over one that is shared fails where it is changed meanwhile; a copy
    // is made as one operation.
    #[cfg(Py_GIL_DISABLED)]
    let dict = unsafe {
        owned(dict.py(), ffi::PyDict_Copy(dict.as_ptr()))?.cast_into_unchecked::<PyDict>()
    };
    Ok(dict.iter().collect())
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
