//! Something awaited whose end is looked at.
//!
//! How it works: a `Passing` is what an `await` steps in place of a coroutine (or of another thing that
//! can be awaited), and steps that.
//!
//! ```text
//!  Passing   Python's head | what is awaited | sender | role
//! ```
//!
//! What it promises: what is raised, returned, yielded, sent, thrown in (a task that is cancelled) and
//! closed passes unchanged, and tracebacks have no frame of ours. The collections' `Coroutine` counts it
//! as one, so that tasks take it. What is awaited is the first word behind the head, where the sampler
//! looks for it (`samplers::python_stacks::objects`). A request that nobody awaits, or whose task is
//! thrown away, ends with it.
//!
//! Missing on purpose: garbage collection looks through it, but does not take it apart: a cycle through
//! it always leads through a task or a frame, too.

use std::cell::{Cell, UnsafeCell};
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use super::asgi::Sender;
use super::attributes;
use super::bound::wrong_call;
use super::object::{class_of, slot, Pool};
use crate::call::{leaked, method, none};

/// The code flag of generators that may be awaited (`types.coroutine`).
const ITERABLE_COROUTINE: i64 = 0x100;

/// The type of `Passing`.
static PASSING: Pool = Pool::new();

/// What the end of something awaited says.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// The application is done.
    Application,
    /// The server has taken the last piece of the response.
    Last,
    /// The server has taken the status; whether it is a failure.
    Status(bool),
}

/// Something awaited.
#[repr(C)]
struct Passing {
    base: UnsafeCell<ffi::PyObject>,
    /// A coroutine or an iterator. Owned; NULL once it has ended.
    inner: Cell<*mut ffi::PyObject>,
    /// Owned.
    sender: *mut Sender,
    role: Role,
}

/// How a step ended.
enum Step {
    /// It yielded; owned.
    Yielded(*mut ffi::PyObject),
    /// It returned; owned, NULL if its StopIteration is set.
    Returned(*mut ffi::PyObject),
    /// An exception is set.
    Raised,
}

/// An exception that is set, out of the way of what runs meanwhile.
pub(super) struct Aside(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject);

#[allow(deprecated)] // Since 3.12; what came instead is not there before.
impl Aside {
    /// Safety: the GIL is held.
    pub unsafe fn take() -> Aside {
        let mut aside = Aside(null_mut(), null_mut(), null_mut());
        // SAFETY: the GIL is held; the places are written.
        unsafe { ffi::PyErr_Fetch(&mut aside.0, &mut aside.1, &mut aside.2) };
        aside
    }

    /// The name of its type, "" if there is none.
    ///
    /// Safety: the GIL is held while it is used.
    pub unsafe fn kind(&self) -> &str {
        match self.0.is_null() {
            true => "",
            // SAFETY: a live type, held by this.
            false => unsafe { attributes::error_name(self.0) },
        }
    }

    /// Safety: the GIL is held.
    pub unsafe fn put_back(self) {
        // SAFETY: what `PyErr_Fetch` gave, with its references.
        unsafe { ffi::PyErr_Restore(self.0, self.1, self.2) };
    }
}

/// `made` in a `Passing`; as it is if it cannot be awaited, which who awaits it will say. NULL: an
/// exception is set. Takes over both references.
pub(super) unsafe fn pass(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and both objects.
    unsafe {
        let inner = match awaitable(made) {
            Ok(inner) => inner,
            Err(error) => {
                match role {
                    Role::Application if error.is_null() => (*sender).fail_as_set(),
                    Role::Application => (*sender).fail(Python::assume_attached(), "TypeError"),
                    _ => (),
                }
                ffi::Py_DECREF(sender.cast());
                return error;
            }
        };
        let passing: *mut Passing = ffi::PyObject_GC_New(PASSING.class.get());
        if passing.is_null() {
            ffi::Py_DECREF(inner);
            ffi::Py_DECREF(sender.cast());
            return null_mut();
        }
        (&raw mut (*passing).inner).write(Cell::new(inner));
        (&raw mut (*passing).sender).write(sender);
        (&raw mut (*passing).role).write(role);
        ffi::PyObject_GC_Track(passing.cast());
        passing.cast()
    }
}

