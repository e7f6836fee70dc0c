//! What a `with` statement calls: `__enter__` and `__exit__` of spans and requests.
//!
//! How it works: `entered` and `exited` do the work, for a method of the type (`enter_unbound`,
//! `exit_unbound`) and for one that is bound to its object (`enter`, `exit`, see `bound`). A `Door`
//! in the type decides which of the two a lookup gives.
//!
//! What it promises: a panic of ours is caught, and `__exit__` never swallows an exception. Missing
//! on purpose: what a span or a request does (`span`, `request`).

use std::cell::UnsafeCell;
use std::os::raw::c_void;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::bound::{bind, owner_of};
use super::object::{Kind, Moment};
use crate::call::{leaked, quietly, wrong_call};
use crate::types::{class_of, slot};

unsafe extern "C" fn enter_unbound<K: Kind>(
    object: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: a method of the type: CPython has checked that the object is of it.
    unsafe { entered::<K>(object.cast()) }
}

unsafe extern "C" fn exit_unbound<K: Kind>(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        if count != 3 {
            return wrong_call(c"__exit__() takes three arguments: type, value, traceback");
        }
        exited::<K>(object.cast(), *args)
    }
}

#[inline]
unsafe fn entered<K: Kind>(moment: *mut Moment) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and the object.
    unsafe {
        let py = Python::assume_attached();
        let done = quietly(Ok(()), || K::enter(py, &*moment));
        if done.is_err() {
            return null_mut();
        }
        ffi::Py_INCREF(moment.cast());
        moment.cast()
    }
}

#[inline]
unsafe fn exited<K: Kind>(moment: *mut Moment, error: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL, the object and the argument.
    unsafe {
        let py = Python::assume_attached();
        quietly((), || K::exit(py, &*moment, error));
        let no = ffi::Py_False();
        ffi::Py_INCREF(no);
        no
    }
}

/// A count of arguments as vectorcall gives it.
fn positional(count: usize) -> usize {
    count & !(1 << (usize::BITS - 1))
}

pub(super) unsafe extern "C" fn enter<K: Kind>(
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

pub(super) unsafe extern "C" fn exit<K: Kind>(
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
        if (*moment).tracked.get() {
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

unsafe fn put_door<K: Kind>(
    py: Python<'_>,
    doors: *mut ffi::PyTypeObject,
    is_exit: bool,
) -> PyResult<()> {
    // SAFETY: the types are alive and the method's description is never freed.
    unsafe {
        let mut method = ffi::PyMethodDef::zeroed();
        if is_exit {
            method.ml_name = c"__exit__".as_ptr();
            method.ml_flags = ffi::METH_FASTCALL;
            method.ml_meth = ffi::PyMethodDefPointer { PyCFunctionFast: exit_unbound::<K> };
        } else {
            method.ml_name = c"__enter__".as_ptr();
            method.ml_flags = ffi::METH_NOARGS;
            method.ml_meth = ffi::PyMethodDefPointer { PyCFunction: enter_unbound::<K> };
        }
        let class = K::pool().class.get();
        let made = ffi::PyType_GenericAlloc(doors, 0);
        let unbound = ffi::PyDescr_NewMethod(class, leaked(vec![method]));
        if made.is_null() || unbound.is_null() {
            return Err(PyErr::fetch(py));
        }
        let door = made.cast::<Door>();
        (*door).unbound = unbound;
        (*door).class = class;
        (*door).is_exit = is_exit;
        // Our own reference is kept for ever, as the types are.
        match ffi::PyObject_SetAttrString(class.cast(), method.ml_name, made) {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Puts `__enter__` and `__exit__` into the type of a kind.
pub(super) fn put_doors<K: Kind>(py: Python<'_>) -> PyResult<()> {
    let getter = vec![slot(ffi::Py_tp_descr_get, look_up as *const c_void)];
    let doors = class_of(py, c"dashcam._native.Door", size_of::<Door>(), 0, getter)?;
    // SAFETY: the types were made just now.
    unsafe {
        put_door::<K>(py, doors, false)?;
        put_door::<K>(py, doors, true)
    }
}
