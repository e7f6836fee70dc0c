//! Metrics from Python: by name (`count("orders")`) and by bound handle
//! (`counter("orders").inc()`).
//!
//! How it works: functions and types are laid out by hand, since a call costs less than a wrapper
//! would add. Handles are entered into dicts, by name, and by name, tags and rate together; a call
//! by name finds its handle there. With the GIL all threads count into one shard (`of_holder`),
//! without it each into its own (`of_threads`).
//!
//! What it promises: no lock, no system call, no allocation once a name is known. Wrong types raise
//! TypeError, a rate outside (0, 1] ValueError; everything else is kept or counted as refused.

mod arguments;
mod door;
mod handle;
#[cfg(not(Py_GIL_DISABLED))]
mod of_holder;
#[cfg(Py_GIL_DISABLED)]
mod of_threads;

use std::ffi::CStr;

use ::metrics::registry;
use ::metrics::window::Kind;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::call::{add_functions, guarded, method, none};
use crate::kept::Dict;
use crate::made;
use crate::process::wake;
use arguments::Arguments;
use door::{Door, Op};
use handle::Handle;

/// At most this many handles are remembered with tags or a rate; further ones are looked up in the
/// registry.
const MOST: usize = 20_000;

/// Name -> handle, by kind. Grows with series only, which are bounded.
static PLAIN: [Dict; 6] = [const { Dict::new() }; 6];
/// (name, key, value, ..., rate) -> handle, by kind.
static TAGGED: [Dict; 6] = [const { Dict::new() }; 6];

/// A call by name.
#[inline]
unsafe fn by_name(
    door: &'static Door,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the GIL held, `count` arguments at `args`, and a tuple of keywords
    // or NULL. The dict and its content are never freed nor replaced, so neither is the borrowed
    // handle.
    unsafe {
        let least = if door.op == Op::Add || door.op == Op::Bind { 1 } else { 2 };
        let most = if door.op == Op::Bind { 1 } else { 2 };
        if keywords.is_null() && (least..=most).contains(&count) {
            let name = *args;
            if let (Some(dict), 1) =
                (PLAIN[door.kind as usize].get(), ffi::PyUnicode_CheckExact(name))
            {
                let found = ffi::PyDict_GetItemWithError(dict.as_ptr(), name);
                if !found.is_null() {
                    let value = if count == 2 { *args.add(1) } else { std::ptr::null_mut() };
                    return act(door, found, value);
                }
            }
        }
        guarded(|py| slowly(py, door, Arguments::new(args, count, keywords)))
    }
}

#[inline]
unsafe fn act(
    door: &'static Door,
    found: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: `found` is a live handle, `value` NULL or a live object; the GIL is held.
    unsafe {
        if door.op == Op::Bind {
            ffi::Py_INCREF(found);
            return found;
        }
        (*found.cast::<Handle>()).act(door.op, value)
    }
}

fn slowly(
    py: Python<'_>,
    door: &'static Door,
    arguments: Arguments,
) -> PyResult<*mut ffi::PyObject> {
    let given = arguments.read(py, door)?;
    if registry().mark() == 0 && door.op != Op::Bind {
        // Off: nothing is entered.
        // SAFETY: the GIL is held.
        return Ok(unsafe { none() });
    }
    let found = handle_of(py, door.kind, &given.name, given.tags.as_ref(), given.rate)?;
    let value = given.value.as_ref().map_or(std::ptr::null_mut(), |v| v.as_ptr());
    // SAFETY: the handle is kept by `found` until the call is over; the GIL is held.
    let result = unsafe { act(door, found.as_ptr(), value) };
    match result.is_null() {
        true => Err(PyErr::take(py).unwrap_or_else(|| PyTypeError::new_err("no value"))),
        false => Ok(result),
    }
}

/// The handle of a series: the known one, or a new one. A refused one is not remembered: there may
/// be room later.
fn handle_of<'py>(
    py: Python<'py>,
    kind: Kind,
    name: &Bound<'py, PyString>,
    tags: Option<&Bound<'py, PyDict>>,
    rate: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let is_plain = tags.is_none_or(|tags| tags.is_empty()) && rate == 1.0;
    let cache = if is_plain { &PLAIN } else { &TAGGED };
    let dict = cache[kind as usize].get().ok_or_else(crate::call::elsewhere)?.bind(py);
    let mut pairs: Vec<(Bound<'_, PyString>, Bound<'_, PyString>)> = Vec::new();
    for (key, value) in tags.map_or_else(|| Ok(Vec::new()), made::pairs)? {
        pairs.push((arguments::text(&key)?, arguments::text(&value)?));
    }
    let key = match is_plain {
        true => name.clone().into_any(),
        false => {
            let mut words = vec![name.clone().into_any()];
            for (key, value) in &pairs {
                words.extend([key.clone().into_any(), value.clone().into_any()]);
            }
            words.push(made::float(py, rate)?);
            made::tuple(py, &words)?.into_any()
        }
    };
    if let Some(found) = dict.get_item(&key)? {
        return Ok(found);
    }
    let tags: Vec<(Box<str>, Box<str>)> = pairs
        .iter()
        .map(|(key, value)| (made::characters(key).into(), made::characters(value).into()))
        .collect();
    let borrowed: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (&**key, &**value)).collect();
    let series = registry().series_of(kind, &made::characters(name), &borrowed, rate);
    let made = handle::make(py, kind, series, name, &tags)?;
    match series.is_some() && dict.len() < MOST {
        true => entered(dict, &key, &made),
        false => Ok(made),
    }
}

