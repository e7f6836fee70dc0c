//! Names of calls to other services, by the arguments of the functions that make them.
//!
//! How it works: each kind of call is a type with one function. Names of statements and of hosts
//! are kept, so that one that is known is found by its str.
//!
//! What it promises: no value of the program is in a name: of a statement its shape is
//! (`recorder::statement`), of a command its word, of a URL the host. Missing on purpose: the calls
//! (`calls`).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyType, PyWeakrefMethods, PyWeakrefReference};
use recorder::Recorder;

use super::quick;
use crate::aside::fetched;
use crate::kept::{word, Dict};
use crate::{made, names};

/// Statement -> its shape.
static SHAPES: Dict = Dict::new();
/// (method, host, port), each exactly of its type -> `METHOD host:port`.
static HOSTS: Dict = Dict::new();
/// At most this many in each; further names are made anew each time.
const MOST_KEPT: usize = 1_000;
/// Longer statements are not kept.
const LONGEST_KEPT: isize = 4_096;
/// Longer commands are not named.
const LONGEST_COMMAND: usize = 32;

/// Weak references to the classes of cursors whose own `execute` is hooked: what is above them
/// records nothing. Each reference is owned until the program has ended.
static CURSORS: [AtomicPtr<ffi::PyObject>; 8] = [const { AtomicPtr::new(null_mut()) }; 8];

/// The arguments of a hooked method.
pub(super) struct Given<'a> {
    /// The object whose method it is, borrowed.
    pub own: *mut ffi::PyObject,
    /// Behind `own`.
    pub positional: &'a [*mut ffi::PyObject],
    pub first: *const *mut ffi::PyObject,
    pub keywords: *mut ffi::PyObject,
}

impl Given<'_> {
    /// The argument at this position or by this name.
    ///
    /// Safety: the caller of the method holds its arguments, and the GIL.
    unsafe fn get<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        name: &std::ffi::CStr,
    ) -> Option<Bound<'py, PyAny>> {
        // SAFETY: promised by the caller.
        unsafe {
            let found = match self.positional.get(at) {
                Some(found) => *found,
                None => quick::named(self.first, self.positional.len() as _, self.keywords, name),
            };
            Bound::from_borrowed_ptr_or_opt(py, found)
        }
    }
}

/// How calls of one kind are named.
pub(super) trait Naming {
    const KIND: &'static str;

    /// The name's id; None: it is not recorded.
    ///
    /// Safety: as `Given::get`.
    unsafe fn name(py: Python<'_>, recorder: &Recorder, given: &Given<'_>)
        -> PyResult<Option<u32>>;
}

/// A statement at position `AT`. `CURSOR`: where the driver's cursor is: the argument in front of
/// it, an attribute of `self`, or it is `self`.
pub(super) struct Statement<const AT: usize, const CURSOR: u8>;
pub(super) const IS_SELF: u8 = 0;
pub(super) const IS_ARGUMENT: u8 = 1;
pub(super) const IS_ATTRIBUTE: u8 = 2;

impl<const AT: usize, const CURSOR: u8> Naming for Statement<AT, CURSOR> {
    const KIND: &'static str = "sql";

    unsafe fn name(
        py: Python<'_>,
        recorder: &Recorder,
        given: &Given<'_>,
    ) -> PyResult<Option<u32>> {
        // SAFETY: promised by the caller.
        let statement = unsafe {
            let cursor = match CURSOR {
                IS_ARGUMENT => given.get(py, 0, c"cursor"),
                IS_ATTRIBUTE => {
                    let own = Bound::from_borrowed_ptr(py, given.own);
                    Some(own.getattr(word!(py, "cursor"))?)
                }
                _ => None,
            };
            if cursor.is_some_and(|cursor| is_hooked(&cursor)) {
                return Ok(None);
            }
            given.get(py, AT, c"query")
        };
        static OTHER: names::Own = names::Own::new("statement");
        let text = statement.and_then(|statement| statement.cast_into::<PyString>().ok());
        text.map_or(Ok(Some(OTHER.id(recorder))), |text| shaped(recorder, &text))
    }
}

