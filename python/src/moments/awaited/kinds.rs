//! What represents an awaitable that is no coroutine, and the iterator that an `await` of it steps.
//!
//! How it works: each type of the program's gets types of ours, made once, which have its name and
//! those of its slots and steps that it has; everything else the represented object answers.
//!
//! ```text
//!  await x   ->  Passing  | the awaitable | ...       x: a future, an object with `__await__`
//!                   | __await__()
//!                Steps    | its iterator  | Passing
//! ```
//!
//! An awaitable that is its own iterator (a generator of `types.coroutine`) is stepped by its
//! `Passing` itself.
//!
//! What it promises: `__await__` is called when, and as often as, the program does so. `hasattr`,
//! `isinstance`, `==`, `hash`, `repr` and the type's name are the represented object's; only
//! `type(x)` and `x is held_before` show the difference.
//!
//! Missing on purpose: objects that have more than attributes, comparisons and iteration (numbers,
//! containers, callables, context managers), and types beyond `MOST_KINDS`: they are handed over as
//! they are, and what depends on their end has ended.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::raw::c_void;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyType, PyWeakrefMethods, PyWeakrefReference};
use sys::cell::StaticRef;

use super::coroutine::itself;
use super::methods::{self, Given, Method, Stepped};
use super::passing::Passing;
use super::steps::{as_method, asked, ended, is_generator_to_await, sent};
use crate::call::{leaked, method, quietly};
use crate::disguise::{answers, dir, Disguise};
use crate::kept::word;
use crate::life::{self, Head, Life};
use crate::types::{class_below, rename, slot, Class};

/// The types of a process that are represented; each costs some 2 KB.
const MOST_KINDS: usize = 64;

/// The type that all of them derive from, by whose name the sampler finds them.
static BASE: Class = Class::new();

/// Attributes by which an object is awaited and stepped.
const STEPPED: [&CStr; 6] = [c"send", c"throw", c"close", c"__await__", c"__iter__", c"__next__"];

/// An iterator that an `await` steps, represented. The sampler reads its first word behind the
/// head.
#[repr(C)]
struct Steps {
    _head: Head,
    /// Owned; never changed, as `passing`.
    iterator: *mut ffi::PyObject,
    /// A `Passing`, owned.
    passing: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
}

/// An object of ours that is awaited or stepped.
trait Part: Disguise + Life {
    /// What an `await` asks it for.
    const AWAITED: Option<ffi::unaryfunc>;

    /// Safety: the GIL is held; the object is of such a type, and held while this is used.
    unsafe fn passing<'a>(object: *mut ffi::PyObject) -> &'a Passing;

    /// Whether its steps are those of an `await`.
    ///
    /// Safety: as `passing`.
    unsafe fn is_awaited(object: *mut ffi::PyObject) -> bool;
}

impl Disguise for Passing {
    const OWN: &'static [&'static CStr] = &STEPPED;

    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { (*object.cast::<Passing>()).inner }
    }
}

impl Part for Passing {
    const AWAITED: Option<ffi::unaryfunc> = Some(awaited);

    unsafe fn passing<'a>(object: *mut ffi::PyObject) -> &'a Passing {
        // SAFETY: promised by the caller.
        unsafe { &*object.cast::<Passing>() }
    }

    unsafe fn is_awaited(object: *mut ffi::PyObject) -> bool {
        // SAFETY: promised by the caller.
        unsafe { Self::passing(object) }.steps_itself.get()
    }
}

// SAFETY: the layout above; both references are set once.
unsafe impl Life for Steps {
    const WEAK: Option<usize> = Some(offset_of!(Steps, weak));
    type Held = [*mut ffi::PyObject; 2];

    fn held(&self) -> Self::Held {
        [self.iterator, self.passing]
    }
}

impl Disguise for Steps {
    const OWN: &'static [&'static CStr] = &STEPPED;

    unsafe fn original(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe { (*object.cast::<Steps>()).iterator }
    }
}

impl Part for Steps {
    const AWAITED: Option<ffi::unaryfunc> = None;

    unsafe fn passing<'a>(object: *mut ffi::PyObject) -> &'a Passing {
        // SAFETY: promised by the caller; the object holds it.
        unsafe { &*(*object.cast::<Steps>()).passing.cast::<Passing>() }
    }

    unsafe fn is_awaited(_object: *mut ffi::PyObject) -> bool {
        true
    }
}

/// What an `await` of it steps. NULL: an exception is set.
unsafe extern "C" fn awaited(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe {
        let passing = &*object.cast::<Passing>();
        let Some(asked) = asked(passing.inner) else { return itself(object) };
        let iterator = asked(passing.inner);
        if iterator.is_null() {
            passing.fail_as_set();
            return null_mut();
        }
        // CPython refuses it, in its own words.
        if ffi::PyIter_Check(iterator) == 0 || is_generator_to_await(iterator) {
            passing.fail("TypeError");
            return iterator;
        }
        if iterator == passing.inner {
            ffi::Py_DECREF(iterator);
            passing.steps_itself.set(true);
            return itself(object);
        }
        steps(iterator, object)
    }
}

