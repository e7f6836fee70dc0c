//! `__enter__` and `__exit__`, bound to their object inside of it.
//!
//! How it works. A `with` statement looks both up and gets two bound methods, for which CPython
//! would allocate twice and count twice towards its next collection. Here the lookup finds a `Door`
//! in the type (`doors`). The door returns the `Bound` that lies in the object, as a Python
//! object of its own type with references of its own: while it has references, it holds one to the
//! object; when the last is gone, it releases the object's. On the type itself, and on an object
//! that the collector tracks, the door returns an ordinary method instead.

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::os::raw::c_void;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::life::members;
use crate::types::{class_of, slot, Class};

/// `__enter__` or `__exit__` of an object, bound to it. Lies inside of it.
#[repr(C)]
pub(super) struct Bound {
    base: UnsafeCell<ffi::PyObject>,
    call: Option<ffi::vectorcallfunc>,
    /// The object it lies in. Counted while this `Bound` has references itself.
    owner: *mut ffi::PyObject,
}

impl Bound {
    /// The method that calls `call`, of an object that is being made. Without references.
    pub fn of(call: ffi::vectorcallfunc, owner: *mut ffi::PyObject) -> Bound {
        // SAFETY: zeros are an object without references and without a type, to which nothing
        // refers.
        let base = UnsafeCell::new(unsafe { std::mem::zeroed() });
        Bound { base, call: Some(call), owner }
    }
}

/// The type of `Bound`.
static BOUND: Class = Class::new();

/// Looks a bound method up: no allocation.
///
/// Safety: the GIL is held, and the caller holds the object that `bound` lies in.
#[inline]
pub(super) unsafe fn bind(bound: *const Bound) -> *mut ffi::PyObject {
    // SAFETY: `bound` lies in an object that the caller holds. Without references of its own it is
    // made anew, and holds the object from then on.
    unsafe {
        let object = (*bound).base.get();
        if ffi::Py_REFCNT(object) > 0 {
            ffi::Py_INCREF(object);
        } else {
            ffi::PyObject_Init(object, BOUND.get());
            ffi::Py_INCREF((*bound).owner);
        }
        object
    }
}

/// The object that a bound method belongs to; the method holds it.
///
/// Safety: the caller holds the method.
#[inline]
pub(super) unsafe fn owner_of(bound: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller; `owner` is set once.
    unsafe { (*bound.cast::<Bound>()).owner }
}

unsafe extern "C" fn unbind(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference to a bound method; it releases the
    // reference it held. That may free its own memory, so nothing is accessed after it.
    unsafe {
        let owner = owner_of(object);
        let class = ffi::Py_TYPE(object);
        ffi::Py_DECREF(class.cast());
        ffi::Py_DECREF(owner);
    }
}

/// Makes the type of bound methods.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let slots = vec![
        slot(ffi::Py_tp_dealloc, unbind as *const c_void),
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const c_void),
        slot(ffi::Py_tp_members, members(Some(offset_of!(Bound, call)), None)),
    ];
    let flags = ffi::Py_TPFLAGS_HAVE_VECTORCALL;
    let class = class_of(py, c"dashcam._native.Bound", size_of::<Bound>(), flags, slots)?;
    BOUND.set(class);
    Ok(())
}