/// The id of a statement's shape.
fn shaped(recorder: &Recorder, statement: &Bound<'_, PyString>) -> PyResult<Option<u32>> {
    let read = recorder::statement::READ as isize;
    let shape = || recorder::statement::shape(&made::first_characters(statement, read));
    // SAFETY: a live str.
    let is_short = unsafe {
        ffi::PyUnicode_CheckExact(statement.as_ptr()) != 0
            && ffi::PyUnicode_GET_LENGTH(statement.as_ptr()) <= LONGEST_KEPT
    };
    match is_short {
        true => kept(recorder, &SHAPES, statement, shape),
        false => Ok(Some(recorder.tables().name(&shape()))),
    }
}

/// Whether the class of a cursor is one whose own functions are hooked.
fn is_hooked(cursor: &Bound<'_, PyAny>) -> bool {
    let is = |class: Bound<'_, PyAny>| {
        // SAFETY: the GIL is held; a class, which `class` holds.
        unsafe { ffi::PyType_IsSubtype(ffi::Py_TYPE(cursor.as_ptr()), class.as_ptr().cast()) != 0 }
    };
    CURSORS.iter().filter_map(|place| class_in(cursor.py(), place)).any(is)
}

/// The class of a place, unless there is none or it is gone.
fn class_in<'py>(py: Python<'py>, place: &AtomicPtr<ffi::PyObject>) -> Option<Bound<'py, PyAny>> {
    let raw = place.load(Ordering::Acquire);
    // SAFETY: the GIL is held; NULL, or a weak reference that the place holds.
    let held = unsafe { Bound::from_borrowed_ptr_or_opt(py, raw) }?;
    // SAFETY: only `cursor_is_hooked` puts an object there.
    unsafe { held.cast_into_unchecked::<PyWeakrefReference>() }.upgrade()
}

/// From now on calls of this class' cursors are recorded by hooks of their own.
#[pyfunction]
pub fn cursor_is_hooked(class_: Bound<'_, PyType>) -> PyResult<()> {
    let py = class_.py();
    let reference = PyWeakrefReference::new(&class_)?;
    for place in &CURSORS {
        let found = place.load(Ordering::Acquire);
        match class_in(py, place) {
            Some(known) if known.is(&class_) => return Ok(()),
            Some(_) => continue,
            // Another thread may be about to use the reference to a class that is gone.
            None if cfg!(Py_GIL_DISABLED) && !found.is_null() => continue,
            None => {}
        }
        let (raw, order) = (reference.as_ptr(), Ordering::AcqRel);
        if place.compare_exchange(found, raw, order, Ordering::Acquire).is_ok() {
            std::mem::forget(reference);
            // SAFETY: the reference was the place's.
            unsafe { ffi::Py_XDECREF(found) };
            break;
        }
    }
    Ok(())
}

/// The program has ended: the list is empty.
#[pyfunction]
pub fn release_cursors(_py: Python<'_>) {
    for place in &CURSORS {
        let class = place.swap(null_mut(), Ordering::AcqRel);
        // SAFETY: the GIL is held; the reference was the list's.
        unsafe { ffi::Py_XDECREF(class) };
    }
}

/// The end of a transaction. `BY`: what it is.
pub(super) struct End<const BY: u8>;
pub(super) const IS_COMMIT: u8 = 0;
pub(super) const IS_ROLLBACK: u8 = 1;
/// Of `with connection`: a commit unless an exception leaves the block.
pub(super) const IS_EXIT: u8 = 2;

impl<const BY: u8> Naming for End<BY> {
    const KIND: &'static str = "sql";

    unsafe fn name(
        py: Python<'_>,
        recorder: &Recorder,
        given: &Given<'_>,
    ) -> PyResult<Option<u32>> {
        static COMMIT: names::Own = names::Own::new("commit");
        static ROLLBACK: names::Own = names::Own::new("rollback");
        // SAFETY: promised by the caller.
        let (own, kind) =
            unsafe { (Bound::from_borrowed_ptr(py, given.own), given.get(py, 0, c"exc_type")) };
        if !has_transaction(&own)? {
            return Ok(None);
        }
        let is_commit = match BY {
            IS_EXIT => kind.is_none_or(|kind| kind.is_none()),
            by => by == IS_COMMIT,
        };
        Ok(Some(if is_commit { &COMMIT } else { &ROLLBACK }.id(recorder)))
    }
}

