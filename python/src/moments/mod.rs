//! What a program records about its own work: spans, requests, events, and tasks on other threads.
//!
//! How it works: the functions and both types are laid out by hand, see `object`. A span keeps its
//! name and its values as Python's objects; both are turned into words when it ends. Names' ids are
//! found by the address of the str, see `names`.
//!
//! What it promises: nothing here raises, except TypeError for a call that is wrong in itself, and
//! exceptions that interrupt the program (KeyboardInterrupt) while a value's `str()` runs. Values
//! that are none of str, int, float, bool are converted by their `str()` when the span begins, and
//! never while recording is off. A panic of ours is caught: the span is lost, the program
//! continues.
//!
//! Missing on purpose: decorators (python/dashcam/_decorating.py), attributes of other shapes.

mod arrivals;
mod asgi;
mod attributes;
mod awaited;
#[cfg(not(Py_GIL_DISABLED))]
mod bound;
mod call_names;
mod call_span;
mod calls;
#[cfg(not(Py_GIL_DISABLED))]
mod doors;
mod entering;
mod given;
mod handed;
mod held;
mod making;
mod object;
mod path_names;
mod pool;
mod quick;
mod request;
mod sender;
mod served;
mod span;
mod tasks;
mod wsgi;

use std::os::raw::c_void;
use std::ptr::null_mut;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::alone::alone;
use crate::call::{add_functions, guarded, leaked, method, none};
use crate::kept::word;
use crate::types::slot;
use crate::{made, names};
use given::{are_exact, read};
use held::Held;
use object::{Kind, Moment};
use request::Requests;
use span::Spans;

pub use arrivals::{asgi_arrives, asgi_begins, request_arrives, request_named, request_route};
pub use asgi::asgi_on;
pub use awaited::{handling, seen};
pub use call_names::{cursor_is_hooked, release_cursors};
pub use handed::work;
pub use quick::{names_path, names_route};
pub use request::{
    current_request, request_begin, request_end, request_enter, request_failed, request_rename,
};
pub use served::{parsed, serving};
pub use tasks::{gc_callback, task_begin, task_end, Task};
pub use wsgi::wsgi_call;

/// Calls `then` with the attributes in a dict; attributes past the limit are counted.
pub fn with_dict<R>(
    recorder: &recorder::Recorder,
    dict: &Bound<'_, PyDict>,
    then: impl FnOnce(&[recorder::Attribute<'_>]) -> R,
) -> PyResult<R> {
    let py = dict.py();
    let mut plain: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = Vec::new();
    let pairs = made::pairs(dict)?;
    let extra = pairs.len().saturating_sub(format::record::MAX_ATTRIBUTES);
    for (key, value) in pairs.into_iter().take(format::record::MAX_ATTRIBUTES) {
        // SAFETY: both are live objects, held here; the results are checked.
        let (key, value) = unsafe {
            let key = Bound::from_owned_ptr_or_err(py, attributes::plain(py, key.str()?.as_ptr()))?;
            let value = attributes::plain(py, value.as_ptr());
            (key, Bound::from_owned_ptr_or_err(py, value)?)
        };
        plain.push((key, value));
    }
    if extra > 0 {
        recorder.region().lose(format::region::losses::ATTRIBUTES_CUT, extra as u64);
    }
    let pair = |at: usize| (plain[at].0.as_ptr(), plain[at].1.as_ptr());
    let mut made = None;
    // SAFETY: exact strs and plain values, held by `plain`; the GIL is held.
    unsafe { attributes::with(recorder, plain.len(), pair, |list| made = Some(then(list))) };
    made.ok_or_else(|| PyRuntimeError::new_err("attributes were not taken"))
}

/// `span(name, /, **attributes)`, `request(name, /, **attributes)`; both also as `@span`.
///
/// Safety: as CPython calls a function with METH_FASTCALL and METH_KEYWORDS.
unsafe extern "C" fn make<K: Kind>(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, `count` positional arguments at `args`, followed by
    // one for each name in the tuple `keywords`, which may be NULL.
    unsafe {
        if count != 1 || ffi::PyUnicode_CheckExact(*args) == 0 || !are_exact(keywords) {
            return guarded(|py| make_slowly::<K>(py, args, count, keywords));
        }
        ffi::Py_INCREF(*args);
        let made = making::new::<K>(*args);
        if !keywords.is_null() && !made.is_null() {
            for at in 0..ffi::PyTuple_GET_SIZE(keywords) {
                // The keywords of a call all differ.
                (*made).push(ffi::PyTuple_GET_ITEM(keywords, at), *args.add(at as usize + 1));
            }
        }
        made.cast()
    }
}

#[cold]
unsafe fn make_slowly<K: Kind>(
    py: Python<'_>,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: as `make`.
    unsafe {
        if count == 1 && keywords.is_null() && ffi::PyUnicode_Check(*args) == 0 {
            let function = Bound::from_borrowed_ptr(py, *args);
            if function.is_callable() {
                let name = function
                    .getattr(word!(py, "__qualname__"))
                    .or_else(|_| function.getattr(word!(py, "__name__")));
                let name = match name {
                    Ok(name) => name.str()?,
                    Err(_) => function.get_type().qualname()?,
                };
                let made = new::<K>(py, &name)?;
                return decorate(&made, &function).map(Bound::into_ptr);
            }
        }
        let given = read(py, K::NOUN, args, count, keywords)?;
        let made = new::<K>(py, &given.name)?;
        let moment = &*made.as_ptr().cast::<Moment>();
        for (key, value) in &given.pairs {
            moment.push(key.as_ptr(), value.as_ptr());
        }
        Ok(made.into_ptr())
    }
}

/// A new object of this name.
fn new<'py, K: Kind>(py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let name = made::exactly(name)?;
    // SAFETY: exactly a str, whose reference is handed over; NULL is fetched as MemoryError.
    unsafe { Bound::from_owned_ptr_or_err(py, making::new::<K>(name.into_ptr()).cast()) }
}

/// A function that enters an object like `made` around each call of `function`.
fn decorate<'py>(
    made: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = made.py();
    let again = made.getattr(word!(py, "_again"))?;
    py.import(word!(py, "dashcam._decorating"))?
        .getattr(word!(py, "decorate"))?
        .call1((again, function))
}

