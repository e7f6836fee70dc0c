//! An awaitable whose end is observed.
//!
//! How it works: a `Passing` takes the place of a coroutine in an `await`; each of its steps is a
//! step of the inner one. Of another awaitable the steps are those of its iterator
//! (`represented`).
//!
//! ```text
//!  Passing  Python's head | inner awaitable | sender | role | first step | judge, scope, transport
//!           | whether it is stepped itself
//! ```
//!
//! What it promises: values and exceptions that are raised, returned, yielded, sent, or thrown in
//! (a task that is cancelled), and closing, pass unchanged, and tracebacks have no frame of ours.
//! `collections.abc.Coroutine` accepts it, so that tasks take it. The inner awaitable is the first
//! word after the head, where the sampler reads it (`samplers::python_stacks::objects`). A request
//! that is never awaited, or whose task is dropped, ends with this object.
//!
//! Missing on purpose: how one is made (`making`); garbage collection visits its
//! references, but does not clear them: a cycle through it always leads through a task or a frame,
//! too.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;

use pyo3::ffi;
use pyo3::prelude::*;

use super::steps::{returned, thrown, Step};
use crate::alone::{alone, held};
use crate::aside::{fetched, Aside};
use crate::call::quietly;
use crate::interrupts::unless_it_interrupts;
use crate::life::{Head, Life};
use crate::moments::call_span::Call;
use crate::moments::sender::Sender;
use crate::moments::{arrivals, request};
use crate::notice::note;
use crate::types::Class;

/// The type of a `Passing` around a coroutine, which it answers as; for other awaitables
/// `kinds` makes types.
pub(super) static COROUTINE: Class = Class::new();

/// The meaning of an awaitable's end.
#[derive(Clone, Copy, PartialEq)]
pub enum Role {
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

impl Role {
    /// The end of such an awaitable is not seen.
    pub(super) fn unseen(self, py: Python<'_>, sender: &Sender) {
        match self {
            Role::Last => sender.end(py),
            Role::Status(failed) => sender.note(failed),
            _ => sender.abandon(""),
        }
    }
}

/// The action before the first step.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum First {
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
    pub(super) head: Head,
    /// A coroutine, or another awaitable. Owned; never changed.
    pub(super) inner: *mut ffi::PyObject,
    /// A `Sender`. Owned; NULL once it has ended.
    pub(super) sender: Cell<*mut ffi::PyObject>,
    pub(super) role: Role,
    pub(super) first: Cell<First>,
    /// Judge, scope (of a handler: the judge of its exception), transport: each is owned, or NULL;
    /// all are NULL once it has ended.
    pub(super) more: [Cell<*mut ffi::PyObject>; 3],
    /// Until it has ended.
    pub(super) call: Cell<Option<Call>>,
    /// Whether the steps of this object are those of the `await`, and not of an iterator. Set once,
    /// by the thread that asks for the iterator, and read by each that steps. Relaxed: the answer
    /// depends on nothing else in this object, and a program that hands an awaitable to another
    /// thread orders the two itself.
    pub(super) steps_itself: AtomicBool,
    pub(super) weak: *mut ffi::PyObject,
}

// Which it is not alone with when it sets or reads it.
const _: fn(&Passing) -> &dyn Sync = |passing| &passing.steps_itself;

// SAFETY: the layout above. What is taken from a field is released by the code that takes it; with
// the GIL, or while all other threads are stopped, the collector sees it before or after that.
unsafe impl Life for Passing {
    const WEAK: Option<usize> = Some(offset_of!(Passing, weak));
    type Held = [*mut ffi::PyObject; 5];

    fn held(&self) -> Self::Held {
        let [judge, scope, transport] = self.more.each_ref().map(Cell::get);
        [self.inner, self.sender.get(), judge, scope, transport]
    }

    unsafe fn end(&self) {
        // SAFETY: promised by the caller. The awaitable goes first: its own end may be the last
        // step of the request.
        unsafe {
            ffi::Py_DECREF(self.inner);
            self.abandon();
            self.release();
        }
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
        let raised = Bound::from_borrowed_ptr_or_opt(py, aside.exception());
        match judge.call1((raised,)).and_then(|error| sender.end_as(py, &error)) {
            Ok(()) => {}
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
    /// Steps `inner`, the inner awaitable or its iterator, by `step`, and acts on its end. NULL: an
    /// exception is set, or none, which means that it returned None.
    ///
    /// Safety: the GIL is held, and the caller holds both objects.
    pub(super) unsafe fn step(
        &self,
        inner: *mut ffi::PyObject,
        step: impl FnOnce(*mut ffi::PyObject) -> Step,
    ) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe {
            let py = Python::assume_attached();
            let ended = match self.begin(py) {
                Ok(()) => step(inner),
                Err(error) => thrown(inner, error.into_value(py).as_ptr()),
            };
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
                    Aside::around(|_| self.release());
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
            unsafe { Aside::around(|aside| self.end_call(&aside.kind())) };
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
            (Role::Handler, Some(judge)) => {
                let ended = judge.call1((value,)).and_then(|error| sender.end_as(py, &error));
                if let Err(error) = ended {
                    sender.end(py);
                    let error = unless_it_interrupts(py, error).map_err(|()| fetched(py))?;
                    note(py, &format!("what a handler returned is not as expected: {error}"));
                }
            }
            _ => sender.end(py),
        }
        Ok(())
    }

    /// It has ended: releases what it holds, except for the awaitable.
    ///
    /// Safety: the GIL is held; the code that runs may drop the holder of this object, so the
    /// caller holds it too.
    pub(super) unsafe fn release(&self) {
        let take = |field: &Cell<*mut ffi::PyObject>| field.replace(null_mut());
        let take_all = || (self.more.each_ref().map(take), take(&self.sender));
        // SAFETY: promised by the caller. The references were ours; all fields are cleared before
        // one is released.
        unsafe {
            let (more, sender) = alone(self.as_object(), take_all);
            more.into_iter().for_each(|one| ffi::Py_XDECREF(one));
            ffi::Py_XDECREF(sender);
        }
    }

    /// It cannot be awaited: its request ends so.
    pub(super) fn fail(&self, kind: &str) {
        // SAFETY: each caller holds the object, and the GIL.
        let py = unsafe { Python::assume_attached() };
        if matches!(self.role, Role::Application | Role::Handler) {
            if let Some(sender) = self.sender(py) {
                sender.fail(py, kind);
            }
        }
    }

    /// Its end is not seen: its request ends.
    pub(super) fn give_up(&self) {
        // SAFETY: as `fail`.
        let py = unsafe { Python::assume_attached() };
        if let Some(sender) = self.sender(py) {
            self.role.unseen(py, &sender);
        }
    }

    /// It as a Python object, borrowed.
    fn as_object(&self) -> *mut ffi::PyObject {
        self.head.object()
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

    /// It was closed; `result` is the inner awaitable's, NULL with an exception set. Returns it.
    ///
    /// Safety: the GIL is held, and the caller holds the object.
    pub(super) unsafe fn closed(&self, result: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: promised by the caller.
        unsafe {
            if result.is_null() {
                self.fail_as_set();
            }
            Aside::around(|_| {
                self.abandon();
                self.release();
            });
        }
        result
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
