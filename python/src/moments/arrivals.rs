//! Requests as servers know them on arrival: method, path, connection, headers.
//!
//! How it works: a server's hook makes one call, which does everything that a request needs before
//! its handler runs. The name is assembled in a buffer of the thread, which is reused, and its id
//! is found by its characters among those that the thread knows, so that a known name costs neither
//! an allocation nor a lock.
//!
//! What it promises: nothing here raises, except an exception that interrupts the program
//! (KeyboardInterrupt) while a connection is asked for its descriptor. At most `MOST_RAW` names are
//! made from paths.
//!
//! Missing on purpose: servers (python/dashcam/_integrations); WSGI's call (`wsgi`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};
use recorder::{Connection, Recorder};

use super::request;
use crate::interrupts::{ignored, interrupts};
use crate::kept::word;
use crate::made::{self, Id};
use crate::process::recording;
use crate::unfinished;

/// At most this many names are made from paths; all others are `METHOD (other)`.
const MOST_RAW: u64 = 500;
/// At most this many names are remembered by a thread; for further ones the recorder is called each
/// time.
const MOST: usize = 2_000;
/// A part of a path of this length or more is no word.
const LONG: usize = 33;
/// Bytes of a file name's ending: `parquet` is the longest in wide use.
const LONGEST_ENDING: usize = 7;

/// Ids of names assembled here, by one thread.
#[derive(Default)]
struct Texts {
    /// The epoch of the recorder that gave the ids.
    epoch: u32,
    ids: HashMap<Box<str>, u32, BuildHasherDefault<Words>>,
    buffer: String,
}

/// Hashes a text by words of 8 bytes. A client that sends paths of one hash makes `MOST_RAW` names
/// at most.
#[derive(Default)]
struct Words(u64);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        // Fibonacci's multiplier; the rotation brings high bits, which are mixed best, to the rest.
        let mut mix = |word: u64| {
            self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        };
        let (words, length) = (bytes.chunks_exact(8), bytes.len() as u64);
        let rest = words.remainder().iter().fold(length, |last, byte| last << 8 | u64::from(*byte));
        words.for_each(|word| mix(word.try_into().map_or(0, u64::from_le_bytes)));
        mix(rest);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

thread_local! {
    static TEXTS: RefCell<Texts> = RefCell::default();
}

/// How many names were made from paths, below the epoch of the recorder that has them. Relaxed: it
/// decides nothing but its own bound.
static RAW: AtomicU64 = AtomicU64::new(0);

