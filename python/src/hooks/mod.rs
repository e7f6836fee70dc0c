//! Hooks: they observe calls of functions in the program's modules, without a frame of ours around
//! them.
//!
//! How it works: a `Hook` holds the actions around a call. Where the interpreter allows it, the
//! function itself calls the hook (`in_place`; `methods` of classes written in C); elsewhere a
//! `StandIn` replaces it in its class or module. In each case a call is:
//!
//! ```text
//!   caller -> before(*args, **kwargs)            returns; its answer may replace the arguments
//!          -> the function                       below the caller's own frame
//!          -> after(result, *args, **kwargs)     its answer may replace the result
//!          or failed(kind, *args, **kwargs)      `kind`: the name of the exception's type
//! ```
//!
//! An `around` is a function of ours in native code that calls the original itself; its argument is
//! the original, bound to its `self`.
//!
//! What it promises: the original is called once, with the caller's arguments unless `before`
//! replaces them, even if a hook fails: an exception of `before`, `after` or `failed` goes into
//! `status()`, once for each hook, and no further. An exception that interrupts the program
//! (KeyboardInterrupt and any other that is no `Exception`) is passed on, and ends the request that
//! the call has begun. While the original runs, no frame of ours is on the stack: tracebacks,
//! `sys._getframe`, `warnings` with a stack level and `logging` find the same as without us. Hooks
//! in place are removed when the program has ended, behind its exit handlers, and no earlier.
//!
//! A function that another agent has wrapped (wrapt's proxies) is hooked inside of its wrappers:
//! these remain the objects that the program finds, so the agent recognises and removes them, and
//! the hook remains.
//!
//! Missing on purpose: the list of hooked functions (python/dashcam/_integrations); class and
//! static methods.

mod actions;
mod builtins;
mod calling;
mod forks;
mod in_place;
mod methods;
mod stand_in;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::kept::word;
use actions::{made, Hook};

pub use builtins::{before_exec, hook_builtins};

/// Proxies around one function; a proxy may wrap itself.
const MOST_WRAPPERS: usize = 16;

/// Hooks the function `name` of a class or module. A function with a hook keeps that hook.
/// `outermost`: the `around` is called only where no request is open; `keywords`: it takes them.
/// AttributeError: it does not exist; TypeError: it is not a function of a known kind.
#[pyfunction]
#[pyo3(signature = (
    holder, name, *, before = None, after = None, failed = None, around = None, outermost = false,
    keywords = false
))]
#[allow(clippy::too_many_arguments)] // Keywords.
pub fn hook(
    holder: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    before: Option<Bound<'_, PyAny>>,
    after: Option<Bound<'_, PyAny>>,
    failed: Option<Bound<'_, PyAny>>,
    around: Option<Bound<'_, PyAny>>,
    outermost: bool,
    keywords: bool,
) -> PyResult<()> {
    let found = holder.getattr("__dict__")?.call_method1("get", (name,))?;
    let Place { holder, name, found } = innermost(holder.clone(), name.clone(), found)?;
    let function = holder.getattr(&name)?;
    if stand_in::is_one(&function) {
        return Ok(());
    }
    let kind = found.get_type().qualname()?.to_string();
    if !function.is_callable() || is_of_class(&found)? {
        let found = if kind == "NoneType" { function.get_type().to_string() } else { kind };
        return Err(PyTypeError::new_err(format!("{name}: found {found}, wanted a function")));
    }
    let hook = Hook { outermost, keywords, ..made(before, after, failed, around) };
    // The interpreter may call `__init__` of Python without its vectorcall word
    // (CALL_ALLOC_AND_ENTER_INIT of 3.13).
    let hook = match name.to_str()? {
        "__init__" => hook,
        _ => match in_place::put(&function, hook).or_else(|hook| methods::put(&function, hook)) {
            Ok(()) => return Ok(()),
            Err(hook) => hook,
        },
    };
    holder.setattr(name, stand_in::new(&function, hook)?)
}

/// Whether this is what a class keeps of a static method, a class method or a property.
fn is_of_class(found: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = found.get_type().qualname()?.to_string();
    Ok(["staticmethod", "classmethod", "property"].contains(&&*kind))
}

/// Where a function is kept: an attribute, and what lies there.
struct Place<'py> {
    holder: Bound<'py, PyAny>,
    name: Bound<'py, PyString>,
    found: Bound<'py, PyAny>,
}

/// The place of the function inside of all proxies around it. A proxy's type has a descriptor
/// `__wrapped__` by which the wrapped object can be exchanged; the attribute of that name which
/// `functools.wraps` sets on a function is not one.
fn innermost<'py>(
    holder: Bound<'py, PyAny>,
    name: Bound<'py, PyString>,
    found: Bound<'py, PyAny>,
) -> PyResult<Place<'py>> {
    let mut place = Place { holder, name, found };
    for _ in 0..MOST_WRAPPERS {
        if is_of_class(&place.found)? {
            break;
        }
        let wrapped = word!(place.found.py(), "__wrapped__");
        let descriptor = place.found.get_type().getattr(wrapped);
        if !descriptor
            .is_ok_and(|one| one.get_type().hasattr(word!(one.py(), "__set__")).unwrap_or(false))
        {
            break;
        }
        let inner = place.found.getattr(wrapped)?;
        place = Place { holder: place.found, name: wrapped.clone(), found: inner };
    }
    Ok(place)
}

/// A callable that represents `function`, hooked.
#[pyfunction]
#[pyo3(signature = (function, *, before = None, after = None, failed = None))]
pub fn hooked<'py>(
    function: &Bound<'py, PyAny>,
    before: Option<Bound<'py, PyAny>>,
    after: Option<Bound<'py, PyAny>>,
    failed: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    stand_in::new(function, made(before, after, failed, None))
}

/// The program has ended: hooks hold nothing of it any more, so that it is finalized as without us.
#[pyfunction]
pub fn remove_hooks(_py: Python<'_>) {
    // SAFETY: the GIL is held.
    unsafe {
        in_place::remove_all();
        methods::remove_all();
    }
}

/// Makes the types.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    stand_in::make_types(module.py())
}
