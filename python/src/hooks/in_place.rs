//! A hook in the function itself, without another object in its place.
//!
//! How it works: a Python function has a word with the address of the code that calls it,
//! `vectorcall`. Ours is written there; it finds the hook by the function's address and calls the
//! function by the original word. From 3.12 on the interpreter offers this
//! (`PyFunction_SetVectorcall`) and calls such functions through it from everywhere; 3.9 and 3.10
//! always do. 3.11 enters a function that is called from Python code without reading the word, so
//! there nothing is hooked in place.
//!
//! What it promises: the function remains the same object: identity, attributes, type, also for
//! code that imported it before. A hooked function is not freed before the program has ended, so an
//! address belongs to one function. Threads that hook one function at once hook it once.
//!
//! When the program has ended, all hooks are removed and the functions released (`remove_all`): a
//! function has its module's globals, and what those lead to would never be finalized.
//!
//! Missing on purpose: removing one hook. `__init__`, see `hook`.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use super::actions::{Hook, Part};
use super::calling::{Arguments, Original};
use super::stand_in;

/// Capacity: twice the number of hooks, and as many again for reloaded modules.
const PLACES: usize = 256;

struct Entry {
    original: Original,
    hook: Hook,
}

/// By address, each at the first free place from its own on. A place is taken once, with an entry
/// that is whole (Release); read by any thread, or in a child that was forked at any moment
/// (Acquire).
static TABLE: [AtomicPtr<Entry>; PLACES] = [const { AtomicPtr::new(null_mut()) }; PLACES];

#[cfg(Py_3_12)]
extern "C" {
    fn PyFunction_SetVectorcall(function: *mut ffi::PyObject, how: ffi::vectorcallfunc);
}

/// The places that a function may be in, its own first.
fn places(function: *mut ffi::PyObject) -> impl Iterator<Item = &'static AtomicPtr<Entry>> {
    // Objects lie 16 bytes apart; Fibonacci's multiplier spreads the other bits.
    let mixed = (function as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let own = (mixed >> (64 - PLACES.trailing_zeros())) as usize;
    (0..PLACES).map(move |step| &TABLE[(own + step) % PLACES])
}

fn find(function: *mut ffi::PyObject) -> Option<&'static Entry> {
    for place in places(function) {
        // SAFETY: entries of the table are leaked.
        let entry = unsafe { place.load(Ordering::Acquire).as_ref() }?;
        if entry.original.function == function {
            return Some(entry);
        }
    }
    None
}

enum Entered {
    Here,
    /// The function had an entry.
    Before,
    /// The table is full.
    Nowhere,
}

/// Puts an entry into the table, unless its function has one.
fn enter(entry: *mut Entry) -> Entered {
    // SAFETY: made by the caller, and published below at most.
    let function = unsafe { (*entry).original.function };
    for place in places(function) {
        let (release, acquire) = (Ordering::Release, Ordering::Acquire);
        match place.compare_exchange(null_mut(), entry, release, acquire) {
            Ok(_) => return Entered::Here,
            // SAFETY: entries of the table are leaked.
            Err(other) if unsafe { (*other).original.function } == function => {
                return Entered::Before;
            }
            Err(_) => {}
        }
    }
    Entered::Nowhere
}

/// Hooks a function, unless it has a hook. Err: it cannot be hooked in place.
pub(super) fn put(function: &Bound<'_, PyAny>, mut hook: Hook) -> Result<(), Hook> {
    let raw = function.as_ptr();
    // SAFETY: the GIL is held; the type says that it is a `PyFunctionObject`.
    let past = unsafe {
        if REMOVED.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !cfg!(any(not(Py_3_11), Py_3_12)) || ffi::PyFunction_Check(raw) == 0 {
            return Err(hook);
        }
        (*raw.cast::<ffi::PyFunctionObject>()).vectorcall
    };
    if find(raw).is_some() {
        return Ok(());
    }
    if !hook.around.is_none() {
        match stand_in::plain(function.py(), Original { function: raw, past }) {
            Ok(plain) => hook.plain = Part::new(plain.into_ptr()),
            Err(_) => return Err(hook),
        }
    }
    // Held until `remove_all`; the entry is never freed.
    let function = function.clone().into_ptr();
    let entry = Box::into_raw(Box::new(Entry { original: Original { function, past }, hook }));
    match enter(entry) {
        Entered::Here => {}
        // By another thread, since `find`: the reference is one too many, for a function that is
        // never freed.
        Entered::Before => return Ok(()),
        // SAFETY: not in the table, so it is still ours alone.
        Entered::Nowhere => return Err(unsafe { Box::from_raw(entry) }.hook),
    }
    // SAFETY: a live function that the entry holds; the entry is in the table.
    unsafe { set(raw, call) };
    Ok(())
}

/// Sets how a function is called.
///
/// Safety: the GIL is held; a live function.
unsafe fn set(function: *mut ffi::PyObject, how: ffi::vectorcallfunc) {
    // SAFETY: promised by the caller.
    unsafe {
        #[cfg(Py_3_12)]
        PyFunction_SetVectorcall(function, how);
        #[cfg(not(Py_3_12))]
        {
            (*function.cast::<ffi::PyFunctionObject>()).vectorcall = Some(how);
        }
    }
}

/// No function has a hook any more, nor gets one. Relaxed: a function that is hooked at the same
/// moment keeps its hook.
static REMOVED: AtomicBool = AtomicBool::new(false);

/// Removes all hooks, and releases what they hold. A call that is running ends without its other
/// actions. Not without the GIL: a thread may be about to use what is released.
///
/// Safety: the GIL is held.
pub(super) unsafe fn remove_all() {
    if cfg!(Py_GIL_DISABLED) || REMOVED.swap(true, Ordering::Relaxed) {
        return;
    }
    for place in &TABLE {
        // SAFETY: entries of the table are leaked, and hold their functions: this is the only
        // release. A thread that runs such a function holds it. `past` is set for each (`put`).
        unsafe {
            let Some(entry) = place.load(Ordering::Acquire).as_ref() else { continue };
            let function = entry.original.function;
            let how = (*function.cast::<ffi::PyFunctionObject>()).vectorcall;
            let is_ours = |how| std::ptr::fn_addr_eq(how, call as ffi::vectorcallfunc);
            if let (true, Some(past)) = (how.is_some_and(is_ours), entry.original.past) {
                set(function, past);
            }
            entry.hook.parts().into_iter().for_each(|part| part.release());
            ffi::Py_DECREF(function);
        }
    }
}

unsafe extern "C" fn call(
    function: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    flagged: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL; the caller holds the arguments and the function.
    unsafe {
        match find(function) {
            Some(entry) => entry.hook.run(&entry.original, Arguments { first, flagged, keywords }),
            None => {
                let text = c"dashcam: a hooked function is not in its table; please report it";
                ffi::PyErr_SetString(ffi::PyExc_SystemError, text.as_ptr());
                null_mut()
            }
        }
    }
}
