//! Objects of ours that the program may meet instead of its own.
//!
//! How it works: such an object holds the program's object, and the slots of its type forward every
//! operation to it. Only `type(x)` shows the difference; `x.__class__`, `isinstance`, `hasattr`,
//! `inspect`, `==`, `hash`, `repr`, `dir`, and attributes set on it do not.
//!
//! What it promises: only the attributes in `OWN` are its own, those through which a call could
//! bypass it.
//!
//! Missing on purpose: slots for operators and containers; a stand-in for an object with such slots
//! makes a type of its own. C code that compares types (`PyFunction_Check`).

use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

use pyo3::ffi;

use crate::call::{leaked, method_alone};
use crate::types::slot;

/// An object that represents another.
pub(crate) trait Disguise: 'static {
    /// Attributes that are its own, where its type has them.
    const OWN: &'static [&'static CStr];

    /// The represented object, borrowed; never NULL.
    ///
    /// Safety: the GIL is held; the object is of such a type.
    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// The slots, together with `methods`.
pub(crate) fn slots<D: Disguise>(mut methods: Vec<ffi::PyMethodDef>) -> Vec<ffi::PyType_Slot> {
    methods.push(method_alone(c"__dir__", dir::<D>, c"As of the represented object."));
    let mut slots = answers::<D>();
    slots.extend([
        slot(ffi::Py_tp_methods, leaked(methods).cast()),
        slot(ffi::Py_tp_getset, attributes::<D>()),
    ]);
    slots
}

/// The slots that all objects have.
pub(crate) fn answers<D: Disguise>() -> Vec<ffi::PyType_Slot> {
    vec![
        slot(ffi::Py_tp_getattro, get::<D> as *const c_void),
        slot(ffi::Py_tp_setattro, set::<D> as *const c_void),
        slot(ffi::Py_tp_repr, repr::<D> as *const c_void),
        slot(ffi::Py_tp_str, str::<D> as *const c_void),
        slot(ffi::Py_tp_hash, hash::<D> as *const c_void),
        slot(ffi::Py_tp_richcompare, compare::<D> as *const c_void),
    ]
}

/// A function's attributes, for code that reads them past `tp_getattro`, as pydoc does:
/// `object.__getattribute__(function, "__doc__")`. Not `__module__`, which is the type's own. Those
/// that a later Python added are not found on an earlier one, as on its functions.
const OF_FUNCTIONS: [&CStr; 13] = [
    c"__annotate__",
    c"__annotations__",
    c"__builtins__",
    c"__closure__",
    c"__code__",
    c"__defaults__",
    c"__dict__",
    c"__doc__",
    c"__globals__",
    c"__kwdefaults__",
    c"__name__",
    c"__qualname__",
    c"__type_params__",
];

fn attributes<D: Disguise>() -> *const c_void {
    let of = |name: &&'static CStr| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(attribute::<D>),
        set: Some(set_attribute::<D>),
        doc: std::ptr::null(),
        closure: name.as_ptr().cast_mut().cast(),
    };
    let listed: Vec<_> = OF_FUNCTIONS.iter().map(of).chain([ffi::PyGetSetDef::default()]).collect();
    listed.leak().as_ptr().cast()
}

unsafe extern "C" fn attribute<D: Disguise>(
    object: *mut ffi::PyObject,
    name: *mut c_void,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and an object of this type; `name` is the static C
    // string that `attributes` gave.
    unsafe { ffi::PyObject_GetAttrString(D::original(object), name.cast()) }
}

unsafe extern "C" fn set_attribute<D: Disguise>(
    object: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    name: *mut c_void,
) -> c_int {
    // SAFETY: as `attribute`; a NULL value deletes, as in the represented object.
    unsafe { ffi::PyObject_SetAttrString(D::original(object), name.cast(), value) }
}

unsafe extern "C" fn get<D: Disguise>(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, an object of this type and any object.
    unsafe {
        match is_one_of(name, D::OWN) && has_own(object, name) {
            true => ffi::PyObject_GenericGetAttr(object, name),
            false => ffi::PyObject_GetAttr(D::original(object), name),
        }
    }
}

/// Whether this is one of the names; no other kind of object than a str is, which the type's own
/// `__getattribute__` takes, too.
///
/// Safety: the GIL is held; a live object.
pub(crate) unsafe fn is_one_of(name: *mut ffi::PyObject, names: &[&CStr]) -> bool {
    // SAFETY: promised by the caller; what is compared is a str.
    unsafe {
        let is = |one: &&CStr| ffi::PyUnicode_CompareWithASCIIString(name, one.as_ptr()) == 0;
        ffi::PyUnicode_Check(name) != 0 && names.iter().any(is)
    }
}

/// Whether the type of this object of ours has that attribute.
unsafe fn has_own(object: *mut ffi::PyObject, name: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller holds the GIL and both; the found object is borrowed.
    unsafe {
        let found = ffi::PyDict_GetItemWithError((*ffi::Py_TYPE(object)).tp_dict, name);
        if found.is_null() {
            ffi::PyErr_Clear();
        }
        !found.is_null()
    }
}

unsafe extern "C" fn set<D: Disguise>(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: as `get`; a NULL value deletes, as in the represented object.
    unsafe { ffi::PyObject_SetAttr(D::original(object), name, value) }
}

unsafe extern "C" fn repr<D: Disguise>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as `get`.
    unsafe { ffi::PyObject_Repr(D::original(object)) }
}

unsafe extern "C" fn str<D: Disguise>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as `get`.
    unsafe { ffi::PyObject_Str(D::original(object)) }
}

unsafe extern "C" fn hash<D: Disguise>(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: as `get`.
    unsafe { ffi::PyObject_Hash(D::original(object)) }
}

unsafe extern "C" fn compare<D: Disguise>(
    object: *mut ffi::PyObject,
    other: *mut ffi::PyObject,
    operation: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: as `get`; `other` is any live object.
    unsafe {
        let same = ffi::Py_TYPE(object) == ffi::Py_TYPE(other);
        let other = if same { D::original(other) } else { other };
        ffi::PyObject_RichCompare(D::original(object), other, operation)
    }
}

pub(crate) unsafe extern "C" fn dir<D: Disguise>(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `get`.
    unsafe { ffi::PyObject_Dir(D::original(object)) }
}
