//! `__enter__` and `__exit__` in the type: doors that give the bound methods inside of an object.
//!
//! How it works: a lookup on an object returns the `Bound` that lies in it (`bound`); on the type
//! itself, and on an object that the collector tracks, an ordinary method. Only with the GIL:
//! elsewhere the methods are in the type (`entering`).

use std::cell::UnsafeCell;
use std::os::raw::c_void;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::prelude::*;

use super::bound::{self, bind, owner_of};
use super::entering::{entered, exited};
use super::object::{Kind, Moment};
use crate::call::wrong_call;
use crate::types::{class_of, slot, Class};

/// A count of arguments as vectorcall gives it.
fn positional(count: usize) -> usize {
    count & !(1 << (usize::BITS - 1))
}

unsafe extern "C" fn enter<K: Kind>(
    bound: *mut ffi::PyObject,
    _args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this with the GIL and a `Bound`, which holds its object.
    unsafe {
        if positional(count) != 0 || !keywords.is_null() {
            return wrong_call(c"__enter__() takes no arguments");
        }
        entered::<K>(owner_of(bound).cast())
    }
}

unsafe extern "C" fn exit<K: Kind>(
    bound: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; there are three arguments where they are read.
    unsafe {
        if positional(count) != 3 || !keywords.is_null() {
            return wrong_call(c"__exit__() takes three arguments: type, value, traceback");
        }
        exited::<K>(owner_of(bound).cast(), *args)
    }
}

/// The entry `__enter__` or `__exit__` of a type: returns the `Bound` inside the object.
#[repr(C)]
struct Door {
    base: UnsafeCell<ffi::PyObject>,
    /// The same as an ordinary method; owned.
    unbound: *mut ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    is_exit: bool,
}

unsafe extern "C" fn look_up(
    door: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this with a `Door` and the object it was looked up on, or none.
    unsafe {
        let door = &*door.cast::<Door>();
        if object.is_null() || ffi::Py_TYPE(object) != door.class {
            // On the type itself, or on an object it does not belong to, which the call will
            // report.
            ffi::Py_INCREF(door.unbound);
            return door.unbound;
        }
        let moment = object.cast::<Moment>();
        if (*moment).tracked.load(Ordering::Relaxed) {
            // The object may be part of a cycle, through this very method if that is kept: the
            // collector must see it.
            let bind = (*ffi::Py_TYPE(door.unbound)).tp_descr_get;
            return bind.map_or(null_mut(), |bind| bind(door.unbound, object, class));
        }
        match door.is_exit {
            true => bind(&raw const (*moment).exit),
            false => bind(&raw const (*moment).enter),
        }
    }
}

/// The type of `Door`.
static DOORS: Class = Class::new();

/// A door in front of a method of `class`.
///
/// Safety: `class` is a type of ours, whose objects are `Moment`s.
pub(super) unsafe fn door<'py>(
    method: pyo3::Bound<'py, PyAny>,
    class: *mut ffi::PyTypeObject,
    is_exit: bool,
) -> PyResult<pyo3::Bound<'py, PyAny>> {
    // SAFETY: the type has room for a `Door`; nothing else has the object yet. The reference to
    // the method is kept for ever, as the types are.
    unsafe {
        let made = ffi::PyType_GenericAlloc(DOORS.get(), 0);
        let made = pyo3::Bound::from_owned_ptr_or_err(method.py(), made)?;
        let door = made.as_ptr().cast::<Door>();
        (*door).unbound = method.into_ptr();
        (*door).class = class;
        (*door).is_exit = is_exit;
        Ok(made)
    }
}

/// Puts the bound methods into an object that is being made.
///
/// Safety: nothing else refers to the object.
pub(super) unsafe fn put_bound<K: Kind>(made: *mut Moment) {
    // SAFETY: promised by the caller; the fields have nothing to be dropped.
    unsafe {
        (*made).enter = bound::Bound::of(enter::<K>, made.cast());
        (*made).exit = bound::Bound::of(exit::<K>, made.cast());
    }
}

/// Makes the types of doors and of bound methods.
pub(super) fn make_types(py: Python<'_>) -> PyResult<()> {
    let getter = vec![slot(ffi::Py_tp_descr_get, look_up as *const c_void)];
    DOORS.set(class_of(py, c"dashcam._native.Door", size_of::<Door>(), 0, getter)?);
    bound::make_type(py)
}
