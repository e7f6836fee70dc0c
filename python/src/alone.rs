//! The sole use of an object of ours, for a few instructions.
//!
//! How it works: with the GIL its holder is alone anyway, and `alone` is its body. On a
//! free-threaded build it is a critical section of the object, by the lock in its head.
//!
//! What it promises: bodies for one object never overlap. CPython suspends a critical section where
//! its thread would wait, so a body calls nothing that may wait, and no code of the program: it
//! reads and writes fields, takes references, and calls Rust.
//!
//! Missing on purpose: releasing references in a body, which may run a destructor of the program:
//! a body returns them to be released behind it. docs/internals/free-threading.md lists the fields.

use pyo3::ffi;

/// Runs `body` as the only thread that does so for this object.
///
/// Safety: the calling thread is attached and holds the object; `body` is as described above.
#[inline(always)]
pub unsafe fn alone<R>(object: *mut ffi::PyObject, body: impl FnOnce() -> R) -> R {
    #[cfg(not(Py_GIL_DISABLED))]
    let _ = object;
    #[cfg(Py_GIL_DISABLED)]
    let mut section = std::mem::MaybeUninit::zeroed();
    // SAFETY: promised by the caller. The section remains at its place until it ends.
    #[cfg(Py_GIL_DISABLED)]
    let _ends = unsafe {
        ffi::PyCriticalSection_Begin(section.as_mut_ptr(), object);
        Ends(section.as_mut_ptr())
    };
    body()
}

/// Ends a section, also if its body panics.
#[cfg(Py_GIL_DISABLED)]
struct Ends(*mut ffi::PyCriticalSection);

#[cfg(Py_GIL_DISABLED)]
impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: begun by `alone`, in whose frame it lies; sections end in the reverse order.
        unsafe { ffi::PyCriticalSection_End(self.0) }
    }
}

/// What a field has, with a reference of its own; NULL for NULL.
///
/// Safety: as `alone`; the field is changed in such bodies only.
#[inline(always)]
pub unsafe fn held(
    object: *mut ffi::PyObject,
    field: &std::cell::Cell<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller; what a field has is alive while nothing changes the field.
    unsafe {
        alone(object, || {
            let found = field.get();
            ffi::Py_XINCREF(found);
            found
        })
    }
}
