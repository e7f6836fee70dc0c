//! Functions of `os` and `signal` that end or copy the process, and the duty before each.
//!
//! How it works: a builtin function points to its definition (`PyMethodDef`). Ours has the same
//! name, text and calling convention, and a function of ours that does its duty and calls the
//! original definition's function. The function object remains the same, so code that has imported
//! or pickled it keeps working.
//!
//! The functions and their duties:
//! - `_exit`, `execv`, `execve` run no exit handlers: the last counts are sent first. The other
//!   functions of `os` that exec call one of these, and so do multiprocessing's and Celery's
//!   children at their end. The program that the process becomes gets the environment that the
//!   function given to `before_exec` returns, so that it is recorded, too. Before `_exit` slow
//!   requests that are in no capture get one, as at an exit: RQ ends the process of each job so.
//! - `raise_signal`: uvicorn shuts down and then raises the signal that ended it once more, with
//!   the default action, so no exit handler runs: the recorder stops first, as at an exit.
//! - `fork`, `forkpty` warn of threads from 3.12 on: of the program's, not of ours (`forks`).
//!
//! What it promises: nothing here raises, or delays for more than a second (see `leave`); before
//! an end that owes a capture, for as long as an exit does.
//!
//! Missing on purpose: builtins with another convention than those known here; a notice says so.

use std::os::raw::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyModule;
use sys::cell::StaticRef;

use super::forks;
use crate::call::quietly;
use crate::interrupts::ignored;
use crate::notice::note;

#[derive(Clone, Copy)]
enum Duty {
    /// A last window of metrics; the process becomes another program.
    Become,
    /// The same, and the capture that is owed.
    Exit,
    /// The process may end by this signal.
    Raise,
    /// A child.
    Fork,
    /// A child with a terminal.
    ForkTerminal,
}

struct Builtin {
    module: &'static str,
    name: &'static str,
    duty: Duty,
    /// The original definition; NULL: the function is not hooked. Set once, before ours can be
    /// called: Release, for other threads and for a child that is forked at any moment; read with
    /// Acquire.
    before: AtomicPtr<ffi::PyMethodDef>,
}

const fn builtin(module: &'static str, name: &'static str, duty: Duty) -> Builtin {
    Builtin { module, name, duty, before: AtomicPtr::new(null_mut()) }
}

static BUILTINS: [Builtin; 6] = [
    builtin("posix", "_exit", Duty::Exit),
    builtin("posix", "execv", Duty::Become),
    builtin("posix", "execve", Duty::Become),
    builtin("_signal", "raise_signal", Duty::Raise),
    builtin("posix", "fork", Duty::Fork),
    builtin("posix", "forkpty", Duty::ForkTerminal),
];

/// Hooks them, once. A function that is not as expected remains unhooked, with a notice.
#[pyfunction]
pub fn hook_builtins(py: Python<'_>) {
    let hooks: [fn(Python<'_>) -> PyResult<()>; 6] =
        [put::<0>, put::<1>, put::<2>, put::<3>, put::<4>, put::<5>];
    for (builtin, hook) in BUILTINS.iter().zip(hooks) {
        if let Err(error) = hook(py) {
            note(py, &format!("{}.{} is called as it is: {error}", builtin.module, builtin.name));
        }
    }
}

fn put<const N: usize>(py: Python<'_>) -> PyResult<()> {
    let builtin = &BUILTINS[N];
    if !builtin.before.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let function = PyModule::import(py, builtin.module)?.getattr(builtin.name)?;
    let unlike = |found: String| {
        let wanted = "wanted a builtin function";
        Err(pyo3::exceptions::PyTypeError::new_err(format!("found {found}, {wanted}")))
    };
    // SAFETY: the GIL is held.
    if unsafe { ffi::PyCFunction_CheckExact(function.as_ptr()) } == 0 {
        return unlike(function.get_type().to_string());
    }
    let object: *mut ffi::PyCFunctionObject = function.as_ptr().cast();
    // SAFETY: the type says what it is; definitions live as long as the functions made from them,
    // and this function is kept for ever. The fields of ours are those of the original, except for
    // the function.
    unsafe {
        let before = (*object).m_ml;
        const KEYWORDS: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
        let ml_meth = match (*before).ml_flags {
            KEYWORDS => ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: with_keywords::<N> },
            ffi::METH_FASTCALL => ffi::PyMethodDefPointer { PyCFunctionFast: with_many::<N> },
            ffi::METH_O | ffi::METH_NOARGS => {
                ffi::PyMethodDefPointer { PyCFunction: with_one::<N> }
            }
            flags => return unlike(format!("calling convention {flags:#x}")),
        };
        let ours = Box::new(ffi::PyMethodDef { ml_meth, ..*before });
        // Of threads that come here at once, one hooks.
        let (release, acquire) = (Ordering::Release, Ordering::Acquire);
        if builtin.before.compare_exchange(null_mut(), before, release, acquire).is_ok() {
            (*object).m_ml = Box::into_raw(ours);
        }
        std::mem::forget(function);
    }
    Ok(())
}

/// The original function of a hooked builtin.
///
/// Safety: only from a call of ours in its place.
unsafe fn before<const N: usize>() -> ffi::PyMethodDefPointer {
    // SAFETY: set before ours could be called.
    unsafe { (*BUILTINS[N].before.load(Ordering::Acquire)).ml_meth }
}

unsafe extern "C" fn with_keywords<const N: usize>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, with the flags of the original definition.
    unsafe {
        do_duty::<N>(null_mut());
        let call = |args| (before::<N>().PyCFunctionFastWithKeywords)(this, args, count, keywords);
        match BUILTINS[N].duty {
            Duty::Become => with_environment(args, count, keywords, call),
            _ => call(args),
        }
    }
}

