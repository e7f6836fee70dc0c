//! `os.fork` and `os.forkpty`, whose warning is of the program's threads and not of ours.
//!
//! How it works: from 3.12 on they warn (`DeprecationWarning`) if the kernel counts more than one
//! thread, which with `-W error` may fail the host. CPython counts when the process has forked, so
//! with threads of ours the fork is made here, by the calls that CPython makes, and threads are
//! counted where CPython counts them: one of the program's that ends while hooks of the fork run,
//! or is still known to the kernel when it has been joined (up to 3.12), counts as bare.
//!
//! ```text
//!  PySys_Audit  PyOS_BeforeFork  fork  [count, warn] PyOS_AfterFork_Parent [count, warn]
//! ```
//!
//! What it promises: the warning, its text and place, its moment among the fork's hooks, and what
//! becomes of it as an error are those of the running version without us. Our threads do not exist
//! in the child before any code of the host runs (`pthread_atfork`), and share no lock with it.
//!
//! Missing on purpose: versions whose warning is not known here. There a fork is made here only if
//! no thread of the program's is beside it.

use std::ffi::CString;
use std::io::Read;
use std::os::raw::{c_char, c_int};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::call::quietly;
use crate::kept::word;

extern "C" {
    fn PySys_Audit(event: *const c_char, format: *const c_char, ...) -> c_int;
}

/// Where a version counts threads, beside `PyOS_AfterFork_Parent`, which runs hooks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Before,
    After,
}

/// How a version warns of threads.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Warns {
    counted: Place,
    warned: Place,
    /// The fork raises a warning that is an error; else the error is dropped.
    raises: bool,
}

impl Warns {
    /// None: it does not, or how is not known.
    fn of(version: (u8, u8, u8)) -> Option<Warns> {
        use Place::{After, Before};
        let (counted, warned, raises) = match version {
            (3, 12, _) => (Before, Before, false),
            // Until gh-137109.
            (3, 13, ..=9) | (3, 14, 0) => (After, After, false),
            (3, 13 | 14, _) => (Before, After, false),
            (3, 15, _) => (Before, After, true),
            _ => return None,
        };
        Some(Warns { counted, warned, raises })
    }

    fn running(py: Python<'_>) -> Option<Warns> {
        let version = py.version_info();
        Warns::of((version.major, version.minor, version.patch))
    }
}

/// Whether threads of ours would count in the warning of a fork.
pub(super) fn ours_would_count() -> bool {
    // SAFETY: the GIL is held by the call this is part of.
    let py = unsafe { Python::assume_attached() };
    if py.version_info() < (3, 12) || is_finalizing(py) {
        return false;
    }
    match quietly(None, sys::own_threads::count) {
        Some((_, 0)) | None => false,
        Some((all, ours)) => Warns::running(py).is_some() || all - ours.min(all) <= 1,
    }
}

/// Whether the interpreter is ending: then the original refuses the fork.
fn is_finalizing(py: Python<'_>) -> bool {
    let asked =
        || py.import(word!(py, "sys"))?.call_method0(word!(py, "is_finalizing"))?.is_truthy();
    asked().unwrap_or(true)
}

/// The rest of `os_fork_impl`.
///
/// Safety: the GIL is held, in the interpreter that the process began with.
pub(super) unsafe fn fork() -> *mut ffi::PyObject {
    // SAFETY: the caller's promise, stated above; the calls are those of the C API for this.
    unsafe {
        if PySys_Audit(c"os.fork".as_ptr(), std::ptr::null()) < 0 {
            return null_mut();
        }
        ffi::PyOS_BeforeFork();
        let pid = libc::fork();
        forked(pid, "fork")
    }
}

/// The rest of `os_forkpty_impl`, as `fork`.
///
/// Safety: as `fork`.
pub(super) unsafe fn fork_terminal() -> *mut ffi::PyObject {
    // SAFETY: the caller's promise, stated above; `terminal` is ours, the other pointers may be
    // NULL.
    unsafe {
        if PySys_Audit(c"os.forkpty".as_ptr(), std::ptr::null()) < 0 {
            return null_mut();
        }
        let mut terminal: c_int = -1;
        ffi::PyOS_BeforeFork();
        let pid = libc::forkpty(&mut terminal, null_mut(), null_mut(), null_mut());
        let pid = forked(pid, "forkpty");
        if pid.is_null() {
            return null_mut();
        }
        let terminal = ffi::PyLong_FromLong(terminal.into());
        let both =
            if terminal.is_null() { null_mut() } else { ffi::PyTuple_Pack(2, pid, terminal) };
        ffi::Py_DECREF(pid);
        ffi::Py_XDECREF(terminal);
        both
    }
}

