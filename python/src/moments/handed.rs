//! A part of a request's work, to be called on another thread.
//!
//! How it works: a `Work` represents the program's function and is called instead of it, by a
//! pool's thread:
//!
//! ```text
//!   thread's own request -> task begins -> the function -> task ends -> thread's own request
//! ```
//!
//! What it promises: the function's arguments, result and exceptions pass unchanged, with no frame
//! of ours; see `disguise` for the rest.
//!
//! Missing on purpose: pools (python/dashcam/_integrations). Garbage collection visits its
//! references, but does not clear them: the code that holds the work holds the function.

use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::tasks::{task_begin, task_end};
use crate::aside::Aside;
use crate::call::quietly;
use crate::disguise::{let_go, members, slots, Disguise};
use crate::process::arm_late;
use crate::types::{class_of, slot, visit_all, Class};

/// The type.
static WORK: Class = Class::new();

#[repr(C)]
struct Work {
    base: UnsafeCell<ffi::PyObject>,
    call: Option<ffi::vectorcallfunc>,
    /// Owned.
    function: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    request: u64,
    queued_ns: u64,
}

impl Disguise for Work {
    const OWN: &'static [&'static std::ffi::CStr] = &[c"__call__"];

    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { (*object.cast::<Work>()).function }
    }
}

/// `function`, to be called on another thread for `request`; it is in a queue from now on.
#[pyfunction]
pub fn work<'py>(request: u64, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    // SAFETY: the type has room for a `Work`; all fields are set before the object is shared.
    unsafe {
        let made: *mut Work = ffi::PyObject_GC_New(WORK.get());
        if made.is_null() {
            return Err(PyErr::fetch(py));
        }
        (&raw mut (*made).call).write(Some(call));
        (&raw mut (*made).function).write(function.clone().into_ptr());
        (&raw mut (*made).weak).write(null_mut());
        (&raw mut (*made).request).write(request);
        (&raw mut (*made).queued_ns).write(sys::clock::now_ns());
        ffi::PyObject_GC_Track(made.cast());
        Ok(Bound::from_owned_ptr(py, made.cast()))
    }
}

unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Work`, which the caller holds, as the
    // arguments.
    unsafe {
        let (py, work) = (Python::assume_attached(), &*object.cast::<Work>());
        arm_late();
        let task = quietly(None, || Some(task_begin(py, work.request, work.queued_ns)));
        let result = ffi::PyObject_Vectorcall(work.function, first, count, keywords);
        if let Some(task) = task {
            Aside::around(|_| quietly((), || task_end(py, &task)));
        }
        result
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. The collector
    // stops tracking it before its fields are cleared. Each object holds a reference to its type.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let (work, class) = (&*object.cast::<Work>(), ffi::Py_TYPE(object));
        let_go(object, work.weak);
        ffi::Py_DECREF(work.function);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `Work`, under the GIL.
    unsafe { visit_all(&[Work::original(object), ffi::Py_TYPE(object).cast()], visit, arg) }
}

/// Makes the type.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let mut slots = slots::<Work>(Vec::new());
    let members = members(std::mem::offset_of!(Work, call), std::mem::offset_of!(Work, weak));
    slots.extend([
        slot(ffi::Py_tp_dealloc, dealloc as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const c_void),
        slot(ffi::Py_tp_members, members),
    ]);
    let flags = ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HAVE_VECTORCALL;
    WORK.set(class_of(py, c"dashcam._native.Work", size_of::<Work>(), flags, slots)?);
    Ok(())
}
