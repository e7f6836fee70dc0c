//! What represents an awaitable that is no coroutine, and the iterator that an `await` of it steps.
//!
//! How it works: both forward what they are asked for; the steps of an `await` are those of a
//! `Passing`. The types are made as they are met (`kinds`).
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
//! `type(x)` and `x is held_before` show the difference. Missing on purpose: coroutines
//! (`coroutine`).

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::prelude::*;

use super::coroutine::itself;
use super::kinds::{class_for, Part};
use super::methods::{self, Given, Method, Stepped};
use super::passing::Passing;
use super::steps::{as_method, asked, ended, is_generator_to_await, sent};
use crate::call::Fast;
use crate::disguise::Disguise;
use crate::kept::word;
use crate::life::{self, Head, Life};

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

/// Such an object, and the `Passing` that observes its steps.
trait Observed: Part {
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
    const ITERATED: ffi::getiterfunc = iterated::<Passing>;
    const NEXT: ffi::iternextfunc = next::<Passing>;

    fn methods() -> [(Method, Fast); 3] {
        methods::of::<Of<Passing>>()
    }
}

impl Observed for Passing {
    unsafe fn passing<'a>(object: *mut ffi::PyObject) -> &'a Passing {
        // SAFETY: promised by the caller.
        unsafe { &*object.cast::<Passing>() }
    }

    unsafe fn is_awaited(object: *mut ffi::PyObject) -> bool {
        // SAFETY: promised by the caller.
        unsafe { Self::passing(object) }.steps_itself.load(Ordering::Relaxed)
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
    const ITERATED: ffi::getiterfunc = iterated::<Steps>;
    const NEXT: ffi::iternextfunc = next::<Steps>;

    fn methods() -> [(Method, Fast); 3] {
        methods::of::<Of<Steps>>()
    }
}

impl Observed for Steps {
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
            passing.steps_itself.store(true, Ordering::Relaxed);
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
unsafe extern "C" fn iterated<P: Observed>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and such an object, whose original has this slot.
    unsafe {
        let original = P::original(object);
        let class = ffi::Py_TYPE(original);
        // The class may have lost what it had when it was met.
        let iterator = ffi::PyObject_GetIter(original);
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

unsafe extern "C" fn next<P: Observed>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
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

impl<P: Observed> Stepped for Of<P> {
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

/// The type of a `Passing` around such an awaitable; NULL if it cannot be represented.
///
/// Safety: the GIL is held, the type is alive.
pub(super) unsafe fn class_around(class: *mut ffi::PyTypeObject) -> *mut ffi::PyTypeObject {
    // SAFETY: promised by the caller.
    unsafe { class_for::<Passing>(class) }
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
