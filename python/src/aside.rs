//! An exception that is set aside while code of ours runs.
//!
//! How it works: it is taken from the thread's state and restored there. Up to 3.11 that is three
//! references, of which the exception is made when it is asked for; since 3.12 it is one.
//!
//! What it promises: it is restored unchanged, and code that runs meanwhile does not see it. An
//! exception of a panic of ours is taken as any other: `PyErr::fetch` and `PyErr::take` unwind by
//! it, which must not happen in a function that C calls.
//!
//! Missing on purpose: exceptions that are being handled.

use std::borrow::Cow;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use raised::Raised;

/// An exception that was set, or none, set aside from the code that runs meanwhile.
#[must_use = "the exception would be lost"]
pub struct Aside(Raised);

impl Aside {
    /// Safety: the GIL is held.
    #[inline]
    pub unsafe fn take() -> Aside {
        // SAFETY: promised by the caller.
        Aside(unsafe { Raised::take() })
    }

    /// Runs `body` with the exception set aside, and puts it back.
    ///
    /// Safety: the GIL is held; `body` leaves no exception set.
    #[inline]
    pub unsafe fn around<R>(body: impl FnOnce(&Aside) -> R) -> R {
        // SAFETY: promised by the caller.
        unsafe {
            let aside = Aside::take();
            let result = body(&aside);
            aside.put_back();
            result
        }
    }

    /// Its type, borrowed; NULL if there is none.
    ///
    /// Safety: the GIL is held; the type is used only while this object exists.
    pub unsafe fn class(&self) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { self.0.class() }
    }

    /// The name of its type, "" if there is none.
    ///
    /// Safety: the GIL is held while it is used.
    pub unsafe fn kind(&self) -> Cow<'_, str> {
        // SAFETY: promised by the caller; a live type is held by this.
        unsafe {
            let class = self.class();
            match class.is_null() {
                true => Cow::Borrowed(""),
                false => error_name(class),
            }
        }
    }

    /// The value of a StopIteration as `await` gets it, borrowed from it; None for any other
    /// exception. A subtype may have an attribute `value` of its own, which nothing holds.
    ///
    /// Safety: the GIL is held, no exception is set; the value is used only while this object
    /// exists.
    pub unsafe fn value(&mut self) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller; the type says which fields the exception has.
        unsafe {
            let raised = self.0.made();
            let is_stop = !raised.is_null()
                && ffi::PyErr_GivenExceptionMatches(raised, ffi::PyExc_StopIteration) != 0;
            let value = match is_stop {
                true => (*raised.cast::<ffi::PyStopIterationObject>()).value,
                false => std::ptr::null_mut(),
            };
            match value.is_null() {
                true => ffi::Py_None(),
                false => value,
            }
        }
    }

    /// The exception itself, borrowed; NULL if there is none.
    ///
    /// Safety: the GIL is held, no exception is set; it is used only while this object exists.
    pub unsafe fn exception(&mut self) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { self.0.made() }
    }

    /// The exception, with its traceback; None if there is none.
    pub fn into_error(self, py: Python<'_>) -> Option<PyErr> {
        // SAFETY: the GIL is held (`py`); the reference is handed over.
        unsafe { Bound::from_owned_ptr_or_opt(py, self.0.into_made()).map(PyErr::from_value) }
    }

    /// Safety: the GIL is held.
    pub unsafe fn drop(self) {
        // SAFETY: promised by the caller.
        unsafe { self.0.drop() };
    }

    /// Safety: the GIL is held.
    #[inline]
    pub unsafe fn put_back(self) {
        // SAFETY: promised by the caller.
        unsafe { self.0.put_back() };
    }
}

/// As the thread's state has it: an exception.
#[cfg(Py_3_12)]
mod raised {
    use pyo3::ffi;

    /// Owned; NULL for none.
    pub(super) struct Raised(*mut ffi::PyObject);

    /// Safety of all: the GIL is held. What is returned is borrowed, if not said otherwise.
    impl Raised {
        #[inline]
        pub unsafe fn take() -> Raised {
            // SAFETY: the GIL is held.
            Raised(unsafe { ffi::PyErr_GetRaisedException() })
        }

        pub unsafe fn class(&self) -> *mut ffi::PyObject {
            match self.0.is_null() {
                true => self.0,
                // SAFETY: a live object, which holds its type.
                false => unsafe { ffi::Py_TYPE(self.0).cast() },
            }
        }

        pub unsafe fn made(&mut self) -> *mut ffi::PyObject {
            self.0
        }

        /// Owned.
        pub unsafe fn into_made(self) -> *mut ffi::PyObject {
            self.0
        }

        pub unsafe fn drop(self) {
            // SAFETY: the reference that `take` got.
            unsafe { ffi::Py_XDECREF(self.0) };
        }

        #[inline]
        pub unsafe fn put_back(self) {
            // SAFETY: as `drop`; the reference is given away.
            unsafe { ffi::PyErr_SetRaisedException(self.0) };
        }
    }
}

/// As the thread's state has it: a type, what the exception is made of, and its traceback.
#[cfg(not(Py_3_12))]
mod raised {
    use std::ptr::null_mut;

    use pyo3::ffi;

    /// Each is owned, or NULL; the type is NULL for none.
    pub(super) struct Raised {
        class: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
        trace: *mut ffi::PyObject,
    }

    /// Safety of all: the GIL is held. What is returned is borrowed, if not said otherwise.
    impl Raised {
        #[inline]
        pub unsafe fn take() -> Raised {
            let mut one = Raised { class: null_mut(), value: null_mut(), trace: null_mut() };
            // SAFETY: the GIL is held; the call writes all three places.
            unsafe { ffi::PyErr_Fetch(&mut one.class, &mut one.value, &mut one.trace) };
            one
        }

        pub unsafe fn class(&self) -> *mut ffi::PyObject {
            self.class
        }

        pub unsafe fn made(&mut self) -> *mut ffi::PyObject {
            if !self.class.is_null() {
                // SAFETY: the fields have what `take` got.
                unsafe {
                    let Raised { class, value, trace } = self;
                    ffi::PyErr_NormalizeException(class, value, trace);
                }
            }
            self.value
        }

        /// Owned.
        pub unsafe fn into_made(mut self) -> *mut ffi::PyObject {
            // SAFETY: the fields have what `take` got, of which the exception is given away.
            unsafe {
                let value = self.made();
                if !value.is_null() && !self.trace.is_null() {
                    ffi::PyException_SetTraceback(value, self.trace);
                }
                ffi::Py_XDECREF(self.class);
                ffi::Py_XDECREF(self.trace);
                value
            }
        }

        pub unsafe fn drop(self) {
            for one in [self.class, self.value, self.trace] {
                // SAFETY: the references that `take` got.
                unsafe { ffi::Py_XDECREF(one) };
            }
        }

        #[inline]
        pub unsafe fn put_back(self) {
            // SAFETY: as `drop`; the references are given away.
            unsafe { ffi::PyErr_Restore(self.class, self.value, self.trace) };
        }
    }
}

/// The exception that is set, taken.
pub fn fetched(py: Python<'_>) -> PyErr {
    // SAFETY: the GIL is held (`py`).
    let aside = unsafe { Aside::take() };
    aside.into_error(py).unwrap_or_else(|| PyRuntimeError::new_err("no exception is set"))
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
