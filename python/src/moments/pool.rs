//! Memory of dead objects, for the next ones.
//!
//! How it works: a list through the objects themselves, at most `KEPT` long. Everything under the
//! GIL. A free-threaded build has no such list: there CPython's allocator keeps memory for each
//! thread, and a list of all threads would cost more than it saves.
//!
//! What it promises: with the GIL, nothing is allocated for an object while the pool has one.
//! Missing on purpose: the objects (`making`).

#[cfg(not(Py_GIL_DISABLED))]
use std::{cell::Cell, ptr::null_mut};

use crate::types::Class;

/// At most this many dead objects of a kind are kept, 300 bytes each: as many as are often open at
/// once in an event loop.
#[cfg(not(Py_GIL_DISABLED))]
const KEPT: usize = 128;

/// An object that a pool can hold.
pub(super) trait Pooled: Sized {
    /// Its place for the next one in the pool.
    #[cfg(not(Py_GIL_DISABLED))]
    fn next(&self) -> &Cell<*mut Self>;
}

/// A type and the memory of its dead objects.
pub(super) struct Pool<T> {
    pub class: Class,
    #[cfg(not(Py_GIL_DISABLED))]
    dead: Dead<T>,
    #[cfg(Py_GIL_DISABLED)]
    holds: std::marker::PhantomData<fn(T)>,
}

#[cfg(Py_GIL_DISABLED)]
impl<T: Pooled> Pool<T> {
    pub const fn new() -> Pool<T> {
        Pool { class: Class::new(), holds: std::marker::PhantomData }
    }

    pub fn open(&self) {}

    pub unsafe fn take(&self) -> *mut T {
        std::ptr::null_mut()
    }

    pub unsafe fn keep(&self, _object: *mut T) -> bool {
        false
    }

    pub unsafe fn empty(&self) {}
}

#[cfg(not(Py_GIL_DISABLED))]
struct Dead<T> {
    first: Cell<*mut T>,
    kept: Cell<usize>,
    most: Cell<usize>,
}

// SAFETY: only the GIL's holder accesses it: it is used by functions that CPython calls. There is
// one GIL, since the module refuses to be imported into another interpreter.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T> Sync for Dead<T> {}

#[cfg(not(Py_GIL_DISABLED))]
impl<T: Pooled> Pool<T> {
    pub const fn new() -> Pool<T> {
        let (kept, most) = (Cell::new(0), Cell::new(0));
        Pool { class: Class::new(), dead: Dead { first: Cell::new(null_mut()), kept, most } }
    }

    /// Keeps memory from now on.
    pub fn open(&self) {
        self.dead.most.set(KEPT);
    }

    /// A dead object, made anew with one reference; NULL: there is none.
    ///
    /// Safety: the GIL is held; the type has been made.
    #[inline]
    pub unsafe fn take(&self) -> *mut T {
        let (dead, kept) = (&self.dead, self.dead.first.get());
        if !kept.is_null() {
            // SAFETY: an entry of the pool is complete and belongs to nothing else; its type is
            // the pool's.
            unsafe {
                dead.first.set((*kept).next().get());
                dead.kept.set(dead.kept.get() - 1);
                pyo3::ffi::PyObject_Init(kept.cast(), self.class.get());
            }
        }
        kept
    }

    /// Takes over an object without references, and returns whether it does.
    ///
    /// Safety: the GIL is held; nothing refers to the object.
    #[inline]
    pub unsafe fn keep(&self, object: *mut T) -> bool {
        let dead = &self.dead;
        let is_kept = dead.kept.get() < dead.most.get();
        if is_kept {
            // SAFETY: promised by the caller.
            unsafe { (*object).next().set(dead.first.replace(object)) };
            dead.kept.set(dead.kept.get() + 1);
        }
        is_kept
    }

    /// Frees what it has, and keeps none from here on: the interpreter is ending.
    ///
    /// Safety: the GIL is held.
    pub unsafe fn empty(&self) {
        let dead = &self.dead;
        dead.most.set(0);
        loop {
            let kept = dead.first.get();
            if kept.is_null() {
                break;
            }
            // SAFETY: entries of the pool belong to nothing else.
            unsafe {
                dead.first.set((*kept).next().get());
                pyo3::ffi::PyObject_GC_Del(kept.cast());
            }
        }
        dead.kept.set(0);
    }
}