/// What an `await` of `made` would step. Err: `made` itself if it cannot be awaited, NULL if asking it
/// raised. Takes over the reference.
unsafe fn awaitable(made: *mut ffi::PyObject) -> Result<*mut ffi::PyObject, *mut ffi::PyObject> {
    // SAFETY: the caller holds the GIL and the object; slots are called as CPython does.
    unsafe {
        let class = ffi::Py_TYPE(made);
        if class == &raw mut ffi::PyCoro_Type {
            return Ok(made);
        }
        let methods = (*class).tp_as_async;
        let asked = if methods.is_null() { None } else { (*methods).am_await };
        let Some(asked) = asked else {
            let py = Python::assume_attached();
            let object = Bound::from_borrowed_ptr(py, made);
            let flags = object
                .getattr(intern!(py, "gi_code"))
                .and_then(|code| code.getattr(intern!(py, "co_flags")))
                .and_then(|flags| flags.extract::<i64>());
            let can = flags.is_ok_and(|flags| flags & ITERABLE_COROUTINE != 0);
            return if can { Ok(made) } else { Err(made) };
        };
        let inner = asked(made);
        if inner.is_null() {
            ffi::Py_DECREF(made);
            return Err(null_mut());
        }
        if ffi::PyIter_Check(inner) == 0 {
            ffi::Py_DECREF(inner);
            return Err(made);
        }
        ffi::Py_DECREF(made);
        Ok(inner)
    }
}

impl Passing {
    /// Steps what is awaited by `step`, and looks how it ended. NULL: an exception is set, or none, which
    /// says that it returned None.
    ///
    /// Safety: the GIL is held, and the object by the caller.
    unsafe fn step(&self, step: impl FnOnce(*mut ffi::PyObject) -> Step) -> *mut ffi::PyObject {
        let inner = self.inner.get();
        // SAFETY: as promised. `inner` is held meanwhile: what runs may close us.
        unsafe {
            if inner.is_null() {
                let text = c"cannot reuse already awaited coroutine";
                ffi::PyErr_SetString(ffi::PyExc_RuntimeError, text.as_ptr());
                return null_mut();
            }
            ffi::Py_INCREF(inner);
            let ended = step(inner);
            ffi::Py_DECREF(inner);
            let py = Python::assume_attached();
            match ended {
                Step::Yielded(value) => value,
                Step::Returned(value) => {
                    let aside = Aside::take();
                    self.taken(py);
                    self.forget();
                    aside.put_back();
                    returned(value)
                }
                Step::Raised => {
                    if self.role == Role::Application {
                        (*self.sender).fail_as_set();
                    }
                    let aside = Aside::take();
                    self.forget();
                    aside.put_back();
                    null_mut()
                }
            }
        }
    }

    /// It returned.
    ///
    /// Safety: the GIL is held, no exception is set.
    unsafe fn taken(&self, py: Python<'_>) {
        // SAFETY: owned.
        let sender = unsafe { &*self.sender };
        match self.role {
            Role::Application | Role::Last => sender.end(py),
            Role::Status(failed) => sender.failed.set(failed),
        }
    }

    /// Safety: the GIL is held; what runs may drop what holds us, the caller holds us too.
    unsafe fn forget(&self) {
        // SAFETY: its reference was ours; the place is empty before.
        unsafe { ffi::Py_XDECREF(self.inner.replace(null_mut())) };
    }
}

/// Hands a returned value on as iterators do; takes the reference over. NULL.
unsafe fn returned(value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and the value, if there is one.
    unsafe {
        if !value.is_null() && value != ffi::Py_None() {
            // Made by a call: a tuple given to PyErr_SetObject would become its arguments.
            let class = ffi::PyExc_StopIteration;
            let stop = ffi::PyObject_Vectorcall(class, [value].as_ptr(), 1, null_mut());
            if !stop.is_null() {
                ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop);
                ffi::Py_DECREF(stop);
            }
        }
        ffi::Py_XDECREF(value);
        null_mut()
    }
}

