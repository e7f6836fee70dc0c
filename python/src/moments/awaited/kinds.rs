//! Types of ours for awaitables that are no coroutines, and for their iterators.
//!
//! How it works: each type of the program's gets types of ours, made once, which have its name and
//! those of its slots and steps that it has; everything else the represented object answers.
//!
//! What it promises: a type remains for ever, as do its texts, and there are at most `MOST_KINDS`.
//!
//! Missing on purpose: what the objects do (`represented`). Objects that have more than attributes,
//! comparisons and iteration (numbers, containers, callables, context managers), and types beyond
//! `MOST_KINDS`: they are handed over as they are, and what depends on their end has ended.

use std::ffi::{CStr, CString};
use std::os::raw::c_void;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyType, PyWeakrefMethods, PyWeakrefReference};
use sys::cell::StaticRef;

use super::methods::Method;
use crate::call::{leaked, method, method_alone, quietly, Fast};
use crate::disguise::{answers, dir, Disguise};
use crate::kept::word;
use crate::life::{self, Life};
use crate::types::{class_below, rename, slot, Class};

/// The types of a process that are represented; each costs some 2 KB.
const MOST_KINDS: usize = 64;

/// The type that all of them derive from, by whose name the sampler finds them.
static BASE: Class = Class::new();

/// An object of ours that is awaited or stepped: what CPython calls for it where the represented
/// object has that.
pub(super) trait Part: Disguise + Life {
    /// What an `await` asks it for.
    const AWAITED: Option<ffi::unaryfunc>;
    const ITERATED: ffi::getiterfunc;
    const NEXT: ffi::iternextfunc;

    fn methods() -> [(Method, Fast); 3];
}

/// A type of the program's, and the types of ours for it.
struct Kind {
    /// Its address, which is that of another type if this one is gone.
    of: usize,
    alive: Py<PyWeakrefReference>,
    /// Of a `Passing`, and of a `Steps`; NULL: not made.
    awaited: Class,
    stepped: Class,
}

/// In the order in which they were met.
static KINDS: [StaticRef<Kind>; MOST_KINDS] = [const { StaticRef::empty() }; MOST_KINDS];

/// The type of such an object for those of `class`; NULL if they cannot be represented.
///
/// Safety: the GIL is held, the type is alive.
pub(super) unsafe fn class_for<P: Part>(class: *mut ffi::PyTypeObject) -> *mut ffi::PyTypeObject {
    // SAFETY: promised by the caller.
    let theirs = unsafe {
        Bound::from_borrowed_ptr(Python::assume_attached(), class.cast()).cast_into::<PyType>()
    };
    let found = || {
        let theirs = theirs.ok()?;
        let kind = kind_of(&theirs)?;
        let place = if P::AWAITED.is_some() { &kind.awaited } else { &kind.stepped };
        if place.get().is_null() && has_attributes_alone(&theirs) {
            place.set(make::<P>(&theirs).ok()?);
        }
        Some(place.get())
    };
    quietly(None, found).unwrap_or(null_mut())
}

fn kind_of(theirs: &Bound<'_, PyType>) -> Option<&'static Kind> {
    let address = theirs.as_ptr() as usize;
    let is_it = |kind: &&'static Kind| {
        kind.of == address && kind.alive.bind(theirs.py()).upgrade().is_some()
    };
    for place in &KINDS {
        if place.get().is_none() {
            let alive = PyWeakrefReference::new(theirs).ok()?.unbind();
            let (awaited, stepped) = (Class::new(), Class::new());
            // Another thread may have been here first.
            let _ = place.put(Kind { of: address, alive, awaited, stepped });
        }
        if let Some(kind) = place.get().filter(is_it) {
            return Some(kind);
        }
    }
    None
}

