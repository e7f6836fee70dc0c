//! The life of objects that are laid out by hand: how they are made, visited, and freed.
//!
//! ```text
//!  Head: Python's own | the fields of the type
//! ```
//!
//! How it works: a type says which references its objects hold, and where CPython finds a function
//! to call and the weak references. What follows from that is here, once.
//!
//! What it promises: the collector meets an object only while all of its fields are set: it is
//! tracked behind the last, and no longer before the first is released. Weak references are
//! cleared before that; memory is freed after the last reference, and the type released after it.
//! The exception that is set remains, since all that runs here are destructors of others, which
//! leave it by CPython's rule, and Rust.
//!
//! A chain of any length is released without recursion: what is deeper than `MAX_DEPTH` waits,
//! dead, until the object above it is freed. Their own words for weak references, which lead to
//! nothing any more, link those that wait.
//!
//! Missing on purpose: waiting of objects without weak references; their one type holds objects
//! that have them. `tp_clear`: the references are set when an object is made, so what closes a
//! cycle through it was changed later, and is cleared itself, as with tuples. Spans and requests,
//! whose memory is pooled, and which do change (`moments::making`).

use std::cell::{Cell, UnsafeCell};
use std::ffi::CStr;
use std::os::raw::{c_int, c_ulong, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::types::{class_below, slot};

/// Python's own fields, in front of all others.
#[repr(transparent)]
pub struct Head(UnsafeCell<ffi::PyObject>);

impl Head {
    /// The object that has it, borrowed.
    #[inline]
    pub fn object(&self) -> *mut ffi::PyObject {
        self.0.get()
    }
}

/// A structure of ours that is a Python object.
///
/// # Safety
/// It is `repr(C)`, and begins with a `Head`. `WEAK` and `CALL` are offsets of fields. What
/// `held` gives is owned by the object until `end`, and does not change while the collector runs.
pub unsafe trait Life: Sized + 'static {
    /// Where its weak references begin: a pointer, NULL at first.
    const WEAK: Option<usize> = None;
    /// Where the function is that a call of it calls: an `Option<vectorcallfunc>`.
    const CALL: Option<usize> = None;
    type Held: AsRef<[*mut ffi::PyObject]>;

    /// All references that it owns, NULL for none; apart from that to its type.
    fn held(&self) -> Self::Held;

    /// The last reference to it is gone: releases all that it owns. See `safe_point` for what may
    /// run here.
    ///
    /// Safety: the GIL is held; called once, and nothing uses the object afterwards.
    #[inline]
    unsafe fn end(&self) {
        // SAFETY: promised by the caller: the references are the object's.
        self.held().as_ref().iter().for_each(|one| unsafe { ffi::Py_XDECREF(*one) });
    }
}

/// A new object with one reference; NULL and MemoryError. `fields` gets the head to put in front.
///
/// Safety: the GIL is held; `class` is a type made with `size_of::<T>()`, `slots` and `flags` of
/// `T`. What `fields` takes over is only taken if it is called.
#[inline]
pub unsafe fn make<T: Life>(
    class: *mut ffi::PyTypeObject,
    fields: impl FnOnce(Head) -> T,
) -> *mut T {
    const { assert!(!std::mem::needs_drop::<T>(), "`dealloc` drops no fields") };
    // SAFETY: the type has room for a `T`. CPython has set the head, which is read and written
    // where it lies, as part of all fields, before anything else has the object.
    unsafe {
        let made: *mut T = ffi::PyObject_GC_New(class);
        if !made.is_null() {
            made.write(fields(made.cast::<Head>().read()));
            ffi::PyObject_GC_Track(made.cast());
        }
        made
    }
}

/// So many objects are released inside of each other, as CPython's own containers are
/// (`PyTrash_UNWIND_LEVEL`): a part of the smallest stack.
const MAX_DEPTH: u32 = 50;