/// Whether one more name may be made from a path.
fn one_more_raw(epoch: u32) -> bool {
    let epoch = u64::from(epoch) << 32;
    let more = |raw: u64| match raw & (u64::MAX << 32) == epoch {
        true => (raw < epoch + MOST_RAW).then_some(raw + 1),
        false => Some(epoch + 1),
    };
    RAW.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// The source of a name.
enum Source {
    /// A path as the client sent it.
    Path,
    /// A route of the program.
    Route,
}

impl Texts {
    /// The id of `METHOD path`.
    fn id(&mut self, recorder: &Recorder, method: &str, path: &str, source: &Source) -> u32 {
        if self.epoch != recorder.epoch() {
            self.epoch = recorder.epoch();
            self.ids.clear();
        }
        self.buffer.clear();
        self.buffer.push_str(method);
        self.buffer.push(' ');
        match source {
            Source::Path => put_path(&mut self.buffer, path),
            Source::Route => self.buffer.push_str(path),
        }
        if let Some(id) = self.ids.get(self.buffer.as_str()) {
            return *id;
        }
        self.make(recorder, method, source)
    }

    #[cold]
    fn make(&mut self, recorder: &Recorder, method: &str, source: &Source) -> u32 {
        let is_new = || recorder.tables().known(&self.buffer).is_none();
        if matches!(source, Source::Path) && is_new() && !one_more_raw(recorder.epoch()) {
            return recorder.request_name(&format!("{method} (other)"));
        }
        let id = recorder.request_name(&self.buffer);
        // A refused name is requested again.
        if id != 0 && self.ids.len() < MOST {
            self.ids.insert(self.buffer.as_str().into(), id);
        }
        id
    }
}

/// The path without its query, `{id}` for parts that look like ids, `{id}.json` for files with a
/// digit in their names.
fn put_path(buffer: &mut String, path: &str) {
    let path = path.split('?').next().unwrap_or_default();
    let mut rest = path;
    loop {
        let (end, is_word) = first_part(rest.as_bytes());
        match is_word {
            true => buffer.push_str(&rest[..end]),
            false => put_part(buffer, &rest[..end]),
        }
        if end == rest.len() {
            return;
        }
        buffer.push('/');
        rest = &rest[end + 1..];
    }
}

/// The length of the part before the next slash, and whether it is surely a word: short, with a
/// letter behind `f`, and neither dots nor characters beyond ASCII.
fn first_part(path: &[u8]) -> (usize, bool) {
    let (mut is_plain, mut has_letter, mut end) = (true, false, path.len());
    for (at, byte) in path.iter().enumerate() {
        match byte {
            b'/' => {
                end = at;
                break;
            }
            b'g'..=b'z' | b'G'..=b'Z' | b'_' => has_letter = true,
            b'.' | 0x80.. => is_plain = false,
            _ => (),
        }
    }
    (end, end == 0 || end < LONG && is_plain && has_letter)
}

fn put_part(buffer: &mut String, part: &str) {
    match part.rsplit_once('.').filter(|(stem, ending)| is_file(stem, ending)) {
        Some((_, ending)) => {
            buffer.push_str("{id}.");
            buffer.push_str(ending);
        }
        None => buffer.push_str(if is_id(part) { "{id}" } else { part }),
    }
}

/// Digits, eight and more hexadecimal ones, a UUID, or anything long.
fn is_id(part: &str) -> bool {
    if part.is_empty() {
        return false;
    }
    let is_hex = |byte: u8| byte.is_ascii_hexdigit();
    part.bytes().all(|byte| byte.is_ascii_digit())
        || (part.len() >= 8 && part.bytes().all(is_hex))
        || (part.len() >= 32 && part.bytes().all(|byte| is_hex(byte) || byte == b'-'))
        || (part.len() >= LONG && part.chars().count() >= LONG)
        || (!part.is_ascii() && part.chars().all(char::is_numeric))
}

/// Whether `stem.ending` is the name of a file that has a number or looks like an id: `77.json`,
/// `u7.ics`.
fn is_file(stem: &str, ending: &str) -> bool {
    let mut letters = ending.bytes();
    let is_ending = letters.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && ending.len() <= LONGEST_ENDING
        && letters.all(|byte| byte.is_ascii_alphanumeric());
    is_ending && (is_id(stem) || stem.bytes().any(|byte| byte.is_ascii_digit()))
}

fn name_id(recorder: &Recorder, method: &str, path: &str, source: Source) -> u32 {
    let known = TEXTS
        .try_with(|texts| Some(texts.try_borrow_mut().ok()?.id(recorder, method, path, &source)));
    // A thread that ends has none any more.
    known.ok().flatten().unwrap_or_else(|| Texts::default().id(recorder, method, path, &source))
}

/// Begins a request that arrived on `connection`. 0 when off.
pub(super) fn begin(
    py: Python<'_>,
    recorder: &Recorder,
    (method, path): (&str, &str),
    on_loop: bool,
    connection: Option<&Bound<'_, PyAny>>,
    enter: bool,
) -> PyResult<u64> {
    let fd = match connection {
        Some(connection) => descriptor(connection)?,
        None => -1,
    };
    begin_on(py, recorder, (method, path), on_loop, Connection::of(fd), enter)
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
    let id = begin(py, recorder, (&method, &path), on_loop, connection, enter)?;
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
    let text = |key| item(scope, key).and_then(|found| found.cast_into::<PyString>().ok());
    let (method, path) = (text(word!(py, "method")), text(word!(py, "path")));
    let method = method.as_ref().map_or(Cow::Borrowed("?"), |text| made::characters(text));
    let path = path.as_ref().map_or(Cow::Borrowed("/"), |text| made::characters(text));
    let connection = Connection { fd, port: client_port(scope) };
    let request = begin_on(py, recorder, (&method, &path), true, connection, enter)?;
    if let Some(headers) = item(scope, word!(py, "headers")).filter(|_| request != 0) {
        if let Err(error) = continue_trace(request, &headers) {
            request::end(py, request, false, "");
            return Err(error);
        }
    }
    Ok(request)
}

/// The port of a scope's client, 0 where it has none: a pair of host and port.
fn client_port(scope: &Bound<'_, PyAny>) -> u16 {
    let client = item(scope, word!(scope.py(), "client"));
    let port = || client?.cast_into::<PyTuple>().ok()?.get_item(1).ok()?.cast_into::<PyInt>().ok();
    port().and_then(|port| port.extract().ok()).unwrap_or(0)
}

/// The value of a key in a scope or message.
pub(super) fn item<'py>(
    message: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
) -> Option<Bound<'py, PyAny>> {
    match message.cast::<PyDict>() {
        Ok(dict) => dict.get_item(key).ok().flatten(),
        Err(_) => message.get_item(key).ok(),
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
    let mut look = |pair: &Bound<'_, PyAny>| {
        let Some((name, value)) = pair_of(pair) else { return };
        let name = name.as_bytes();
        if name.len() == 11 && name.eq_ignore_ascii_case(b"traceparent") {
            parents += 1;
            parent = Some(latin(&value));
        } else if name.len() == 10 && name.eq_ignore_ascii_case(b"tracestate") {
            let comma = if state.is_empty() { "" } else { "," };
            let _ = write!(state, "{comma}{}", latin(&value));
        }
    };
    if let Ok(list) = headers.cast::<PyList>() {
        list.iter().for_each(|pair| look(&pair));
    } else if let Some(pairs) = ignored(py, headers.try_iter())? {
        for pair in pairs {
            // An early end of the walk is an error of the headers: everything before it counts.
            let Some(pair) = ignored(py, pair)? else { break };
            look(&pair);
        }
    }
    if let (1, Some(parent)) = (parents, parent) {
        dashcam::continue_trace(request, &parent, &state);
    }
    Ok(())
}