/// Whether a connection of sqlite3 (`in_transaction`) or psycopg2 (`status`: 1 is ready) has one.
/// Neither is asked if the program's class has an attribute of its own in its place.
fn has_transaction(connection: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = connection.py();
    if let Some(found) = native(connection, word!(py, "in_transaction"))? {
        return found.is_truthy();
    }
    let status = native(connection, word!(py, "status"))?;
    status.map_or(Ok(false), |status| Ok(status.extract::<i64>()? != 1))
}

/// What an attribute that is written in C says.
fn native<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let class = object.get_type();
    // SAFETY: the GIL is held; the descriptor is alive, and of a type whose `__get__` is CPython's.
    unsafe {
        if ffi::Py_TYPE(class.as_ptr()) != &raw mut ffi::PyType_Type {
            return Ok(None);
        }
        let Some(found) = class.getattr_opt(name)? else { return Ok(None) };
        let kind = ffi::Py_TYPE(found.as_ptr());
        let known = [&raw mut ffi::PyGetSetDescr_Type, &raw mut ffi::PyMemberDescr_Type];
        let Some(get) = (*kind).tp_descr_get.filter(|_| known.contains(&kind)) else {
            return Ok(None);
        };
        let value = get(found.as_ptr(), object.as_ptr(), class.as_ptr());
        Bound::from_owned_ptr_or_err(object.py(), value).map(Some)
    }
}

/// A command of Redis at this position.
pub(super) struct Command<const AT: usize>;

impl<const AT: usize> Naming for Command<AT> {
    const KIND: &'static str = "redis";

    unsafe fn name(
        py: Python<'_>,
        recorder: &Recorder,
        given: &Given<'_>,
    ) -> PyResult<Option<u32>> {
        static OTHER: names::Own = names::Own::new("command");
        // SAFETY: promised by the caller; `id` gets what is exactly a str.
        unsafe {
            let command = given.get(py, AT, c"command_name");
            let Some(command) = command.and_then(|one| one.cast_into_exact::<PyString>().ok())
            else {
                return Ok(Some(OTHER.id(recorder)));
            };
            let text = made::characters(&command);
            let is_word = |c: char| c.is_ascii_alphabetic() || matches!(c, ' ' | '_' | '.' | '-');
            match text.len() <= LONGEST_COMMAND && text.chars().all(is_word) {
                true => Ok(Some(names::id(recorder, command.as_ptr()))),
                false => Ok(Some(OTHER.id(recorder))),
            }
        }
    }
}

/// Several commands of Redis at once.
pub(super) struct Pipeline;

impl Naming for Pipeline {
    const KIND: &'static str = "redis";

    unsafe fn name(_: Python<'_>, recorder: &Recorder, _: &Given<'_>) -> PyResult<Option<u32>> {
        static PIPELINE: names::Own = names::Own::new("PIPELINE");
        Ok(Some(PIPELINE.id(recorder)))
    }
}

/// A request of HTTP: `METHOD host:port`. `WHERE`: what knows them.
pub(super) struct Http<const WHERE: u8>;
/// The method is the first argument, host and port are `self`'s.
pub(super) const IS_POOL: u8 = 0;
/// The first argument is a request with `method` and `url`.
pub(super) const IS_REQUEST: u8 = 1;
/// `self` has `method` and `url`.
pub(super) const IS_RESPONSE: u8 = 2;

impl<const WHERE: u8> Naming for Http<WHERE> {
    const KIND: &'static str = "http";

