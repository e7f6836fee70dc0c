//! The object behind `span(...)` and `request(...)`: its layout and its attributes.
//!
//! ```text
//!  Moment   Python's head | enter: Bound | exit: Bound | name | when | ids
//!           | count, extra | keys[8] | values[8]
//! ```
//! How it works. Bound `__enter__` and `__exit__`, which a `with` statement looks up, lie inside
//! the object; see `bound`. On a free-threaded build they do not: a thread that reads a shared list
//! there counts references in memory that may have another object by then, so an object has to be
//! one for the allocator, too.
//!
//! What it promises: the cyclic collector tracks an object only if one of its values could close a
//! cycle, that is, is not exactly a str, int, float or bool; all others would be work for nothing.
//! Fields are accessed by a thread that is `alone` with the object, or by the only one that has it,
//! and no reference to a field is held while code of the program may run: dropping a value or
//! calling its `str()` may re-enter this code. The name is never changed.

use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use format::record::MAX_ATTRIBUTES;
use pyo3::ffi;
use pyo3::prelude::*;
use recorder::OpenPlace;

use super::attributes;
#[cfg(not(Py_GIL_DISABLED))]
use super::bound::Bound;
use super::pool::{Pool, Pooled};
use crate::alone::{alone, held};

/// A span or a request.
#[repr(C)]
pub(super) struct Moment {
    base: UnsafeCell<ffi::PyObject>,
    #[cfg(not(Py_GIL_DISABLED))]
    pub enter: Bound,
    #[cfg(not(Py_GIL_DISABLED))]
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
    /// The collector tracks it. Relaxed: read as a hint, or where no other thread has the object.
    pub tracked: AtomicBool,
    /// The next one in the pool, or in a chain that is being released.
    next: Cell<*mut Moment>,
    /// Owned; exactly strs.
    pub keys: [Cell<*mut ffi::PyObject>; MAX_ATTRIBUTES],
    /// Owned.
    pub values: [Cell<*mut ffi::PyObject>; MAX_ATTRIBUTES],
}

impl Pooled for Moment {
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline]
    fn next(&self) -> &Cell<*mut Moment> {
        &self.next
    }
}

/// The type of spans, and that of requests.
pub(super) static SPANS: Pool<Moment> = Pool::new();
pub(super) static REQUESTS: Pool<Moment> = Pool::new();

