//! The object behind `span(...)` and `request(...)`: its layout, and where its memory comes from.
//!
//! ```text
//!  Moment   Python's head | enter: Bound | exit: Bound | name | when | ids
//!           | count, extra | keys[8] | values[8]
//! ```
//! How it works. Memory of dead objects goes into a pool, at most `KEPT` of a kind. The bound
//! `__enter__` and `__exit__`, which a `with` statement looks up, lie inside the object; see
//! `bound`.
//!
//! What it promises: nothing is allocated for a span while the pool has one. The cyclic collector
//! tracks an object only if one of its values could close a cycle, that is, is not exactly a str,
//! int, float or bool; all others would be work for nothing. All fields are accessed under the GIL
//! only, and no reference to a field is held while code of the program may run: dropping a value or
//! calling its `str()` may re-enter this code.

use std::cell::{Cell, UnsafeCell};
use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut};

use format::record::MAX_ATTRIBUTES;
use pyo3::ffi;
use pyo3::prelude::*;
use recorder::OpenPlace;

use super::attributes;
use super::bound::{self, wrong_call, Bound};

/// At most this many dead objects of a kind are kept, 300 bytes each: as many as are often open at
/// once in an event loop.
const KEPT: usize = 128;

/// A span or a request.
#[repr(C)]
pub(super) struct Moment {
    base: UnsafeCell<ffi::PyObject>,
    pub enter: Bound,
    pub exit: Bound,
    /// Exactly a str. Owned; NULL in the pool.
    pub name: Cell<*mut ffi::PyObject>,
    /// The time it was entered; 0: it is not entered, or recording was off.
    pub begin_ns: Cell<u64>,
    /// A request's id while it is open.
    pub id: Cell<u64>,
    /// The request that was current before it; for a span: the request it belongs to.
    pub previous: Cell<u64>,
    /// Where captures find an open span.
    pub place: Cell<OpenPlace>,
    /// For an open span: the id of its name, and the epoch of the recorder that gave it.
    pub known: Cell<(u32, u32)>,
    /// Attributes in use, and the number that had no room.
    pub count: Cell<u32>,
    pub extra: Cell<u32>,
    /// The collector tracks it.
    pub tracked: Cell<bool>,
    /// The next one in the pool.
    next: Cell<*mut Moment>,
    /// Owned; exactly strs.
    pub keys: [Cell<*mut ffi::PyObject>; MAX_ATTRIBUTES],
    /// Owned.
    pub values: [Cell<*mut ffi::PyObject>; MAX_ATTRIBUTES],
}

/// A type and the memory of its dead objects. Everything under the GIL.
pub(super) struct Pool {
    /// NULL before it is made.
    pub class: Cell<*mut ffi::PyTypeObject>,
    free: Cell<*mut Moment>,
    kept: Cell<usize>,
    most: Cell<usize>,
}

// SAFETY: only the GIL's holder accesses it: it is used by functions that CPython calls. There is
// one GIL, since the module refuses to be imported into another interpreter.
unsafe impl Sync for Pool {}

impl Pool {
    pub const fn new() -> Pool {
        Pool {
            class: Cell::new(null_mut()),
            free: Cell::new(null_mut()),
            kept: Cell::new(0),
            most: Cell::new(0),
        }
    }
}

