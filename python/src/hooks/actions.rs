//! The actions around a call, and how a call goes through them.
//!
//! What it promises: as the header of `hooks`, which has the picture. Missing on purpose: how the
//! call comes here (`in_place`, `stand_in`).

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::calling::{Arguments, Called, Original, PyMethod_New};
use crate::aside::{fetched, Aside};
use crate::call::quietly;
use crate::interrupts::unless_it_interrupts;
use crate::kept::word;
use crate::notice::note;
use crate::process::arm_late;
use crate::{names, unfinished};

/// An owned object, or none. Relaxed: it is set before the hook is, and released by a thread with
/// the GIL, which every reader holds until it has a reference of its own (`held`).
pub(super) struct Part(AtomicPtr<ffi::PyObject>);

impl Part {
    pub fn new(raw: *mut ffi::PyObject) -> Part {
        Part(AtomicPtr::new(raw))
    }

    /// Borrowed; NULL for none.
    pub fn get(&self) -> *mut ffi::PyObject {
        self.0.load(Ordering::Relaxed)
    }

    pub fn is_none(&self) -> bool {
        self.get().is_null()
    }

    /// With a reference for the time of a call, during which it may be released.
    ///
    /// Safety: the GIL is held.
    unsafe fn held<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: promised by the caller: nothing releases it between the load and the reference.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.get()) }
    }

    /// Releases it.
    ///
    /// Safety: the GIL is held; with free threading no other thread is in a call.
    pub unsafe fn release(&self) {
        let raw = self.0.swap(null_mut(), Ordering::Relaxed);
        // SAFETY: the reference was this one's.
        unsafe { ffi::Py_XDECREF(raw) };
    }
}

/// The actions around a call.
pub(super) struct Hook {
    pub before: Part,
    pub after: Part,
    pub failed: Part,
    pub around: Part,
    /// A callable that is the original, for `around`.
    pub plain: Part,
    /// Inside of an open request the original is called as if there were no hook.
    pub outermost: bool,
    /// The `around` takes keywords, too; else a call with keywords goes past it.
    pub keywords: bool,
    /// Relaxed: one notice too many does no harm.
    pub complained: AtomicBool,
}

impl Hook {
    pub fn parts(&self) -> [&Part; 5] {
        [&self.before, &self.after, &self.failed, &self.around, &self.plain]
    }

    /// One call.
    ///
    /// Safety: the GIL is held, by a call with these arguments; its caller holds the original.
    pub unsafe fn run(&self, original: &Original, given: Arguments) -> *mut ffi::PyObject {
        arm_late();
        // SAFETY: promised by the caller.
        unsafe {
            if !self.around.is_none() {
                return match self.outermost && names::open(Python::assume_attached()) != 0 {
                    true => original.call(given),
                    false => self.run_around(original, given),
                };
            }
            let begun = unfinished::begun();
            let other = match self.before(original, given, begun) {
                Ok(other) => other,
                Err(()) => return null_mut(),
            };
            let result = match other.is_null() {
                true => original.call(given),
                false => original.call_with(Python::assume_attached(), other),
            };
            ffi::Py_XDECREF(other);
            match result.is_null() {
                true => self.failed(original, given, begun),
                false => self.after(original, given, result, begun),
            }
        }
    }

    /// The arguments for the original, owned; NULL: the given ones. Err: an exception is to be
    /// passed on.
    unsafe fn before(
        &self,
        original: &Original,
        given: Arguments,
        begun: u64,
    ) -> Result<*mut ffi::PyObject, ()> {
        // SAFETY: as `run`. The flag is removed: the free place in front belongs to the original.
        unsafe {
            let Some(before) = self.before.held(Python::assume_attached()) else {
                return Ok(null_mut());
            };
            let Arguments { first, keywords, .. } = given;
            let count = given.positional() as _;
            let answer = ffi::PyObject_Vectorcall(before.as_ptr(), first, count, keywords);
            if answer.is_null() {
                return match self.forgive(original, begun) {
                    true => Ok(null_mut()),
                    false => Err(()),
                };
            }
            let is_call = ffi::PyTuple_CheckExact(answer) != 0
                && ffi::PyTuple_GET_SIZE(answer) == 2
                && ffi::PyTuple_CheckExact(ffi::PyTuple_GET_ITEM(answer, 0)) != 0
                && ffi::PyDict_CheckExact(ffi::PyTuple_GET_ITEM(answer, 1)) != 0;
            if is_call {
                return Ok(answer);
            }
            ffi::Py_DECREF(answer);
            Ok(null_mut())
        }
    }

