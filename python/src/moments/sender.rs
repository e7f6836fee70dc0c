//! A `send` of ours in front of a server's: it knows its request, and ends it.
//!
//! What it promises: the request is ended once, by whichever end comes first. It answers every
//! query as the server's `send` does (see `disguise`). What is missing on purpose: what a call of
//! it does, which `asgi` passes in.

use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use super::request;
use crate::aside::Aside;
use crate::call::quietly;
use crate::disguise::{let_go, members, slots, Disguise};
use crate::types::{class_of, slot, visit_all, Class};

/// The type of `Sender`.
static SENDER: Class = Class::new();

/// A `send` for the application.
#[repr(C)]
pub(super) struct Sender {
    base: UnsafeCell<ffi::PyObject>,
    call: Option<ffi::vectorcallfunc>,
    /// The server's; None for a request that has none. Owned.
    pub inner: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    /// 0 once it has ended: taking it ends it. Relaxed, as `failed`: nothing else is read by it.
    request: AtomicU64,
    /// Whether the reply is one of 500 and more.
    pub failed: AtomicBool,
}

impl Disguise for Sender {
    const OWN: &'static [&'static std::ffi::CStr] = &[c"__call__"];

    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { (*object.cast::<Sender>()).inner }
    }
}

impl Sender {
    /// Owned; NULL and MemoryError. `call`: what a call of it does; None: nobody calls it.
    ///
    /// Safety: the GIL is held; `inner` is a live object; `call` takes a `Sender`.
    pub unsafe fn new(
        request: u64,
        inner: *mut ffi::PyObject,
        call: Option<ffi::vectorcallfunc>,
    ) -> *mut Sender {
        // SAFETY: the type has room for a `Sender`; all fields are set before the object is shared.
        unsafe {
            let made: *mut Sender = ffi::PyObject_GC_New(SENDER.get());
            if !made.is_null() {
                ffi::Py_INCREF(inner);
                (&raw mut (*made).call).write(call);
                (&raw mut (*made).inner).write(inner);
                (&raw mut (*made).weak).write(null_mut());
                (&raw mut (*made).request).write(AtomicU64::new(request));
                (&raw mut (*made).failed).write(AtomicBool::new(false));
                ffi::PyObject_GC_Track(made.cast());
            }
            made
        }
    }

    /// From here on it belongs to this request.
    pub fn begin(&self, request: u64) {
        self.request.store(request, Ordering::Relaxed);
    }

    /// The id of its request; 0 once it has ended.
    pub fn id(&self) -> u64 {
        self.request.load(Ordering::Relaxed)
    }

    /// Whether its reply is a failure is known.
    pub fn note(&self, failed: bool) {
        self.failed.store(failed, Ordering::Relaxed);
    }

    /// The id of its request, which has ended from here on; 0 if it had.
    fn take(&self) -> u64 {
        self.request.swap(0, Ordering::Relaxed)
    }

    /// Ends the request as `request_end` does.
    pub fn end_as(&self, py: Python<'_>, error: &Bound<'_, PyAny>) {
        match self.take() {
            0 => {}
            id => quietly((), || request::request_end(py, id, Some(error))),
        }
    }

    /// Ends the request.
    pub fn end(&self, py: Python<'_>) {
        match self.take() {
            0 => {}
            id => quietly((), || request::end(py, id, self.failed.load(Ordering::Relaxed), "")),
        }
    }

    /// Ends the request with an error of this type.
    pub fn fail(&self, py: Python<'_>, kind: &str) {
        match self.take() {
            0 => {}
            id => quietly((), || request::end(py, id, true, kind)),
        }
    }

    /// As `fail`, from a destructor (see `safe_point`).
    pub fn abandon(&self, kind: &str) {
        match self.take() {
            0 => {}
            id => quietly((), || request::abandon(id, true, kind)),
        }
    }

    /// Ends the request with the exception that is set, which remains set.
    ///
    /// Safety: the GIL is held.
    pub unsafe fn fail_as_set(&self) {
        if self.id() == 0 {
            return;
        }
        // SAFETY: the GIL is held; the type is held by `aside`.
        unsafe {
            Aside::around(|aside| self.fail(Python::assume_attached(), &aside.kind()));
        }
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. The collector
    // stops tracking it before its fields are cleared. Each object holds a reference to its type.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let (sender, class) = (&*object.cast::<Sender>(), ffi::Py_TYPE(object));
        let_go(object, sender.weak);
        ffi::Py_DECREF(sender.inner);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `Sender`, under the GIL.
    unsafe {
        let sender = &*object.cast::<Sender>();
        visit_all(&[sender.inner, ffi::Py_TYPE(object).cast()], visit, arg)
    }
}

/// Makes the type of `Sender`.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let members = members(std::mem::offset_of!(Sender, call), std::mem::offset_of!(Sender, weak));
    let mut slots = slots::<Sender>(Vec::new());
    slots.extend([
        slot(ffi::Py_tp_dealloc, dealloc as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const c_void),
        slot(ffi::Py_tp_members, members),
    ]);
    let flags = ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HAVE_VECTORCALL;
    let class = class_of(py, c"dashcam._native.AsgiSend", size_of::<Sender>(), flags, slots)?;
    SENDER.set(class);
    Ok(())
}
