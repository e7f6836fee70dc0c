//! Ids of `METHOD route` by the address of the route's str, with the GIL.
//!
//! How it works: a route is one str object for as long as its application lives. An address and a
//! method have one place, which the last of them to come takes. The table holds a reference to each
//! str in it, so that its address cannot become another's.
//!
//! What it promises: at most `PLACES` strs are kept, each of at most `LONGEST` characters.
//!
//! Missing on purpose: methods of more than seven bytes, and routes that are made for each request
//! (an application that is mounted): these are looked up by their characters
//! (`moments::path_names`).

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Places of the table; a power of two. Routes beyond them take each other's places.
const PLACES: usize = 256;
/// Longer routes are looked up by their characters.
const LONGEST: isize = 256;

/// A route, and the id of its name.
struct Place {
    /// Owned, or NULL. Exactly a str.
    route: Cell<*mut ffi::PyObject>,
    method: Cell<u64>,
    /// The epoch of the recorder that gave the id.
    epoch: Cell<u32>,
    id: Cell<u32>,
}

struct Places([Place; PLACES]);

// SAFETY: only the GIL's holder accesses it: every function here takes an object that is attached,
// or a `Python`. There is one GIL, since the module refuses to be imported into another
// interpreter.
unsafe impl Sync for Places {}

static ROUTES: Places = Places(
    [const {
        Place {
            route: Cell::new(null_mut()),
            method: Cell::new(0),
            epoch: Cell::new(0),
            id: Cell::new(0),
        }
    }; PLACES],
);

/// A method in one word, its length in the last byte. None: it is too long.
#[inline]
fn word(method: &str) -> Option<u64> {
    let bytes = method.as_bytes();
    let room = size_of::<u64>() - 1;
    (bytes.len() <= room)
        .then(|| bytes.iter().fold(bytes.len() as u64, |word, byte| (word << 8) | u64::from(*byte)))
}

/// The id of `method route` from the recorder of this epoch, whose name `make` makes. 0: none.
#[inline]
pub fn id(
    method: &str,
    route: &Bound<'_, PyString>,
    epoch: u32,
    make: impl FnOnce() -> u32,
) -> u32 {
    let Some(method) = word(method) else { return make() };
    // Objects lie 16 bytes apart; Fibonacci's multiplier spreads the other bits.
    let mixed = ((route.as_ptr() as u64 >> 4) ^ method).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let place = &ROUTES.0[(mixed >> (64 - PLACES.trailing_zeros())) as usize];
    let is_it = place.route.get() == route.as_ptr()
        && place.method.get() == method
        && place.epoch.get() == epoch;
    if is_it {
        return place.id.get();
    }
    let id = make();
    // SAFETY: a str.
    let is_short = unsafe { ffi::PyUnicode_GET_LENGTH(route.as_ptr()) } <= LONGEST;
    if id != 0 && is_short && route.is_exact_instance_of::<PyString>() {
        place.method.set(method);
        place.epoch.set(epoch);
        place.id.set(id);
        let old = place.route.replace(route.clone().into_ptr());
        // SAFETY: the reference was the table's; the place holds another one already. The dropped
        // object is exactly a str, so no code of the program runs.
        unsafe { ffi::Py_XDECREF(old) };
    }
    id
}

/// Releases all strs.
pub fn forget(_py: Python<'_>) {
    for place in &ROUTES.0 {
        place.epoch.set(0);
        // SAFETY: as in `id`; the place is empty before.
        unsafe { ffi::Py_XDECREF(place.route.replace(null_mut())) };
    }
}