    /// The caller's result in place of `result`, which is taken over.
    unsafe fn after(
        &self,
        original: &Original,
        given: Arguments,
        result: *mut ffi::PyObject,
        begun: u64,
    ) -> *mut ffi::PyObject {
        // SAFETY: as `run`.
        unsafe {
            let Some(after) = self.after.held(Python::assume_attached()) else { return result };
            let answer = given.behind(result, 0, Called::Object(after.as_ptr()));
            if answer.is_null() {
                if self.forgive(original, begun) {
                    return result;
                }
            } else if answer == ffi::Py_None() {
                ffi::Py_DECREF(answer);
                return result;
            }
            ffi::Py_DECREF(result);
            answer
        }
    }

    /// An exception of the original is set. NULL.
    unsafe fn failed(
        &self,
        original: &Original,
        given: Arguments,
        begun: u64,
    ) -> *mut ffi::PyObject {
        // SAFETY: as `run`; the exception is put back, or released.
        unsafe {
            let Some(failed) = self.failed.held(Python::assume_attached()) else {
                return null_mut();
            };
            let mut aside = Aside::take();
            let name = match aside.class() {
                none if none.is_null() => ffi::PyUnicode_FromStringAndSize(null(), 0),
                // A str made for this call would stay in CPython's cache of types' attributes.
                class => {
                    let name = word!(Python::assume_attached(), "__name__");
                    ffi::PyObject_GetAttr(class, name.as_ptr())
                }
            };
            let answer = match name.is_null() {
                true => null_mut(),
                false => given.behind(name, 0, Called::Object(failed.as_ptr())),
            };
            ffi::Py_XDECREF(name);
            if answer.is_null() && !self.forgive(original, begun) {
                happened_during(&mut aside);
                aside.drop();
                return null_mut();
            }
            ffi::Py_XDECREF(answer);
            aside.put_back();
            null_mut()
        }
    }

    unsafe fn run_around(&self, original: &Original, given: Arguments) -> *mut ffi::PyObject {
        // SAFETY: as `run`.
        unsafe {
            if given.positional() == 0 || !(self.keywords || given.keywords.is_null()) {
                return original.call(given);
            }
            let py = Python::assume_attached();
            let (Some(around), Some(plain)) = (self.around.held(py), self.plain.held(py)) else {
                return original.call(given);
            };
            let bound = PyMethod_New(plain.as_ptr(), *given.first);
            if bound.is_null() {
                ffi::PyErr_Clear();
                return original.call(given);
            }
            let result = given.behind(bound, 1, Called::of(around.as_ptr()));
            ffi::Py_DECREF(bound);
            result
        }
    }

    /// Whether the exception that is set is a fault of ours; then it is cleared. Otherwise it
    /// interrupts the program, and no action will end what this call began (`begun` requests had
    /// begun before): it ends here.
    ///
    /// Safety: the GIL is held.
    #[cold]
    unsafe fn forgive(&self, original: &Original, begun: u64) -> bool {
        // SAFETY: promised by the caller; an exception is set.
        let py = unsafe { Python::assume_attached() };
        let error = fetched(py);
        let Ok(error) = unless_it_interrupts(py, error) else {
            unfinished::end_interrupted(py, begun);
            return false;
        };
        quietly((), || unfinished::end_apart(py, ""));
        if !self.complained.swap(true, Ordering::Relaxed) {
            // SAFETY: held by the caller.
            let function = unsafe { Bound::from_borrowed_ptr(py, original.function) };
            let name = || match function.is_exact_instance_of::<PyString>() {
                true => Ok(function.to_string()),
                false => function.getattr(word!(py, "__qualname__")).map(|name| name.to_string()),
            };
            let name = quietly(None, || name().ok()).unwrap_or_else(|| "a function".to_owned());
            note(py, &format!("{name}: what is recorded of its calls failed once: {error}"));
        }
        true
    }
}

/// The exception that is set was raised while `earlier` was, as if by a handler of it.
///
/// Safety: the GIL is held.
unsafe fn happened_during(earlier: &mut Aside) {
    // SAFETY: promised by the caller; the reference is given away.
    unsafe {
        let error = fetched(Python::assume_attached());
        let earlier = earlier.exception();
        let value = error.value(Python::assume_attached()).as_ptr();
        if !earlier.is_null() && earlier != value {
            ffi::Py_INCREF(earlier);
            ffi::PyException_SetContext(value, earlier);
        }
        error.restore(Python::assume_attached());
    }
}

/// A hook with these actions.
pub(super) fn made(
    before: Option<Bound<'_, PyAny>>,
    after: Option<Bound<'_, PyAny>>,
    failed: Option<Bound<'_, PyAny>>,
    around: Option<Bound<'_, PyAny>>,
) -> Hook {
    let part = |part: Option<Bound<'_, PyAny>>| Part::new(part.map_or(null_mut(), Bound::into_ptr));
    let (before, after, failed, around) = (part(before), part(after), part(failed), part(around));
    let (plain, complained) = (part(None), AtomicBool::new(false));
    Hook { before, after, failed, around, plain, outermost: false, keywords: false, complained }
}
