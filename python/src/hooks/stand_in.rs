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
//! Missing on purpose: garbage collection visits its references, but does not clear them: the held
//! objects are made before it, and have no reference to it.

use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::actions::{Arguments, Hook, Original, Part, PyMethod_New};
use crate::call::method;
use crate::disguise::{let_go, members, slots, Disguise};
use crate::kept::word;
use crate::types::{class_of, slot, visit_all, Class};

/// Stand-ins.
static STAND_IN: Class = Class::new();
/// Callables for functions past their hooks.
static PLAIN: Class = Class::new();

/// An object that represents a callable.
#[repr(C)]
struct StandIn {
    base: UnsafeCell<ffi::PyObject>,
    call: Option<ffi::vectorcallfunc>,
    original: Original,
    /// None: the call bypasses the hook of the function.
    hook: Option<Hook>,
    weak: *mut ffi::PyObject,
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
    // SAFETY: the type has room for a `StandIn`; all fields are set before the object is shared.
    // References that were not taken over are lost only if there is no memory for the object.
    unsafe {
        let made: *mut StandIn = ffi::PyObject_GC_New(class);
        if made.is_null() {
            return Err(PyErr::fetch(py));
        }
        ffi::Py_INCREF(original.function);
        (&raw mut (*made).call).write(Some(call));
        (&raw mut (*made).original).write(original);
        (&raw mut (*made).hook).write(hook);
        (&raw mut (*made).weak).write(null_mut());
        ffi::PyObject_GC_Track(made.cast());
        Ok(Bound::from_owned_ptr(py, made.cast()))
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
    _args: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `StandIn`.
    unsafe {
        let name = word!(Python::assume_attached(), "__qualname__");
        ffi::PyObject_GetAttr(StandIn::original(object), name.as_ptr())
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. The collector
    // stops tracking it before its fields are cleared. Each object holds a reference to its type.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let (stand_in, class) = (&*object.cast::<StandIn>(), ffi::Py_TYPE(object));
        let_go(object, stand_in.weak);
        for part in stand_in.hook.iter().flat_map(Hook::parts) {
            part.release();
        }
        ffi::Py_DECREF(stand_in.original.function);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `StandIn`, under the GIL.
    unsafe {
        let stand_in = &*object.cast::<StandIn>();
        let parts =
            stand_in.hook.as_ref().map_or([null_mut(); 5], |hook| hook.parts().map(Part::get));
        match visit_all(&parts, visit, arg) {
            0 => visit_all(&[stand_in.original.function, ffi::Py_TYPE(object).cast()], visit, arg),
            stop => stop,
        }
    }
}

/// Makes both types.
pub(super) fn make_types(py: Python<'_>) -> PyResult<()> {
    let members = members(std::mem::offset_of!(StandIn, call), std::mem::offset_of!(StandIn, weak));
    let common = || {
        let mut common = slots::<StandIn>(vec![method(c"__reduce_ex__", reduce, c"Its name.")]);
        common.extend([
            slot(ffi::Py_tp_dealloc, dealloc as *const c_void),
            slot(ffi::Py_tp_traverse, traverse as *const c_void),
            slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const c_void),
            slot(ffi::Py_tp_members, members),
        ]);
        common
    };
    let flags = ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HAVE_VECTORCALL;
    let size = size_of::<StandIn>();
    let plain = class_of(py, c"dashcam._native.Plain", size, flags, common())?;
    PLAIN.set(plain);
    let mut binding = common();
    binding.push(slot(ffi::Py_tp_descr_get, bind as *const c_void));
    let flags = flags | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR;
    let class = class_of(py, c"builtins.function", size, flags, binding)?;
    // SAFETY: made just now, and never freed; the name is static, and this field does not own the
    // name it replaces. With this name its type prints like a function's.
    unsafe { (*class).tp_name = c"function".as_ptr() };
    STAND_IN.set(class);
    Ok(())
}
