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
//! Missing on purpose: pools (python/dashcam/_integrations).

use std::mem::offset_of;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::tasks::{task_begin, task_end};
use crate::aside::Aside;
use crate::call::quietly;
use crate::disguise::{slots, Disguise};
use crate::life::{class, make, Head, Life};
use crate::process::arm_late;
use crate::types::Class;

/// The type.
static WORK: Class = Class::new();

#[repr(C)]
struct Work {
    _head: Head,
    call: Option<ffi::vectorcallfunc>,
    /// Owned.
    function: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    request: u64,
    queued_ns: u64,
}

// SAFETY: the layout above; the function is set once.
unsafe impl Life for Work {
    const WEAK: Option<usize> = Some(offset_of!(Work, weak));
    const CALL: Option<usize> = Some(offset_of!(Work, call));
    type Held = [*mut ffi::PyObject; 1];

    fn held(&self) -> Self::Held {
        [self.function]
    }
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
    // SAFETY: the type is that of a `Work`; NULL is fetched as an error.
    unsafe {
        let made = make(WORK.get(), |_head| Work {
            _head,
            call: Some(call),
            function: function.clone().into_ptr(),
            weak: null_mut(),
            request,
            queued_ns: sys::clock::now_ns(),
        });
        Bound::from_owned_ptr_or_err(py, made.cast())
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

/// Makes the type.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let slots = slots::<Work>(Vec::new());
    WORK.set(class::<Work>(py, null_mut(), c"dashcam._native.Work", 0, slots)?);
    Ok(())
}
