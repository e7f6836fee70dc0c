//! An awaitable whose end is observed.
//!
//! How it works: a `Passing` takes the place of a coroutine (or of another awaitable) in an
//! `await`; each of its steps is a step of the inner one.
//!
//! ```text
//!  Passing  Python's head | inner awaitable | sender | role | first step | judge, scope, transport
//! ```
//!
//! What it promises: values and exceptions that are raised, returned, yielded, sent, or thrown in
//! (a task that is cancelled), and closing, pass unchanged, and tracebacks have no frame of ours.
//! `collections.abc.Coroutine` accepts it, so that tasks take it. The inner awaitable is the first
//! word after the head, where the sampler reads it (`samplers::python_stacks::objects`). A request
//! that is never awaited, or whose task is dropped, ends with this object.
//!
//! Missing on purpose: garbage collection visits its references, but does not clear them: a cycle
//! through it always leads through a task or a frame, too.

use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::aside::Aside;
use super::call_span::Call;
use super::sender::Sender;
use super::steps::{awaitable, returned, thrown, Step};
use super::{arrivals, request};
use crate::alone::{alone, held};
use crate::call::{fetched, quietly};
use crate::interrupts::unless_it_interrupts;
use crate::notice::note;
use crate::types::Class;
use crate::unfinished;

/// The type of a `Passing` around another awaitable than a coroutine.
pub(super) static PASSING: Class = Class::new();
/// The type of a `Passing` around a coroutine, which it answers as.
pub(super) static COROUTINE: Class = Class::new();

/// The meaning of an awaitable's end.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// The application is done.
    Application,
    /// The server has taken the last part of the response.
    Last,
    /// The server has taken the status; whether it is a failure.
    Status(bool),
    /// A handler is done; its `judge` gets the result, and returns how the request ended, if it is
    /// one.
    Handler,
    /// The span of a call to another service ends.
    Call,
}

/// The action before the first step.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Nothing,
    /// The context begins to work for the request.
    Enter,
    /// The request begins, unless there is one.
    Begin,
    /// The span of a call begins.
    Call,
}

/// The wrapped awaitable. Fields that change are accessed by a thread that is `alone` with it.
#[repr(C)]
pub(super) struct Passing {
    base: UnsafeCell<ffi::PyObject>,
    /// A coroutine, or an iterator. Owned; NULL once an iterator has ended. A coroutine remains.
    pub(super) inner: Cell<*mut ffi::PyObject>,
    /// A `Sender`. Owned; NULL once it has ended.
    pub(super) sender: Cell<*mut ffi::PyObject>,
    role: Role,
    /// Whether `inner` is a coroutine.
    pub(super) is_coroutine: bool,
    first: Cell<First>,
    /// Judge, scope (of a handler: the judge of its exception), transport: each is owned, or NULL;
    /// all are NULL once it has ended.
    pub(super) more: [Cell<*mut ffi::PyObject>; 3],
    /// Until it has ended.
    call: Cell<Option<Call>>,
    pub(super) weak: *mut ffi::PyObject,
}

/// `made` in a `Passing`; `made` itself if it cannot be awaited, which the awaiting code will
/// report, or there is no memory. NULL: an exception is set. Takes over both references.
///
/// Safety: the GIL is held, both objects are alive.
pub(super) unsafe fn pass(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe { pass_with(made, sender, role, First::Nothing, [null_mut(); 3]) }
}

/// As `pass`, for an application whose request begins with the first step. Takes over `transport`,
/// too.
///
/// Safety: as `pass`; `transport` may be NULL.
pub(super) unsafe fn pass_lazily(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    scope: *mut ffi::PyObject,
    transport: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::Py_INCREF(scope);
        pass_with(made, sender, Role::Application, First::Begin, [null_mut(), scope, transport])
    }
}

/// `handling`, a handler's coroutine, as the work for a request that has arrived. The context that
/// awaits it works for the request, which ends with it. `judge(result)` returns whether, or with
/// which type of error, the request failed; `judge_error(exception)` does if it raised, without
/// which every exception is a failure.
#[pyfunction]
#[pyo3(signature = (request, handling, judge, judge_error = None))]
pub fn handling<'py>(
    request: u64,
    handling: Bound<'py, PyAny>,
    judge: Bound<'py, PyAny>,
    judge_error: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    unfinished::has_context(request);
    match request {
        0 => Ok(handling),
        _ => judged(request, handling, (judge, judge_error), First::Enter),
    }
}

