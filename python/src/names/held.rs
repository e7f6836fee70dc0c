//! Ids by the address of a str, with the GIL.
//!
//! How it works: each address has one place, which the last str to come takes. The table holds a
//! reference to each str in it, so that its address cannot become another's.
//!
//! What it promises: at most `PLACES` strs are kept, each of at most `LONGEST` characters.

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::ids::PLACES;

/// Longer strs are looked up in the dict each time.
const LONGEST: isize = 256;

/// A str and its id.
struct Place {
    /// Owned, or NULL. Exactly a str.
    text: Cell<*mut ffi::PyObject>,
    /// The epoch of the recorder that gave the id.
    epoch: Cell<u32>,
    id: Cell<u32>,
}

pub(super) struct Places([Place; PLACES]);

// SAFETY: only the GIL's holder accesses it: every function here takes a `Python` or requires the
// GIL. There is one GIL, since the module refuses to be imported into another interpreter.
unsafe impl Sync for Places {}

impl Places {
    pub const fn new() -> Places {
        Places(
            [const { Place { text: Cell::new(null_mut()), epoch: Cell::new(0), id: Cell::new(0) } };
                PLACES],
        )
    }

    #[inline]
    fn of(&self, text: *mut ffi::PyObject) -> &Place {
        // Objects lie 16 bytes apart; Fibonacci's multiplier spreads the other bits.
        let mixed = (text as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> (64 - PLACES.trailing_zeros())) as usize]
    }

    /// The id of the str at this address, from the recorder of this epoch. With the GIL.
    #[inline]
    pub fn find(&self, text: *mut ffi::PyObject, epoch: u32) -> Option<u32> {
        let place = self.of(text);
        (place.text.get() == text && place.epoch.get() == epoch).then(|| place.id.get())
    }

    /// Puts a str, which is exactly that, into its place.
    pub fn put(&self, text: &Bound<'_, PyString>, epoch: u32, id: u32) {
        // SAFETY: a str.
        if unsafe { ffi::PyUnicode_GET_LENGTH(text.as_ptr()) } > LONGEST {
            return;
        }
        let place = self.of(text.as_ptr());
        place.epoch.set(epoch);
        place.id.set(id);
        let old = place.text.replace(text.clone().into_ptr());
        // SAFETY: the reference was the table's; the place holds another one already. The dropped
        // object is exactly a str, so no code of the program runs.
        unsafe { ffi::Py_XDECREF(old) };
    }

    /// Releases all strs.
    pub fn forget(&self, _py: Python<'_>) {
        for place in &self.0 {
            place.epoch.set(0);
            // SAFETY: as in `put`; the place is empty before.
            unsafe { ffi::Py_XDECREF(place.text.replace(null_mut())) };
        }
    }
}
