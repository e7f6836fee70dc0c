//! Attributes: from Python's objects to the recorder's values.
//!
//! A value that is exactly a str, int, float or bool is *plain*: it holds no other object and
//! turning it into words runs no code of the program. Everything else is made plain once, by its
//! `str()` (ints and floats of other types: by their value), when the span begins or the value is
//! set, and not while recording is off.

use std::ptr::null_mut;

use format::record::{Value, MAX_ATTRIBUTES, MAX_EVENT_TEXT};
use pyo3::ffi;
use pyo3::prelude::*;
use recorder::{Attribute, Recorder};

use crate::aside::fetched;
use crate::interrupts::interrupts;
use crate::names;

/// Whether it is exactly a str, int, float or bool.
///
/// Safety: a live object; the GIL is held.
#[inline]
pub(super) unsafe fn is_plain(value: *mut ffi::PyObject) -> bool {
    // SAFETY: promised by the caller; the types are CPython's own.
    unsafe {
        let class = ffi::Py_TYPE(value);
        class == &raw mut ffi::PyLong_Type
            || class == &raw mut ffi::PyUnicode_Type
            || class == &raw mut ffi::PyFloat_Type
            || class == &raw mut ffi::PyBool_Type
    }
}

/// Whether two strs are equal.
///
/// Safety: both are exactly strs; the GIL is held.
#[inline]
pub(super) unsafe fn is_same(one: *mut ffi::PyObject, other: *mut ffi::PyObject) -> bool {
    // SAFETY: promised by the caller; comparing two strs runs no code of the program and cannot
    // fail.
    one == other || unsafe { ffi::PyUnicode_Compare(one, other) == 0 }
}

/// A plain value for any value, as a new reference. NULL: an exception that interrupts the program
/// (KeyboardInterrupt, CancelledError, a signal handler's) came from its `str()` and is set. Any
/// other error there gives a text that names it.
///
/// Safety: a live object, held by the caller; the GIL is held.
#[cold]
pub(super) unsafe fn plain(py: Python<'_>, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: live objects throughout; each call's result is checked, each error fetched.
    unsafe {
        if is_plain(value) {
            ffi::Py_INCREF(value);
            return value;
        }
        let made = if ffi::PyLong_Check(value) != 0 {
            integer(value)
        } else if ffi::PyFloat_Check(value) != 0 {
            ffi::PyFloat_FromDouble(ffi::PyFloat_AsDouble(value))
        } else {
            text(value)
        };
        if !made.is_null() {
            return made;
        }
        let error = fetched(py);
        if interrupts(py, &error) {
            error.restore(py);
            return null_mut();
        }
        drop(error);
        let class = (*ffi::Py_TYPE(value)).tp_name;
        ffi::PyUnicode_FromFormat(c"<%s without str()>".as_ptr(), class)
    }
}

/// An int of exactly that type, or a float when it is too large for a record anyway.
unsafe fn integer(value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let mut overflow = 0;
    // SAFETY: an int or of a subtype: read directly, without calling its methods.
    unsafe {
        match ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow) {
            whole if overflow == 0 => ffi::PyLong_FromLongLong(whole),
            _ => ffi::PyFloat_FromDouble(large(value)),
        }
    }
}

/// A whole number beyond 64 bits as a float; NaN when it is beyond floats too.
unsafe fn large(value: *mut ffi::PyObject) -> f64 {
    // SAFETY: an int; the only possible error (OverflowError) is cleared.
    unsafe {
        let number = ffi::PyLong_AsDouble(value);
        if number == -1.0 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return f64::NAN;
        }
        number
    }
}

/// `str(value)` as exactly a str.
unsafe fn text(value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a live object; NULL is passed on.
    unsafe {
        let text = ffi::PyObject_Str(value);
        if text.is_null() || ffi::PyUnicode_CheckExact(text) != 0 {
            return text;
        }
        let exact = ffi::PyUnicode_FromObject(text);
        ffi::Py_DECREF(text);
        exact
    }
}

