//! Names and the current request, seen from Python.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use recorder::{Attribute, Recorder};

/// Python string -> name id. Emptied after a fork, when ids begin anew. Bounded by the name area:
/// a refused name is not entered.
static NAMES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// The same for names of requests, whose limits are looked up once.
static REQUESTS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// The id of the request this context works for; 0 none.
static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Most names either dict remembers; beyond, names are looked up in the recorder each time.
const MOST: usize = 20_000;

/// Makes the context variable, once.
pub fn make_context_variable(py: Python<'_>) -> PyResult<()> {
    // SAFETY: a plain C API call with a static, NUL-terminated name; null means a Python error,
    // which `from_owned_ptr_or_err` fetches.
    let variable = unsafe {
        let made = ffi::PyContextVar_New(c"dashcam_request".as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    CURRENT.set(py, variable.unbind()).map_err(|_| PyRuntimeError::new_err("imported twice"))
}

/// The id of the request this context works for; 0 none.
pub fn current(py: Python<'_>) -> u64 {
    let Some(variable) = CURRENT.get(py) else { return 0 };
    let mut value: *mut ffi::PyObject = std::ptr::null_mut();
    // SAFETY: `variable` is a context variable; on success `value` is null (unset) or a new
    // reference that the Bound below takes over. The GIL is held (`py`).
    let found = unsafe {
        if ffi::PyContextVar_Get(variable.as_ptr(), std::ptr::null_mut(), &mut value) != 0 {
            ffi::PyErr_Clear();
            return 0;
        }
        Bound::from_owned_ptr_or_opt(py, value)
    };
    found.and_then(|id| id.extract().ok()).unwrap_or(0)
}

/// Makes `id` the current request; the token that restores the one before.
pub fn set_current(py: Python<'_>, id: u64) -> Option<Py<PyAny>> {
    let variable = CURRENT.get(py)?;
    let value = id.into_pyobject(py).ok()?;
    // SAFETY: both are valid objects, the GIL is held; null is an error, cleared below.
    let token = unsafe {
        let token = ffi::PyContextVar_Set(variable.as_ptr(), value.as_ptr());
        if token.is_null() {
            ffi::PyErr_Clear();
        }
        Bound::from_owned_ptr_or_opt(py, token)
    };
    token.map(Bound::unbind)
}

/// Restores what `set_current` replaced. A token of another context (a generator that was moved)
/// is passed over.
pub fn restore(py: Python<'_>, token: Option<Py<PyAny>>) {
    let (Some(variable), Some(token)) = (CURRENT.get(py), token) else { return };
    // SAFETY: as above; the call reports foreign or used tokens as a Python error.
    unsafe {
        if ffi::PyContextVar_Reset(variable.as_ptr(), token.as_ptr()) != 0 {
            ffi::PyErr_Clear();
        }
    }
}

/// The id of a name.
pub fn name(recorder: &Recorder, text: &Bound<'_, PyString>) -> u32 {
    lookup(&NAMES, text, |t| recorder.tables().name(t))
}

/// The id of a request's name.
pub fn request_name(recorder: &Recorder, text: &Bound<'_, PyString>) -> u32 {
    lookup(&REQUESTS, text, |t| recorder.request_name(t))
}

fn lookup(
    cache: &PyOnceLock<Py<PyDict>>,
    text: &Bound<'_, PyString>,
    intern: impl FnOnce(&str) -> u32,
) -> u32 {
    let py = text.py();
    let dict = cache.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(id) = dict.get_item(text).ok().flatten().and_then(|id| id.extract().ok()) {
        return id;
    }
    let id = intern(&text.to_string_lossy());
    if id != 0 && dict.len() < MOST {
        let _ = dict.set_item(text, id);
    }
    id
}

/// Forgets all ids: the recorder is another one.
pub fn forget(py: Python<'_>) {
    for cache in [&NAMES, &REQUESTS] {
        if let Some(dict) = cache.get(py) {
            dict.bind(py).clear();
        }
    }
}

/// Calls `with` with the keyword attributes as the recorder takes them. Values that are not str,
/// int, float or bool are recorded as their `str()`.
pub fn with_attributes<R>(
    recorder: &Recorder,
    attributes: Option<&Bound<'_, PyDict>>,
    with: impl FnOnce(&[Attribute<'_>]) -> R,
) -> R {
    use format::record::{Value, MAX_ATTRIBUTES};
    let Some(dict) = attributes.filter(|d| !d.is_empty()) else { return with(&[]) };
    let mut texts: Vec<String> = Vec::new();
    // First the texts, then the values that borrow them. One more than allowed, so that the
    // recorder counts what was cut.
    let items: Vec<_> = dict.iter().take(MAX_ATTRIBUTES + 1).collect();
    for (_, value) in &items {
        let is_plain = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
        texts.push(match is_plain {
            true => String::new(),
            false => value.str().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default(),
        });
    }
    let mut out: Vec<Attribute<'_>> = Vec::with_capacity(items.len());
    for ((key, value), text) in items.iter().zip(&texts) {
        let Ok(key) = key.cast::<PyString>() else { continue };
        let value = if let Ok(flag) = value.cast::<PyBool>() {
            Value::Bool(flag.is_true())
        } else if let Ok(float) = value.cast::<PyFloat>() {
            Value::Float(float.value())
        } else if value.is_instance_of::<PyInt>() {
            match value.extract::<i64>() {
                Ok(int) => Value::Int(int),
                Err(_) => Value::Float(value.extract::<f64>().unwrap_or(f64::NAN)),
            }
        } else {
            Value::Text(text)
        };
        out.push((name(recorder, key), value));
    }
    with(&out)
}
