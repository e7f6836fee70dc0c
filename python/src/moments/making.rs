//! The life of spans and requests as objects of Python: where their memory comes from.
//!
//! How it works: memory of dead objects goes into a pool, where there is one. What it promises:
//! nothing is allocated for a span while the pool has one. Missing on purpose: their layout
//! (`object`).

use std::cell::Cell;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::prelude::*;
use recorder::OpenPlace;

#[cfg(not(Py_GIL_DISABLED))]
use super::doors;
use super::entering;
use super::object::{Kind, Moment};
use crate::call::{leaked, quietly};
use crate::life::visit_all;
use crate::types::{class_of, slot};

/// A new object with one reference; NULL and MemoryError. `name`: exactly a str; its reference is
/// taken over, also on failure.
///
/// Safety: the GIL is held; the types have been made.
#[inline]
pub(super) unsafe fn new<K: Kind>(name: *mut ffi::PyObject) -> *mut Moment {
    // SAFETY: promised by the caller.
    unsafe {
        let kept = K::pool().take();
        let made = if kept.is_null() { allocate::<K>() } else { kept };
        match made.is_null() {
            true => ffi::Py_DECREF(name),
            false => (*made).name.set(name),
        }
        made
    }
}

#[cold]
unsafe fn allocate<K: Kind>() -> *mut Moment {
    // SAFETY: the type has room for a `Moment` and nothing behind it; nothing else refers to a new
    // object. The collector does not track it before `track`.
    unsafe {
        let made: *mut Moment = ffi::PyObject_GC_New(K::pool().class.get());
        if !made.is_null() {
            // Behind Python's own head.
            let head = size_of::<ffi::PyObject>();
            made.cast::<u8>().add(head).write_bytes(0, size_of::<Moment>() - head);
            #[cfg(not(Py_GIL_DISABLED))]
            doors::put_bound::<K>(made);
        }
        made
    }
}

unsafe extern "C" fn dealloc<K: Kind>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. The collector
    // stops tracking it before its fields are cleared. Each object holds a reference to its type.
    unsafe {
        let moment = &*object.cast::<Moment>();
        let is_tracked = moment.tracked.load(Ordering::Relaxed);
        if is_tracked {
            ffi::PyObject_GC_UnTrack(object.cast());
        }
        if moment.count.get() > 0 {
            moment.drop_attributes();
        }
        if is_tracked {
            moment.tracked.store(false, Ordering::Relaxed);
        }
        ffi::Py_XDECREF(moment.name.replace(null_mut()));
        // A span that was entered and never left: captures must not show it as open any more.
        recorder::end_span(moment.place.replace(OpenPlace::NONE), moment.begin_ns.replace(0));
        match moment.id.replace(0) {
            0 => {}
            id => quietly((), || K::lost(id)),
        }
        moment.extra.set(0);
        let class = ffi::Py_TYPE(object);
        if !K::pool().keep(object.cast()) {
            ffi::PyObject_GC_Del(object.cast());
        }
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with an object of ours, while no other thread runs. Names and
    // keys are strs, which hold nothing.
    unsafe {
        let values = (*object.cast::<Moment>()).values.each_ref().map(Cell::get);
        match visit_all(&values, visit, arg) {
            0 => visit(ffi::Py_TYPE(object).cast(), arg),
            stop => stop,
        }
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: as `traverse`.
    unsafe { (*object.cast::<Moment>()).drop_attributes() };
    0
}

/// Makes the type of a kind, with these further slots, and fills its pool from now on.
pub(super) fn make_type<K: Kind>(
    module: &pyo3::Bound<'_, PyModule>,
    mut slots: Vec<ffi::PyType_Slot>,
) -> PyResult<()> {
    let py = module.py();
    slots.extend([
        slot(ffi::Py_tp_dealloc, dealloc::<K> as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_tp_clear, clear as *const c_void),
    ]);
    let gc = ffi::Py_TPFLAGS_HAVE_GC;
    let class = class_of(py, K::TYPE, size_of::<Moment>(), gc, slots)?;
    K::pool().class.set(class);
    K::pool().open();
    put_methods::<K>(py)?;
    // SAFETY: made just now, and kept by the pool.
    let class = unsafe { pyo3::Bound::from_borrowed_ptr(py, class.cast()) };
    module.add(class.getattr("__name__")?.extract::<String>()?.as_str(), class)
}

/// Puts `__enter__` and `__exit__` into the type of a kind.
fn put_methods<K: Kind>(py: Python<'_>) -> PyResult<()> {
    let mut enter = ffi::PyMethodDef::zeroed();
    enter.ml_name = c"__enter__".as_ptr();
    enter.ml_flags = ffi::METH_NOARGS;
    enter.ml_meth = ffi::PyMethodDefPointer { PyCFunction: entering::enter_unbound::<K> };
    let mut exit = ffi::PyMethodDef::zeroed();
    exit.ml_name = c"__exit__".as_ptr();
    exit.ml_flags = ffi::METH_FASTCALL;
    exit.ml_meth = ffi::PyMethodDefPointer { PyCFunctionFast: entering::exit_unbound::<K> };
    let class = K::pool().class.get();
    for method in [enter, exit] {
        // SAFETY: the type is alive and the method's description is never freed; NULL is fetched
        // as an error.
        unsafe {
            let made = ffi::PyDescr_NewMethod(class, leaked(vec![method]));
            let made = pyo3::Bound::from_owned_ptr_or_err(py, made)?;
            #[cfg(not(Py_GIL_DISABLED))]
            let made = doors::door(made, class, method.ml_name == exit.ml_name)?;
            if ffi::PyObject_SetAttrString(class.cast(), method.ml_name, made.as_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
    }
    Ok(())
}
