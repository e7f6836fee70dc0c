//! A WSGI request: from the call of the application until its body is used up or closed.
//!
//! How it works: servers' hooks put `wsgi_call` around their application. It does in one native call
//! what a request needs, and hands the application a `start_response` of ours, which sees the status,
//! and the server a `Body` of ours, which sees the end.
//!
//! What it promises: what the application raises, and what it is given and gives, passes unchanged, but
//! for these two. Inside another request of ours the application is just called.
//!
//! Missing on purpose: garbage collection can look through both types, but does not take them apart: a
//! cycle through one of them always leads through an object of the server or the program, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};

use super::{arrivals, attributes, request};
use crate::kept::word;
use crate::names;
use crate::process::recording;

/// Calls a WSGI application as one request. `connection` is the request's socket where the server does
/// not put it into `environ`: with it, time the request waited for its handler is part of it.
#[pyfunction]
#[pyo3(signature = (application, environ, start_response, connection = None))]
pub fn wsgi_call<'py>(
    application: &Bound<'py, PyAny>,
    environ: &Bound<'py, PyAny>,
    start_response: &Bound<'py, PyAny>,
    connection: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = application.py();
    let (Some(recorder), Ok(dict)) = (recording(py), environ.cast::<PyDict>()) else {
        return application.call1((environ, start_response));
    };
    let current = names::current(py);
    if current != 0 {
        if own_request(dict) == current {
            return application.call1((environ, start_response));
        }
        return application.call1((environ, Starting::around(current, start_response)));
    }
    let found = |key| dict.get_item(key).ok().flatten();
    let text = |key, otherwise: &str| match found(key) {
        Some(value) => value.str().map(|text| text.to_string_lossy().into_owned()),
        None => Ok(otherwise.to_owned()),
    };
    let method = text(word!(py, "REQUEST_METHOD"), "?")?;
    let path = text(word!(py, "PATH_INFO"), "/")?;
    let connection = connection.cloned();
    let connection = connection
        .or_else(|| found(word!(py, "gunicorn.socket")))
        .or_else(|| found(word!(py, "werkzeug.socket")));
    let place = (method.as_str(), path.as_str());
    let id = arrivals::begin(py, recorder, place, false, connection.as_ref(), true)?;
    dict.set_item(word!(py, "dashcam.request"), id)?;
    if let Some(parent) = found(word!(py, "HTTP_TRACEPARENT")).filter(|_| id != 0) {
        continue_trace(id, &parent, found(word!(py, "HTTP_TRACESTATE")));
    }
    match application.call1((environ, Starting::around(id, start_response))) {
        Ok(body) if body.is_instance_of::<PyList>() || body.is_instance_of::<PyTuple>() => {
            request::end(py, id, false, "");
            Ok(body)
        }
        Ok(body) if ends_by_its_close(&body, dict, id) => Ok(body),
        Ok(body) => {
            let (request, body) = (AtomicU64::new(id), body.unbind());
            Ok(Bound::new(py, Body { request, body, chunks: Mutex::default() })?.into_any())
        }
        Err(error) => {
            fail(py, id, &error);
            Err(error)
        }
    }
}

/// A server sends a file of its own `wsgi.file_wrapper` without reading it (`sendfile`), and knows it
/// by its type: such a body stays what it is, and its `close` ends the request. False: it is none, or
/// takes no attribute.
fn ends_by_its_close(body: &Bound<'_, PyAny>, environ: &Bound<'_, PyDict>, id: u64) -> bool {
    let py = body.py();
    let wrapper = environ.get_item(word!(py, "wsgi.file_wrapper")).ok().flatten();
    if !wrapper.is_some_and(|wrapper| body.is_instance(&wrapper).unwrap_or(false)) {
        return false;
    }
    let name = word!(py, "close");
    let Ok(close) = body.getattr_opt(name) else { return false };
    let ending = Ending { request: AtomicU64::new(id), close: close.map(Bound::unbind) };
    let Ok(ending) = Bound::new(py, ending) else { return false };
    let taken = body.setattr(name, &ending).is_ok();
    if !taken {
        ending.get().request.store(0, Ordering::Relaxed);
    }
    taken
}

/// Whether a WSGI application has nothing to tell: nothing is recorded, or its request is the current one.
#[pyfunction]
pub fn wsgi_is_known(environ: &Bound<'_, PyAny>) -> bool {
    let py = environ.py();
    let (Some(_), Ok(dict)) = (recording(py), environ.cast::<PyDict>()) else { return true };
    let current = names::current(py);
    current != 0 && own_request(dict) == current
}

/// The request that was begun for this environment.
fn own_request(environ: &Bound<'_, PyDict>) -> u64 {
    let key = word!(environ.py(), "dashcam.request");
    environ.get_item(key).ok().flatten().and_then(|id| id.extract().ok()).unwrap_or(0)
}