fn pair_of<'py>(pair: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let bytes = |found: Bound<'py, PyAny>| found.cast_into::<PyBytes>().ok();
    if let Ok(pair) = pair.cast::<PyTuple>() {
        return Some((bytes(pair.get_item(0).ok()?)?, bytes(pair.get_item(1).ok()?)?));
    }
    Some((bytes(pair.get_item(0).ok()?)?, bytes(pair.get_item(1).ok()?)?))
}

fn latin(bytes: &Bound<'_, PyBytes>) -> String {
    bytes.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}

/// Gives the current request, if there is one, the name `METHOD route`.
#[pyfunction]
pub fn request_route(method: &Bound<'_, PyAny>, route: &Bound<'_, PyAny>) {
    request_named(crate::names::open(method.py()), method, route);
}

/// Gives an open request the name `METHOD route`, if both are texts: the values of a client or a
/// test may be of other types.
#[pyfunction]
pub fn request_named(id: u64, method: &Bound<'_, PyAny>, route: &Bound<'_, PyAny>) {
    let (true, Some(recorder)) = (id != 0, recorder::current()) else { return };
    if let (Ok(method), Ok(route)) = (method.cast::<PyString>(), route.cast::<PyString>()) {
        let (method, route) = (made::characters(method), made::characters(route));
        let name = name_id(recorder, &method, &route, Source::Route);
        recorder::Request { id, begin_ns: 0 }.rename(name);
    }
}
