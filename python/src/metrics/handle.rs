//! Bound handles: `Counter`, `Gauge`, `Timing`, `Histogram`, `Distribution`, `Set`.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::raw::c_int;

use ::metrics::window::Kind;
use ::metrics::Series;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use sys::cell::StaticRef;

use super::arguments::{wrong, Arguments};
use super::door::{Op, KINDS};
#[cfg(not(Py_GIL_DISABLED))]
use super::of_holder::{self as counting, Words};
#[cfg(Py_GIL_DISABLED)]
use super::of_threads::{self as counting, Words};
use crate::call::{guarded, leaked, method, none};
use crate::made;

/// The object. All zero (as when the type is called from Python) is a handle without a series.
#[repr(C)]
pub(super) struct Handle {
    base: ffi::PyObject,
    words: Words,
    /// None: the series was refused. Set while nothing else has the object.
    series: Cell<Option<&'static Series>>,
    /// Its name and tags as text, or NULL. Owned. Set as `series`.
    text: Cell<*mut ffi::PyObject>,
}

impl Handle {
    /// Adds to a counter's words, when they are known.
    #[inline]
    fn add(&self, n: i64) -> bool {
        self.words.add(self.series.get(), n)
    }

    /// Does `op` with `value` (NULL: none was given). A new reference to None, or NULL and an
    /// exception.
    ///
    /// Safety: the GIL is held; `value` is NULL or alive.
    #[inline]
    pub unsafe fn act(&self, op: Op, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: the caller's promise, stated above.
        unsafe {
            if op == Op::Add {
                if value.is_null() && self.add(1) {
                    return none();
                }
            } else if matches!(op, Op::Value | Op::Set | Op::Change)
                && !value.is_null()
                && ffi::PyFloat_CheckExact(value) != 0
            {
                let py = Python::assume_attached();
                self.note(py, op, ffi::PyFloat_AS_DOUBLE(value));
                return none();
            }
            guarded(|py| {
                self.slowly(py, op, Bound::from_borrowed_ptr_or_opt(py, value))?;
                Ok(none())
            })
        }
    }

    fn note(&self, py: Python<'_>, op: Op, value: f64) {
        match op {
            Op::Set => counting::set(py, self.series.get(), value),
            Op::Change => counting::change(py, self.series.get(), value),
            _ => counting::value(py, self.series.get(), value),
        }
    }

    fn slowly(&self, py: Python<'_>, op: Op, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let name = || self.series.get().map_or("metric", |series| &*series.id.name);
        match (op, value) {
            (Op::Add, None) => self.words.add_slowly(py, self.series.get(), 1),
            (Op::Add, Some(n)) => match whole(&n) {
                Some(n) if self.add(n) => (),
                Some(n) => self.words.add_slowly(py, self.series.get(), n),
                None => {
                    let n = number(&n).ok_or_else(|| wrong(name(), "n", &n, "int or float"))?;
                    counting::add_float(py, self.series.get(), n);
                }
            },
            (Op::Member, Some(member)) => {
                let member = super::arguments::text(&member)?;
                let text = made::characters(&member);
                counting::member(py, self.series.get(), &text);
            }
            (_, Some(value)) => {
                let wrong = || wrong(name(), "value", &value, "int or float");
                self.note(py, op, number(&value).ok_or_else(wrong)?);
            }
            (_, None) => (),
        }
        Ok(())
    }
}

/// A number as a float; a number that is too large becomes infinite, which is refused and counted.
fn number(value: &Bound<'_, PyAny>) -> Option<f64> {
    match value.extract() {
        Ok(number) => Some(number),
        Err(_) => value.is_instance_of::<pyo3::types::PyInt>().then_some(f64::INFINITY),
    }
}

/// A whole number that fits; other numbers are taken as floats.
fn whole(n: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow: c_int = 0;
    // SAFETY: a live object; for an int the call cannot fail, it reports an overflow.
    unsafe {
        if ffi::PyLong_Check(n.as_ptr()) == 0 {
            return None;
        }
        let whole = ffi::PyLong_AsLongLongAndOverflow(n.as_ptr(), &mut overflow);
        (overflow == 0).then_some(whole)
    }
}

static TYPES: [StaticRef<Py<PyType>>; 6] = [const { StaticRef::empty() }; 6];

