//! The Python type of `Passing`: its slots and methods, as CPython calls them.
//!
//! What it promises: `send`, `throw` and `close` take and raise what a coroutine's do; other
//! attributes are those of the wrapped coroutine.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::aside::Aside;
use super::awaited::{Passing, PASSING};
use super::steps::{as_method, found, sent, thrown_all};
use crate::alone::{alone, held};
use crate::call::{leaked, method, none, wrong_call};
use crate::disguise::{let_go, weak_member};
use crate::kept::word;
use crate::types::{class_of, slot, visit_all};

unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a live object.
    unsafe { ffi::Py_INCREF(object) };
    object
}

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe { (*object.cast::<Passing>()).step(|inner| sent(inner, ffi::Py_None())) }
}

/// `send(value)`.
unsafe extern "C" fn send(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; all are held by the caller.
    unsafe {
        if count != 1 || !keywords.is_null() {
            return wrong_call(c"send() takes exactly one argument");
        }
        as_method((*object.cast::<Passing>()).step(|inner| sent(inner, *args)))
    }
}

/// `throw(type_or_value, value, traceback)`.
unsafe extern "C" fn throw(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; all are held by the caller.
    unsafe {
        if !(1..=3).contains(&count) || !keywords.is_null() {
            return wrong_call(c"throw() takes one to three arguments: type, value, traceback");
        }
        as_method((*object.cast::<Passing>()).step(|inner| thrown_all(inner, args, count)))
    }
}

/// `close()`.
unsafe extern "C" fn close(
    object: *mut ffi::PyObject,
    _args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe {
        if count != 0 || !keywords.is_null() {
            return wrong_call(c"close() takes no arguments");
        }
        let passing = &*object.cast::<Passing>();
        let inner = match passing.is_coroutine {
            true => held(object, &passing.inner),
            false => alone(object, || passing.inner.replace(null_mut())),
        };
        if inner.is_null() {
            return none();
        }
        let method = found(inner, word!(Python::assume_attached(), "close").as_ptr());
        let mut raised = false;
        if !method.is_null() {
            let result = ffi::PyObject_CallObject(method, null_mut());
            ffi::Py_DECREF(method);
            raised = result.is_null();
            ffi::Py_XDECREF(result);
        }
        raised |= !ffi::PyErr_Occurred().is_null();
        if raised {
            passing.fail_as_set();
        }
        let aside = Aside::take();
        passing.abandon();
        passing.release();
        ffi::Py_DECREF(inner);
        aside.put_back();
        if raised {
            return null_mut();
        }
        none()
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. The collector
    // stops tracking it before its fields are cleared. Each object holds a reference to its type.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let (passing, class) = (&*object.cast::<Passing>(), ffi::Py_TYPE(object));
        let_go(object, passing.weak);
        let aside = Aside::take();
        ffi::Py_XDECREF(passing.inner.replace(null_mut()));
        passing.abandon();
        passing.release();
        aside.put_back();
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `Passing`, under the GIL.
    unsafe {
        let passing = &*object.cast::<Passing>();
        let class = ffi::Py_TYPE(object).cast();
        let [judge, scope, transport] = passing.more.each_ref().map(Cell::get);
        let own = [passing.inner.get(), passing.sender.get(), class];
        match visit_all(&own, visit, arg) {
            0 => visit_all(&[judge, scope, transport], visit, arg),
            stop => stop,
        }
    }
}

/// Attributes through which a coroutine's own steps could be reached.
const OWN: [&CStr; 5] = [c"send", c"throw", c"close", c"__await__", c"__next__"];

/// Gets an attribute: in place of a coroutine, the coroutine's, `__class__` included.
unsafe extern "C" fn attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, a `Passing` and a str.
    unsafe {
        let coroutine = (*object.cast::<Passing>()).coroutine();
        let is = |own: &&CStr| ffi::PyUnicode_CompareWithASCIIString(name, own.as_ptr()) == 0;
        match coroutine.is_null() || OWN.iter().any(is) {
            true => ffi::PyObject_GenericGetAttr(object, name),
            false => ffi::PyObject_GetAttr(coroutine, name),
        }
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`.
    unsafe {
        let passing = &*object.cast::<Passing>();
        match passing.coroutine().is_null() {
            true => ffi::PyUnicode_FromString(c"<awaitable>".as_ptr()),
            false => ffi::PyObject_Repr(passing.coroutine()),
        }
    }
}

/// Makes the type.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let methods = leaked(vec![
        method(c"send", send, c"As a coroutine's."),
        method(c"throw", throw, c"As a coroutine's."),
        method(c"close", close, c"As a coroutine's."),
    ]);
    let members = weak_member(std::mem::offset_of!(Passing, weak));
    let slots = vec![
        slot(ffi::Py_tp_dealloc, dealloc as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_am_await, itself as *const c_void),
        slot(ffi::Py_tp_iternext, next as *const c_void),
        slot(ffi::Py_tp_methods, methods.cast()),
        slot(ffi::Py_tp_getattro, attribute as *const c_void),
        slot(ffi::Py_tp_repr, repr as *const c_void),
        slot(ffi::Py_tp_members, members),
    ];
    // The sampler finds it by this name.
    let name = c"dashcam._native.Passing";
    let class = class_of(py, name, size_of::<Passing>(), ffi::Py_TPFLAGS_HAVE_GC, slots)?;
    PASSING.set(class);
    Ok(())
}
