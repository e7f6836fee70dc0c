//! Ids by the address of a str, without the GIL.
//!
//! How it works: on a free-threaded build the strs in a program's text are immortal, so their
//! addresses never become another's, and nothing has to be held. They are entered into a table that
//! is read without a lock (`sys::addresses`). A str made while the program runs is not entered.
//!
//! What it promises: safe from any thread. Names past the table's room are looked up in the dict
//! each time.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sys::addresses::Addresses;

use super::ids::{packed, unpacked, PLACES};

extern "C" {
    fn PyUnstable_IsImmortal(object: *mut ffi::PyObject) -> std::os::raw::c_int;
}

pub(super) struct Places(Addresses<PLACES>);

impl Places {
    pub const fn new() -> Places {
        Places(Addresses::new())
    }

    #[inline]
    pub fn find(&self, text: *mut ffi::PyObject, epoch: u32) -> Option<u32> {
        unpacked(self.0.find(text as usize), epoch)
    }

    pub fn put(&self, text: &Bound<'_, PyString>, epoch: u32, id: u32) {
        // SAFETY: a live object.
        if unsafe { PyUnstable_IsImmortal(text.as_ptr()) } != 0 {
            self.0.put(text.as_ptr() as usize, packed(epoch, id));
        }
    }

    /// Nothing is held; ids of another recorder are none.
    pub fn forget(&self, _py: Python<'_>) {}
}