    unsafe fn name(
        py: Python<'_>,
        recorder: &Recorder,
        given: &Given<'_>,
    ) -> PyResult<Option<u32>> {
        // SAFETY: promised by the caller.
        let (own, first) = unsafe {
            let name = if WHERE == IS_POOL { c"method" } else { c"request" };
            (Bound::from_borrowed_ptr(py, given.own), given.get(py, 0, name))
        };
        let (method, place) = match (WHERE, first) {
            (IS_POOL, Some(method)) => (method, own),
            (IS_REQUEST, Some(request)) => {
                (request.getattr(word!(py, "method"))?, request.getattr(word!(py, "url"))?)
            }
            (IS_RESPONSE, _) => (own.getattr(word!(py, "method"))?, own.getattr(word!(py, "url"))?),
            _ => return Ok(None),
        };
        let host = place.getattr(word!(py, "host"))?;
        let port = place.getattr(word!(py, "port"))?;
        // Other types have code of the program's: it is not called, and they are not kept.
        let (Ok(method), Ok(host)) =
            (method.cast_exact::<PyString>(), host.cast_exact::<PyString>())
        else {
            return Ok(None);
        };
        let number = match port.cast_exact::<PyInt>() {
            Ok(number) => number.extract::<u16>().ok(),
            Err(_) if port.is_none() => None,
            Err(_) => return Ok(None),
        };
        let key =
            made::tuple(py, &[method.clone().into_any(), host.clone().into_any(), port.clone()])?;
        kept(recorder, &HOSTS, &key, || {
            let (method, host) = (made::characters(method), made::characters(host));
            match number {
                Some(port) => format!("{method} {host}:{port}"),
                None => format!("{method} {host}"),
            }
        })
    }
}

/// The id of the name that belongs to `key`: of the str that `dict` has for it, or of what `name`
/// makes, which is put there while there is room.
fn kept(
    recorder: &Recorder,
    dict: &'static Dict,
    key: &Bound<'_, PyAny>,
    name: impl FnOnce() -> String,
) -> PyResult<Option<u32>> {
    let py = key.py();
    let Some(dict) = dict.get().map(|dict| dict.bind(py)) else { return Ok(None) };
    // SAFETY: live objects; a result is borrowed from the dict, whose entries are never replaced,
    // and whose values are exactly strs.
    unsafe {
        let found = ffi::PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr());
        if !found.is_null() {
            return Ok(Some(names::id(recorder, found)));
        }
        if !ffi::PyErr_Occurred().is_null() {
            return Err(fetched(py));
        }
    }
    let made = name();
    if dict.len() >= MOST_KEPT {
        return Ok(Some(recorder.tables().name(&made)));
    }
    let text = made::text(py, &made)?;
    // SAFETY: as above: what another thread has put there meanwhile, and may be reading, remains.
    unsafe {
        let kept = ffi::PyDict_SetDefault(dict.as_ptr(), key.as_ptr(), text.as_ptr());
        match kept.is_null() {
            true => Err(fetched(py)),
            false => Ok(Some(names::id(recorder, kept))),
        }
    }
}

/// An operation of a cloud's API: `s3.PutObject`.
pub(super) struct Api;

impl Naming for Api {
    const KIND: &'static str = "api";

    unsafe fn name(
        py: Python<'_>,
        recorder: &Recorder,
        given: &Given<'_>,
    ) -> PyResult<Option<u32>> {
        // SAFETY: promised by the caller.
        let (own, operation) = unsafe {
            (Bound::from_borrowed_ptr(py, given.own), given.get(py, 0, c"operation_name"))
        };
        let meta = own.getattr(word!(py, "meta"))?.getattr(word!(py, "service_model"))?;
        let service = meta.getattr(word!(py, "service_name"))?;
        let (Some(operation), Ok(service)) = (operation, service.cast::<PyString>()) else {
            return Ok(None);
        };
        let Ok(operation) = operation.cast::<PyString>() else { return Ok(None) };
        let name = format!("{}.{}", made::characters(service), made::characters(operation));
        Ok(Some(names::name(recorder, &made::text(py, &name)?)))
    }
}

/// Makes what is kept.
pub(super) fn make_kept(py: Python<'_>) -> PyResult<()> {
    SHAPES.make(py)?;
    HOSTS.make(py)
}