/// The steps of a `Passing` by an iterator, which is taken over; the iterator itself if it cannot
/// be represented.
///
/// Safety: the GIL is held, both objects are alive.
unsafe fn steps(iterator: *mut ffi::PyObject, passing: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller; the type is one of a `Steps`.
    unsafe {
        let class = class_for::<Steps>(ffi::Py_TYPE(iterator));
        let fields = |_head| {
            ffi::Py_INCREF(passing);
            Steps { _head, iterator, passing, weak: null_mut() }
        };
        let made = match class.is_null() {
            true => null_mut(),
            false => life::make(class, fields),
        };
        if made.is_null() {
            ffi::PyErr_Clear();
            (*passing.cast::<Passing>()).give_up();
            return iterator;
        }
        made.cast()
    }
}

/// `iter(object)`, and what `yield from` steps.
unsafe extern "C" fn iterated<P: Part>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and such an object, whose original has this slot.
    unsafe {
        let original = P::original(object);
        let class = ffi::Py_TYPE(original);
        let Some(iterate) = (*class).tp_iter else { return null_mut() };
        let iterator = iterate(original);
        if iterator == original {
            ffi::Py_DECREF(iterator);
            return itself(object);
        }
        match !iterator.is_null() && P::AWAITED.is_some() && iterates_as_awaited(class) {
            true => steps(iterator, object),
            false => iterator,
        }
    }
}

/// Whether `iter()` of such objects begins what `await` does, as a future's.
unsafe fn iterates_as_awaited(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: the caller holds the GIL and the type.
    unsafe {
        let methods = (*class).tp_as_async;
        let slot = if methods.is_null() { None } else { (*methods).am_await };
        let addresses = (slot.map(|one| one as usize), (*class).tp_iter.map(|one| one as usize));
        let class = Bound::from_borrowed_ptr(Python::assume_attached(), class.cast());
        let of = |name: &str| class.getattr(name).ok();
        let (iterates, awaits) = (of("__iter__"), of("__await__"));
        addresses.0 == addresses.1
            || iterates.zip(awaits).is_some_and(|(iterates, awaits)| iterates.is(&awaits))
    }
}

unsafe extern "C" fn next<P: Part>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and such an object, whose original has this slot.
    unsafe {
        let original = P::original(object);
        match (P::is_awaited(object), (*ffi::Py_TYPE(original)).tp_iternext) {
            (false, Some(next)) => next(original),
            _ => P::passing(object).step(original, |inner| sent(inner, ffi::Py_None())),
        }
    }
}

/// The methods of such objects: those of the original.
struct Of<P>(PhantomData<P>);

impl<P: Part> Stepped for Of<P> {
    unsafe fn stepped(
        object: *mut ffi::PyObject,
        method: Method,
        given: Given,
    ) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe {
            let original = P::original(object);
            if !P::is_awaited(object) || !method.fits(&given) {
                return method.call(original, given);
            }
            let (passing, call) = (P::passing(object), |inner| method.call(inner, given));
            match method {
                Method::Close => passing.closed(call(original)),
                _ => as_method(passing.step(original, |inner| ended(call(inner)))),
            }
        }
    }
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

/// The type of a `Passing` around such an awaitable; NULL if it cannot be represented.
///
/// Safety: the GIL is held, the type is alive.
pub(super) unsafe fn class_around(class: *mut ffi::PyTypeObject) -> *mut ffi::PyTypeObject {
    // SAFETY: promised by the caller.
    unsafe { class_for::<Passing>(class) }
}

/// Safety: as `class_around`.
unsafe fn class_for<P: Part>(class: *mut ffi::PyTypeObject) -> *mut ffi::PyTypeObject {
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
    let mut methods = vec![method(c"__dir__", dir::<P>, c"As of the represented object.")];
    for (step, function) in methods::of::<Of<P>>() {
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
        slots.push(slot(ffi::Py_tp_iter, iterated::<P> as *const c_void));
    }
    // A class made in Python has this slot in any case.
    if class.tp_iternext.is_some() && has(theirs, c"__next__") {
        slots.push(slot(ffi::Py_tp_iternext, next::<P> as *const c_void));
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

/// Whether the steps of such an awaitable are those of an `await` from the begin: tasks step what
/// has the methods of a coroutine without asking it for an iterator.
///
/// Safety: the GIL is held; `made` is alive, and `class` a type made for it.
pub(super) unsafe fn steps_itself(made: *mut ffi::PyObject, class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: promised by the caller; what is found is borrowed.
    unsafe {
        let py = Python::assume_attached();
        let names = [word!(py, "send"), word!(py, "throw"), word!(py, "close")];
        let has_it = |name: &Bound<'_, PyAny>| {
            !ffi::PyDict_GetItemWithError((*class).tp_dict, name.as_ptr()).is_null()
        };
        asked(made).is_none() || names.into_iter().all(|name| has_it(name))
    }
}

/// `base`: the type that all of them derive from.
pub(super) fn derive_from(base: *mut ffi::PyTypeObject) {
    BASE.set(base);
}