unsafe extern "C" fn with_many<const N: usize>(
    this: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as `with_keywords`.
    unsafe {
        do_duty::<N>(null_mut());
        if let Duty::Become = BUILTINS[N].duty {
            let py = Python::assume_attached();
            if prepared(py.None().bind(py)).is_err() {
                return null_mut();
            }
        }
        (before::<N>().PyCFunctionFast)(this, args, count)
    }
}

/// Gets the environment of the program that this process becomes, None for its own, and returns it
/// or another one in its place.
static PREPARE: StaticRef<Py<PyAny>> = StaticRef::empty();

/// Sets what prepares the environment of a program that this process becomes. The first remains.
#[pyfunction]
pub fn before_exec(prepare: Py<PyAny>) {
    PREPARE.get_or_make(|| prepare);
}

/// None: the environment remains as it is. Err: a signal handler of the program's interrupted it,
/// and its exception is set.
fn prepared<'py>(environment: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, ()> {
    let py = environment.py();
    let Some(prepare) = PREPARE.get().map(|prepare| prepare.bind(py)) else { return Ok(None) };
    let found = quietly(Ok(None), || ignored(py, prepare.call1((environment,))));
    found.map_err(|error| error.restore(py))
}

/// The most arguments of `execve`, positional and named.
const MOST_ARGUMENTS: usize = 4;

/// Calls a function whose third argument is an environment, with that prepared.
///
/// Safety: the GIL is held, by a call with these arguments; `call` takes as many.
unsafe fn with_environment(
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
    call: impl Fn(*const *mut ffi::PyObject) -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise, stated above: `args` has the positional arguments and behind
    // them those that `keywords`, a tuple of strs, names; all are held by the caller. The prepared
    // environment is held until the call has returned.
    unsafe {
        let py = Python::assume_attached();
        let named = if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) };
        let is_it = |at: &ffi::Py_ssize_t| {
            let name = ffi::PyTuple_GET_ITEM(keywords, *at);
            ffi::PyUnicode_CompareWithASCIIString(name, c"env".as_ptr()) == 0
        };
        let at = match count {
            3 => Some(2),
            _ => (0..named).find(is_it).map(|at| count + at),
        };
        let all = (count + named) as usize;
        let Some(at) = at.filter(|_| all <= MOST_ARGUMENTS) else { return call(args) };
        let given = Bound::from_borrowed_ptr(py, *args.add(at as usize));
        let environment = match prepared(&given) {
            Ok(Some(environment)) => environment,
            Ok(None) => return call(args),
            Err(()) => return null_mut(),
        };
        let mut own: [*mut ffi::PyObject; MOST_ARGUMENTS] = [null_mut(); MOST_ARGUMENTS];
        own.as_mut_ptr().copy_from_nonoverlapping(args, all);
        own[at as usize] = environment.as_ptr();
        call(own.as_ptr())
    }
}

/// With one argument or none, which is NULL.
unsafe extern "C" fn with_one<const N: usize>(
    this: *mut ffi::PyObject,
    argument: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `with_keywords`.
    unsafe {
        match BUILTINS[N].duty {
            Duty::Fork if forks::ours_would_count() => forks::fork(),
            Duty::ForkTerminal if forks::ours_would_count() => forks::fork_terminal(),
            _ => {
                do_duty::<N>(argument);
                (before::<N>().PyCFunction)(this, argument)
            }
        }
    }
}

/// Safety: the GIL is held; `argument` is the call's only one, or NULL.
unsafe fn do_duty<const N: usize>(argument: *mut ffi::PyObject) {
    // SAFETY: the caller's promise, stated above.
    let py = unsafe { Python::assume_attached() };
    match BUILTINS[N].duty {
        Duty::Exit if dashcam::owes_a_capture() => {
            quietly((), || crate::process::before_exit(py, ""));
        }
        Duty::Become | Duty::Exit => {
            quietly(false, || crate::metrics::leave(py));
        }
        Duty::Raise if !argument.is_null() => {
            // SAFETY: a live object, held by the caller; the original reports an error in it.
            let number = unsafe { ffi::PyLong_AsLong(argument) };
            if number == -1 {
                // SAFETY: the GIL is held.
                unsafe { ffi::PyErr_Clear() };
            }
            if c_int::try_from(number).is_ok_and(sys::signal::ends_this_process) {
                quietly((), || crate::process::before_exit(py, ""));
            }
        }
        _ => {}
    }
}