/// A handle of a series.
pub(super) fn make<'py>(
    py: Python<'py>,
    kind: Kind,
    series: Option<&'static Series>,
    name: &Bound<'py, PyString>,
    tags: &[(Box<str>, Box<str>)],
) -> PyResult<Bound<'py, PyAny>> {
    let Some(class) = TYPES[kind as usize].get() else {
        return Err(pyo3::exceptions::PyRuntimeError::new_err("dashcam is not imported"));
    };
    let tags: Vec<String> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let text = format!("{}{{{}}}", made::characters(name), tags.join(","));
    let text = made::text(py, &text)?;
    // SAFETY: the type is ours, with room for a `Handle`, zeroed; nothing else has the object yet.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let handle = &*made.as_ptr().cast::<Handle>();
        handle.series.set(series);
        handle.text.set(text.into_ptr());
        Ok(made)
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called by CPython for the last reference to a handle; its type is a heap type, to
    // which each object holds a reference.
    unsafe {
        let class = ffi::Py_TYPE(object);
        ffi::Py_XDECREF((*object.cast::<Handle>()).text.get());
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with a handle, the GIL held.
    unsafe {
        let text = (*object.cast::<Handle>()).text.get();
        match text.is_null() {
            true => ffi::PyUnicode_FromString(c"<dashcam metric>".as_ptr()),
            false => ffi::PyUnicode_FromFormat(
                c"<dashcam.%s %U>".as_ptr(),
                (*ffi::Py_TYPE(object)).tp_name.add("dashcam._native.".len()),
                text,
            ),
        }
    }
}

/// A method with one argument: positional, or by its name.
#[inline]
unsafe fn one(
    handle: *mut ffi::PyObject,
    (op, name, argument): (Op, &'static str, &'static str),
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with a handle of the right type, the GIL held, `count` arguments.
    unsafe {
        let handle = &*handle.cast::<Handle>();
        match (keywords.is_null(), count) {
            (true, 0) if op == Op::Add => handle.act(op, std::ptr::null_mut()),
            (true, 1) => handle.act(op, *args),
            _ => guarded(|py| {
                let mut given = Arguments::new(args, count, keywords).list(py)?;
                match given.pop() {
                    Some((None, value)) if given.is_empty() => Ok(handle.act(op, value.as_ptr())),
                    Some((Some(key), value)) if given.is_empty() && key == argument => {
                        Ok(handle.act(op, value.as_ptr()))
                    }
                    _ => Err(pyo3::exceptions::PyTypeError::new_err(format!(
                        "{name}() takes one argument, '{argument}'"
                    ))),
                }
            }),
        }
    }
}

macro_rules! methods {
    ($($function:ident $op:ident $name:literal $argument:literal;)*) => {
        $(unsafe extern "C" fn $function(
            handle: *mut ffi::PyObject,
            args: *const *mut ffi::PyObject,
            count: ffi::Py_ssize_t,
            keywords: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            // SAFETY: called by CPython, with the arguments that `one` requires.
            unsafe { one(handle, (Op::$op, $name, $argument), args, count, keywords) }
        })*
    };
}

methods! {
    inc Add "inc" "n";
    set Set "set" "value";
    change Change "add" "delta";
    record Value "record" "value";
    record_ms Value "record" "ms";
    member Member "add" "member";
}

/// Name of the type, and its methods.
fn described(kind: Kind) -> (&'static CStr, Vec<ffi::PyMethodDef>) {
    match kind {
        Kind::Counter => (
            c"dashcam._native.Counter",
            vec![method(c"inc", inc, c"inc($self, n=1)\n--\n\nAdds n.")],
        ),
        Kind::Gauge => (
            c"dashcam._native.Gauge",
            vec![
                method(c"set", set, c"set($self, value)\n--\n\nSets it."),
                method(c"add", change, c"add($self, delta)\n--\n\nChanges it."),
            ],
        ),
        Kind::Timing => (
            c"dashcam._native.Timing",
            vec![method(c"record", record_ms, c"record($self, ms)\n--\n\nNotes milliseconds.")],
        ),
        Kind::Histogram => (
            c"dashcam._native.Histogram",
            vec![method(c"record", record, c"record($self, value)\n--\n\nNotes a value.")],
        ),
        Kind::Distribution => (
            c"dashcam._native.Distribution",
            vec![method(c"record", record, c"record($self, value)\n--\n\nNotes a value.")],
        ),
        Kind::Set => (
            c"dashcam._native.Set",
            vec![method(c"add", member, c"add($self, member)\n--\n\nNotes a member.")],
        ),
    }
}

/// Makes the six types and adds them to the module.
pub(super) fn make_types(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for kind in KINDS {
        let (name, methods) = described(kind);
        let slot = |slot: c_int, pfunc: *mut std::ffi::c_void| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(ffi::Py_tp_dealloc, dealloc as *mut std::ffi::c_void),
            slot(ffi::Py_tp_repr, repr as *mut std::ffi::c_void),
            slot(ffi::Py_tp_methods, leaked(methods).cast()),
            slot(0, std::ptr::null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: name.as_ptr(),
            basicsize: size_of::<Handle>() as c_int,
            itemsize: 0,
            flags: ffi::Py_TPFLAGS_DEFAULT as _,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the spec is complete and copied by the call; methods and names are never freed.
        let class = unsafe {
            let class = ffi::PyType_FromSpec(&mut spec);
            Bound::from_owned_ptr_or_err(py, class)?.cast_into::<PyType>()?
        };
        module.add(class.name()?, &class)?;
        // A second import of the module keeps the first types.
        let _ = TYPES[kind as usize].put(class.unbind());
    }
    Ok(())
}
