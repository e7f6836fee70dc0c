//! Requests as servers know them on arrival: method, path, connection, headers.
//!
//! How it works: a server's hook makes one call, which does everything that a request needs before
//! its handler runs. Its name is that of its path (`path_names`) until a route is known.
//!
//! What it promises: nothing here raises, except an exception that interrupts the program
//! (KeyboardInterrupt) while a connection is asked for its descriptor.
//!
//! Missing on purpose: servers (python/dashcam/_integrations); WSGI's call (`wsgi`).

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};
use recorder::{Connection, Recorder};

use super::path_names::{name_id, Source};
use super::request;
use crate::interrupts::{ignored, interrupts};
use crate::kept::word;
use crate::made::{self, Id};
use crate::names;
use crate::process::recording;
use crate::unfinished;

/// Begins a request that arrived on a connection, a socket and its client's port, which is 0 where
/// it is not known. 0 when off.
pub(super) fn begin(
    py: Python<'_>,
    recorder: &Recorder,
    (method, path): (&str, &str),
    on_loop: bool,
    (socket, port): (Option<&Bound<'_, PyAny>>, u16),
    enter: bool,
) -> PyResult<u64> {
    let fd = match socket {
        Some(socket) => descriptor(socket)?,
        None => -1,
    };
    begin_on(py, recorder, (method, path), on_loop, Connection { fd, port }, enter)
}

/// As `begin`, with what is known of the connection.
fn begin_on(
    py: Python<'_>,
    recorder: &Recorder,
    (method, path): (&str, &str),
    on_loop: bool,
    connection: Connection,
    enter: bool,
) -> PyResult<u64> {
    let name = name_id(recorder, method, path, Source::Path);
    // Asking the connection may have run code of the program, and that may have stopped the
    // recorder.
    match recording(py).filter(|now| now.epoch() == recorder.epoch()) {
        Some(_) => Ok(request::begin(py, name, on_loop, connection, enter)),
        None => Ok(0),
    }
}

/// The descriptor of a socket, -1 when there is none.
fn descriptor(connection: &Bound<'_, PyAny>) -> PyResult<i32> {
    let py = connection.py();
    if connection.is_none() {
        return Ok(-1);
    }
    let asked = connection.call_method0(word!(py, "fileno")).and_then(|fd| fd.extract::<i32>());
    asked.or_else(|error| or_interrupt(py, error, -1))
}

/// `otherwise`, unless the error interrupts the program.
fn or_interrupt<T>(py: Python<'_>, error: PyErr, otherwise: T) -> PyResult<T> {
    match interrupts(py, &error) {
        false => Ok(otherwise),
        true => Err(error),
    }
}

/// Begins a request named by its path, as `request_begin`. `connection`: its socket, or None. If
/// data was waiting in the socket, the request began when the data came.
#[pyfunction]
#[pyo3(signature = (method, path, on_loop = false, connection = None, enter = true))]
pub fn request_arrives(
    method: &Bound<'_, PyString>,
    path: &Bound<'_, PyString>,
    on_loop: bool,
    connection: Option<&Bound<'_, PyAny>>,
    enter: bool,
) -> PyResult<Id> {
    let py = method.py();
    let Some(recorder) = recording(py) else { return Ok(Id(0)) };
    let (method, path) = (made::characters(method), made::characters(path));
    let id = begin(py, recorder, (&method, &path), on_loop, (connection, 0), enter)?;
    if !enter {
        unfinished::is_apart(id);
    }
    Ok(Id(id))
}

/// Begins an ASGI request that another context will work for: named by its path, from the time when
/// its data arrived on `transport`'s socket. 0 when off.
#[pyfunction]
#[pyo3(signature = (method, path, transport = None))]
pub fn asgi_arrives(
    method: &Bound<'_, PyString>,
    path: &Bound<'_, PyString>,
    transport: Option<&Bound<'_, PyAny>>,
) -> PyResult<Id> {
    let py = method.py();
    let Some(recorder) = recording(py) else { return Ok(Id(0)) };
    let fd = transport.map_or(Ok(-1), descriptor_of)?;
    let (method, path) = (made::characters(method), made::characters(path));
    let id = begin_on(py, recorder, (&method, &path), true, Connection::of(fd), false)?;
    unfinished::is_apart(id);
    Ok(Id(id))
}

/// As `asgi_arrives`, for a scope with any content, and with its caller's trace.
#[pyfunction]
#[pyo3(signature = (scope, transport = None))]
pub fn asgi_begins(scope: &Bound<'_, PyAny>, transport: Option<&Bound<'_, PyAny>>) -> PyResult<Id> {
    begin_asgi(scope, transport, false).map(Id)
}

/// Begins the request of a scope. With `enter` the calling context works for it from here on.
pub(super) fn begin_asgi(
    scope: &Bound<'_, PyAny>,
    transport: Option<&Bound<'_, PyAny>>,
    enter: bool,
) -> PyResult<u64> {
    let py = scope.py();
    let Some(recorder) = recording(py) else { return Ok(0) };
    let fd = transport.map_or(Ok(-1), descriptor_of)?;
    // A server may leave any of it out, or give it in a wrong form.
    let text = |key| -> PyResult<Option<Bound<'_, PyString>>> {
        Ok(item(scope, key)?.and_then(|found| found.cast_into().ok()))
    };
    let (method, path) = (text(word!(py, "method"))?, text(word!(py, "path"))?);
    let method = method.as_ref().map_or(Cow::Borrowed("?"), |text| made::characters(text));
    let path = path.as_ref().map_or(Cow::Borrowed("/"), |text| made::characters(text));
    let connection = Connection { fd, port: port_of(item(scope, word!(py, "client"))?) };
    let request = begin_on(py, recorder, (&method, &path), true, connection, enter)?;
    if request == 0 {
        return Ok(0);
    }
    let headers = item(scope, word!(py, "headers"));
    let traced = headers.and_then(|found| found.map_or(Ok(()), |it| continue_trace(request, &it)));
    match traced {
        Ok(()) => Ok(request),
        Err(error) => {
            request::end(py, request, false, "");
            Err(error)
        }
    }
}

