//! Calls of a hooked function and of what is around it, with arguments as CPython hands them over.
//!
//! What it promises: arguments are passed on where they lie; up to `FEW` with one more in front
//! need no memory. Missing on purpose: what is called, and when (`actions`).

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::{Fast, FAST};
use crate::made;

extern "C" {
    pub(super) fn PyMethod_New(
        function: *mut ffi::PyObject,
        owner: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// Up to this many arguments need no memory of their own, including the free place in front.
const FEW: usize = 12;
/// The flag of a call that leaves the place in front of its arguments free.
pub(super) const OFFSET: usize = ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;

/// Arguments as CPython hands them over.
#[derive(Clone, Copy)]
pub(super) struct Arguments {
    pub first: *const *mut ffi::PyObject,
    /// The number of positional arguments, with `OFFSET`.
    pub flagged: usize,
    /// The names of the arguments after them; NULL for none.
    pub keywords: *mut ffi::PyObject,
}

impl Arguments {
    pub fn positional(&self) -> usize {
        self.flagged & !OFFSET
    }

    /// Safety: the GIL is held, by a call with these arguments.
    unsafe fn all(&self) -> usize {
        let named = match self.keywords.is_null() {
            true => 0,
            // SAFETY: a tuple.
            false => unsafe { ffi::PyTuple_GET_SIZE(self.keywords) },
        };
        self.positional() + named as usize
    }

    /// Makes a call with `one` instead of the first `skipped` arguments.
    ///
    /// Safety: as `all`; all objects are alive.
    pub unsafe fn behind(
        &self,
        one: *mut ffi::PyObject,
        skipped: usize,
        called: Called,
    ) -> *mut ffi::PyObject {
        // SAFETY: `first` has `all` arguments, at least `skipped` of them positional; `given` has
        // room for them, for `one`, and for the place in front.
        unsafe {
            let count = self.all() - skipped;
            let mut few: [*mut ffi::PyObject; FEW] = [null_mut(); FEW];
            let mut many = Vec::new();
            let given = match count + 2 <= FEW {
                true => few.as_mut_ptr(),
                false => {
                    many.resize(count + 2, null_mut());
                    many.as_mut_ptr()
                }
            };
            given.add(1).write(one);
            given.add(2).copy_from_nonoverlapping(self.first.add(skipped), count);
            let flagged = (self.positional() - skipped + 1) | OFFSET;
            match called {
                Called::Object(function) => {
                    ffi::PyObject_Vectorcall(function, given.add(1), flagged as _, self.keywords)
                }
                Called::Native(function, state) => {
                    function(state, given.add(1), (flagged & !OFFSET) as _, self.keywords)
                }
            }
        }
    }
}

/// What is called beside the original.
pub(super) enum Called {
    Object(*mut ffi::PyObject),
    /// A function of ours by its address, and its `self`: while CPython calls a function in C, that
    /// counts towards its limit of recursion, which the program would meet earlier.
    Native(Fast, *mut ffi::PyObject),
}

impl Called {
    /// The way to call an object.
    ///
    /// Safety: the GIL is held; the object is alive while this is used.
    pub unsafe fn of(object: *mut ffi::PyObject) -> Called {
        // SAFETY: promised by the caller; the flags say which type the function has.
        unsafe {
            if ffi::PyCFunction_CheckExact(object) == 0 || ffi::PyCFunction_GetFlags(object) != FAST
            {
                return Called::Object(object);
            }
            match ffi::PyCFunction_GetFunction(object) {
                Some(function) => {
                    let function = std::mem::transmute::<ffi::PyCFunction, Fast>(function);
                    Called::Native(function, ffi::PyCFunction_GetSelf(object))
                }
                None => Called::Object(object),
            }
        }
    }
}

/// The target of a hook.
pub(super) struct Original {
    /// Owned; of a method of a class in C only its name.
    pub function: *mut ffi::PyObject,
    /// The way to call it past a hook in place; None: the usual one.
    pub past: Option<ffi::vectorcallfunc>,
}

impl Original {
    /// Safety: the GIL is held, by a call with these arguments.
    pub unsafe fn call(&self, given: Arguments) -> *mut ffi::PyObject {
        let Arguments { first, flagged, keywords } = given;
        // SAFETY: the caller's promise, stated above.
        unsafe {
            match self.past {
                Some(past) => past(self.function, first, flagged, keywords),
                None => ffi::PyObject_Vectorcall(self.function, first, flagged as _, keywords),
            }
        }
    }

    /// Calls it with other arguments: `given` is a tuple of a tuple and a dict.
    ///
    /// Safety: the GIL is held; the caller holds `given`, whose types `Hook::before` has checked.
    pub unsafe fn call_with(
        &self,
        py: Python<'_>,
        given: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe {
            let (args, named) = (ffi::PyTuple_GET_ITEM(given, 0), ffi::PyTuple_GET_ITEM(given, 1));
            let args = Bound::from_borrowed_ptr(py, args).cast_into_unchecked::<PyTuple>();
            let named = Bound::from_borrowed_ptr(py, named).cast_into_unchecked::<PyDict>();
            let (keys, values): (Vec<_>, Vec<_>) = named.iter().unzip();
            let names = match made::tuple(py, &keys) {
                Ok(names) => names,
                Err(error) => {
                    error.restore(py);
                    return null_mut();
                }
            };
            let held: Vec<Bound<'_, PyAny>> = args.iter().chain(values).collect();
            let raw: Vec<*mut ffi::PyObject> = held.iter().map(Bound::as_ptr).collect();
            let keywords = if names.is_empty() { null_mut() } else { names.as_ptr() };
            self.call(Arguments { first: raw.as_ptr(), flagged: args.len(), keywords })
        }
    }
}