/// One step of a coroutine or iterator that is given `value`.
unsafe fn sent(inner: *mut ffi::PyObject, value: *mut ffi::PyObject) -> Step {
    // SAFETY: the caller holds the GIL and both objects.
    unsafe {
        #[cfg(Py_3_10)]
        {
            let mut result = null_mut();
            match ffi::PyIter_Send(inner, value, &mut result) {
                ffi::PySendResult::PYGEN_NEXT => Step::Yielded(result),
                ffi::PySendResult::PYGEN_RETURN => Step::Returned(result),
                ffi::PySendResult::PYGEN_ERROR => Step::Raised,
            }
        }
        #[cfg(not(Py_3_10))]
        {
            let next = (*ffi::Py_TYPE(inner)).tp_iternext;
            match next.filter(|_| value == ffi::Py_None()) {
                Some(next) => ended(next(inner)),
                None => {
                    let name = intern!(Python::assume_attached(), "send").as_ptr();
                    let given = [inner, value];
                    ended(ffi::PyObject_VectorcallMethod(name, given.as_ptr(), 2, null_mut()))
                }
            }
        }
    }
}

/// The end of a call that tells a returned value by StopIteration, which stays set.
unsafe fn ended(result: *mut ffi::PyObject) -> Step {
    // SAFETY: the caller holds the GIL.
    unsafe {
        if !result.is_null() {
            return Step::Yielded(result);
        }
        let error = ffi::PyErr_Occurred();
        match error.is_null() || ffi::PyErr_ExceptionMatches(ffi::PyExc_StopIteration) != 0 {
            true => Step::Returned(null_mut()),
            false => Step::Raised,
        }
    }
}

/// A method of `inner`, if it has it; NULL without an exception: it has none.
unsafe fn found(inner: *mut ffi::PyObject, name: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and both objects.
    unsafe {
        let method = ffi::PyObject_GetAttr(inner, name);
        if method.is_null() && ffi::PyErr_ExceptionMatches(ffi::PyExc_AttributeError) != 0 {
            ffi::PyErr_Clear();
        }
        method
    }
}

unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a live object.
    unsafe { ffi::Py_INCREF(object) };
    object
}

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe { (*object.cast::<Passing>()).step(|inner| sent(inner, ffi::Py_None())) }
}

/// What a method gives where an iterator's slot may give NULL without an exception.
unsafe fn told(result: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL.
    unsafe {
        if result.is_null() && ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_SetNone(ffi::PyExc_StopIteration);
        }
    }
    result
}

/// `send(value)`.
unsafe extern "C" fn send(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; all are held by the caller.
    unsafe {
        if count != 1 || !keywords.is_null() {
            return wrong_call(c"send() takes exactly one argument");
        }
        told((*object.cast::<Passing>()).step(|inner| sent(inner, *args)))
    }
}