/// The port of a client's address, a tuple of host, port, and others; 0 where it has none.
pub(super) fn port_of(client: Option<Bound<'_, PyAny>>) -> u16 {
    let port = || client?.cast_into::<PyTuple>().ok()?.get_item(1).ok()?.cast_into::<PyInt>().ok();
    port().and_then(|port| port.extract().ok()).unwrap_or(0)
}

/// The value of a key in a scope or message. Err: an exception that interrupts the program; a
/// mapping of its own may run any code.
pub(super) fn item<'py>(
    message: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = message.py();
    match message.cast::<PyDict>() {
        Ok(dict) => Ok(ignored(py, dict.get_item(key))?.flatten()),
        Err(_) => ignored(py, message.get_item(key)),
    }
}

/// A type of transports without `_sock_fd`: it is asked for its socket at once. Relaxed: a hint.
static OTHER: AtomicUsize = AtomicUsize::new(0);

/// The descriptor of an asyncio transport's socket, -1 when there is none. asyncio's own transports
/// have it in an attribute, which costs a tenth of the calls through `get_extra_info`.
fn descriptor_of(transport: &Bound<'_, PyAny>) -> PyResult<i32> {
    let py = transport.py();
    let class = transport.get_type_ptr() as usize;
    if OTHER.load(Ordering::Relaxed) != class {
        let known = transport.getattr(word!(py, "_sock_fd")).and_then(|fd| fd.extract::<i32>());
        match known {
            Ok(fd) => return Ok(fd),
            Err(error) => or_interrupt(py, error, ())?,
        }
        OTHER.store(class, Ordering::Relaxed);
    }
    let name = word!(py, "socket");
    match transport.call_method1(word!(py, "get_extra_info"), (name,)) {
        Ok(socket) => descriptor(&socket),
        Err(error) => or_interrupt(py, error, -1),
    }
}

/// From ASGI's pairs of bytes: the caller's trace, if there is one valid `traceparent`. Err: an
/// exception that interrupts the program.
fn continue_trace(request: u64, headers: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = headers.py();
    let (mut parents, mut parent, mut state) = (0, None, String::new());
    let mut check = |pair: &Bound<'_, PyAny>| -> PyResult<()> {
        let Some((name, value)) = pair_of(pair)? else { return Ok(()) };
        let name = name.as_bytes();
        if name.len() == 11 && name.eq_ignore_ascii_case(b"traceparent") {
            parents += 1;
            parent = Some(latin(&value));
        } else if name.len() == 10 && name.eq_ignore_ascii_case(b"tracestate") {
            let comma = if state.is_empty() { "" } else { "," };
            let _ = write!(state, "{comma}{}", latin(&value));
        }
        Ok(())
    };
    if let Ok(list) = headers.cast::<PyList>() {
        list.iter().try_for_each(|pair| check(&pair))?;
    } else if let Some(pairs) = ignored(py, headers.try_iter())? {
        for pair in pairs {
            // An early end of the walk is an error of the headers: everything before it counts.
            let Some(pair) = ignored(py, pair)? else { break };
            check(&pair)?;
        }
    }
    if let (1, Some(parent)) = (parents, parent) {
        dashcam::continue_trace(request, &parent, &state);
    }
    Ok(())
}

/// None: it is no pair of bytes. Err: as `item`.
fn pair_of<'py>(
    pair: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
    let py = pair.py();
    let bytes = |found: PyResult<Bound<'py, PyAny>>| -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(ignored(py, found)?.and_then(|found| found.cast_into().ok()))
    };
    let (name, value) = match pair.cast::<PyTuple>() {
        Ok(pair) => (bytes(pair.get_item(0))?, bytes(pair.get_item(1))?),
        Err(_) => (bytes(pair.get_item(0))?, bytes(pair.get_item(1))?),
    };
    Ok(name.zip(value))
}

fn latin(bytes: &Bound<'_, PyBytes>) -> String {
    bytes.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}

/// Gives the current request, if there is one, the name `METHOD route`.
#[pyfunction]
pub fn request_route(method: &Bound<'_, PyAny>, route: &Bound<'_, PyAny>) {
    request_named(names::open(method.py()), method, route);
}

/// Gives an open request the name `METHOD route`, if both are texts: the values of a client or a
/// test may be of other types.
#[pyfunction]
pub fn request_named(id: u64, method: &Bound<'_, PyAny>, route: &Bound<'_, PyAny>) {
    let (true, Some(recorder)) = (id != 0, recorder::current()) else { return };
    if let (Ok(method), Ok(route)) = (method.cast::<PyString>(), route.cast::<PyString>()) {
        let method = made::characters(method);
        let make = || name_id(recorder, &method, &made::characters(route), Source::Route);
        let name = names::route_id(recorder, &method, route, make);
        recorder::Request { id, begin_ns: 0 }.rename(name);
    }
}