/// `awaited`; `look` gets the result before the awaiting code does.
#[pyfunction]
pub fn seen<'py>(
    awaited: Bound<'py, PyAny>,
    look: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    judged(0, awaited, (look, None), First::Nothing)
}

fn judged<'py>(
    request: u64,
    made: Bound<'py, PyAny>,
    (judge, judge_error): (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>),
    first: First,
) -> PyResult<Bound<'py, PyAny>> {
    let py = made.py();
    // SAFETY: the GIL is held; the references that are taken over are this function's own.
    unsafe {
        let sender = Sender::new(request, ffi::Py_None(), None);
        if sender.is_null() {
            return Err(PyErr::fetch(py));
        }
        let judge_error = judge_error.map_or(null_mut(), Bound::into_ptr);
        let more = [judge.into_ptr(), judge_error, null_mut()];
        let passing = pass_with(made.into_ptr(), sender, Role::Handler, first, more);
        Bound::from_owned_ptr_or_err(py, passing)
    }
}

/// As `pass`. `more`: judge, scope, transport, which are taken over.
unsafe fn pass_with(
    made: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
    first: First,
    more: [*mut ffi::PyObject; 3],
) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL and all objects. The memory of a `Passing` is not shared
    // before all fields are set; without that it is freed with the reference to its type.
    unsafe {
        let class = match ffi::Py_TYPE(made) == &raw mut ffi::PyCoro_Type {
            true => COROUTINE.get(),
            false => PASSING.get(),
        };
        let passing: *mut Passing = ffi::PyObject_GC_New(class);
        if passing.is_null() {
            // The program's own object is awaited, by no request of ours.
            ffi::PyErr_Clear();
            (*sender).abandon("");
            more.into_iter().for_each(|one| ffi::Py_XDECREF(one));
            ffi::Py_DECREF(sender.cast());
            return made;
        }
        let inner = match awaitable(made) {
            Ok(inner) => inner,
            Err(error) => {
                match role {
                    Role::Application if error.is_null() => (*sender).fail_as_set(),
                    Role::Application => (*sender).fail(Python::assume_attached(), "TypeError"),
                    _ => (),
                }
                let aside = Aside::take();
                ffi::PyObject_GC_Del(passing.cast());
                ffi::Py_DECREF(class.cast());
                more.into_iter().for_each(|one| ffi::Py_XDECREF(one));
                ffi::Py_DECREF(sender.cast());
                aside.put_back();
                return error;
            }
        };
        put_together(passing, inner, sender, role, first, more, None)
    }
}

/// `made`, the coroutine of a call, whose span begins with the first step and ends with it; `made`
/// itself if it is no coroutine, or there is no memory. Takes over the reference.
///
/// Safety: as `pass`.
pub(super) unsafe fn pass_call(made: *mut ffi::PyObject, call: Call) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        if ffi::Py_TYPE(made) != &raw mut ffi::PyCoro_Type {
            return made;
        }
        let passing: *mut Passing = ffi::PyObject_GC_New(COROUTINE.get());
        if passing.is_null() {
            ffi::PyErr_Clear();
            return made;
        }
        let (none, call) = ([null_mut(); 3], Some(call));
        put_together(passing, made, null_mut(), Role::Call, First::Call, none, call)
    }
}

/// Sets the fields of a new object, which nothing else has.
///
/// Safety: the GIL is held; all references are taken over.
unsafe fn put_together(
    passing: *mut Passing,
    inner: *mut ffi::PyObject,
    sender: *mut Sender,
    role: Role,
    first: First,
    more: [*mut ffi::PyObject; 3],
    call: Option<Call>,
) -> *mut ffi::PyObject {
    // SAFETY: promised by the caller.
    unsafe {
        let is_coroutine = ffi::Py_TYPE(inner) == &raw mut ffi::PyCoro_Type;
        (&raw mut (*passing).inner).write(Cell::new(inner));
        (&raw mut (*passing).is_coroutine).write(is_coroutine);
        (&raw mut (*passing).sender).write(Cell::new(sender.cast()));
        (&raw mut (*passing).role).write(role);
        (&raw mut (*passing).first).write(Cell::new(first));
        (&raw mut (*passing).more).write(more.map(Cell::new));
        (&raw mut (*passing).call).write(Cell::new(call));
        (&raw mut (*passing).weak).write(null_mut());
        ffi::PyObject_GC_Track(passing.cast());
        passing.cast()
    }
}

