//! A WSGI application that a framework's hook calls as a request, under an unknown server.
//!
//! How it works: servers with an integration begin and end requests themselves
//! (python/dashcam/_integrations/wsgi.py); there, nothing here happens. Under any other server a
//! request is open from the call of the application until its body is used up or closed, if the
//! body has a place to observe that: werkzeug's `ClosingIterator` keeps a function that returns the
//! next part, and a list of callbacks for its close; Django's responses keep a list of closers.
//!
//! What it promises: the application and the server see each other's objects and no others: the
//! body, the environment and `start_response` are the originals. No frame of ours is in a
//! traceback.
//!
//! Missing on purpose: the end of bodies without such a place. Their requests end when the
//! application returns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::exceptions::PyStopIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{arrivals, request};
use crate::aside::error_name;
use crate::aside::fetched;
use crate::call::quietly;
use crate::event_loop::imported;
use crate::interrupts::{ignored, unless_it_interrupts};
use crate::kept::word;
use crate::notice::note;
use crate::process::recording;
use crate::{made, names};

/// A request began here: a server without an integration runs in this process. Under the GIL.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether a framework's call has begun a request in this process.
pub(super) fn has_begun() -> bool {
    HAS_BEGUN.load(Ordering::Relaxed)
}

/// Calls a WSGI application as one request; inside of an open request it is just called.
#[pyfunction]
pub fn wsgi_call<'py>(
    application: &Bound<'py, PyAny>,
    environ: &Bound<'py, PyAny>,
    start_response: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = application.py();
    let id = match environ.cast::<PyDict>() {
        Ok(environ) if names::open(py) == 0 => begin_or_note(environ)?,
        _ => 0,
    };
    if id != 0 {
        HAS_BEGUN.store(true, Ordering::Relaxed);
    }
    match application.call1((environ, start_response)) {
        Ok(body) => {
            match if id == 0 { Ok(true) } else { ends_with_its_body(&body, id) } {
                Ok(true) => (),
                Ok(false) => request::end(py, id, false, ""),
                Err(error) => {
                    fail(py, id, &error);
                    return Err(error);
                }
            }
            Ok(body)
        }
        Err(error) => {
            if id != 0 {
                fail(py, id, &error);
            }
            Err(error)
        }
    }
}

/// As `begin`; a fault of ours goes into `status()`, once. Err: an exception that interrupts the
/// program.
fn begin_or_note(environ: &Bound<'_, PyDict>) -> PyResult<u64> {
    static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
    let py = environ.py();
    let error = match quietly(Ok(0), || begin(environ)) {
        Ok(id) => return Ok(id),
        Err(error) => unless_it_interrupts(py, error).map_err(|()| fetched(py))?,
    };
    if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        note(py, &format!("a WSGI environment is not as expected, its request is lost: {error}"));
    }
    Ok(0)
}

/// Begins the request that this environment describes. 0: nothing is recorded.
fn begin(environ: &Bound<'_, PyDict>) -> PyResult<u64> {
    let py = environ.py();
    let Some(recorder) = recording(py) else { return Ok(0) };
    let found = |key| environ.get_item(key).ok().flatten();
    let text = |key, otherwise: &str| -> String {
        let value = found(key).and_then(|value| value.cast_into::<PyString>().ok());
        value.map_or_else(|| otherwise.to_owned(), |text| made::characters(&text).into_owned())
    };
    let (method, path) =
        (text(word!(py, "REQUEST_METHOD"), "?"), text(word!(py, "PATH_INFO"), "/"));
    let connection = found(word!(py, "werkzeug.socket"));
    let place = (method.as_str(), path.as_str());
    let id = arrivals::begin(py, recorder, place, false, (connection.as_ref(), 0), true)?;
    if let Some(parent) = found(word!(py, "HTTP_TRACEPARENT")).filter(|_| id != 0) {
        continue_trace(id, &parent, found(word!(py, "HTTP_TRACESTATE")));
    }
    Ok(id)
}

