//! Requests, spans, events, tasks, collections.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::event_loop;
use crate::names;
use crate::process::wake;

/// `with Span("db.query", rows=3): ...` - nested work. Made anew for each use.
#[pyclass(subclass)]
pub struct Span {
    name: Py<PyString>,
    attributes: Option<Py<PyDict>>,
    begin_ns: u64,
}

#[pymethods]
impl Span {
    #[new]
    #[pyo3(signature = (name, **attributes))]
    fn new(name: Py<PyString>, attributes: Option<Py<PyDict>>) -> Span {
        Span { name, attributes, begin_ns: 0 }
    }

    fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
        wake(slf.py());
        slf.begin_ns = if recorder::is_on() { sys::clock::now_ns() } else { 0 };
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> bool {
        if let (true, Some(recorder)) = (self.begin_ns != 0, recorder::current()) {
            let name = names::name(recorder, self.name.bind(py));
            let attributes = self.attributes.as_ref().map(|a| a.bind(py));
            names::with_attributes(recorder, attributes, |list| {
                recorder::span(name, self.begin_ns, names::current(py), !kind.is_none(), list);
            });
        }
        false
    }

    /// Its name.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// Its attributes, as given.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> Option<Py<PyDict>> {
        self.attributes.as_ref().map(|a| a.clone_ref(py))
    }
}

/// `with Request("GET /checkout", user=42): ...` - a unit of work whose latency is judged.
#[pyclass(subclass)]
pub struct Request {
    name: Py<PyString>,
    attributes: Option<Py<PyDict>>,
    open: recorder::Request,
    token: Option<Py<PyAny>>,
}

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (name, **attributes))]
    fn new(name: Py<PyString>, attributes: Option<Py<PyDict>>) -> Request {
        Request { name, attributes, open: recorder::Request::NONE, token: None }
    }

    fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
        let py = slf.py();
        wake(py);
        if let (true, Some(recorder)) = (recorder::is_on(), recorder::current()) {
            let name = names::request_name(recorder, slf.name.bind(py));
            let task = event_loop::running_task(py);
            slf.open = recorder::Request::begin(name, task.is_some(), 0);
            if let Some(task) = task {
                slf.open.set_task(task);
            }
            slf.token = names::set_current(py, slf.open.id);
        }
        slf
    }

    fn __exit__(
        &mut self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> bool {
        let open = std::mem::replace(&mut self.open, recorder::Request::NONE);
        if let (true, Some(recorder)) = (open.id != 0, recorder::current()) {
            if let Ok(kind) = kind.getattr("__name__").and_then(|name| name.extract::<String>()) {
                open.fail(&kind);
            }
            let name = names::request_name(recorder, self.name.bind(py));
            let attributes = self.attributes.as_ref().map(|a| a.bind(py));
            names::with_attributes(recorder, attributes, |list| {
                open.end(name, !kind.is_none(), list);
            });
        }
        names::restore(py, self.token.take());
        false
    }

    /// Its name.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// Its attributes, as given.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> Option<Py<PyDict>> {
        self.attributes.as_ref().map(|a| a.clone_ref(py))
    }

    /// Its id, 0 while it does not run.
    #[getter]
    fn id(&self) -> u64 {
        self.open.id
    }
}

/// Records an instant event of the current request.
#[pyfunction]
#[pyo3(signature = (name, **attributes))]
pub fn event(name: &Bound<'_, PyString>, attributes: Option<&Bound<'_, PyDict>>) {
    wake(name.py());
    let (true, Some(recorder)) = (recorder::is_on(), recorder::current()) else { return };
    let (id, request) = (names::name(recorder, name), names::current(name.py()));
    names::with_attributes(recorder, attributes, |list| recorder::event(id, request, list));
}

/// Tokens of requests begun by function call, to be restored at their end.
#[pyclass(frozen)]
pub struct Task {
    request: u64,
    queued_ns: u64,
    begin_ns: u64,
    token: Option<Py<PyAny>>,
}

/// A request's data may lie unread for this long before its handler's start is called late: the
/// kernel's clock for it ticks every 1-10 ms.
const PROMPT_MS: u32 = 15;

