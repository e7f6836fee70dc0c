//! Types that are laid out by hand.
//!
//! How it works: a type is made from slots when the module is imported, and kept for ever. What it
//! promises: it cannot be called from Python; its objects are made by functions of ours only.

use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

/// A type of ours. Relaxed: it is set while the module is imported, before any other thread can
/// reach a function of the module.
pub struct Class(AtomicPtr<ffi::PyTypeObject>);

impl Class {
    /// Not made yet.
    pub const fn new() -> Class {
        Class(AtomicPtr::new(null_mut()))
    }

    /// The type; NULL before it is made.
    #[inline]
    pub fn get(&self) -> *mut ffi::PyTypeObject {
        self.0.load(Ordering::Relaxed)
    }

    /// It was made, and is kept for ever.
    pub fn set(&self, class: *mut ffi::PyTypeObject) {
        self.0.store(class, Ordering::Relaxed);
    }
}

/// A slot of a type.
pub fn slot(slot: c_int, pfunc: *const c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot, pfunc: pfunc.cast_mut() }
}

/// Makes a type that cannot be called.
pub fn class_of(
    py: Python<'_>,
    name: &'static std::ffi::CStr,
    size: usize,
    flags: std::os::raw::c_ulong,
    slots: Vec<ffi::PyType_Slot>,
) -> PyResult<*mut ffi::PyTypeObject> {
    class_below(py, null_mut(), name, size, flags, slots)
}

/// As `class_of`, of a type that derives from `base`, one of ours; NULL for none.
pub fn class_below(
    py: Python<'_>,
    base: *mut ffi::PyTypeObject,
    name: &'static std::ffi::CStr,
    size: usize,
    flags: std::os::raw::c_ulong,
    mut slots: Vec<ffi::PyType_Slot>,
) -> PyResult<*mut ffi::PyTypeObject> {
    slots.push(slot(ffi::Py_tp_new, no_new as *const c_void));
    slots.push(slot(0, null()));
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | flags) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec is complete and copied by the call; the name is never freed, nor the base.
    let class = unsafe {
        let bases = match base.is_null() {
            true => null_mut(),
            false => {
                let bases = ffi::PyTuple_Pack(1, base);
                if bases.is_null() {
                    return Err(PyErr::fetch(py));
                }
                bases
            }
        };
        let class = ffi::PyType_FromSpecWithBases(&mut spec, bases);
        ffi::Py_XDECREF(bases);
        class
    };
    match class.is_null() {
        true => Err(PyErr::fetch(py)),
        false => Ok(class.cast()),
    }
}

/// Gives a type the name of one of CPython's, and removes entries from its dict whose slots remain.
pub fn rename(
    class: *mut ffi::PyTypeObject,
    name: &'static std::ffi::CStr,
    without: &[&std::ffi::CStr],
) {
    // SAFETY: made just now by the caller, and never freed; the name is static, and this field does
    // not own the name it replaces. The dict is the type's; an entry that is not there is no error.
    unsafe {
        (*class).tp_name = name.as_ptr();
        for entry in without {
            if ffi::PyDict_DelItemString((*class).tp_dict, entry.as_ptr()) != 0 {
                ffi::PyErr_Clear();
            }
        }
        ffi::PyType_Modified(class);
    }
}

/// In CPython's words.
unsafe extern "C" fn no_new(
    class: *mut ffi::PyTypeObject,
    _args: *mut ffi::PyObject,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and the type, whose name is a C string.
    unsafe {
        let text = c"cannot create '%.100s' instances";
        ffi::PyErr_Format(ffi::PyExc_TypeError, text.as_ptr(), (*class).tp_name)
    }
}
