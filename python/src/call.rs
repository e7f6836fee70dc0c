//! What functions and types laid out by hand share.
//!
//! A call into such a function costs only what CPython itself needs; a wrapper would add more than
//! most of the functions do.

use std::ffi::CStr;
use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;

/// A function that takes keywords, by the cheapest calling convention.
pub type Fast = ffi::PyCFunctionFastWithKeywords;
/// The flags of that convention.
pub const FAST: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// None, as a new reference.
///
/// Safety: the caller holds the GIL.
#[inline]
pub unsafe fn none() -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL; None is never freed.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

/// Runs code that may allocate or raise; a panic of ours becomes an exception.
///
/// Safety: only from functions that CPython calls, which hold the GIL.
#[cold]
pub unsafe fn guarded(
    body: impl FnOnce(Python<'_>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    // SAFETY: only called from functions that CPython calls, which hold the GIL.
    let py = unsafe { Python::assume_attached() };
    let result = catch_unwind(AssertUnwindSafe(|| body(py))).unwrap_or_else(|_| {
        Err(PyRuntimeError::new_err("dashcam: internal error; please report it"))
    });
    result.unwrap_or_else(|error| {
        error.restore(py);
        std::ptr::null_mut()
    })
}

/// Raises TypeError; NULL.
///
/// Safety: the caller holds the GIL.
#[cold]
pub unsafe fn wrong_call(text: &'static CStr) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_TypeError, text.as_ptr()) };
    std::ptr::null_mut()
}

/// Runs code that does not raise; a panic of ours gives `otherwise`.
#[inline]
pub fn quietly<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// A method that takes keywords, by the cheapest calling convention.
pub fn method(name: &'static CStr, function: Fast, doc: &'static CStr) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
        ml_flags: FAST,
        ml_doc: doc.as_ptr(),
    }
}

/// A method without arguments, which CPython counts.
pub fn method_alone(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    method_of(name, function, ffi::METH_NOARGS, doc)
}

/// A method with one argument.
pub fn method_of_one(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    method_of(name, function, ffi::METH_O, doc)
}

fn method_of(
    name: &'static CStr,
    function: ffi::PyCFunction,
    ml_flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    let ml_meth = ffi::PyMethodDefPointer { PyCFunction: function };
    ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags, ml_doc: doc.as_ptr() }
}

/// A callable and the arguments for it, as a function gets them that is called in its place.
#[derive(Clone, Copy)]
pub struct Forwarded {
    pub callable: *mut ffi::PyObject,
    pub first: *const *mut ffi::PyObject,
    /// Positional ones.
    pub count: usize,
    /// The names of those behind them; NULL for none.
    pub keywords: *mut ffi::PyObject,
}

impl Forwarded {
    /// None: not even a callable.
    ///
    /// Safety: the arguments of a call with METH_FASTCALL and METH_KEYWORDS.
    pub unsafe fn of(
        args: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        keywords: *mut ffi::PyObject,
    ) -> Option<Forwarded> {
        let count = usize::try_from(count).ok()?.checked_sub(1)?;
        // SAFETY: promised by the caller; there is a first one, and `first` is at most behind all.
        unsafe { Some(Forwarded { callable: *args, first: args.add(1), count, keywords }) }
    }

    /// The call that was meant.
    ///
    /// Safety: the GIL is held, inside of that call.
    pub unsafe fn call(self) -> *mut ffi::PyObject {
        let Forwarded { callable, first, count, keywords } = self;
        // SAFETY: promised by the caller, who holds the callable and its arguments.
        unsafe { ffi::PyObject_Vectorcall(callable, first, count as _, keywords) }
    }
}

extern "C" {
    static mut PyMethod_Type: ffi::PyTypeObject;
    fn PyMethod_Self(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// The object that a bound method is bound to; None: it is another callable.
#[inline]
pub fn bound_to<'py>(method: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: a live object, the GIL is held; of a bound method its object is borrowed, never NULL.
    unsafe {
        let is_method = method.get_type_ptr() == &raw mut PyMethod_Type;
        is_method.then(|| Bound::from_borrowed_ptr(method.py(), PyMethod_Self(method.as_ptr())))
    }
}

/// Methods in the form that CPython keeps for ever, with an empty entry at the end.
pub fn leaked(mut methods: Vec<ffi::PyMethodDef>) -> *mut ffi::PyMethodDef {
    methods.push(ffi::PyMethodDef::zeroed());
    methods.leak().as_mut_ptr()
}

/// A function that gets `state` as its `self`. For few functions: its definition is never freed.
pub fn function_of<'py>(
    state: Bound<'py, PyAny>,
    function: ffi::PyMethodDef,
) -> PyResult<Bound<'py, PyAny>> {
    let definition = leaked(vec![function]);
    // SAFETY: the definition is never freed; the function holds the state. NULL is fetched as an
    // error.
    unsafe {
        let made = ffi::PyCFunction_NewEx(definition, state.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(state.py(), made)
    }
}

/// Adds functions to a module.
pub fn add_functions(
    module: &Bound<'_, PyModule>,
    functions: Vec<ffi::PyMethodDef>,
) -> PyResult<()> {
    // SAFETY: the module is alive, the list is leaked and ends with an empty entry.
    let code = unsafe { ffi::PyModule_AddFunctions(module.as_ptr(), leaked(functions)) };
    match code {
        0 => Ok(()),
        _ => Err(PyErr::fetch(module.py())),
    }
}

/// A second interpreter of this process imports the module: the objects belong to the first.
pub fn elsewhere() -> PyErr {
    PyImportError::new_err("another interpreter of this process holds the recorder")
}
