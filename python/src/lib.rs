//! The native half of the Python package: `dashcam._native`.
//!
//! How it works: thin functions and two context managers over the `dashcam` crate. The current
//! request is a context variable, so asyncio tasks keep theirs; names are interned once and found
//! again through a dict of Python strings. The pure-Python half (python/dashcam) adds decorators,
//! integrations and the settings' surface.
//!
//! What it promises: nothing here raises into the host because of the recorder (wrong settings do,
//! at `start`); calls that wait release the GIL. Missing on purpose: reading captures.

mod event_loop;
mod marks;
mod metrics;
mod moments;
mod names;
mod process;
mod streams;

use pyo3::prelude::*;

/// The module.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    names::make_context_variable(module.py())?;
    metrics::add_to(module)?;
    module.add_class::<moments::Span>()?;
    module.add_class::<moments::Request>()?;
    module.add_class::<moments::Task>()?;
    module.add_class::<streams::PyStream>()?;
    let functions = [
        wrap_pyfunction!(metrics::flush_metrics, module)?,
        wrap_pyfunction!(marks::statsd_event, module)?,
        wrap_pyfunction!(marks::statsd_check, module)?,
        wrap_pyfunction!(moments::event, module)?,
        wrap_pyfunction!(moments::request_begin, module)?,
        wrap_pyfunction!(moments::request_enter, module)?,
        wrap_pyfunction!(moments::request_end, module)?,
        wrap_pyfunction!(moments::request_failed, module)?,
        wrap_pyfunction!(moments::request_rename, module)?,
        wrap_pyfunction!(moments::current_request, module)?,
        wrap_pyfunction!(moments::task_begin, module)?,
        wrap_pyfunction!(moments::task_end, module)?,
        wrap_pyfunction!(moments::gc_callback, module)?,
        wrap_pyfunction!(process::set_runtime, module)?,
        wrap_pyfunction!(process::start, module)?,
        wrap_pyfunction!(process::stop, module)?,
        wrap_pyfunction!(process::before_exit, module)?,
        wrap_pyfunction!(process::when, module)?,
        wrap_pyfunction!(process::status_json, module)?,
        wrap_pyfunction!(process::snap, module)?,
        wrap_pyfunction!(process::is_on, module)?,
        wrap_pyfunction!(process::is_started, module)?,
        wrap_pyfunction!(process::name_thread, module)?,
        wrap_pyfunction!(process::name_tid, module)?,
    ];
    functions.into_iter().try_for_each(|function| module.add_function(function))
}
