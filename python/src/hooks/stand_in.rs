//! A hook in front of a callable: `StandIn`, which replaces the callable.
//!
//! How it works: the object holds the hook and the callable. Like a function it makes a bound
//! method when it is found through an object of its class.
//!
//! ```text
//!  StandIn   Python's head | vectorcall | original | hook | weak references
//! ```
//!
//! What it promises: only `type()` distinguishes it from a function, and `is` from the callable;
//! see `disguise`. It is pickled by its name, as functions are.
//!
//! Missing on purpose: how a call goes through the hook (`actions`).

use std::mem::offset_of;
use std::os::raw::c_void;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::actions::{Hook, Part};
use super::calling::{Arguments, Original, PyMethod_New};
use crate::call::method_of_one;
use crate::disguise::{slots, Disguise};
use crate::kept::word;
use crate::life::{self, Head, Life};
use crate::types::{rename, slot, Class};

/// Stand-ins.
static STAND_IN: Class = Class::new();
/// Callables for functions past their hooks.
static PLAIN: Class = Class::new();

/// An object that represents a callable.
#[repr(C)]
struct StandIn {
    _head: Head,
    call: Option<ffi::vectorcallfunc>,
    original: Original,
    /// None: the call bypasses the hook of the function.
    hook: Option<Hook>,
    weak: *mut ffi::PyObject,
}

// SAFETY: the layout above. The callable is set once; an action of a hook is only released when the
// program has ended.
unsafe impl Life for StandIn {
    const WEAK: Option<usize> = Some(offset_of!(StandIn, weak));
    const CALL: Option<usize> = Some(offset_of!(StandIn, call));
    type Held = [*mut ffi::PyObject; 6];

    fn held(&self) -> Self::Held {
        let parts = self.hook.as_ref().map(Hook::parts);
        let [before, after, failed, around, plain] =
            parts.map_or([null_mut(); 5], |parts| parts.map(Part::get));
        [before, after, failed, around, plain, self.original.function]
    }
}

impl Disguise for StandIn {
    const OWN: &'static [&'static std::ffi::CStr] = &[c"__call__", c"__get__", c"__reduce_ex__"];

    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { (*object.cast::<StandIn>()).original.function }
    }
}

/// Whether an object is of one of the two types.
pub(super) fn is_one(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the GIL is held.
    unsafe { ffi::Py_TYPE(object.as_ptr()) == STAND_IN.get() }
}

/// A stand-in for `function`.
pub(super) fn new<'py>(
    function: &Bound<'py, PyAny>,
    mut hook: Hook,
) -> PyResult<Bound<'py, PyAny>> {
    if !hook.around.is_none() {
        hook.plain = Part::new(function.clone().into_ptr());
    }
    let original = Original { function: function.as_ptr(), past: None };
    make(function.py(), STAND_IN.get(), original, Some(hook))
}

/// A callable for the function past its hook in place.
pub(super) fn plain(py: Python<'_>, original: Original) -> PyResult<Bound<'_, PyAny>> {
    make(py, PLAIN.get(), original, None)
}

fn make(
    py: Python<'_>,
    class: *mut ffi::PyTypeObject,
    original: Original,
    hook: Option<Hook>,
) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: one of the types of a `StandIn`; NULL is fetched as an error. References that were
    // not taken over are lost only if there is no memory for the object.
    unsafe {
        let made = life::make(class, |_head| {
            ffi::Py_INCREF(original.function);
            StandIn { _head, call: Some(call), original, hook, weak: null_mut() }
        });
        Bound::from_owned_ptr_or_err(py, made.cast())
    }
}

unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    flagged: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `StandIn`, which the caller holds, as the
    // arguments.
    unsafe {
        let stand_in = &*object.cast::<StandIn>();
        let given = Arguments { first, flagged, keywords };
        match &stand_in.hook {
            Some(hook) => hook.run(&stand_in.original, given),
            None => stand_in.original.call(given),
        }
    }
}

/// As a function's `__get__`.
unsafe extern "C" fn bind(
    object: *mut ffi::PyObject,
    owner: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and live objects; without an owner it is NULL, or
    // None.
    unsafe {
        if owner.is_null() || owner == ffi::Py_None() {
            ffi::Py_INCREF(object);
            return object;
        }
        PyMethod_New(object, owner)
    }
}

/// `__reduce_ex__`: by its name.
unsafe extern "C" fn reduce(
    object: *mut ffi::PyObject,
    _protocol: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `StandIn`.
    unsafe {
        let name = word!(Python::assume_attached(), "__qualname__");
        ffi::PyObject_GetAttr(StandIn::original(object), name.as_ptr())
    }
}

/// Makes both types.
pub(super) fn make_types(py: Python<'_>) -> PyResult<()> {
    let common = || slots::<StandIn>(vec![method_of_one(c"__reduce_ex__", reduce, c"Its name.")]);
    let make = life::class::<StandIn>;
    PLAIN.set(make(py, null_mut(), c"dashcam._native.Plain", 0, common())?);
    let mut binding = common();
    binding.push(slot(ffi::Py_tp_descr_get, bind as *const c_void));
    let flags = ffi::Py_TPFLAGS_METHOD_DESCRIPTOR;
    let class = make(py, null_mut(), c"builtins.function", flags, binding)?;
    // With this name its type prints like a function's.
    rename(class, c"function", &[]);
    STAND_IN.set(class);
    Ok(())
}
