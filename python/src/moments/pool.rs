//! Memory of dead objects, for the next ones.
//!
//! How it works: a list through the objects themselves, at most `KEPT` long. Everything under the
//! GIL. What it promises: nothing is allocated for an object while the pool has one. Missing on
//! purpose: the objects (`making`).

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;

use crate::types::Class;

/// At most this many dead objects of a kind are kept, 300 bytes each: as many as are often open at
/// once in an event loop.
const KEPT: usize = 128;

/// An object that a pool can hold.
pub(super) trait Pooled: Sized {
    /// Its place for the next one in the pool.
    fn next(&self) -> &Cell<*mut Self>;
}

/// A type and the memory of its dead objects.
pub(super) struct Pool<T> {
    pub class: Class,
    free: Cell<*mut T>,
    kept: Cell<usize>,
    most: Cell<usize>,
}

// SAFETY: only the GIL's holder accesses it: it is used by functions that CPython calls. There is
// one GIL, since the module refuses to be imported into another interpreter.
unsafe impl<T> Sync for Pool<T> {}

impl<T: Pooled> Pool<T> {
    pub const fn new() -> Pool<T> {
        Pool {
            class: Class::new(),
            free: Cell::new(null_mut()),
            kept: Cell::new(0),
            most: Cell::new(0),
        }
    }

    /// Keeps memory from now on.
    pub fn open(&self) {
        self.most.set(KEPT);
    }

    /// A dead object, made anew with one reference; NULL: there is none.
    ///
    /// Safety: the GIL is held; the type has been made.
    #[inline]
    pub unsafe fn take(&self) -> *mut T {
        let kept = self.free.get();
        if !kept.is_null() {
            // SAFETY: an entry of the pool is complete and belongs to nothing else; its type is
            // the pool's.
            unsafe {
                self.free.set((*kept).next().get());
                self.kept.set(self.kept.get() - 1);
                ffi::PyObject_Init(kept.cast(), self.class.get());
            }
        }
        kept
    }

    /// Takes over an object without references, and returns whether it does.
    ///
    /// Safety: the GIL is held; nothing refers to the object.
    #[inline]
    pub unsafe fn keep(&self, object: *mut T) -> bool {
        let is_kept = self.kept.get() < self.most.get();
        if is_kept {
            // SAFETY: promised by the caller.
            unsafe { (*object).next().set(self.free.replace(object)) };
            self.kept.set(self.kept.get() + 1);
        }
        is_kept
    }

    /// Frees what it has, and keeps none from here on: the interpreter is ending.
    ///
    /// Safety: the GIL is held.
    pub unsafe fn empty(&self) {
        self.most.set(0);
        loop {
            let kept = self.free.get();
            if kept.is_null() {
                break;
            }
            // SAFETY: entries of the pool belong to nothing else.
            unsafe {
                self.free.set((*kept).next().get());
                ffi::PyObject_GC_Del(kept.cast());
            }
        }
        self.kept.set(0);
    }
}
