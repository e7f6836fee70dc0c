//! The Python type of a `Passing` around a coroutine: its slots and methods, as CPython calls them.
//!
//! How it works: its name is that of coroutines, and its slots answer as the wrapped coroutine
//! does, attributes, size and refusals included.
//!
//! What it promises: `send`, `throw` and `close` take and raise what the wrapped object's do. Only
//! `type()`, `next()` and the words of a refused unpacking differ (decision 0036).
//!
//! Missing on purpose: what `__await__` returns (`wrapper`); other awaitables
//! (`kinds`).

use std::ffi::{CStr, CString};
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::passing::{Passing, COROUTINE};
use super::steps::{as_method, sent, thrown_all, ITERABLE_COROUTINE};
use crate::call::{leaked, method, wrong_call, Fast};
use crate::kept::word;
use crate::life::class;
use crate::types::{rename, slot};

pub(super) unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a live object.
    unsafe { ffi::Py_INCREF(object) };
    object
}

/// What `await` steps. An exception where CPython raises one for a coroutine.
unsafe extern "C" fn awaited(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, whose coroutine it holds.
    unsafe {
        let name = word!(Python::assume_attached(), "cr_await");
        let awaits = ffi::PyObject_GetAttr((*object.cast::<Passing>()).inner, name.as_ptr());
        if awaits.is_null() {
            return null_mut();
        }
        ffi::Py_DECREF(awaits);
        if awaits != ffi::Py_None() {
            let text = c"coroutine is being awaited already";
            ffi::PyErr_SetString(ffi::PyExc_RuntimeError, text.as_ptr());
            return null_mut();
        }
        itself(object)
    }
}

/// What `yield from` steps, where it may step a coroutine: in a generator that is awaited.
unsafe extern "C" fn yielded_from(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; the running frame is borrowed.
    unsafe {
        let frame: *mut ffi::PyObject = ffi::PyEval_GetFrame().cast();
        let py = Python::assume_attached();
        let flags = Bound::from_borrowed_ptr_or_opt(py, frame).map(|frame| {
            let code = frame.getattr(word!(py, "f_code"))?;
            code.getattr(word!(py, "co_flags"))?.extract::<i64>()
        });
        match flags {
            Some(Ok(flags)) if flags & ITERABLE_COROUTINE != 0 => itself(object),
            _ => wrong_call(c"'coroutine' object is not iterable"),
        }
    }
}

pub(super) unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe {
        let passing = &*object.cast::<Passing>();
        passing.step(passing.inner, |inner| sent(inner, ffi::Py_None()))
    }
}

/// The arguments of a method, as CPython hands them over.
pub(super) type Args = *const *mut ffi::PyObject;

/// Whether a call of a method fits it.
pub(super) fn fits(name: &CStr, count: ffi::Py_ssize_t, keywords: *mut ffi::PyObject) -> bool {
    let counts = match name.to_bytes() {
        b"send" => 1..=1,
        b"throw" => 1..=3,
        _ => 0..=0,
    };
    keywords.is_null() && counts.contains(&count)
}

/// A call with wrong arguments: the coroutine's own method refuses it, in its own words.
///
/// Safety: the GIL is held, by a call with these arguments.
#[cold]
unsafe fn refused(
    object: *mut ffi::PyObject,
    name: &CStr,
    (args, count, keywords): (Args, ffi::Py_ssize_t, *mut ffi::PyObject),
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller; a coroutine lives as long as its `Passing`.
    unsafe { called((*object.cast::<Passing>()).inner, name, (args, count, keywords)) }
}

/// Calls a method. NULL: an exception is set.
///
/// Safety: the GIL is held, by a call with these arguments; the object is alive.
pub(super) unsafe fn called(
    object: *mut ffi::PyObject,
    name: &CStr,
    (args, count, keywords): (Args, ffi::Py_ssize_t, *mut ffi::PyObject),
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        let method = ffi::PyObject_GetAttrString(object, name.as_ptr());
        if method.is_null() {
            return null_mut();
        }
        let result = ffi::PyObject_Vectorcall(method, args, count as _, keywords);
        ffi::Py_DECREF(method);
        result
    }
}

/// `send(value)`.
pub(super) unsafe extern "C" fn send(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; all are held by the caller.
    unsafe {
        if !fits(c"send", count, keywords) {
            return refused(object, c"send", (args, count, keywords));
        }
        let passing = &*object.cast::<Passing>();
        as_method(passing.step(passing.inner, |inner| sent(inner, *args)))
    }
}

/// `throw(type_or_value, value, traceback)`.
pub(super) unsafe extern "C" fn throw(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; all are held by the caller.
    unsafe {
        if !fits(c"throw", count, keywords) {
            return refused(object, c"throw", (args, count, keywords));
        }
        let passing = &*object.cast::<Passing>();
        as_method(passing.step(passing.inner, |inner| thrown_all(inner, args, count)))
    }
}

