//! The arguments of a call, read the slow way: keywords, tags, rates, and errors in them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::door::{Door, Op};
use crate::made::exactly;

/// Arguments in CPython's form; alive as long as the call.
pub(super) struct Arguments {
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
}

/// The same by their meaning.
pub(super) struct Given<'py> {
    /// Exactly a str.
    pub name: Bound<'py, PyString>,
    pub value: Option<Bound<'py, PyAny>>,
    pub tags: Option<Bound<'py, PyDict>>,
    pub rate: f64,
}

impl Arguments {
    /// Safety: as CPython calls a function with METH_FASTCALL and METH_KEYWORDS.
    pub unsafe fn new(
        args: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        keywords: *mut ffi::PyObject,
    ) -> Arguments {
        Arguments { args, count: count.max(0) as usize, keywords }
    }

    fn get<'py>(&self, py: Python<'py>, at: usize) -> Bound<'py, PyAny> {
        // SAFETY: `at` is below the number of positional and keyword arguments, see the callers.
        unsafe { Bound::from_borrowed_ptr(py, *self.args.add(at)) }
    }

    /// Every argument: its name if it was given by keyword, and its value.
    pub fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Option<String>, Bound<'py, PyAny>)>> {
        let mut all: Vec<_> = (0..self.count).map(|at| (None, self.get(py, at))).collect();
        if self.keywords.is_null() {
            return Ok(all);
        }
        // SAFETY: not NULL: a tuple of strings, one for each argument behind the positional ones.
        let keywords = unsafe { Bound::from_borrowed_ptr(py, self.keywords) };
        for (at, key) in keywords.cast_into::<PyTuple>()?.iter().enumerate() {
            all.push((Some(key.extract()?), self.get(py, self.count + at)));
        }
        Ok(all)
    }

    pub fn read<'py>(&self, py: Python<'py>, door: &Door) -> PyResult<Given<'py>> {
        let (function, has_value) = (door.name, door.op != Op::Bind);
        let (mut name, mut value, mut tags, mut rate) = (None, None, None, None);
        for (at, (key, given)) in self.list(py)?.into_iter().enumerate() {
            let place = match (key.as_deref(), at) {
                (None, 0) | (Some("name"), _) => &mut name,
                (None, 1) if has_value => &mut value,
                (Some(key), _) if has_value && key == door.argument => &mut value,
                (Some("tags"), _) => &mut tags,
                (Some("rate"), _) => &mut rate,
                (Some(key), _) => {
                    let text = format!("{function}() got an unexpected keyword argument '{key}'");
                    return Err(PyTypeError::new_err(text));
                }
                (None, _) => {
                    let most = if has_value { 2 } else { 1 };
                    let text = format!("{function}() takes at most {most} positional arguments");
                    return Err(PyTypeError::new_err(text));
                }
            };
            if place.replace(given).is_some() {
                let text = format!("{function}() got an argument twice");
                return Err(PyTypeError::new_err(text));
            }
        }
        if has_value && value.is_none() && door.op != Op::Add {
            return Err(missing(function, door.argument));
        }
        let name = name.ok_or_else(|| missing(function, "name"))?;
        let name = name.cast_into::<PyString>().map_err(|error| {
            let found = error.into_inner();
            wrong(function, "name", &found, "str")
        })?;
        let name = exactly(&name)?;
        let tags = match tags.filter(|tags| !tags.is_none()) {
            None => None,
            Some(tags) => Some(tags.cast_into::<PyDict>().map_err(|error| {
                let found = error.into_inner();
                wrong(function, "tags", &found, "a dict")
            })?),
        };
        let rate = match rate {
            None => 1.0,
            Some(rate) => match rate.extract::<f64>() {
                Ok(rate) if rate > 0.0 && rate <= 1.0 => rate,
                Ok(rate) => {
                    let text =
                        format!("{function}: rate: found {rate}, wanted above 0 and at most 1");
                    return Err(PyValueError::new_err(text));
                }
                Err(_) => return Err(wrong(function, "rate", &rate, "a number")),
            },
        };
        Ok(Given { name, value, tags, rate })
    }
}

fn missing(function: &str, what: &str) -> PyErr {
    PyTypeError::new_err(format!("{function}() misses its argument '{what}'"))
}

/// A TypeError that names what was found and what is wanted.
pub(super) fn wrong(function: &str, what: &str, found: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
    let found = found.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{function}: {what}: found {found}, wanted {wanted}"))
}

/// A tag's key or value as text, exactly a str: it is kept, hashed and compared.
pub(super) fn text<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    match given.cast::<PyString>() {
        Ok(text) => exactly(text),
        Err(_) => exactly(&given.str()?),
    }
}
