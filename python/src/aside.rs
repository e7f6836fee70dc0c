//! An exception that is set aside while code of ours runs.
//!
//! How it works: it is taken from the thread's state and restored there. What it promises: it is
//! restored unchanged, and code that runs meanwhile does not see it. Missing on purpose: exceptions
//! that are being handled.

use std::borrow::Cow;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::kept::word;

/// An exception that was set, set aside from the code that runs meanwhile.
pub struct Aside(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject);

#[allow(deprecated)] // Since 3.12; what came instead is not there before.
impl Aside {
    /// Safety: the GIL is held.
    pub unsafe fn take() -> Aside {
        let mut aside = Aside(null_mut(), null_mut(), null_mut());
        // SAFETY: the GIL is held; the call writes all three places.
        unsafe { ffi::PyErr_Fetch(&mut aside.0, &mut aside.1, &mut aside.2) };
        aside
    }

    /// The name of its type, "" if there is none.
    ///
    /// Safety: the GIL is held while it is used.
    pub unsafe fn kind(&self) -> Cow<'_, str> {
        match self.0.is_null() {
            true => Cow::Borrowed(""),
            // SAFETY: a live type, held by this.
            false => unsafe { error_name(self.0) },
        }
    }

    /// The value of a StopIteration, borrowed from it; None for any other exception.
    ///
    /// Safety: the GIL is held, no exception is set; the value is used only while this object
    /// exists.
    pub unsafe fn value(&mut self) -> *mut ffi::PyObject {
        // SAFETY: the fields hold what `PyErr_Fetch` gave; the attribute is held by its exception.
        unsafe {
            if !self.0.is_null() {
                ffi::PyErr_NormalizeException(&mut self.0, &mut self.1, &mut self.2);
            }
            let name = word!(Python::assume_attached(), "value");
            let value = match self.1.is_null() {
                true => null_mut(),
                false => ffi::PyObject_GetAttr(self.1, name.as_ptr()),
            };
            if value.is_null() {
                ffi::PyErr_Clear();
                return ffi::Py_None();
            }
            ffi::Py_DECREF(value);
            value
        }
    }

    /// The exception itself, borrowed; None if there is none.
    ///
    /// Safety: the GIL is held, no exception is set; it is used only while this object exists.
    pub unsafe fn exception(&mut self) -> *mut ffi::PyObject {
        // SAFETY: the fields hold what `PyErr_Fetch` gave.
        unsafe {
            if !self.0.is_null() {
                ffi::PyErr_NormalizeException(&mut self.0, &mut self.1, &mut self.2);
            }
            if self.1.is_null() {
                return ffi::Py_None();
            }
            self.1
        }
    }

    /// Safety: the GIL is held.
    pub unsafe fn drop(self) {
        for one in [self.0, self.1, self.2] {
            // SAFETY: as `put_back`.
            unsafe { ffi::Py_XDECREF(one) };
        }
    }

    /// Safety: the GIL is held.
    pub unsafe fn put_back(self) {
        // SAFETY: the references that `PyErr_Fetch` gave.
        unsafe { ffi::PyErr_Restore(self.0, self.1, self.2) };
    }
}

/// The name of an exception's type, as in its `__name__`; "" when `class` is none. A copy without
/// the GIL, where another thread may rename the type while this one waits for anything.
///
/// Safety: a live object that outlives the result; the GIL is held while it is used.
pub unsafe fn error_name<'a>(class: *mut ffi::PyObject) -> Cow<'a, str> {
    // SAFETY: a type's name is a C string as long as the type lives and is not renamed, which needs
    // the GIL, or that all threads are stopped. Types in C have their module's name in front.
    let name = unsafe {
        if ffi::PyType_Check(class) == 0 {
            return Cow::Borrowed("");
        }
        let full = std::ffi::CStr::from_ptr((*class.cast::<ffi::PyTypeObject>()).tp_name);
        let full = full.to_str().unwrap_or_default();
        full.rsplit('.').next().unwrap_or(full)
    };
    match cfg!(Py_GIL_DISABLED) {
        true => Cow::Owned(name.to_owned()),
        false => Cow::Borrowed(name),
    }
}