/// `throw(type_or_value, value, traceback)`.
unsafe extern "C" fn throw(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`; all are held by the caller.
    unsafe {
        if !(1..=3).contains(&count) || !keywords.is_null() {
            return wrong_call(c"throw() takes one to three arguments: type, value, traceback");
        }
        let name = intern!(Python::assume_attached(), "throw").as_ptr();
        told((*object.cast::<Passing>()).step(|inner| {
            let method = found(inner, name);
            if method.is_null() {
                if ffi::PyErr_Occurred().is_null() {
                    raise(args, count);
                }
                return Step::Raised;
            }
            let result = ffi::PyObject_Vectorcall(method, args, count as _, null_mut());
            ffi::Py_DECREF(method);
            ended(result)
        }))
    }
}

/// Raises what `throw` was given: what is awaited cannot take it.
#[allow(deprecated)] // As `Aside`.
unsafe fn raise(args: *const *mut ffi::PyObject, count: ffi::Py_ssize_t) {
    // SAFETY: the caller holds the GIL and the arguments; each gets a reference of its own.
    unsafe {
        let given = |at: isize| match at < count && *args.offset(at) != ffi::Py_None() {
            true => *args.offset(at),
            false => null_mut(),
        };
        let (kind, value, trace) = match ffi::PyExceptionInstance_Check(*args) {
            0 => (*args, given(1), given(2)),
            _ => (ffi::Py_TYPE(*args).cast(), *args, given(2)),
        };
        if ffi::PyExceptionClass_Check(kind) == 0 {
            let text = c"exceptions must be classes or instances deriving from BaseException";
            ffi::PyErr_SetString(ffi::PyExc_TypeError, text.as_ptr());
            return;
        }
        for one in [kind, value, trace] {
            ffi::Py_XINCREF(one);
        }
        ffi::PyErr_Restore(kind, value, trace);
    }
}

/// `close()`.
unsafe extern "C" fn close(
    object: *mut ffi::PyObject,
    _args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and a `Passing`, which the caller holds.
    unsafe {
        if count != 0 || !keywords.is_null() {
            return wrong_call(c"close() takes no arguments");
        }
        let passing = &*object.cast::<Passing>();
        let inner = passing.inner.replace(null_mut());
        if inner.is_null() {
            return none();
        }
        let method = found(inner, intern!(Python::assume_attached(), "close").as_ptr());
        let mut raised = false;
        if !method.is_null() {
            let result = ffi::PyObject_CallObject(method, null_mut());
            ffi::Py_DECREF(method);
            raised = result.is_null();
            ffi::Py_XDECREF(result);
        }
        raised |= !ffi::PyErr_Occurred().is_null();
        if raised && passing.role == Role::Application {
            (*passing.sender).fail_as_set();
        }
        let aside = Aside::take();
        passing.abandon();
        ffi::Py_DECREF(inner);
        aside.put_back();
        if raised {
            return null_mut();
        }
        none()
    }
}

impl Passing {
    /// Ends the request of an application that was not left to finish. From a destructor, too.
    ///
    /// Safety: the GIL is held.
    unsafe fn abandon(&self) {
        // SAFETY: owned.
        let sender = unsafe { &*self.sender };
        if self.role == Role::Application {
            sender.abandon("GeneratorExit");
        }
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for the last reference: nobody else has the object. It is out of the
    // collector's sight before its fields go. Each object holds a reference to its type.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let (passing, class) = (&*object.cast::<Passing>(), ffi::Py_TYPE(object));
        let aside = Aside::take();
        passing.forget();
        passing.abandon();
        aside.put_back();
        ffi::Py_DECREF(passing.sender.cast());
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

pub(super) unsafe fn visit_all(
    objects: &[*mut ffi::PyObject],
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    for object in objects.iter().filter(|object| !object.is_null()) {
        // SAFETY: called by the collector, under the GIL, with live objects.
        let stop = unsafe { visit(*object, arg) };
        if stop != 0 {
            return stop;
        }
    }
    0
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a `Passing`, under the GIL.
    unsafe {
        let passing = &*object.cast::<Passing>();
        let class = ffi::Py_TYPE(object).cast();
        visit_all(&[passing.inner.get(), passing.sender.cast(), class], visit, arg)
    }
}

/// Makes the type.
pub(super) fn make_type(py: Python<'_>) -> PyResult<()> {
    let methods = leaked(vec![
        method(c"send", send, c"As a coroutine's."),
        method(c"throw", throw, c"As a coroutine's."),
        method(c"close", close, c"As a coroutine's."),
    ]);
    let slots = vec![
        slot(ffi::Py_tp_dealloc, dealloc as *const c_void),
        slot(ffi::Py_tp_traverse, traverse as *const c_void),
        slot(ffi::Py_am_await, itself as *const c_void),
        slot(ffi::Py_tp_iternext, next as *const c_void),
        slot(ffi::Py_tp_methods, methods.cast()),
    ];
    // The sampler knows it by this name.
    let name = c"dashcam._native.Passing";
    let class = class_of(py, name, size_of::<Passing>(), ffi::Py_TPFLAGS_HAVE_GC, slots)?;
    PASSING.class.set(class);
    Ok(())
}
