//! Exceptions that interrupt the program and pass through code of ours: those that a signal handler
//! of the program raises (a worker's timeout, Ctrl-C), and those that are no `Exception`.
//!
//! How it works: CPython runs a signal handler between two instructions of whichever Python code is
//! running: an integration's, or a property of the program's that a hook reads. What is raised
//! there goes on where that code was called from. An `Exception` differs from a fault of that code
//! by its traceback: a frame in it has the code of an installed handler. The entries before the
//! handler's are those of code that only ran because of us, and are removed.
//!
//! What it promises: such an exception reaches the program where it would have without us, with the
//! same traceback. Cost: nothing unless a hook meets an exception. Missing on purpose: handlers
//! written in C that raise an `Exception`, which leave no frame; and the frame that a handler gets
//! as its argument, which may be one of ours.

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyString, PyTraceback};

use crate::kept::word;

/// Signals that may have a handler.
const LAST_SIGNAL: i32 = 64;
/// Handlers that are wrapped (`functools.partial`) are searched so deep.
const LAYERS: usize = 4;

/// Whether an exception interrupts the program.
pub fn interrupts(py: Python<'_>, error: &PyErr) -> bool {
    match error.is_instance_of::<PyException>(py) {
        true => entry_of_handler(py, error).is_ok_and(|entry| entry.is_some()),
        false => !is_panic(py, error),
    }
}

/// For Python code of ours that ignores exceptions.
#[pyfunction(name = "interrupts", signature = (error, /))]
pub fn interrupts_by(error: &Bound<'_, PyAny>) -> bool {
    interrupts(error.py(), &PyErr::from_value(error.clone()))
}

/// The error, if it can be ignored. Err: it interrupts the program, and is set again.
pub fn unless_it_interrupts(py: Python<'_>, error: PyErr) -> Result<PyErr, ()> {
    match interrupts(py, &error) {
        true => {
            without_ours(py, error).restore(py);
            Err(())
        }
        false => Ok(error),
    }
}

/// What was found, or None for an error that can be ignored. Err: it interrupts the program.
pub fn ignored<T>(py: Python<'_>, found: PyResult<T>) -> PyResult<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if interrupts(py, &error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether an exception is a panic, by the name that PyO3 gives its type: `PanicException` derives
/// from BaseException, but interrupts nothing.
fn is_panic(py: Python<'_>, error: &PyErr) -> bool {
    let name = error.get_type(py).name();
    name.is_ok_and(|name| name.to_str().is_ok_and(|name| name == "PanicException"))
}

/// The entry of the traceback for a signal handler, which raised it. None: none did.
fn entry_of_handler<'py>(
    py: Python<'py>,
    error: &PyErr,
) -> PyResult<Option<Bound<'py, PyTraceback>>> {
    let Some(first) = error.traceback(py) else { return Ok(None) };
    let getsignal = py.import(word!(py, "_signal"))?.getattr(word!(py, "getsignal"))?;
    let mut codes = Vec::new();
    for signal in 1..=LAST_SIGNAL {
        // An error: 32 and 33 are the C library's.
        let Ok(handler) = getsignal.call1((signal,)) else { continue };
        // Only addresses are compared, and the handler holds its code.
        codes.extend(code_of(&handler).map(|code| code.as_ptr()));
    }
    let mut entry = Some(first).filter(|_| !codes.is_empty());
    while let Some(here) = entry {
        let code = here.getattr(word!(py, "tb_frame"))?.getattr(word!(py, "f_code"))?;
        if codes.contains(&code.as_ptr()) {
            return Ok(Some(here));
        }
        entry = next(&here)?;
    }
    Ok(None)
}

fn next<'py>(entry: &Bound<'py, PyTraceback>) -> PyResult<Option<Bound<'py, PyTraceback>>> {
    let next = entry.getattr(word!(entry.py(), "tb_next"))?;
    match next.is_none() {
        true => Ok(None),
        false => Ok(Some(next.cast_into()?)),
    }
}

/// The code that runs when a handler is called. None: it is no Python code.
fn code_of<'py>(handler: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = handler.py();
    let mut handler = handler.clone();
    for _ in 0..LAYERS {
        if handler.is_none() || handler.is_instance_of::<pyo3::types::PyInt>() {
            return None;
        }
        if handler.is_instance_of::<PyFunction>() {
            return handler.getattr(word!(py, "__code__")).ok();
        }
        let wrapped = [word!(py, "__func__"), word!(py, "func")];
        let inner = wrapped.into_iter().find_map(|name| handler.getattr(name).ok());
        let of_class = || handler.get_type().getattr(word!(py, "__call__")).ok();
        handler = inner.or_else(of_class)?;
    }
    None
}

/// The exception with a traceback that begins with the handler, or behind our own frames.
fn without_ours(py: Python<'_>, error: PyErr) -> PyErr {
    let found = match entry_of_handler(py, &error) {
        Ok(None) => error.traceback(py).map_or(Ok(None), behind_ours),
        found => found,
    };
    let Ok(left) = found else { return error };
    let value = error.value(py).clone().into_any();
    let left = left.map_or_else(|| py.None().into_bound(py), Bound::into_any);
    // SAFETY: an exception, and a traceback or None.
    let code = unsafe { ffi::PyException_SetTraceback(value.as_ptr(), left.as_ptr()) };
    match code {
        0 => PyErr::from_value(value),
        _ => error,
    }
}

fn behind_ours(first: Bound<'_, PyTraceback>) -> PyResult<Option<Bound<'_, PyTraceback>>> {
    let py = first.py();
    let mut entry = Some(first);
    while let Some(here) = entry {
        let globals = here.getattr(word!(py, "tb_frame"))?.getattr(word!(py, "f_globals"))?;
        let module = globals.cast_into::<PyDict>()?.get_item(word!(py, "__name__"))?;
        let module = module.and_then(|name| name.cast_into::<PyString>().ok());
        let is_ours = module.is_some_and(|name| {
            let name = name.to_str().unwrap_or_default();
            name == "dashcam" || name.starts_with("dashcam.")
        });
        if !is_ours {
            return Ok(Some(here));
        }
        entry = next(&here)?;
    }
    Ok(None)
}
