//! `__enter__` and `__exit__`, bound to their object inside of it.
//!
//! How it works. A `with` statement looks both up and gets two bound methods, for which CPython
//! would allocate twice and count twice towards its next collection. Here the lookup finds a `Door`
//! in the type. The door returns the `Bound` that lies in the object, as a Python object of its own
//! type with references of its own: while it has references, it holds one to the object; when the
//! last is gone, it releases the object's. On the type itself, and on an object that the collector
//! tracks, the door returns an ordinary method instead.

use std::cell::UnsafeCell;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};

use pyo3::ffi;
use pyo3::prelude::*;

use super::object::{class_of, slot, Kind, Moment, Pool};
use crate::call::{leaked, quietly};

/// `__enter__` or `__exit__` of an object, bound to it. Lies inside of it.
#[repr(C)]
pub(super) struct Bound {
    base: UnsafeCell<ffi::PyObject>,
    call: Option<ffi::vectorcallfunc>,
    /// The object it lies in. Counted while this `Bound` has references itself.
    owner: *mut Moment,
}

impl Bound {
    /// `__enter__` of an object that is being made. Without references.
    pub fn enter<K: Kind>(owner: *mut Moment) -> Bound {
        Bound::of(enter::<K>, owner)
    }

    /// As `enter`, for `__exit__`.
    pub fn exit<K: Kind>(owner: *mut Moment) -> Bound {
        Bound::of(exit::<K>, owner)
    }

    fn of(call: ffi::vectorcallfunc, owner: *mut Moment) -> Bound {
        // SAFETY: zeros are an object without references and without a type, to which nothing
        // refers.
        let base = UnsafeCell::new(unsafe { std::mem::zeroed() });
        Bound { base, call: Some(call), owner }
    }
}

/// The type of `Bound`.
static BOUND: Pool = Pool::new();

/// Looks a bound method up: no allocation.
#[inline]
unsafe fn bind(bound: *const Bound) -> *mut ffi::PyObject {
    // SAFETY: `bound` lies in an object that the caller holds. Without references of its own it is
    // made anew, and holds the object from then on.
    unsafe {
        let object = (*bound).base.get();
        if ffi::Py_REFCNT(object) > 0 {
            ffi::Py_INCREF(object);
        } else {
            ffi::PyObject_Init(object, BOUND.class.get());
            ffi::Py_INCREF((*bound).owner.cast());
        }
        object
    }
}

unsafe extern "C" fn unbind(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference to a bound method; it releases the
    // reference it held. That may free its own memory, so nothing is accessed after it.
    unsafe {
        let owner = (*object.cast::<Bound>()).owner;
        let class = ffi::Py_TYPE(object);
        ffi::Py_DECREF(class.cast());
        ffi::Py_DECREF(owner.cast());
    }
}

/// A count of arguments as vectorcall gives it.
fn positional(count: usize) -> usize {
    count & !(1 << (usize::BITS - 1))
}

unsafe extern "C" fn enter<K: Kind>(
    bound: *mut ffi::PyObject,
    _args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this with the GIL and a `Bound`, which holds its object.
    unsafe {
        if positional(count) != 0 || !keywords.is_null() {
            return wrong_call(c"__enter__() takes no arguments");
        }
        entered::<K>((*bound.cast::<Bound>()).owner)
    }
}

unsafe extern "C" fn exit<K: Kind>(
    bound: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; there are three arguments where they are read.
    unsafe {
        if positional(count) != 3 || !keywords.is_null() {
            return wrong_call(c"__exit__() takes three arguments: type, value, traceback");
        }
        exited::<K>((*bound.cast::<Bound>()).owner, *args)
    }
}

unsafe extern "C" fn enter_unbound<K: Kind>(
    object: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: a method of the type: CPython has checked that the object is of it.
    unsafe { entered::<K>(object.cast()) }
}

unsafe extern "C" fn exit_unbound<K: Kind>(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        if count != 3 {
            return wrong_call(c"__exit__() takes three arguments: type, value, traceback");
        }
        exited::<K>(object.cast(), *args)
    }
}

#[inline]
unsafe fn entered<K: Kind>(moment: *mut Moment) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and the object.
    unsafe {
        let py = Python::assume_attached();
        let done = quietly(Ok(()), || K::enter(py, &*moment));
        if done.is_err() {
            return null_mut();
        }
        ffi::Py_INCREF(moment.cast());
        moment.cast()
    }
}

