//! Names and the current request, seen from Python.
//!
//! How it works: a name in a program's text is one str object for as long as its code lives, so its
//! id is found by its address, in a small table where each address has one place. A str whose
//! address is not there is looked up in a dict, by its characters, and takes the place. The table
//! holds a reference to each str in it, so that its address cannot become another's. Ids belong to
//! a recorder, whose epoch is stored beside them.
//!
//! What it promises: one multiplication and three comparisons for a name that is in the table. At
//! most `PLACES` strs are kept in a table, each of at most `LONGEST` characters.

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use recorder::Recorder;
use sys::cell::StaticRef;

use crate::kept::Dict;
use crate::{made, safe_point};

/// Places of a table; a power of two.
const PLACES: usize = 512;
/// Longer strs are looked up in the dict each time.
const LONGEST: isize = 256;

/// A str and its id.
struct Place {
    /// Owned, or NULL. Exactly a str.
    text: Cell<*mut ffi::PyObject>,
    /// The epoch of the recorder that gave the id.
    epoch: Cell<u32>,
    id: Cell<u32>,
}

/// Str -> id.
struct Table {
    /// By address.
    places: [Place; PLACES],
    /// By characters. Emptied after a fork, when ids begin anew. Bounded by the name area: a
    /// refused name is not entered.
    dict: Dict,
}

// SAFETY: only the GIL's holder accesses it: every function here takes a `Python` or requires the
// GIL. There is one GIL, since the module refuses to be imported into another interpreter.
unsafe impl Sync for Table {}

impl Table {
    const fn new() -> Table {
        let places = [const {
            Place { text: Cell::new(null_mut()), epoch: Cell::new(0), id: Cell::new(0) }
        }; PLACES];
        Table { places, dict: Dict::new() }
    }

    /// The id of `text`.
    ///
    /// Safety: the GIL is held; `text` is exactly a str, held by the caller.
    #[inline]
    unsafe fn id(
        &'static self,
        recorder: &Recorder,
        text: *mut ffi::PyObject,
        intern: impl FnOnce(&str) -> u32,
    ) -> u32 {
        // Objects lie 16 bytes apart; Fibonacci's multiplier spreads the other bits.
        let mixed = (text as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = &self.places[(mixed >> (64 - PLACES.trailing_zeros())) as usize];
        if place.text.get() == text && place.epoch.get() == recorder.epoch() {
            return place.id.get();
        }
        // SAFETY: promised by the caller.
        let text = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), text) };
        // SAFETY: promised by the caller: a str.
        let text = unsafe { text.cast_into_unchecked::<PyString>() };
        self.look_up(place, recorder, &text, intern)
    }

    #[cold]
    fn look_up(
        &'static self,
        place: &Place,
        recorder: &Recorder,
        text: &Bound<'_, PyString>,
        intern: impl FnOnce(&str) -> u32,
    ) -> u32 {
        let id = self.by_characters(text, intern);
        // SAFETY: a str.
        let length = unsafe { ffi::PyUnicode_GET_LENGTH(text.as_ptr()) };
        if id != 0 && length <= LONGEST {
            place.epoch.set(recorder.epoch());
            place.id.set(id);
            let old = place.text.replace(text.clone().into_ptr());
            // SAFETY: the reference was the table's; the place holds another one already. The
            // dropped object is exactly a str, so no code of the program runs.
            unsafe { ffi::Py_XDECREF(old) };
        }
        id
    }

    fn by_characters(
        &'static self,
        text: &Bound<'_, PyString>,
        intern: impl FnOnce(&str) -> u32,
    ) -> u32 {
        let py = text.py();
        let Some(dict) = self.dict.get().map(|dict| dict.bind(py)) else { return 0 };
        if let Some(id) = dict.get_item(text).ok().flatten().and_then(|id| id.extract().ok()) {
            return id;
        }
        let Some(text_of) = made::all_characters(text) else { return 0 };
        let id = intern(&text_of);
        if id != 0 && dict.len() < MOST {
            // An error: there is no memory, and the next call asks again.
            let _ = made::int(py, id.into()).and_then(|id| dict.set_item(text, id));
        }
        id
    }

    fn forget(&self, py: Python<'_>) {
        if let Some(dict) = self.dict.get() {
            dict.bind(py).clear();
        }
        for place in &self.places {
            place.epoch.set(0);
            // SAFETY: as in `look_up`; the place is empty before.
            unsafe { ffi::Py_XDECREF(place.text.replace(null_mut())) };
        }
    }
}

/// Names of spans, events and attributes.
static NAMES: Table = Table::new();
/// Names of requests, whose limits are looked up once.
static REQUESTS: Table = Table::new();
/// The id of the request this context works for; 0 none.
static CURRENT: StaticRef<Py<PyAny>> = StaticRef::empty();