/// `made(function)`.
unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, an object of ours, a tuple, and a dict or NULL.
    unsafe {
        guarded(|py| {
            let given = Bound::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?;
            if given.len() != 1 || !keywords.is_null() || !given.get_item(0)?.is_callable() {
                return Err(PyTypeError::new_err(
                    "as a decorator it takes one argument, a function",
                ));
            }
            let made = Bound::from_borrowed_ptr(py, object);
            decorate(&made, &given.get_item(0)?).map(Bound::into_ptr)
        })
    }
}

/// `_again()`: another object with the same name and attributes.
unsafe extern "C" fn again<K: Kind>(
    object: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and an object of ours.
    unsafe {
        let old = &*object.cast::<Moment>();
        ffi::Py_INCREF(old.name.get());
        let made = making::new::<K>(old.name.get());
        if !made.is_null() {
            let held = Held::of(old);
            for (key, value) in (0..held.count()).map(|at| held.pair(at)) {
                (*made).push(key, value);
            }
            (*made).extra.set(held.extra());
        }
        made.cast()
    }
}

/// `set(**attributes)`: adds or replaces attributes.
unsafe extern "C" fn set(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and an object of ours, held by the caller; `count`
    // positional arguments, and one for each name in the tuple `keywords`, which may be NULL.
    unsafe {
        if count != 0 {
            return guarded(|_| {
                Err(PyTypeError::new_err("set() takes attributes by keyword only"))
            });
        }
        let moment = &*object.cast::<Moment>();
        let given = if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) };
        for at in 0..given {
            // Of what is exactly a str it is the str itself.
            let key = ffi::PyUnicode_FromObject(ffi::PyTuple_GET_ITEM(keywords, at));
            if key.is_null() {
                return null_mut();
            }
            moment.put(key, *args.add(at as usize));
            ffi::Py_DECREF(key);
        }
        let py = Python::assume_attached();
        let is_entered = alone(object, || moment.begin_ns.get() != 0);
        if is_entered && moment.settle(py).is_err() {
            return null_mut();
        }
        none()
    }
}

unsafe extern "C" fn repr<K: Kind>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and an object of ours.
    unsafe {
        guarded(|py| {
            let name = Bound::from_borrowed_ptr(py, (*object.cast::<Moment>()).name.get());
            let text = format!("<dashcam.{} {}>", K::NOUN, made::characters(&name.repr()?));
            Ok(made::text(py, &text)?.into_ptr())
        })
    }
}

unsafe extern "C" fn name_of(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and an object of ours, which has a name.
    unsafe {
        let name = (*object.cast::<Moment>()).name.get();
        ffi::Py_INCREF(name);
        name
    }
}

unsafe extern "C" fn id_of(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let id = alone(object, || (*object.cast::<Moment>()).id.get());
        ffi::PyLong_FromUnsignedLongLong(id)
    }
}

unsafe extern "C" fn attributes_of(
    object: *mut ffi::PyObject,
    _: *mut c_void,
) -> *mut ffi::PyObject {
    // SAFETY: as above; keys and values are held.
    unsafe {
        guarded(|py| {
            let held = Held::of(&*object.cast::<Moment>());
            let dict = made::dict(py)?;
            for (key, value) in (0..held.count()).map(|at| held.pair(at)) {
                let key = Bound::from_borrowed_ptr(py, key);
                dict.set_item(key, Bound::from_borrowed_ptr(py, value))?;
            }
            Ok(dict.into_ptr())
        })
    }
}