#[inline]
unsafe fn exited<K: Kind>(moment: *mut Moment, error: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL, the object and the argument.
    unsafe {
        let py = Python::assume_attached();
        quietly((), || K::exit(py, &*moment, error));
        let no = ffi::Py_False();
        ffi::Py_INCREF(no);
        no
    }
}

/// Raises TypeError; NULL.
///
/// Safety: the caller holds the GIL.
#[cold]
pub(super) unsafe fn wrong_call(text: &'static std::ffi::CStr) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_TypeError, text.as_ptr()) };
    null_mut()
}

/// The entry `__enter__` or `__exit__` of a type: returns the `Bound` inside the object.
#[repr(C)]
struct Door {
    base: UnsafeCell<ffi::PyObject>,
    /// The same as an ordinary method; owned.
    unbound: *mut ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    is_exit: bool,
}

unsafe extern "C" fn look_up(
    door: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this with a `Door` and the object it was looked up on, or none.
    unsafe {
        let door = &*door.cast::<Door>();
        if object.is_null() || ffi::Py_TYPE(object) != door.class {
            // On the type itself, or on an object it does not belong to, which the call will
            // report.
            ffi::Py_INCREF(door.unbound);
            return door.unbound;
        }
        let moment = object.cast::<Moment>();
        if (*moment).tracked.get() {
            // The object may be part of a cycle, through this very method if that is kept: the
            // collector must see it.
            let bind = (*ffi::Py_TYPE(door.unbound)).tp_descr_get;
            return bind.map_or(null_mut(), |bind| bind(door.unbound, object, class));
        }
        match door.is_exit {
            true => bind(&raw const (*moment).exit),
            false => bind(&raw const (*moment).enter),
        }
    }
}

unsafe fn put_door<K: Kind>(
    py: Python<'_>,
    doors: *mut ffi::PyTypeObject,
    is_exit: bool,
) -> PyResult<()> {
    // SAFETY: the types are alive and the method's description is never freed.
    unsafe {
        let mut method = ffi::PyMethodDef::zeroed();
        if is_exit {
            method.ml_name = c"__exit__".as_ptr();
            method.ml_flags = ffi::METH_FASTCALL;
            method.ml_meth = ffi::PyMethodDefPointer { PyCFunctionFast: exit_unbound::<K> };
        } else {
            method.ml_name = c"__enter__".as_ptr();
            method.ml_flags = ffi::METH_NOARGS;
            method.ml_meth = ffi::PyMethodDefPointer { PyCFunction: enter_unbound::<K> };
        }
        let class = K::pool().class.get();
        let made = ffi::PyType_GenericAlloc(doors, 0);
        let unbound = ffi::PyDescr_NewMethod(class, leaked(vec![method]));
        if made.is_null() || unbound.is_null() {
            return Err(PyErr::fetch(py));
        }
        let door = made.cast::<Door>();
        (*door).unbound = unbound;
        (*door).class = class;
        (*door).is_exit = is_exit;
        // Our own reference is kept for ever, as the types are.
        match ffi::PyObject_SetAttrString(class.cast(), method.ml_name, made) {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Puts `__enter__` and `__exit__` into the type of a kind.
pub(super) fn put_doors<K: Kind>(py: Python<'_>) -> PyResult<()> {
    let getter = vec![slot(ffi::Py_tp_descr_get, look_up as *const c_void)];
    let doors = class_of(py, c"dashcam._native.Door", size_of::<Door>(), 0, getter)?;
    // SAFETY: the types were made just now.
    unsafe {
        put_door::<K>(py, doors, false)?;
        put_door::<K>(py, doors, true)
    }
}

/// Makes the type of bound methods.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    // CPython finds the function to call at this offset of the object.
    let offset = ffi::PyMemberDef {
        name: c"__vectorcalloffset__".as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: std::mem::offset_of!(Bound, call) as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: null(),
    };
    let members = vec![offset, ffi::PyMemberDef::default()].leak();
    let slots = vec![
        slot(ffi::Py_tp_dealloc, unbind as *const c_void),
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const c_void),
        slot(ffi::Py_tp_members, members.as_ptr().cast()),
    ];
    let flags = ffi::Py_TPFLAGS_HAVE_VECTORCALL;
    let class = class_of(py, c"dashcam._native.Bound", size_of::<Bound>(), flags, slots)?;
    BOUND.class.set(class);
    Ok(())
}

/// Whether the types are still to be made.
pub(super) fn claim() -> bool {
    BOUND.class.get().is_null()
}