/// A sender that is held.
struct Held<'py>(Bound<'py, PyAny>);

impl std::ops::Deref for Held<'_> {
    type Target = Sender;

    fn deref(&self) -> &Sender {
        // SAFETY: made from a live `Sender` (`Passing::sender`), and held by this.
        unsafe { &*self.0.as_ptr().cast::<Sender>() }
    }
}

/// The exception that is set ends the request as `judge` says. An exception that interrupts the
/// program meanwhile takes its place.
///
/// Safety: the GIL is held, an exception is set.
unsafe fn judge_as_set(py: Python<'_>, sender: &Sender, judge: &Bound<'_, PyAny>) {
    // SAFETY: promised by the caller; the exception is held by `aside` until it is put back.
    unsafe {
        let mut aside = Aside::take();
        let raised = Bound::from_borrowed_ptr(py, aside.exception());
        match judge.call1((raised,)) {
            Ok(error) => sender.end_as(py, &error),
            Err(error) => {
                sender.fail(py, &aside.kind());
                let Ok(error) = unless_it_interrupts(py, error) else {
                    let error = fetched(py);
                    aside.drop();
                    return error.restore(py);
                };
                note(py, &format!("what a handler raised is not as expected: {error}"));
            }
        }
        aside.put_back();
    }
}