/// Begins a request that stays current in this context until `request_end`. 0 when off. `fd` is
/// the request's connection: had its data been waiting there, the request began when it came.
/// Without `enter` this context does not work for it yet: another one will call `request_enter`.
#[pyfunction]
#[pyo3(signature = (name, on_loop = false, fd = -1, enter = true))]
pub fn request_begin(name: &Bound<'_, PyString>, on_loop: bool, fd: i32, enter: bool) -> u64 {
    wake(name.py());
    let (true, Some(recorder)) = (recorder::is_on(), recorder::current()) else { return 0 };
    let id = names::request_name(recorder, name);
    let waited_ms = if fd >= 0 { sys::socket::ms_since_data(fd).unwrap_or(0) } else { 0 };
    let waited_ns = if waited_ms > PROMPT_MS { u64::from(waited_ms) * 1_000_000 } else { 0 };
    let request = recorder::Request::begin(id, on_loop, waited_ns);
    if enter {
        names::set_current(name.py(), request.id);
        if on_loop {
            adopt(name.py(), request.id);
        }
    }
    request.id
}

/// From here on this context works for a request that was begun in another one, and so does the
/// task that runs in it.
#[pyfunction]
pub fn request_enter(py: Python<'_>, id: u64) {
    names::set_current(py, id);
    adopt(py, id);
}

fn adopt(py: Python<'_>, id: u64) {
    if let (true, Some(task)) = (id != 0, event_loop::running_task(py)) {
        recorder::Request { id, begin_ns: 0 }.set_task(task);
    }
}

/// Ends a request begun by `request_begin`. `error`: whether it failed, or the name of the error's
/// type. Unknown ids are passed over.
#[pyfunction]
#[pyo3(signature = (id, error = None))]
pub fn request_end(py: Python<'_>, id: u64, error: Option<&Bound<'_, PyAny>>) {
    if names::current(py) == id {
        names::set_current(py, 0);
    }
    let Some(recorder) = recorder::current() else { return };
    if let Some(request) = recorder.open_requests().find(id) {
        let kind = error.and_then(|error| error.extract::<String>().ok());
        if let Some(kind) = &kind {
            request.fail(kind);
        }
        let failed = error.is_some_and(|error| error.is_truthy().unwrap_or(true));
        request.end(0, failed, &[]);
    }
}

/// Notes that an open request failed with an error of this type, which its server or framework
/// makes a reply of.
#[pyfunction]
pub fn request_failed(id: u64, kind: &str) {
    let Some(recorder) = recorder::current() else { return };
    if let Some(request) = recorder.open_requests().find(id) {
        request.fail(kind);
    }
}

/// Gives an open request another name.
#[pyfunction]
pub fn request_rename(id: u64, name: &Bound<'_, PyString>) {
    let Some(recorder) = recorder::current() else { return };
    let name = names::request_name(recorder, name);
    recorder::Request { id, begin_ns: 0 }.rename(name);
}

/// The id of the request this context works for; 0 none.
#[pyfunction]
pub fn current_request(py: Python<'_>) -> u64 {
    names::current(py)
}

/// A piece of `request`'s work begins on this thread; it stood in a queue since `queued_ns` (of
/// `time.monotonic_ns`).
#[pyfunction]
pub fn task_begin(py: Python<'_>, request: u64, queued_ns: u64) -> Task {
    let (token, begin_ns) = (names::set_current(py, request), sys::clock::now_ns());
    if let Some(recorder) = recorder::current() {
        let name = recorder.tables().name("executor");
        recorder::task_begins(name, queued_ns, begin_ns, request);
    }
    Task { request, queued_ns, begin_ns, token }
}

/// The piece ends.
#[pyfunction]
pub fn task_end(py: Python<'_>, task: &Task) {
    names::restore(py, task.token.as_ref().map(|t| t.clone_ref(py)));
    if let Some(recorder) = recorder::current() {
        let name = recorder.tables().name("executor");
        recorder::task(name, task.queued_ns, task.begin_ns, task.request);
    }
}

/// When the running collection began. The GIL admits one collection at a time; another
/// interpreter's could mix in, then one pause is told with a wrong begin.
static GC_BEGAN_NS: AtomicU64 = AtomicU64::new(0);

/// For `gc.callbacks`.
#[pyfunction]
pub fn gc_callback(phase: &str, info: &Bound<'_, PyDict>) {
    if phase == "start" {
        GC_BEGAN_NS.store(sys::clock::now_ns(), Ordering::Relaxed);
        return;
    }
    let began = GC_BEGAN_NS.swap(0, Ordering::Relaxed);
    if began != 0 {
        let number = |key: &str| -> u64 {
            info.get_item(key).ok().flatten().and_then(|v| v.extract().ok()).unwrap_or(0)
        };
        recorder::gc(number("generation") as u16, began, number("collected"));
    }
}