thread_local! {
    /// How many objects this thread is releasing inside of each other, on all of its greenlets.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The first dead object that waits to be released by this thread; NULL for none.
    static WAITING: Cell<*mut ffi::PyObject> = const { Cell::new(null_mut()) };
    static IS_EMPTYING: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn dealloc<T: Life>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this with a `T` that no reference leads to any more, and `empty` with
    // one that has waited, whose word for weak references is NULL again. The collector stops
    // tracking it before its fields are cleared. Each object holds a reference to its type, which
    // is read until the memory is freed. A thread's own words are there until it ends.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let class = ffi::Py_TYPE(object);
        let depth = DEPTH.get();
        if let Some(weak) = T::WEAK {
            let weak = object.cast::<u8>().add(weak).cast::<*mut ffi::PyObject>();
            // Without the GIL the last of them may be released by its own thread at this moment.
            if cfg!(Py_GIL_DISABLED) || !(*weak).is_null() {
                ffi::PyObject_ClearWeakRefs(object);
            }
            if depth >= MAX_DEPTH {
                *weak = WAITING.replace(object);
                return;
            }
        }
        DEPTH.set(depth + 1);
        (*object.cast::<T>()).end();
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
        // Not the depth of before: a destructor of the program's may have switched to another
        // greenlet of this thread, on which others began or ended.
        let depth = DEPTH.get().saturating_sub(1);
        DEPTH.set(depth);
        if depth < MAX_DEPTH && !WAITING.get().is_null() {
            empty();
        }
    }
}

/// Releases what waits, and what comes to wait meanwhile, one after the other.
///
/// Safety: the GIL is held, at less than the greatest depth.
#[cold]
unsafe fn empty() {
    if IS_EMPTYING.replace(true) {
        return;
    }
    loop {
        let object = WAITING.get();
        if object.is_null() {
            break;
        }
        // SAFETY: dead objects of this thread, whose types have such a word and cannot be derived
        // from: their `tp_dealloc` is `dealloc`, which put them here.
        unsafe {
            let class = ffi::Py_TYPE(object);
            let weak = object.cast::<u8>().offset((*class).tp_weaklistoffset);
            WAITING.set(weak.cast::<*mut ffi::PyObject>().replace(null_mut()));
            if let Some(again) = (*class).tp_dealloc {
                again(object);
            }
        }
    }
    IS_EMPTYING.set(false);
}

unsafe extern "C" fn traverse<T: Life>(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `T`, under the GIL, or while no other thread runs.
    unsafe {
        match visit_all((*object.cast::<T>()).held().as_ref(), visit, arg) {
            0 => visit(ffi::Py_TYPE(object).cast(), arg),
            stop => stop,
        }
    }
}

/// Calls the collector's `visit` with each object that is there.
///
/// Safety: called by the collector, under the GIL or with all threads stopped; objects that are not
/// NULL are alive.
#[inline]
pub unsafe fn visit_all(
    objects: &[*mut ffi::PyObject],
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    for object in objects.iter().filter(|object| !object.is_null()) {
        // SAFETY: called by the collector, under the GIL, with live objects.
        let stop = unsafe { visit(*object, arg) };
        if stop != 0 {
            return stop;
        }
    }
    0
}

/// Makes a type of such objects with these further slots, below `base`, if that is not NULL. It
/// cannot be called.
pub fn class<T: Life>(
    py: Python<'_>,
    base: *mut ffi::PyTypeObject,
    name: &'static CStr,
    more_flags: c_ulong,
    mut more: Vec<ffi::PyType_Slot>,
) -> PyResult<*mut ffi::PyTypeObject> {
    more.extend(slots::<T>());
    class_below(py, base, name, size_of::<T>(), flags::<T>() | more_flags, more)
}

/// The slots of a type of such objects that follow from their life.
pub fn slots<T: Life>() -> Vec<ffi::PyType_Slot> {
    let mut slots = vec![
        slot(ffi::Py_tp_dealloc, dealloc::<T> as *const c_void),
        slot(ffi::Py_tp_traverse, traverse::<T> as *const c_void),
    ];
    if T::CALL.is_some() {
        slots.push(slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const c_void));
    }
    if T::CALL.is_some() || T::WEAK.is_some() {
        slots.push(slot(ffi::Py_tp_members, members(T::CALL, T::WEAK)));
    }
    slots
}

/// The flags of such a type.
pub fn flags<T: Life>() -> c_ulong {
    match T::CALL {
        Some(_) => ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HAVE_VECTORCALL,
        None => ffi::Py_TPFLAGS_HAVE_GC,
    }
}

/// The members by which CPython finds both: their offsets.
pub fn members(call: Option<usize>, weak: Option<usize>) -> *const c_void {
    let member = |name: &'static CStr, offset: usize| ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    };
    let call = call.map(|offset| member(c"__vectorcalloffset__", offset));
    let weak = weak.map(|offset| member(c"__weaklistoffset__", offset));
    let all: Vec<_> = call.into_iter().chain(weak).chain([ffi::PyMemberDef::default()]).collect();
    all.leak().as_ptr().cast()
}