/// Calls `then` with `count` attributes, at most `MAX_ATTRIBUTES`.
///
/// Safety: `pair` gives, for each number below `count`, a key that is exactly a str and a plain
/// value, both held until this returns. The GIL is held.
#[inline]
pub(super) unsafe fn with(
    recorder: &Recorder,
    count: usize,
    pair: impl Fn(usize) -> (*mut ffi::PyObject, *mut ffi::PyObject),
    then: impl FnOnce(&[Attribute<'_>]),
) {
    let one = |at: usize, shortened: &mut Vec<Owned>| {
        let (key, value) = pair(at);
        // SAFETY: promised by the caller.
        unsafe { (names::id(recorder, key), word(value, shortened)) }
    };
    let mut shortened = Vec::new();
    match count {
        0 => then(&[]),
        1 => then(&[one(0, &mut shortened)]),
        _ => {
            let mut list = [(0, Value::Bool(false)); MAX_ATTRIBUTES];
            let count = count.min(MAX_ATTRIBUTES);
            for (at, place) in list.iter_mut().enumerate().take(count) {
                *place = one(at, &mut shortened);
            }
            then(&list[..count]);
        }
    }
}

/// A reference that is released when this is dropped.
pub(super) struct Owned(*mut ffi::PyObject);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it was a new reference; the GIL is held by all code that keeps one (see `with`).
        unsafe { ffi::Py_DECREF(self.0) };
    }
}

/// The recorder's form of a plain value. A text lives as long as the value and `shortened`.
#[inline]
unsafe fn word<'a>(value: *mut ffi::PyObject, shortened: &mut Vec<Owned>) -> Value<'a> {
    // SAFETY: the value is plain, so its type determines its layout.
    unsafe {
        let class = ffi::Py_TYPE(value);
        if class == &raw mut ffi::PyLong_Type {
            let mut overflow = 0;
            let whole = ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow);
            return match overflow {
                0 => Value::Int(whole),
                _ => Value::Float(large(value)),
            };
        }
        if class == &raw mut ffi::PyUnicode_Type {
            return Value::Text(characters(value, shortened));
        }
        if class == &raw mut ffi::PyFloat_Type {
            return Value::Float(ffi::PyFloat_AS_DOUBLE(value));
        }
        if class == &raw mut ffi::PyBool_Type {
            return Value::Bool(value == ffi::Py_True());
        }
        // Its own `str()` has replaced it.
        Value::Text("")
    }
}

/// A str's characters, or the first of them if there are more than a record takes.
unsafe fn characters<'a>(text: *mut ffi::PyObject, shortened: &mut Vec<Owned>) -> &'a str {
    // SAFETY: exactly a str. Its UTF-8 form belongs to it and lives as long as it does: the caller
    // holds `text`, and `shortened` holds the str that is made here.
    unsafe {
        let is_long = ffi::PyUnicode_GET_LENGTH(text) > MAX_EVENT_TEXT as isize;
        let mut text = text;
        if is_long {
            // CPython would keep the UTF-8 form of all of it. One more than fits: the recorder
            // counts the cut.
            let part = ffi::PyUnicode_Substring(text, 0, MAX_EVENT_TEXT as isize + 1);
            if part.is_null() {
                ffi::PyErr_Clear();
                return "";
            }
            shortened.push(Owned(part));
            text = part;
        }
        let mut length = 0;
        let mut bytes = ffi::PyUnicode_AsUTF8AndSize(text, &mut length);
        if bytes.is_null() {
            // Half a surrogate pair has no UTF-8 form.
            ffi::PyErr_Clear();
            let encoded = ffi::PyUnicode_AsEncodedString(
                text,
                c"utf-8".as_ptr(),
                c"backslashreplace".as_ptr(),
            );
            if encoded.is_null() {
                ffi::PyErr_Clear();
                return "";
            }
            shortened.push(Owned(encoded));
            bytes = ffi::PyBytes_AS_STRING(encoded);
            length = ffi::PyBytes_Size(encoded);
        }
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length.max(0) as usize);
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}