/// The difference between a span and a request.
pub(super) trait Kind: 'static {
    /// The type's name in Python, with the module.
    const TYPE: &'static std::ffi::CStr;
    /// Its name for people.
    const NOUN: &'static str;

    fn pool() -> &'static Pool<Moment>;

    /// Begins. Err: code of the program has set a Python exception.
    fn enter(py: Python<'_>, moment: &Moment) -> Result<(), ()>;

    /// Ends. `error`: the type of the exception, None for none.
    fn exit(py: Python<'_>, moment: &Moment, error: *mut ffi::PyObject);

    /// One was entered, and its object is gone without its exit; from a destructor (`safe_point`).
    fn lost(_id: u64) {}
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
        // SAFETY: promised by the caller; the replaced value was ours.
        unsafe {
            let replaced = alone(self.as_object(), || self.exchange(key, value));
            ffi::Py_XDECREF(replaced);
        }
    }

    /// As `put`; returns the replaced value, to be released, or NULL.
    unsafe fn exchange(
        &self,
        key: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: live objects; the stored ones get references of their own.
        unsafe {
            let count = self.count.get() as usize;
            for at in 0..count {
                if attributes::is_same(self.keys[at].get(), key) {
                    ffi::Py_INCREF(value);
                    self.show_if_odd(value);
                    return self.values[at].replace(value);
                }
            }
            self.push(key, value);
            null_mut()
        }
    }

    /// As `put`, for a key that is not there yet, and an object that no other thread has.
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
            if !attributes::is_plain(value) && !self.tracked.swap(true, Ordering::Relaxed) {
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
        match self.tracked.load(Ordering::Relaxed) {
            false => Ok(()),
            // SAFETY: promised by the caller.
            true => unsafe { self.settle_odd(py) },
        }
    }

    #[cold]
    unsafe fn settle_odd(&self, py: Python<'_>) -> Result<(), ()> {
        for field in &self.values {
            // SAFETY: the value is held while the program's code runs; afterwards the field may
            // have another value, which then remains.
            unsafe {
                let value = held(self.as_object(), field);
                if value.is_null() || attributes::is_plain(value) {
                    ffi::Py_XDECREF(value);
                    continue;
                }
                let plain = attributes::plain(py, value);
                let unused = alone(self.as_object(), || match field.get() == value {
                    true if !plain.is_null() => field.replace(plain),
                    _ => plain,
                });
                ffi::Py_XDECREF(unused);
                ffi::Py_DECREF(value);
                if plain.is_null() {
                    return Err(());
                }
            }
        }
        Ok(())
    }

    /// Releases all attributes. Of a chain of objects, each a value of the next, one after the
    /// other: were each released by the one before it, a long chain would end the stack.
    ///
    /// Safety: the GIL is held, and the caller holds the object, or it is dead.
    #[inline]
    pub unsafe fn drop_attributes(&self) {
        if cfg!(Py_GIL_DISABLED) || self.tracked.load(Ordering::Relaxed) {
            // SAFETY: promised by the caller.
            return unsafe { self.drop_odd() };
        }
        for at in 0..self.count.replace(0) as usize {
            // SAFETY: promised by the caller; keys and values below the count are held. All are
            // plain, so no code of the program runs that could find this object.
            unsafe {
                ffi::Py_XDECREF(self.keys[at].replace(null_mut()));
                ffi::Py_XDECREF(self.values[at].replace(null_mut()));
            }
        }
    }

    /// As `drop_attributes`, of any kind.
    ///
    /// Safety: as `drop_attributes`.
    #[cold]
    unsafe fn drop_odd(&self) {
        // SAFETY: promised by the caller. Objects of the chain are held by it.
        unsafe {
            let mut chain = self.drop_into(null_mut());
            while !chain.is_null() {
                let one = &*chain;
                let rest = one.next.replace(null_mut());
                // While others were released, code of the program may have found it.
                chain = if is_alone(one.as_object()) { one.drop_into(rest) } else { rest };
                ffi::Py_DECREF(one.as_object());
            }
        }
    }

    /// Releases all attributes, except for objects like this one to which nothing else refers: puts
    /// them in front of `chain`, with their reference.
    ///
    /// Safety: as `drop_attributes`; what `chain` has is held by it.
    unsafe fn drop_into(&self, mut chain: *mut Moment) -> *mut Moment {
        // Only then a value is not plain.
        let is_odd = self.tracked.load(Ordering::Relaxed);
        let mut taken = [(null_mut(), null_mut()); MAX_ATTRIBUTES];
        let take_all = || {
            let count = self.count.replace(0) as usize;
            for (at, pair) in taken.iter_mut().enumerate().take(count) {
                *pair = (self.keys[at].replace(null_mut()), self.values[at].replace(null_mut()));
            }
            count
        };
        // SAFETY: promised by the caller. All fields are cleared before a reference is released:
        // the code that runs then may find this object, and set attributes.
        unsafe {
            let count = alone(self.as_object(), take_all);
            for (key, value) in taken.into_iter().take(count) {
                ffi::Py_XDECREF(key);
                if is_odd && is_last(value) {
                    let value: *mut Moment = value.cast();
                    (*value).next.set(chain);
                    chain = value;
                } else {
                    ffi::Py_XDECREF(value);
                }
            }
        }
        chain
    }
}

/// Whether it is a span or a request, by its last reference. It can be in no chain then, which has
/// a reference of its own.
///
/// Safety: the GIL is held; NULL, or an object that the caller holds.
unsafe fn is_last(value: *mut ffi::PyObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        !value.is_null()
            && is_alone(value)
            && [&SPANS, &REQUESTS].iter().any(|pool| pool.class.get() == ffi::Py_TYPE(value))
    }
}

/// Whether the caller has the only reference. On a free-threaded build a count is in two parts,
/// which no other thread than the object's own can read as one: there it is so for that thread's
/// objects only. Chains of others are released by recursion, which CPython bounds itself there.
///
/// Safety: the GIL is held; the caller holds the object.
#[inline]
unsafe fn is_alone(object: *mut ffi::PyObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        #[cfg(Py_GIL_DISABLED)]
        let is_alone = ffi::PyUnstable_Object_IsUniquelyReferenced(object) != 0;
        #[cfg(not(Py_GIL_DISABLED))]
        let is_alone = ffi::Py_REFCNT(object) == 1;
        is_alone
    }
}