/// Whether all that its objects have are attributes, comparisons, iteration and steps.
fn has_attributes_alone(theirs: &Bound<'_, PyType>) -> bool {
    // SAFETY: a live type; its tables, where it has them, are structures of pointers.
    unsafe {
        let class = &*theirs.as_type_ptr();
        let is_empty = |table: *const c_void, size: usize| {
            let words = size / size_of::<usize>();
            table.is_null() || (0..words).all(|word| *table.cast::<usize>().add(word) == 0)
        };
        let methods = class.tp_as_async;
        let is_iterated =
            !methods.is_null() && ((*methods).am_aiter.is_some() || (*methods).am_anext.is_some());
        let is_entered = [c"__enter__", c"__aenter__"].iter().any(|name| has(theirs, name));
        is_empty(class.tp_as_number.cast(), size_of::<ffi::PyNumberMethods>())
            && is_empty(class.tp_as_sequence.cast(), size_of::<ffi::PySequenceMethods>())
            && is_empty(class.tp_as_mapping.cast(), size_of::<ffi::PyMappingMethods>())
            && is_empty(class.tp_as_buffer.cast(), size_of::<ffi::PyBufferProcs>())
            && class.tp_call.is_none()
            && class.tp_descr_get.is_none()
            && !is_iterated
            && !is_entered
    }
}

/// Whether a type or one it derives from has this attribute for its objects.
fn has(theirs: &Bound<'_, PyType>, name: &CStr) -> bool {
    let name = name.to_string_lossy();
    let has_it = |one: Bound<'_, PyAny>| one.getattr("__dict__")?.contains(name.as_ref());
    theirs.mro().iter().any(|one| has_it(one).unwrap_or(false))
}

/// Makes a type as `theirs`. Its texts are kept for ever, as it is.
fn make<P: Part>(theirs: &Bound<'_, PyType>) -> PyResult<*mut ffi::PyTypeObject> {
    let py = theirs.py();
    let (module, name): (String, String) =
        (theirs.getattr("__module__")?.extract()?, theirs.name()?.extract()?);
    let kept = |text: String| Ok::<_, PyErr>(&*Box::leak(CString::new(text)?.into_boxed_c_str()));
    let mut methods = vec![method_alone(c"__dir__", dir::<P>, c"As of the represented object.")];
    for (step, function) in P::methods() {
        if has(theirs, step.name()) {
            methods.push(method(step.name(), function, c"The represented object's."));
        }
    }
    let mut slots = answers::<P>();
    slots.push(slot(ffi::Py_tp_methods, leaked(methods).cast()));
    // SAFETY: a live type.
    let class = unsafe { &*theirs.as_type_ptr() };
    let not_hashed: ffi::hashfunc = ffi::PyObject_HashNotImplemented;
    if class.tp_hash.is_some_and(|hash| hash as usize == not_hashed as usize) {
        slots.retain(|slot| slot.slot != ffi::Py_tp_hash);
        slots.push(slot(ffi::Py_tp_hash, not_hashed as *const c_void));
    }
    if class.tp_iter.is_some() {
        slots.push(slot(ffi::Py_tp_iter, P::ITERATED as *const c_void));
    }
    // A class made in Python has this slot in any case.
    if class.tp_iternext.is_some() && has(theirs, c"__next__") {
        slots.push(slot(ffi::Py_tp_iternext, P::NEXT as *const c_void));
    }
    if let Some(awaited) = P::AWAITED {
        slots.push(slot(ffi::Py_am_await, awaited as *const c_void));
    }
    slots.extend(life::slots::<P>());
    if class.tp_weaklistoffset == 0 {
        // Of such an object none can be made: the field remains NULL.
        slots.retain(|slot| slot.slot != ffi::Py_tp_members);
    }
    let (named, flags) = (kept(format!("{module}.{name}"))?, life::flags::<P>());
    let made = class_below(py, BASE.get(), named, size_of::<P>(), flags, slots)?;
    // Of a generator the interpreter has `await` without a method.
    let without: &[&CStr] = if has(theirs, c"__await__") { &[] } else { &[c"__await__"] };
    // Without its module, as of types made in Python: by a full name the sampler knows the
    // interpreter's own, which have another layout.
    rename(made, kept(name)?, without);
    // SAFETY: made just now, and never freed.
    let ours = unsafe { Bound::from_borrowed_ptr(py, made.cast()) };
    ours.setattr(word!(py, "__qualname__"), theirs.qualname()?)?;
    Ok(made)
}

/// `base`: the type that all of them derive from.
pub(super) fn derive_from(base: *mut ffi::PyTypeObject) {
    BASE.set(base);
}