/// At most this many names in either dict; further names are looked up in the recorder each time.
const MOST: usize = 20_000;

/// Makes what is kept: the context variable, once, and the tables' dicts.
pub fn make_kept(py: Python<'_>) -> PyResult<()> {
    // SAFETY: a plain C API call with a static, NUL-terminated name; null means a Python error,
    // which `from_owned_ptr_or_err` fetches.
    let variable = unsafe {
        let made = ffi::PyContextVar_New(c"dashcam_request".as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    CURRENT.put(variable.unbind()).map_err(|_| crate::call::elsewhere())?;
    NAMES.dict.make(py)?;
    REQUESTS.dict.make(py)
}

/// The id of the request this context works for; 0 none. Cost: CPython keeps the last result for a
/// thread until its context changes, some ns; else a lookup in a tree, some 20.
#[inline]
pub fn current(_py: Python<'_>) -> u64 {
    let Some(variable) = CURRENT.get() else { return 0 };
    let mut value: *mut ffi::PyObject = null_mut();
    // SAFETY: `variable` is a context variable; on success `value` is NULL (unset) or a new
    // reference, given back here. The GIL is held (`py`).
    unsafe {
        if ffi::PyContextVar_Get(variable.as_ptr(), null_mut(), &mut value) != 0 {
            ffi::PyErr_Clear();
            return 0;
        }
        if value.is_null() {
            return 0;
        }
        let id = ffi::PyLong_AsUnsignedLongLong(value);
        ffi::Py_DECREF(value);
        if id == u64::MAX {
            // Other code has set the variable; no request has this id.
            ffi::PyErr_Clear();
            return 0;
        }
        id
    }
}

/// The id of the request this context works for, if that is open; else 0. A request that ended in a
/// destructor, or in another context, is still this context's current one: new spans and events are
/// not part of it. Cost: as `current`, and two loads.
#[inline]
pub fn open(py: Python<'_>) -> u64 {
    match current(py) {
        0 => 0,
        id if recorder::current()
            .is_some_and(|recorder| recorder.open_requests().has_ended(id)) =>
        {
            0
        }
        id => id,
    }
}

/// Makes `id` the current request; not while this thread collects garbage, which may be in the
/// middle of setting a variable (see `safe_point`).
pub fn set_current(py: Python<'_>, id: u64) {
    let Some(variable) = CURRENT.get().filter(|_| !safe_point::in_collection(py)) else { return };
    // SAFETY: live objects, the GIL is held; NULL is an error, cleared here.
    unsafe {
        let value = ffi::PyLong_FromUnsignedLongLong(id);
        let token = match value.is_null() {
            true => null_mut(),
            false => ffi::PyContextVar_Set(variable.as_ptr(), value),
        };
        if token.is_null() {
            ffi::PyErr_Clear();
        }
        ffi::Py_XDECREF(token);
        ffi::Py_XDECREF(value);
    }
}

/// As `set_current`; returns the request that was current before. No token is kept: it would hold
/// its context, and with that the program's values in it.
pub fn swap_current(py: Python<'_>, id: u64) -> u64 {
    let before = current(py);
    set_current(py, id);
    before
}

/// Makes `before` current again if `id` still is: in another context (a generator that was moved)
/// another request may be.
pub fn restore(py: Python<'_>, id: u64, before: u64) {
    if current(py) == id {
        set_current(py, before);
    }
}

/// The id of a name.
///
/// Safety: the GIL is held; `text` is exactly a str, held by the caller.
#[inline]
pub unsafe fn id(recorder: &Recorder, text: *mut ffi::PyObject) -> u32 {
    // SAFETY: promised by the caller.
    unsafe { NAMES.id(recorder, text, |text| recorder.tables().name(text)) }
}

/// The id of a request's name.
///
/// Safety: as `id`.
#[inline]
pub unsafe fn request_id(recorder: &Recorder, text: *mut ffi::PyObject) -> u32 {
    // SAFETY: promised by the caller.
    unsafe { REQUESTS.id(recorder, text, |text| recorder.request_name(text)) }
}

/// The id of a name, of any kind of str.
pub fn name(recorder: &Recorder, text: &Bound<'_, PyString>) -> u32 {
    NAMES.by_characters(text, |text| recorder.tables().name(text))
}

/// The id of a request's name, of any kind of str.
pub fn request_name(recorder: &Recorder, text: &Bound<'_, PyString>) -> u32 {
    REQUESTS.by_characters(text, |text| recorder.request_name(text))
}

/// Forgets all ids: there is another recorder.
pub fn forget(py: Python<'_>) {
    NAMES.forget(py);
    REQUESTS.forget(py);
}
