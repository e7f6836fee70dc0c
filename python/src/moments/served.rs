//! A WSGI request around the function with which its server serves it.
//!
//! How it works: `serving` makes the `around` of a hook on that function (`crate::hooks`):
//!
//! ```text
//!   asked(self, ...) -> request begins -> the server's function -> failure(self) -> request ends
//! ```
//!
//! `asked` and `failure` are functions of Python (python/dashcam/_integrations): they return the
//! parts of the request that the server has read, and whether its reply is an error. `parsed` reads
//! the parts from the objects of gunicorn's parser without a call of Python. A call inside of an
//! open request is no request of its own.
//!
//! What it promises: the server's function is called once, with the given arguments, whatever fault
//! occurs in this code. The fault goes into `status()`, once for each server. No frame of ours is
//! on the stack meanwhile.
//!
//! Missing on purpose: the list of servers and their functions.

use std::borrow::Cow;
use std::ptr::null_mut;

use pyo3::exceptions::{PyConnectionError, PyStopIteration, PyTypeError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::{arrivals, request};
use crate::aside::error_name;
use crate::aside::fetched;
use crate::call::{bound_to, function_of, method, quietly, wrong_call};
use crate::interrupts::ignored;
use crate::kept::word;
use crate::notice::Faults;
use crate::process::recording;
use crate::{made, names};

/// The `self` of the `around` of a server's function.
#[pyclass(frozen, module = "dashcam._native")]
struct Serving {
    asked: Asking,
    failure: Option<Py<PyAny>>,
    faults: Faults,
}

/// Where the parts of a request are.
enum Asking {
    /// A function of Python returns them.
    Function(Py<PyAny>),
    /// In an object with `method`, `path` and `headers` (pairs, names in capitals), as gunicorn's
    /// parser makes.
    Parsed(Parsed),
}

/// Places in the arguments of a server's function, its `self` being 0.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Parsed {
    request: usize,
    connection: usize,
    /// The connection is this attribute of that argument.
    attribute: Option<Py<PyString>>,
    /// Another attribute of that argument is its client's address.
    client: Option<Py<PyString>>,
}

/// For `serving`: the request and its connection are these arguments, or the connection and its
/// client's address are attributes of the second.
#[pyfunction]
#[pyo3(signature = (request, connection, attribute = None, client = None))]
pub fn parsed(
    request: usize,
    connection: usize,
    attribute: Option<Py<PyString>>,
    client: Option<Py<PyString>>,
) -> Parsed {
    Parsed { request, connection, attribute, client }
}

/// Makes an `around`: `asked` is a function, or what `parsed` makes.
#[pyfunction]
#[pyo3(signature = (asked, failure = None))]
pub fn serving<'py>(
    asked: Bound<'py, PyAny>,
    failure: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = asked.py();
    let asked = match asked.cast::<Parsed>() {
        Ok(places) => {
            let name = |name: &Option<Py<PyString>>| Some(name.as_ref()?.clone_ref(py));
            let Parsed { request, connection, ref attribute, ref client } = *places.get();
            let (attribute, client) = (name(attribute), name(client));
            Asking::Parsed(Parsed { request, connection, attribute, client })
        }
        Err(_) => Asking::Function(asked.unbind()),
    };
    let state = Bound::new(py, Serving { asked, failure, faults: Faults::new() })?;
    function_of(state.into_any(), method(c"serving", serve, c"Serves a request."))
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

/// `around(original, ...)`: calls the original, bound to the server's object, as a request.
unsafe extern "C" fn serve(
    state: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, the function's `self`, which is a `Serving`, and
    // arguments that the caller (`Hook::run_around`) holds. The array is that of the call, so its
    // first place may be used for the original's `self`.
    unsafe {
        if count < 1 || !keywords.is_null() {
            return wrong_call(c"an around takes a bound method and its arguments");
        }
        let py = Python::assume_attached();
        let (original, rest) = (*args, count as usize - 1);
        let flagged = rest | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let call = || ffi::PyObject_Vectorcall(original, args.add(1), flagged as _, null_mut());
        // Bound by the hook, to the server's object; anything else is called as without us.
        let server = bound_to(&Bound::from_borrowed_ptr(py, original));
        let (Some(server), Some(_), 0) = (server, recording(py), names::open(py)) else {
            return call();
        };
        let serving = Bound::from_borrowed_ptr(py, state).cast_into_unchecked::<Serving>();
        let serving = serving.get();
        let rest = std::slice::from_raw_parts(args.add(1), rest);
        let begun = quietly(Ok(0), || serving.begin(&server, rest));
        let id = match serving.or_note(&server, begun) {
            Ok(id) => id.unwrap_or(0),
            Err(error) => {
                error.restore(py);
                return null_mut();
            }
        };
        let result = call();
        match id {
            0 => result,
            _ => serving.end(&server, id, result),
        }
    }
}

#[pymethods]
impl Serving {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Asking::Function(asked) = &self.asked {
            visit.call(asked)?;
        }
        self.failure.as_ref().map_or(Ok(()), |failure| visit.call(failure))
    }
}

