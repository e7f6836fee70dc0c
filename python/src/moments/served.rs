//! A WSGI request around the function with which its server serves it.
//!
//! How it works: a `Serving` is the `around` of a hook on that function (`crate::hooks`):
//!
//! ```text
//!   asked(self, ...) -> request begins -> the server's function -> failure(self) -> request ends
//! ```
//!
//! `asked` and `failure` are functions of Python (python/dashcam/_integrations): they return the
//! parts of the request that the server has read, and whether its reply is an error. A call inside
//! of an open request is no request of its own.
//!
//! What it promises: the server's function is called once, with the given arguments, whatever fault
//! occurs in this code. The fault goes into `status()`, once for each server. No frame of ours is
//! on the stack meanwhile.
//!
//! Missing on purpose: the list of servers and their functions.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyConnectionError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::{arrivals, attributes, request};
use crate::call::unless_it_interrupts;
use crate::hooks::note;
use crate::kept::word;
use crate::names;
use crate::process::recording;

/// The `around` of a server's function.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Serving {
    asked: Py<PyAny>,
    failure: Option<Py<PyAny>>,
    /// A fault of ours went into `status()`. Relaxed: one notice too many does no harm.
    complained: AtomicBool,
}

/// Makes one.
#[pyfunction]
#[pyo3(signature = (asked, failure = None))]
pub fn serving(asked: Py<PyAny>, failure: Option<Py<PyAny>>) -> Serving {
    Serving { asked, failure, complained: AtomicBool::new(false) }
}

/// As `Asked` in python/dashcam/_integrations/wsgi.py.
#[derive(FromPyObject)]
struct Asked<'py>(
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
);

#[pymethods]
impl Serving {
    #[pyo3(signature = (original, *args))]
    fn __call__<'py>(
        &self,
        original: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = original.py();
        if recording(py).is_none() || names::open(py) != 0 {
            return original.call1(args);
        }
        // Bound by the hook, to the server's object; anything else is called as without us.
        let Ok(server) = original.getattr(word!(py, "__self__")) else {
            return original.call1(args);
        };
        let begun = self.begin(&server, args);
        let id = self.or_note(py, &server, begun)?.unwrap_or(0);
        let result = original.call1(args);
        if id == 0 {
            return result;
        }
        match &result {
            Ok(_) => {
                let failed = match &self.failure {
                    Some(failure) => {
                        failure.bind(py).call1((&server,)).and_then(|it| it.is_truthy())
                    }
                    None => Ok(false),
                };
                let failed = self.or_note(py, &server, failed);
                request::end(py, id, failed.as_ref().is_ok_and(|it| it.unwrap_or(false)), "");
                failed.and(result)
            }
            Err(error) => {
                end_with(py, id, error);
                result
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.asked)?;
        self.failure.as_ref().map_or(Ok(()), |failure| visit.call(failure))
    }
}

impl Serving {
    /// The request that the server has read; 0: nothing is recorded.
    fn begin(&self, server: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<u64> {
        let py = server.py();
        let given = args.to_list();
        given.insert(0, server)?;
        let Asked(method, path, connection, parent, state) =
            self.asked.bind(py).call1(given.to_tuple())?.extract()?;
        let Some(recorder) = recording(py) else { return Ok(0) };
        let (method, path) = (method.to_string_lossy(), path.to_string_lossy());
        let path = unquoted(&path);
        let id = arrivals::begin(py, recorder, (&method, &path), false, Some(&connection), true)?;
        // Nothing that a client sends may become an error of ours.
        let text = |value: &Bound<'_, PyAny>| -> Option<String> { value.extract().ok() };
        if let (true, Some(parent)) = (id != 0, text(&parent)) {
            dashcam::continue_trace(id, &parent, &text(&state).unwrap_or_default());
        }
        Ok(id)
    }

    /// The result, None for a fault of ours. Err: an exception that interrupts the program.
    fn or_note<T>(
        &self,
        py: Python<'_>,
        server: &Bound<'_, PyAny>,
        found: PyResult<T>,
    ) -> PyResult<Option<T>> {
        let error = match found {
            Ok(found) => return Ok(Some(found)),
            Err(error) => unless_it_interrupts(py, error).map_err(|()| PyErr::fetch(py))?,
        };
        if !self.complained.swap(true, Ordering::Relaxed) {
            let name = server.get_type().fully_qualified_name();
            let name = name.map_or_else(|_| "a server".to_owned(), |name| name.to_string());
            let text = format!("{name} is not as expected, its requests are not recorded: {error}");
            note(py, &text);
        }
        Ok(None)
    }
}

/// Ends a request whose server's function raised. Two kinds of exceptions are no failure of the
/// application: a client that went away, and StopIteration (gunicorn), which means that the
/// connection is to be closed, and is not an error of the body.
fn end_with(py: Python<'_>, id: u64, error: &PyErr) {
    let value = match error.is_instance_of::<PyStopIteration>(py) {
        true => error.value(py).getattr(word!(py, "__context__")).ok(),
        false => Some(error.value(py).clone().into_any()),
    };
    let value =
        value.filter(|value| !value.is_none() && !value.is_instance_of::<PyConnectionError>());
    let Some(value) = value else { return request::end(py, id, false, "") };
    let class = value.get_type();
    // SAFETY: a live type, held until the name was used; the GIL is held.
    let kind = unsafe { attributes::error_name(class.as_ptr()) };
    request::end(py, id, true, kind);
}

/// A path in the form that an application gets: with the characters for which `%` and two digits
/// are written.
fn unquoted(path: &str) -> String {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (mut found, bytes) = (Vec::with_capacity(path.len()), path.as_bytes());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits =
            (bytes.get(at + 1).and_then(|b| digit(*b)), bytes.get(at + 2).and_then(|b| digit(*b)));
        match digits {
            (Some(high), Some(low)) if byte == b'%' => {
                found.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                found.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}