/// The end of a fork, in both processes.
///
/// Safety: the GIL is held, and the call before was the fork.
unsafe fn forked(pid: libc::pid_t, name: &str) -> *mut ffi::PyObject {
    let error = std::io::Error::last_os_error();
    // SAFETY: the caller's promise; each of the two calls is for the process it is made in.
    unsafe {
        if pid == 0 {
            ffi::PyOS_AfterFork_Child();
        } else if after_in_parent(name).is_err() {
            return null_mut();
        }
        if pid == -1 {
            *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EAGAIN);
            return ffi::PyErr_SetFromErrno(ffi::PyExc_OSError);
        }
        ffi::PyLong_FromLong(pid.into())
    }
}

/// Runs the parent's hooks, and warns as the running version does. Err: the warning is an error,
/// and is set.
///
/// Safety: the GIL is held, by the process that has forked.
unsafe fn after_in_parent(name: &str) -> Result<(), ()> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(warns) = Warns::running(Python::assume_attached()) else {
            ffi::PyOS_AfterFork_Parent();
            return Ok(());
        };
        let mut counted = Counted::Nothing;
        let mut warned = Ok(());
        for place in [Place::Before, Place::After] {
            if place == Place::After {
                ffi::PyOS_AfterFork_Parent();
            }
            if place == warns.counted {
                counted = quietly(Counted::Nothing, count);
            }
            if place == warns.warned && counted.is_more_than_one() {
                warned = warn(name);
                if warned.is_err() && !warns.raises {
                    ffi::PyErr_Clear();
                    warned = Ok(());
                }
            }
        }
        warned
    }
}

/// What CPython counts without us.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Counted {
    /// From /proc.
    Kernels(usize),
    /// /proc says nothing: the threads that `threading` knows are counted when it warns.
    Nothing,
}

impl Counted {
    /// Safety: the GIL is held, no exception is set.
    unsafe fn is_more_than_one(self) -> bool {
        match self {
            Counted::Kernels(threads) => threads > 1,
            // SAFETY: promised by the caller.
            Counted::Nothing => unsafe { known_to_threading() > 1 },
        }
    }
}

fn count() -> Counted {
    /// CPython reads no more of it.
    const READ: usize = 159;
    let mut line = [0; READ];
    let read = std::fs::File::open("/proc/self/stat").and_then(|mut file| file.read(&mut line));
    match read.map(|length| field(&line[..length])) {
        Ok(Field::Threads) => match sys::own_threads::count() {
            Some((all, ours)) => Counted::Kernels(all - ours.min(all)),
            None => Counted::Nothing,
        },
        Ok(Field::Another(value)) => Counted::Kernels(value),
        Ok(Field::Unreadable) | Err(_) => Counted::Nothing,
    }
}

/// What CPython reads as the number of threads: the 20th word of a line of /proc/self/stat. With a
/// space in the process's name, which is its second field, that is another field.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Field {
    Threads,
    /// Of this value, which is over 0.
    Another(usize),
    Unreadable,
}

fn field(line: &[u8]) -> Field {
    const BEFORE_IT: usize = 19;
    let words = || line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let value =
        words().nth(BEFORE_IT).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
    let has_one_word = words().nth(1).is_some_and(|name| name.ends_with(b")"));
    match value {
        None | Some(0) => Field::Unreadable,
        Some(_) if has_one_word => Field::Threads,
        Some(value) => Field::Another(value),
    }
}

/// Of `threading`, which need not be imported; 0 if it says nothing.
///
/// Safety: the GIL is held, no exception is set.
unsafe fn known_to_threading() -> ffi::Py_ssize_t {
    // SAFETY: promised by the caller; each object is owned until it is released.
    unsafe {
        let name = word!(Python::assume_attached(), "threading").as_ptr();
        let module = ffi::PyImport_GetModule(name);
        let mut known = 0;
        for attribute in [c"_active", c"_limbo"] {
            let threads = match module.is_null() {
                true => null_mut(),
                false => ffi::PyObject_GetAttrString(module, attribute.as_ptr()),
            };
            if threads.is_null() {
                known = 0;
                break;
            }
            known += ffi::PyMapping_Size(threads);
            ffi::Py_DECREF(threads);
        }
        ffi::PyErr_Clear();
        ffi::Py_XDECREF(module);
        known
    }
}

/// In CPython's words. Err: the warning is an error, and is set.
///
/// Safety: the GIL is held, no exception is set.
unsafe fn warn(name: &str) -> Result<(), ()> {
    let text = format!(
        "This process (pid={}) is multi-threaded, use of {name}() may lead to deadlocks in the child.",
        std::process::id()
    );
    let Ok(text) = CString::new(text) else { return Ok(()) };
    // SAFETY: promised by the caller; the text ends with a NUL. The level is that of the code that
    // called `os.fork`.
    match unsafe { ffi::PyErr_WarnEx(ffi::PyExc_DeprecationWarning, text.as_ptr(), 1) } {
        0 => Ok(()),
        _ => Err(()),
    }
}
