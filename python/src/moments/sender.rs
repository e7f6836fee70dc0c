//! A `send` of ours in front of a server's: it knows its request, and ends it.
//!
//! What it promises: the request is ended once, by whichever end comes first. It answers every
//! query as the server's `send` does (see `disguise`). What is missing on purpose: what a call of
//! it does, which `asgi` passes in.

use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use super::request;
use crate::aside::Aside;
use crate::call::quietly;
use crate::disguise::{slots, Disguise};
use crate::life::{class, make, Head, Life};
use crate::types::Class;

/// The type of `Sender`.
static SENDER: Class = Class::new();

/// A `send` for the application.
#[repr(C)]
pub(super) struct Sender {
    _head: Head,
    call: Option<ffi::vectorcallfunc>,
    /// The server's; None for a request that has none. Owned.
    pub inner: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    /// 0 once it has ended: taking it ends it. Relaxed, as `failed`: nothing else is read by it.
    request: AtomicU64,
    /// Whether the reply is one of 500 and more.
    pub failed: AtomicBool,
}

// SAFETY: the layout above; the server's `send` is set once.
unsafe impl Life for Sender {
    const WEAK: Option<usize> = Some(offset_of!(Sender, weak));
    const CALL: Option<usize> = Some(offset_of!(Sender, call));
    type Held = [*mut ffi::PyObject; 1];

    fn held(&self) -> Self::Held {
        [self.inner]
    }
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
        let (request, failed) = (AtomicU64::new(request), AtomicBool::new(false));
        // SAFETY: promised by the caller; the type is that of a `Sender`.
        unsafe {
            make(SENDER.get(), |_head| {
                ffi::Py_INCREF(inner);
                Sender { _head, call, inner, weak: null_mut(), request, failed }
            })
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
    pub fn end_as(&self, py: Python<'_>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.take() {
            0 => Ok(()),
            id => quietly(Ok(()), || request::request_end(py, id, Some(error))),
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

/// Makes the type of `Sender`.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let slots = slots::<Sender>(Vec::new());
    SENDER.set(class::<Sender>(py, null_mut(), c"dashcam._native.AsgiSend", 0, slots)?);
    Ok(())
}
