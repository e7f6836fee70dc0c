//! The Python type of a `Passing` around a coroutine: its slots and methods, as CPython calls them.
//!
//! How it works: its name is that of coroutines, and its slots answer as the wrapped coroutine
//! does, attributes, size and refusals included.
//!
//! What it promises: `send`, `throw` and `close` take and raise what the wrapped object's do. Only
//! `type()`, `next()` and the words of a refused unpacking differ (decision 0036).
//!
//! Missing on purpose: what `__await__` returns (`wrapper`); other awaitables
//! (`represented`).

use std::ffi::{CStr, CString};
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use super::methods::{self, Given, Method, Stepped};
use super::passing::{Passing, COROUTINE};
use super::steps::{as_method, sent, thrown_all, ITERABLE_COROUTINE};
use crate::call::{leaked, method, method_alone, wrong_call, Fast};
use crate::disguise::is_one_of;
use crate::kept::word;
use crate::life::class;
use crate::types::{rename, slot};

pub(super) unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a live object.
    unsafe { ffi::Py_INCREF(object) };
    object
}

/// CPython's getter of a coroutine's `cr_await`: called past the lookup of its name, which costs
/// five times as much. Set once; relaxed: a static function.
static CR_AWAIT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Finds the getter in the list of those that coroutines have.
fn find_getter() {
    // SAFETY: a static type; its list ends with an entry without a name.
    unsafe {
        let mut entry = ffi::PyCoro_Type.tp_getset;
        while !entry.is_null() && !(*entry).name.is_null() {
            if let (true, Some(get)) = (CStr::from_ptr((*entry).name) == c"cr_await", (*entry).get)
            {
                return CR_AWAIT.store(get as *mut c_void, Ordering::Relaxed);
            }
            entry = entry.add(1);
        }
    }
}

/// What a coroutine awaits: its `cr_await`, owned. NULL: an exception is set.
///
/// Safety: the GIL is held, a live object that is a coroutine or answers as one.
unsafe fn awaits(coroutine: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let get = CR_AWAIT.load(Ordering::Relaxed);
    // SAFETY: promised by the caller; what is called is the type's own getter, which uses no
    // closure.
    unsafe {
        if get.is_null() || ffi::Py_TYPE(coroutine) != &raw mut ffi::PyCoro_Type {
            let name = word!(Python::assume_attached(), "cr_await");
            return ffi::PyObject_GetAttr(coroutine, name.as_ptr());
        }
        std::mem::transmute::<*mut c_void, ffi::getter>(get)(coroutine, null_mut())
    }
}

/// What `await` steps. An exception where CPython raises one for a coroutine.
unsafe extern "C" fn awaited(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, whose coroutine it holds.
    unsafe {
        let awaits = awaits((*object.cast::<Passing>()).inner);
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

/// The methods of a `Passing` around a coroutine.
pub(super) struct OfCoroutine;

impl Stepped for OfCoroutine {
    unsafe fn stepped(
        object: *mut ffi::PyObject,
        method: Method,
        given: Given,
    ) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller; a coroutine lives as long as its `Passing`. Arguments
        // that fit are there.
        unsafe {
            let passing = &*object.cast::<Passing>();
            let coroutine = passing.inner;
            if !method.fits(&given) {
                return method.call(coroutine, given);
            }
            match method {
                Method::Send => {
                    as_method(passing.step(coroutine, |inner| sent(inner, *given.first)))
                }
                Method::Throw => as_method(
                    passing.step(coroutine, |inner| thrown_all(inner, given.first, given.count)),
                ),
                // From 3.13 on a coroutine may return a value.
                Method::Close => passing.closed(method.call(coroutine, given)),
            }
        }
    }
}

/// `__sizeof__()`.
unsafe extern "C" fn size(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
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
    // SAFETY: called by CPython with the GIL, a `Passing` and any object.
    unsafe {
        let coroutine = (*object.cast::<Passing>()).inner;
        match is_one_of(name, &OWN) {
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
    // SAFETY: a static type of CPython's.
    let class = unsafe { Bound::from_borrowed_ptr(py, (&raw mut ffi::PyCoro_Type).cast()) };
    let documented = |(step, function): (Method, Fast)| {
        let theirs = class.getattr(step.name().to_string_lossy().as_ref())?;
        let doc = documented(step.name(), &theirs)?.into_boxed_c_str();
        Ok(method(step.name(), function, Box::leak(doc)))
    };
    methods::of::<OfCoroutine>().into_iter().map(documented).collect()
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
    wrapped: ffi::PyCFunction,
) -> PyResult<()> {
    find_getter();
    let mut methods = steps(py)?;
    methods.push(method_alone(c"__sizeof__", size, c"The coroutine's."));
    let mut wrapping = method_alone(c"__await__", wrapped, c"As a coroutine's.");
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