/// WSGI servers join equal headers with commas, which is not valid.
fn continue_trace(id: u64, parent: &Bound<'_, PyAny>, state: Option<Bound<'_, PyAny>>) {
    let state = state.and_then(|state| state.cast_into::<PyString>().ok());
    let state = state.as_ref().map(|state| state.to_str().unwrap_or_default()).unwrap_or_default();
    // Nothing that a client sends may become an error of ours.
    if let Some(parent) = parent.cast::<PyString>().ok().and_then(|parent| parent.to_str().ok()) {
        dashcam::continue_trace(id, parent, state);
    }
}

/// Ends a request with an error.
fn fail(py: Python<'_>, id: u64, error: &PyErr) {
    let class = error.get_type(py);
    // SAFETY: a live type, held until the name was used; the GIL is held.
    let kind = unsafe { error_name(class.as_ptr()) };
    request::end(py, id, true, &kind);
}

/// Makes the body end the request, in a place that it has for such functions. False: it has none.
/// Err: an exception that interrupts the program; the request has not ended.
fn ends_with_its_body(body: &Bound<'_, PyAny>, id: u64) -> PyResult<bool> {
    let py = body.py();
    let is = |module, class| {
        let class = imported(py, module).map(|module| ignored(py, module.getattr(class)));
        match class.transpose()?.flatten() {
            Some(class) => Ok(ignored(py, body.is_instance(&class))?.unwrap_or(false)),
            None => PyResult::Ok(false),
        }
    };
    let is_iterator = is(word!(py, "werkzeug.wsgi"), word!(py, "ClosingIterator"))?;
    let closers = if is_iterator {
        word!(py, "_callbacks")
    } else if is(word!(py, "django.http.response"), word!(py, "HttpResponseBase"))? {
        let status = body.getattr(word!(py, "status_code")).and_then(|status| status.extract());
        if ignored(py, status)?.is_some_and(|status: i64| status >= 500) {
            request::request_failed(id, "");
        }
        word!(py, "_resource_closers")
    } else {
        return Ok(false);
    };
    let closers = body.getattr(closers).and_then(|closers| Ok(closers.cast_into::<PyList>()?));
    let Some(closers) = ignored(py, closers)? else { return Ok(false) };
    let Ok(ending) = Bound::new(py, Ending { request: AtomicU64::new(id) }) else {
        return Ok(false);
    };
    if closers.insert(0, &ending).is_err() {
        ending.get().request.store(0, Ordering::Relaxed);
        return Ok(false);
    }
    if is_iterator {
        // A request whose body was used up has ended, whenever its server closes it.
        let name = word!(py, "_next");
        // An exception that interrupts the program cannot come here: the object is werkzeug's.
        let _ = body.getattr(name).and_then(|next| {
            let parts = Parts { ending: ending.unbind(), next: next.unbind() };
            body.setattr(name, Bound::new(py, parts)?)
        });
    }
    Ok(true)
}

/// The end of a request, among the functions that are called when its body is closed.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Ending {
    /// 0 once it has ended. Relaxed: accessed by the GIL's holder.
    request: AtomicU64,
}

#[pymethods]
impl Ending {
    fn __call__(&self, py: Python<'_>) {
        match self.request.swap(0, Ordering::Relaxed) {
            0 => {}
            id => request::end(py, id, false, ""),
        }
    }
}

impl Drop for Ending {
    /// A body that was neither used up nor closed: see `safe_point`.
    fn drop(&mut self) {
        match *self.request.get_mut() {
            0 => {}
            id => request::abandon(id, false, ""),
        }
    }
}

/// The function of a body that returns its next part; the last part ends the request.
#[pyclass(frozen, module = "dashcam._native")]
pub struct Parts {
    ending: Py<Ending>,
    next: Py<PyAny>,
}

#[pymethods]
impl Parts {
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let part = self.next.bind(py).call0();
        if let Err(error) = &part {
            match self.ending.get().request.swap(0, Ordering::Relaxed) {
                0 => {}
                id if error.is_instance_of::<PyStopIteration>(py) => {
                    request::end(py, id, false, "");
                }
                id => fail(py, id, error),
            }
        }
        part
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.ending)?;
        visit.call(&self.next)
    }
}