/// WSGI servers join equal headers with commas, which is not valid.
fn continue_trace(id: u64, parent: &Bound<'_, PyAny>, state: Option<Bound<'_, PyAny>>) {
    let state = state.and_then(|state| state.cast_into::<PyString>().ok());
    let state = state.as_ref().map(|state| state.to_str().unwrap_or_default()).unwrap_or_default();
    // What a client sends must never become an error of ours.
    if let Some(parent) = parent.cast::<PyString>().ok().and_then(|parent| parent.to_str().ok()) {
        dashcam::continue_trace(id, parent, state);
    }
}

/// Ends a request with an error.
fn fail(py: Python<'_>, id: u64, error: &PyErr) {
    let class = error.get_type(py);
    // SAFETY: a live type, held until the name was used; the GIL is held.
    let kind = unsafe { attributes::error_name(class.as_ptr()) };
    request::end(py, id, true, kind);
}

/// A `start_response` that notes a reply of 500 and more as a failure of the request.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Starting {
    request: u64,
    inner: Py<PyAny>,
}

impl Starting {
    fn around(request: u64, inner: &Bound<'_, PyAny>) -> Starting {
        Starting { request, inner: inner.clone().unbind() }
    }
}

#[pymethods]
impl Starting {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let named = || kwargs.and_then(|given| given.get_item(word!(py, "status")).ok().flatten());
        if let Some(status) = args.get_item(0).ok().or_else(named) {
            let status = status.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
            if status.is_some_and(|text| text.starts_with('5')) {
                request::request_failed(self.request, "");
            }
        }
        self.inner.bind(py).call(args, kwargs)
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.inner.bind(name.py()).getattr(name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)
    }
}

/// The `close` of a body that is sent as it is: ends the request first.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Ending {
    /// 0 once it has ended. Relaxed: touched by who holds the GIL.
    request: AtomicU64,
    close: Option<Py<PyAny>>,
}

#[pymethods]
impl Ending {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        end_once(py, &self.request);
        match &self.close {
            Some(close) => close.call0(py).map(drop),
            None => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.close.as_ref().map_or(Ok(()), |close| visit.call(close))
    }
}

impl Drop for Ending {
    /// A server that did not close it. Objects go with the GIL held.
    fn drop(&mut self) {
        if *self.request.get_mut() != 0 {
            Python::try_attach(|py| end_once(py, &self.request));
        }
    }
}

fn end_once(py: Python<'_>, request: &AtomicU64) {
    match request.swap(0, Ordering::Relaxed) {
        0 => {}
        id => request::end(py, id, false, ""),
    }
}

/// A body that is made while it is sent: the request ends with it.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Body {
    /// 0 once it has ended. Relaxed: touched by who holds the GIL.
    request: AtomicU64,
    body: Py<PyAny>,
    /// The walk over `body` that is under way. Never locked while code of the program runs.
    chunks: Mutex<Option<Py<PyIterator>>>,
}

impl Body {
    fn end(&self, py: Python<'_>, error: Option<&PyErr>) {
        match (self.request.swap(0, Ordering::Relaxed), error) {
            (0, _) => {}
            (id, Some(error)) => fail(py, id, error),
            (id, None) => request::end(py, id, false, ""),
        }
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Py<PyIterator>> {
        let chunks =
            self.body.bind(py).try_iter().inspect_err(|error| self.end(py, Some(error)))?;
        let old = self.place().replace(chunks.clone().unbind());
        drop(old);
        Ok(chunks.unbind())
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<Py<PyIterator>>> {
        self.chunks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[pymethods]
impl Body {
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().begin(slf.py())?;
        Ok(slf.clone())
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = self.place().as_ref().map(|chunks| chunks.clone_ref(py));
        let chunks = match known {
            Some(chunks) => chunks,
            None => self.begin(py)?,
        };
        match chunks.into_bound(py).next() {
            Some(Ok(chunk)) => Ok(Some(chunk)),
            None => {
                self.end(py, None);
                Ok(None)
            }
            Some(Err(error)) => {
                self.end(py, Some(&error));
                Err(error)
            }
        }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.body.bind(py).len()
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.body.bind(name.py()).getattr(name)
    }

    /// Ends the request and closes the application's body.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, None);
        if let Some(close) = self.body.bind(py).getattr_opt(word!(py, "close"))? {
            close.call0()?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.body)?;
        match self.chunks.try_lock() {
            Ok(chunks) => visit.call(&*chunks),
            // Somebody is in the middle of storing it: then it is held by them too.
            Err(_) => Ok(()),
        }
    }
}

impl Drop for Body {
    /// A server that neither used it up nor closed it. Objects go with the GIL held.
    fn drop(&mut self) {
        if *self.request.get_mut() != 0 {
            Python::try_attach(|py| self.end(py, None));
        }
    }
}