/// The difference between a span and a request.
pub(super) trait Kind: 'static {
    /// The type's name in Python, with the module.
    const TYPE: &'static std::ffi::CStr;
    /// Its name for people.
    const NOUN: &'static str;

    fn pool() -> &'static Pool;

    /// Begins. Err: code of the program has set a Python exception.
    fn enter(py: Python<'_>, moment: &Moment) -> Result<(), ()>;

    /// Ends. `error`: the type of the exception, None for none.
    fn exit(py: Python<'_>, moment: &Moment, error: *mut ffi::PyObject);
}

/// A new object with one reference; NULL and MemoryError. `name`: exactly a str; its reference is
/// taken over, also on failure.
///
/// Safety: the GIL is held; the types have been made.
#[inline]
pub(super) unsafe fn new<K: Kind>(name: *mut ffi::PyObject) -> *mut Moment {
    let pool = K::pool();
    let kept = pool.free.get();
    // SAFETY: an entry of the pool is complete and belongs to nothing else; its type is the pool's.
    unsafe {
        let made = if kept.is_null() {
            allocate::<K>(pool)
        } else {
            pool.free.set((*kept).next.get());
            pool.kept.set(pool.kept.get() - 1);
            ffi::PyObject_Init(kept.cast(), pool.class.get());
            kept
        };
        match made.is_null() {
            true => ffi::Py_DECREF(name),
            false => (*made).name.set(name),
        }
        made
    }
}

#[cold]
unsafe fn allocate<K: Kind>(pool: &Pool) -> *mut Moment {
    // SAFETY: the type has room for a `Moment` and nothing behind it; nothing else refers to a new
    // object. The collector does not track it before `track`.
    unsafe {
        let made: *mut Moment = ffi::PyObject_GC_New(pool.class.get());
        if !made.is_null() {
            // Behind Python's own head.
            let head = size_of::<ffi::PyObject>();
            made.cast::<u8>().add(head).write_bytes(0, size_of::<Moment>() - head);
            (*made).enter = Bound::enter::<K>(made);
            (*made).exit = Bound::exit::<K>(made);
        }
        made
    }
}

impl Moment {
    /// It as a Python object, borrowed.
    #[inline]
    pub fn as_object(&self) -> *mut ffi::PyObject {
        self.base.get()
    }

    /// Adds or replaces an attribute; `key` (a str) and `value` are borrowed.
    ///
    /// Safety: the GIL is held; `key` is exactly a str.
    pub unsafe fn put(&self, key: *mut ffi::PyObject, value: *mut ffi::PyObject) {
        // SAFETY: live objects; the stored ones get references of their own, and the replaced value
        // is dropped last.
        unsafe {
            let count = self.count.get() as usize;
            for at in 0..count {
                if attributes::is_same(self.keys[at].get(), key) {
                    ffi::Py_INCREF(value);
                    self.show_if_odd(value);
                    return ffi::Py_DECREF(self.values[at].replace(value));
                }
            }
            self.push(key, value);
        }
    }

    /// As `put`, for a key that is not there yet.
    ///
    /// Safety: as `put`.
    #[inline]
    pub unsafe fn push(&self, key: *mut ffi::PyObject, value: *mut ffi::PyObject) {
        let count = self.count.get() as usize;
        if count == MAX_ATTRIBUTES {
            return self.extra.set(self.extra.get() + 1);
        }
        // SAFETY: as above.
        unsafe {
            ffi::Py_INCREF(key);
            ffi::Py_INCREF(value);
            self.keys[count].set(key);
            self.values[count].set(value);
            self.count.set(count as u32 + 1);
            self.show_if_odd(value);
        }
    }

    /// Lets the collector track the object once it holds a value that may hold the object.
    #[inline]
    unsafe fn show_if_odd(&self, value: *mut ffi::PyObject) {
        // SAFETY: the caller holds the GIL; the object is complete.
        unsafe {
            if !attributes::is_plain(value) && !self.tracked.replace(true) {
                ffi::PyObject_GC_Track(self.as_object().cast());
            }
        }
    }

    /// Makes texts of values that are none of str, int, float, bool. Err: a conversion was
    /// interrupted (KeyboardInterrupt and the like), the exception is set.
    ///
    /// Safety: the GIL is held, and the caller holds the object.
    #[inline]
    pub unsafe fn settle(&self, py: Python<'_>) -> Result<(), ()> {
        match self.tracked.get() {
            false => Ok(()),
            // SAFETY: promised by the caller.
            true => unsafe { self.settle_odd(py) },
        }
    }

    #[cold]
    unsafe fn settle_odd(&self, py: Python<'_>) -> Result<(), ()> {
        for at in 0..MAX_ATTRIBUTES {
            let value = self.values[at].get();
            // SAFETY: the value is held while the program's code runs; afterwards the field may
            // hold another value, which then remains.
            unsafe {
                if value.is_null() || attributes::is_plain(value) {
                    continue;
                }
                ffi::Py_INCREF(value);
                let plain = attributes::plain(py, value);
                if !plain.is_null() && self.values[at].get() == value {
                    ffi::Py_DECREF(self.values[at].replace(plain));
                } else {
                    ffi::Py_XDECREF(plain);
                }
                ffi::Py_DECREF(value);
                if plain.is_null() {
                    return Err(());
                }
            }
        }
        Ok(())
    }

    unsafe fn drop_attributes(&self) {
        let count = self.count.replace(0) as usize;
        for at in 0..count {
            // SAFETY: each field is cleared before its reference is released.
            unsafe {
                ffi::Py_XDECREF(self.keys[at].replace(null_mut()));
                ffi::Py_XDECREF(self.values[at].replace(null_mut()));
            }
        }
    }
}

unsafe extern "C" fn dealloc<K: Kind>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: no other reference exists. The collector
    // stops tracking it before its fields are cleared. Each object holds a reference to its type.
    unsafe {
        let moment = &*object.cast::<Moment>();
        if moment.tracked.replace(false) {
            ffi::PyObject_GC_UnTrack(object.cast());
        }
        if moment.count.get() > 0 {
            moment.drop_attributes();
        }
        ffi::Py_XDECREF(moment.name.replace(null_mut()));
        // A span that was entered and never left: captures must not show it as open any more.
        recorder::end_span(moment.place.replace(OpenPlace::NONE), moment.begin_ns.replace(0));
        moment.id.set(0);
        moment.extra.set(0);
        let (pool, class) = (K::pool(), ffi::Py_TYPE(object));
        if pool.kept.get() < pool.most.get() {
            moment.next.set(pool.free.replace(object.cast()));
            pool.kept.set(pool.kept.get() + 1);
        } else {
            ffi::PyObject_GC_Del(object.cast());
        }
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with an object of ours, under the GIL. Names and keys are
    // strs, which hold nothing.
    unsafe {
        let moment = &*object.cast::<Moment>();
        for value in &moment.values {
            let value = value.get();
            if !value.is_null() {
                let stop = visit(value, arg);
                if stop != 0 {
                    return stop;
                }
            }
        }
        visit(ffi::Py_TYPE(object).cast(), arg)
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: as `traverse`.
    unsafe { (*object.cast::<Moment>()).drop_attributes() };
    0
}

/// A slot of a type.
pub(crate) fn slot(slot: c_int, pfunc: *const c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot, pfunc: pfunc.cast_mut() }
}

/// Makes a type that cannot be called.
pub(crate) fn class_of(
    py: Python<'_>,
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
    // SAFETY: the spec is complete and copied by the call; the name is never freed.
    let class = unsafe { ffi::PyType_FromSpec(&mut spec) };
    match class.is_null() {
        true => Err(PyErr::fetch(py)),
        false => Ok(class.cast()),
    }
}

unsafe extern "C" fn no_new(
    _class: *mut ffi::PyTypeObject,
    _args: *mut ffi::PyObject,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL.
    unsafe { wrong_call(c"made by dashcam.span() and dashcam.request() only") }
}

/// Makes the type of a kind, with these further slots, and fills its pool from now on.
pub(super) fn make_type<K: Kind>(
    module: &pyo3::Bound<'_, PyModule>,
    mut slots: Vec<ffi::PyType_Slot>,
) -> PyResult<()> {
    let py = module.py();
    slots.extend([
        slot(ffi::Py_tp_dealloc, dealloc::<K> as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_tp_clear, clear as *const c_void),
    ]);
    let gc = ffi::Py_TPFLAGS_HAVE_GC;
    let class = class_of(py, K::TYPE, size_of::<Moment>(), gc, slots)?;
    K::pool().class.set(class);
    K::pool().most.set(KEPT);
    bound::put_doors::<K>(py)?;
    // SAFETY: made just now, and kept by the pool.
    let class = unsafe { pyo3::Bound::from_borrowed_ptr(py, class.cast()) };
    module.add(class.getattr("__name__")?.extract::<String>()?.as_str(), class)
}

/// Frees the pool's memory, and keeps none from here on: the interpreter is ending.
pub(super) fn empty<K: Kind>() {
    let pool = K::pool();
    pool.most.set(0);
    loop {
        let kept = pool.free.get();
        if kept.is_null() {
            break;
        }
        // SAFETY: entries of the pool belong to nothing else; called with the GIL.
        unsafe {
            pool.free.set((*kept).next.get());
            ffi::PyObject_GC_Del(kept.cast());
        }
    }
    pool.kept.set(0);
}