fn add_type<K: Kind>(
    module: &Bound<'_, PyModule>,
    doc: &'static std::ffi::CStr,
    has_id: bool,
) -> PyResult<()> {
    let getter = |name: &'static std::ffi::CStr, get: ffi::getter, doc: &'static std::ffi::CStr| {
        ffi::PyGetSetDef {
            name: name.as_ptr(),
            get: Some(get),
            set: None,
            doc: doc.as_ptr(),
            closure: null_mut(),
        }
    };
    let mut getters = vec![
        getter(c"name", name_of, c"Its name."),
        getter(c"attributes", attributes_of, c"Its attributes, at most 8, as a new dict."),
    ];
    if has_id {
        getters.push(getter(c"id", id_of, c"Its id; 0 while it is not open."));
    }
    getters.push(ffi::PyGetSetDef::default());
    let mut another = ffi::PyMethodDef::zeroed();
    another.ml_name = c"_again".as_ptr();
    another.ml_flags = ffi::METH_NOARGS;
    another.ml_meth = ffi::PyMethodDefPointer { PyCFunction: again::<K> };
    let set_doc =
        c"set(**attributes)\n--\n\nAdds attributes, or replaces those it has, until its end.";
    let methods = leaked(vec![method(c"set", set, set_doc), another]);
    let slots = vec![
        slot(ffi::Py_tp_doc, doc.as_ptr().cast()),
        slot(ffi::Py_tp_call, call as *const c_void),
        slot(ffi::Py_tp_repr, repr::<K> as *const c_void),
        slot(ffi::Py_tp_methods, methods.cast()),
        slot(ffi::Py_tp_getset, getters.leak().as_ptr().cast()),
    ];
    making::make_type::<K>(module, slots)
}

/// The memory kept for the next spans is released with the module's dict, at the interpreter's end.
unsafe extern "C" fn end(_capsule: *mut ffi::PyObject) {
    // SAFETY: CPython destroys a capsule with the GIL held.
    unsafe {
        Spans::pool().empty();
        Requests::pool().empty();
        names::forget(Python::assume_attached());
    }
}

/// Adds functions and types to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    if !Spans::pool().class.get().is_null() {
        // The types and their pools exist once in the process.
        return Err(crate::call::elsewhere());
    }
    #[cfg(not(Py_GIL_DISABLED))]
    doors::make_types(py)?;
    awaited::make_types(py)?;
    sender::make_type(py)?;
    asgi::make_kept(py)?;
    handed::make_type(py)?;
    add_type::<Spans>(module, c"Nested work; made by dashcam.span().", false)?;
    add_type::<Requests>(module, c"Judged work; made by dashcam.request().", true)?;
    // SAFETY: the pointer is that of a static and is not NULL; the name is a static too; a NULL
    // result is fetched as an error.
    let kept = unsafe {
        let capsule =
            ffi::PyCapsule_New((&raw const END).cast_mut().cast(), END_NAME.as_ptr(), Some(end));
        Bound::from_owned_ptr_or_err(py, capsule)?
    };
    module.add("_kept", kept)?;
    add_functions(module, quick::functions())?;
    call_names::make_kept(py)?;
    add_functions(module, calls::functions())?;
    add_functions(
        module,
        vec![
            method(
                c"span",
                make::<Spans>,
                c"span(name, /, **attributes)\n--\n\nNested work: `with span(\"db.query\", rows=3): ...`; `@span` and `@span(\"name\")` too.",
            ),
            method(
                c"request",
                make::<Requests>,
                c"request(name, /, **attributes)\n--\n\nA unit of work whose latency is judged: `with request(\"GET /x\"): ...`, or a decorator.\n\nAttributes are str, int, float or bool; others are recorded as their str() at its begin. At most\n8, texts up to 64 bytes; what is cut is counted. Follows context variables, so asyncio tasks keep\ntheirs. `set(rows=3)` adds some later.",
            ),
            method(
                c"event",
                span::event,
                c"event(name, /, **attributes)\n--\n\nSomething that happened now, in the current request if there is one.",
            ),
            method(
                c"asgi_serve",
                asgi::serve_with,
                c"Calls an ASGI application as a request that has arrived; what it gives is to be awaited.",
            ),
            method(
                c"asgi_run",
                asgi::run,
                c"Around a server's `run_asgi(self, app)`: the application is called as a request.",
            ),
            method(
                c"asgi_call",
                asgi::call_application,
                c"Calls an ASGI application as a request that begins when what it gives is awaited.",
            ),
        ],
    )
}

/// A capsule needs a pointer that is not NULL.
static END: u8 = 0;
const END_NAME: &std::ffi::CStr = c"dashcam._native._kept";