impl Serving {
    /// The request that the server has read; 0: nothing is recorded. `rest`: arguments behind its
    /// `self`, held by the caller.
    fn begin(&self, server: &Bound<'_, PyAny>, rest: &[*mut ffi::PyObject]) -> PyResult<u64> {
        let py = server.py();
        // SAFETY: live objects, held by the caller.
        let at = |at: usize| unsafe { Bound::from_borrowed_ptr_or_opt(py, *rest.get(at - 1)?) };
        let (Asked(method, path, connection, parent, state), port) = match &self.asked {
            Asking::Parsed(places) => places.read(at)?,
            Asking::Function(asked) => {
                let all = std::iter::once(Some(server.clone())).chain((1..=rest.len()).map(at));
                let all: Vec<_> = all.flatten().collect();
                (asked.bind(py).call1(made::tuple(py, &all)?)?.extract()?, 0)
            }
        };
        let Some(recorder) = recording(py) else { return Ok(0) };
        let (method, path) = (made::characters(&method), made::characters(&path));
        let path = unquoted(&path);
        let place = (&*method, &*path);
        let id = arrivals::begin(py, recorder, place, false, (Some(&connection), port), true)?;
        if id != 0 && !parent.is_none() {
            continue_trace(id, &parent, &state);
        }
        Ok(id)
    }

    /// The server's function has returned `result`, or has raised (NULL). Gives the result.
    ///
    /// Safety: the GIL is held; an exception is set if `result` is NULL.
    unsafe fn end(
        &self,
        server: &Bound<'_, PyAny>,
        id: u64,
        result: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        let py = server.py();
        if result.is_null() {
            let error = fetched(py);
            quietly((), || end_with(py, id, &error));
            error.restore(py);
            return result;
        }
        let Some(failure) = &self.failure else {
            quietly((), || request::end(py, id, false, ""));
            return result;
        };
        let failed = failure.bind(py).call1((server,)).and_then(|failed| failed.is_truthy());
        let failed = self.or_note(server, failed);
        let is_failed = failed.as_ref().is_ok_and(|failed| failed.unwrap_or(false));
        quietly((), || request::end(py, id, is_failed, ""));
        match failed {
            Ok(_) => result,
            Err(error) => {
                // SAFETY: owned; the exception takes its place.
                unsafe { ffi::Py_DECREF(result) };
                error.restore(py);
                null_mut()
            }
        }
    }

    /// As `Faults::or_note`.
    fn or_note<T>(&self, server: &Bound<'_, PyAny>, found: PyResult<T>) -> PyResult<Option<T>> {
        self.faults.or_note(server.py(), found, || {
            let name = server.get_type().fully_qualified_name();
            name.map_or_else(|_| "a server".to_owned(), |name| name.to_string())
        })
    }
}

impl Parsed {
    /// The parts of a request, read from its object, and the client's port, 0 if it is not known.
    fn read<'py>(
        &self,
        at: impl Fn(usize) -> Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Asked<'py>, u16)> {
        let missing = || PyTypeError::new_err("found too few arguments, wanted a request");
        let request = at(self.request).ok_or_else(missing)?;
        let connection = at(self.connection).ok_or_else(missing)?;
        let py = request.py();
        let port = match &self.client {
            Some(name) => arrivals::port_of(ignored(py, connection.getattr(name))?),
            None => 0,
        };
        let connection = match &self.attribute {
            Some(name) => connection.getattr(name)?,
            None => connection,
        };
        let method = request.getattr(word!(py, "method"))?.cast_into::<PyString>()?;
        let path = match request.getattr(word!(py, "path"))?.cast_into::<PyString>() {
            Ok(path) if !path.is_empty()? => path,
            _ => word!(py, "/").clone(),
        };
        let headers = request.getattr(word!(py, "headers"))?;
        let values = |name: &[u8]| values_of(&headers, name);
        let none = py.None().into_bound(py);
        let mut parents = values(b"TRACEPARENT")?;
        let asked = match (parents.pop(), parents.is_empty()) {
            (Some(parent), true) => {
                let states = values(b"TRACESTATE")?;
                let states: Vec<_> = states.iter().map(|it| made::characters(it)).collect();
                let state = made::text(py, &states.join(","))?.into_any();
                Asked(method, path, connection, parent.into_any(), state)
            }
            _ => Asked(method, path, connection, none.clone(), none),
        };
        Ok((asked, port))
    }
}

/// The values of a header, of a list of pairs.
fn values_of<'py>(headers: &Bound<'py, PyAny>, name: &[u8]) -> PyResult<Vec<Bound<'py, PyString>>> {
    let mut found = Vec::new();
    for pair in headers.cast::<PyList>()? {
        let pair = pair.cast_into::<PyTuple>()?;
        let key = pair.get_borrowed_item(0)?;
        let Ok(key) = key.cast::<PyString>() else { continue };
        // SAFETY: a str; its length is known without its characters.
        let length = unsafe { ffi::PyUnicode_GET_LENGTH(key.as_ptr()) };
        if length as usize == name.len() && key.to_str().is_ok_and(|key| key.as_bytes() == name) {
            found.push(pair.get_item(1)?.cast_into::<PyString>()?);
        }
    }
    Ok(found)
}

/// Nothing that a client sends may become an error of ours.
fn continue_trace(id: u64, parent: &Bound<'_, PyAny>, state: &Bound<'_, PyAny>) {
    let text = |value: &Bound<'_, PyAny>| -> Option<String> { value.extract().ok() };
    if let Some(parent) = text(parent) {
        dashcam::continue_trace(id, &parent, &text(state).unwrap_or_default());
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
    let kind = unsafe { error_name(class.as_ptr()) };
    request::end(py, id, true, &kind);
}

/// A path in the form that an application gets: with the characters for which `%` and two digits
/// are written.
fn unquoted(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
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
    Cow::Owned(String::from_utf8_lossy(&found).into_owned())
}
