//! The arguments of `span(name, /, **attributes)` and its kind, in every form that Python allows.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::made::exactly;

/// The arguments of a call, by their meaning.
pub(super) struct Given<'py> {
    /// Exactly a str.
    pub name: Bound<'py, PyString>,
    /// Keys are exactly strs.
    pub pairs: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
}

/// Whether the names of a call's keywords are exactly strs: those of `**` may be of subtypes, whose
/// objects hold others, and are hashed and compared by code of the program.
///
/// Safety: the GIL is held; a tuple of strs, or NULL.
#[inline]
pub(super) unsafe fn are_exact(keywords: *mut ffi::PyObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        let count = if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) };
        (0..count).all(|at| ffi::PyUnicode_CheckExact(ffi::PyTuple_GET_ITEM(keywords, at)) != 0)
    }
}

/// Reads the arguments of `function`.
///
/// Safety: called by CPython with METH_FASTCALL and METH_KEYWORDS, which gives these; the GIL is
/// held.
#[cold]
pub(super) unsafe fn read<'py>(
    py: Python<'py>,
    function: &str,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> PyResult<Given<'py>> {
    if count > 1 {
        return Err(PyTypeError::new_err(format!(
            "{function}: found {count} positional arguments, wanted one, the name; attributes are \
             given by keyword"
        )));
    }
    // SAFETY: promised by the caller.
    let at = |at: usize| unsafe { Bound::from_borrowed_ptr(py, *args.add(at)) };
    let mut name = (count == 1).then(|| at(0));
    let mut pairs = Vec::new();
    // SAFETY: NULL or a tuple of strs.
    if let Some(keywords) = unsafe { Bound::from_borrowed_ptr_or_opt(py, keywords) } {
        for (place, key) in keywords.cast_into::<PyTuple>()?.iter().enumerate() {
            let (key, value) = (key.cast_into::<PyString>()?, at(count as usize + place));
            match &name {
                None if key == "name" => name = Some(value),
                _ => pairs.push((exactly(&key)?, value)),
            }
        }
    }
    let Some(name) = name else {
        return Err(PyTypeError::new_err(format!("{function}() misses its argument 'name'")));
    };
    let Ok(name) = name.cast::<PyString>() else {
        let found = name.get_type().name()?;
        let text = format!("{function}: name: found {found}, wanted str");
        return Err(PyTypeError::new_err(text));
    };
    Ok(Given { name: exactly(name)?, pairs })
}