impl Passing {
    /// Steps the inner awaitable by `step`, and acts on its end. NULL: an exception is set, or
    /// none, which means that it returned None.
    ///
    /// Safety: the GIL is held, and the caller holds the object.
    pub(super) unsafe fn step(
        &self,
        step: impl FnOnce(*mut ffi::PyObject) -> Step,
    ) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller. `inner` is held meanwhile: the code that runs may close
        // this object.
        unsafe {
            let inner = held(self.as_object(), &self.inner);
            if inner.is_null() {
                let text = c"cannot reuse already awaited coroutine";
                ffi::PyErr_SetString(ffi::PyExc_RuntimeError, text.as_ptr());
                return null_mut();
            }
            let py = Python::assume_attached();
            let ended = match self.begin(py) {
                Ok(()) => step(inner),
                Err(error) => thrown(inner, error.into_value(py).as_ptr()),
            };
            ffi::Py_DECREF(inner);
            match ended {
                Step::Yielded(value) => value,
                Step::Returned(value) => {
                    self.end_call("");
                    let mut aside = Aside::take();
                    let taken = self.taken(py, if value.is_null() { aside.value() } else { value });
                    self.release();
                    if let Err(error) = taken {
                        ffi::Py_XDECREF(value);
                        aside.drop();
                        error.restore(py);
                        return null_mut();
                    }
                    aside.put_back();
                    returned(value)
                }
                Step::Raised => {
                    self.fail_as_set();
                    let aside = Aside::take();
                    self.release();
                    aside.put_back();
                    null_mut()
                }
            }
        }
    }

    /// The action before the first step. Err: the program is interrupted.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: attached (`py`); a step is made by a caller that holds the object.
        let first = unsafe { alone(self.as_object(), || self.first.replace(First::Nothing)) };
        if first == First::Call {
            // SAFETY: as above.
            let call = unsafe { alone(self.as_object(), || self.call.get()) };
            let begun = quietly(None, || call.map(|call| call.begun(py)));
            // SAFETY: as above.
            unsafe { alone(self.as_object(), || self.call.set(begun)) };
            return Ok(());
        }
        let (Some(sender), [_, scope, transport]) = (self.sender(py), self.more(py)) else {
            return Ok(());
        };
        match (first, scope) {
            (First::Begin, Some(scope)) if crate::names::open(py) == 0 => {
                let begin = || arrivals::begin_asgi(&scope, transport.as_ref(), true);
                sender.begin(quietly(Ok(0), begin)?);
            }
            (First::Enter, _) => quietly((), || request::request_enter(py, sender.id())),
            _ => {}
        }
        Ok(())
    }

    /// The sender, until it has ended; held, since code of the program may end this while it is
    /// used.
    fn sender<'py>(&self, py: Python<'py>) -> Option<Held<'py>> {
        // SAFETY: attached (`py`); the reference that `held` takes is handed over.
        unsafe { Bound::from_owned_ptr_or_opt(py, held(self.as_object(), &self.sender)) }.map(Held)
    }

    /// Judge, scope and transport.
    fn more<'py>(&self, py: Python<'py>) -> [Option<Bound<'py, PyAny>>; 3] {
        // SAFETY: as `sender`.
        let one =
            |field| unsafe { Bound::from_owned_ptr_or_opt(py, held(self.as_object(), field)) };
        self.more.each_ref().map(one)
    }

    /// The exception that is set ends the request, if this is its application or handler.
    ///
    /// Safety: the GIL is held.
    pub(super) unsafe fn fail_as_set(&self) {
        if self.role == Role::Call {
            // SAFETY: promised by the caller.
            unsafe {
                let aside = Aside::take();
                self.end_call(&aside.kind());
                aside.put_back();
            }
        }
        if !matches!(self.role, Role::Application | Role::Handler) {
            return;
        }
        // SAFETY: promised by the caller.
        unsafe {
            let py = Python::assume_attached();
            let Some(sender) = self.sender(py) else { return };
            match (self.role, self.more(py)) {
                (Role::Handler, [_, Some(judge), _]) => judge_as_set(py, &sender, &judge),
                _ => sender.fail_as_set(),
            }
        }
    }

    /// It returned this, borrowed. Err: the program was interrupted.
    ///
    /// Safety: the GIL is held, no exception is set.
    unsafe fn taken(&self, py: Python<'_>, value: *mut ffi::PyObject) -> PyResult<()> {
        let (Some(sender), [judge, ..]) = (self.sender(py), self.more(py)) else { return Ok(()) };
        // SAFETY: a live object.
        let value = unsafe { Bound::from_borrowed_ptr(py, value) };
        match (self.role, judge) {
            (Role::Status(failed), _) => sender.note(failed),
            (Role::Handler, Some(judge)) => match judge.call1((value,)) {
                Ok(error) => sender.end_as(py, &error),
                Err(error) => {
                    sender.end(py);
                    let error = unless_it_interrupts(py, error).map_err(|()| fetched(py))?;
                    note(py, &format!("what a handler returned is not as expected: {error}"));
                }
            },
            _ => sender.end(py),
        }
        Ok(())
    }

    /// It has ended: releases what it holds. A coroutine is dropped here, as its holder would drop
    /// it.
    ///
    /// Safety: the GIL is held; the code that runs may drop the holder of this object, so the
    /// caller holds it too.
    pub(super) unsafe fn release(&self) {
        let take = |field: &Cell<*mut ffi::PyObject>| field.replace(null_mut());
        let take_all = || {
            let inner = if self.is_coroutine { null_mut() } else { take(&self.inner) };
            (inner, self.more.each_ref().map(take), take(&self.sender))
        };
        // SAFETY: promised by the caller. The references were ours; all fields are cleared before
        // one is released.
        unsafe {
            let (inner, more, sender) = alone(self.as_object(), take_all);
            ffi::Py_XDECREF(inner);
            more.into_iter().for_each(|one| ffi::Py_XDECREF(one));
            ffi::Py_XDECREF(sender);
        }
    }

    /// The wrapped coroutine, borrowed; NULL if it is none.
    pub(super) fn coroutine(&self) -> *mut ffi::PyObject {
        match self.is_coroutine {
            true => self.inner.get(),
            false => null_mut(),
        }
    }

    /// It as a Python object, borrowed.
    fn as_object(&self) -> *mut ffi::PyObject {
        self.base.get()
    }
}

impl Passing {
    /// The span of its call ends, if it has one that has not. Only Rust is called.
    fn end_call(&self, error: &str) {
        if self.role == Role::Call {
            // SAFETY: each caller holds the object, and the GIL.
            let call = unsafe { alone(self.as_object(), || self.call.take()) };
            quietly((), || call.map_or((), |call| call.end(error)));
        }
    }

    /// Ends the request of an application that was not run to its end, or the span of a call. From
    /// a destructor, too.
    ///
    /// Safety: the GIL is held.
    pub(super) unsafe fn abandon(&self) {
        self.end_call("GeneratorExit");
        if matches!(self.role, Role::Application | Role::Handler) {
            // SAFETY: promised by the caller.
            if let Some(sender) = self.sender(unsafe { Python::assume_attached() }) {
                sender.abandon("GeneratorExit");
            }
        }
    }
}