/// The handle under this key: `made`, unless another thread was first. An entry is never replaced,
/// since calls use it without a reference of their own.
fn entered<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, PyAny>,
    made: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: live objects; the result is borrowed from the dict, which keeps it for ever.
    unsafe {
        let kept = ffi::PyDict_SetDefault(dict.as_ptr(), key.as_ptr(), made.as_ptr());
        Bound::from_borrowed_ptr_or_err(dict.py(), kept)
    }
}

macro_rules! doors {
    ($($function:ident $text:literal $kind:ident $op:ident $argument:literal $doc:literal;)*) => {
        $(unsafe extern "C" fn $function(
            _module: *mut ffi::PyObject,
            args: *const *mut ffi::PyObject,
            count: ffi::Py_ssize_t,
            keywords: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            static DOOR: Door = Door {
                kind: Kind::$kind, op: Op::$op, name: $text, argument: $argument,
            };
            // SAFETY: called by CPython, with the arguments that `by_name` requires.
            unsafe { by_name(&DOOR, args, count, keywords) }
        })*

        fn functions() -> Vec<ffi::PyMethodDef> {
            vec![$(method(
                // SAFETY: a literal with its NUL.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!($text, "\0").as_bytes()) },
                $function,
                // SAFETY: as above.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!($doc, "\0").as_bytes()) },
            ),)*]
        }
    };
}

doors! {
    count "count" Counter Add "n" "count(name, n=1, *, tags=None, rate=1)\n--\n\nAdds n to a counter.";
    gauge "gauge" Gauge Set "value" "gauge(name, value, *, tags=None, rate=1)\n--\n\nSets a gauge.";
    gauge_add "gauge_add" Gauge Change "delta" "gauge_add(name, delta, *, tags=None, rate=1)\n--\n\nChanges a gauge.";
    timing "timing" Timing Value "ms" "timing(name, ms, *, tags=None, rate=1)\n--\n\nNotes a duration in milliseconds.";
    histogram "histogram" Histogram Value "value" "histogram(name, value, *, tags=None, rate=1)\n--\n\nNotes a value; the agent on this host makes percentiles of it.";
    distribution "distribution" Distribution Value "value" "distribution(name, value, *, tags=None, rate=1)\n--\n\nNotes a value; the server makes percentiles over all hosts of it.";
    set "set" Set Member "member" "set(name, member, *, tags=None, rate=1)\n--\n\nNotes a member of a set.";
    counter_handle "counter" Counter Bind "" "counter(name, *, tags=None, rate=1)\n--\n\nA bound counter: the cheap way.";
    gauge_handle "gauge_handle" Gauge Bind "" "gauge_handle(name, *, tags=None, rate=1)\n--\n\nA bound gauge.";
    timing_handle "timing_handle" Timing Bind "" "timing_handle(name, *, tags=None, rate=1)\n--\n\nA bound timing.";
    histogram_handle "histogram_handle" Histogram Bind "" "histogram_handle(name, *, tags=None, rate=1)\n--\n\nA bound histogram.";
    distribution_handle "distribution_handle" Distribution Bind "" "distribution_handle(name, *, tags=None, rate=1)\n--\n\nA bound distribution.";
    set_handle "set_handle" Set Bind "" "set_handle(name, *, tags=None, rate=1)\n--\n\nA bound set.";
}

/// Adds functions and types to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    handle::make_types(module)?;
    PLAIN.iter().chain(&TAGGED).try_for_each(|dict| dict.make(module.py()))?;
    add_functions(module, functions())
}

/// Takes a window now and waits for it, at most two seconds, without the GIL.
#[pyfunction]
pub fn flush_metrics(py: Python<'_>) -> bool {
    wake(py);
    py.detach(dashcam::flush)
}

/// Before `os._exit` and `os.exec*`, which run no exit handlers: a last window, at most one second,
/// without the GIL.
#[pyfunction]
pub fn leave(py: Python<'_>) -> bool {
    py.detach(dashcam::leave)
}