/// `close()`.
pub(super) unsafe extern "C" fn close(
    object: *mut ffi::PyObject,
    args: Args,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe {
        if !fits(c"close", count, keywords) {
            return refused(object, c"close", (args, count, keywords));
        }
        let passing = &*object.cast::<Passing>();
        // From 3.13 on a coroutine may return a value.
        let result = called(passing.inner, c"close", (args, count, keywords));
        passing.closed(result)
    }
}

/// `__sizeof__()`.
unsafe extern "C" fn size(
    object: *mut ffi::PyObject,
    _args: Args,
    _count: ffi::Py_ssize_t,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing` around a coroutine.
    unsafe {
        let coroutine = (*object.cast::<Passing>()).inner;
        let name = word!(Python::assume_attached(), "__sizeof__").as_ptr();
        ffi::PyObject_VectorcallMethod(name, [coroutine].as_ptr(), 1, null_mut())
    }
}

/// Attributes through which a coroutine's own steps could be reached.
const OWN: [&CStr; 4] = [c"send", c"throw", c"close", c"__await__"];

/// Gets an attribute of the coroutine, `__class__` included.
unsafe extern "C" fn attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, a `Passing` and a str.
    unsafe {
        let coroutine = (*object.cast::<Passing>()).inner;
        let is = |own: &&CStr| ffi::PyUnicode_CompareWithASCIIString(name, own.as_ptr()) == 0;
        match OWN.iter().any(is) {
            true => ffi::PyObject_GenericGetAttr(object, name),
            false => ffi::PyObject_GetAttr(coroutine, name),
        }
    }
}

/// Sets or deletes an attribute of the coroutine.
unsafe extern "C" fn set_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: as `attribute`; a NULL value deletes.
    unsafe { ffi::PyObject_SetAttr((*object.cast::<Passing>()).inner, name, value) }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`.
    unsafe { ffi::PyObject_Repr((*object.cast::<Passing>()).inner) }
}

/// `send`, `throw` and `close`, documented as a coroutine's.
fn steps(py: Python<'_>) -> PyResult<Vec<ffi::PyMethodDef>> {
    let mut steps = vec![
        method(c"send", send, c"As a coroutine's."),
        method(c"throw", throw, c"As a coroutine's."),
        method(c"close", close, c"As a coroutine's."),
    ];
    for step in &mut steps {
        // SAFETY: a static type of CPython's, and a name that is a literal.
        let (class, name) = unsafe {
            let class = (&raw mut ffi::PyCoro_Type).cast();
            (Bound::from_borrowed_ptr(py, class), CStr::from_ptr(step.ml_name))
        };
        let theirs = class.getattr(name.to_string_lossy().as_ref())?;
        step.ml_doc = documented(name, &theirs)?.into_raw();
    }
    Ok(steps)
}

/// The documentation of a method as its definition has it, with the signature in front. From 3.13
/// on CPython makes a signature of the kind of function, which is another one here.
fn documented(name: &CStr, method: &Bound<'_, PyAny>) -> PyResult<CString> {
    // None: CPython was built without.
    let doc: Option<String> = method.getattr("__doc__")?.extract()?;
    let signature: Option<String> = method.getattr("__text_signature__")?.extract()?;
    let doc = doc.unwrap_or_default();
    Ok(CString::new(match signature {
        Some(signature) => format!("{}{signature}\n--\n\n{doc}", name.to_string_lossy()),
        None => doc,
    })?)
}

/// Makes the type. `base`: the type that it derives from; `wrapped`: what `__await__` does.
pub(super) fn make_type(
    py: Python<'_>,
    base: *mut ffi::PyTypeObject,
    wrapped: Fast,
) -> PyResult<()> {
    let mut methods = steps(py)?;
    methods.push(method(c"__sizeof__", size, c"The coroutine's."));
    let mut wrapping = method(c"__await__", wrapped, c"As a coroutine's.");
    // Beside the slot, which is for `await`.
    wrapping.ml_flags |= ffi::METH_COEXIST;
    methods.push(wrapping);
    let slots = vec![
        slot(ffi::Py_am_await, awaited as *const c_void),
        slot(ffi::Py_tp_iternext, next as *const c_void),
        slot(ffi::Py_tp_methods, leaked(methods).cast()),
        slot(ffi::Py_tp_repr, repr as *const c_void),
        slot(ffi::Py_tp_iter, yielded_from as *const c_void),
        slot(ffi::Py_tp_getattro, attribute as *const c_void),
        slot(ffi::Py_tp_setattro, set_attribute as *const c_void),
    ];
    let class = class::<Passing>(py, base, c"builtins.coroutine", 0, slots)?;
    rename(class, c"coroutine", &[c"__iter__", c"__next__"]);
    COROUTINE.set(class);
    Ok(())
}
