//! The native half of the Python package: `dashcam._native`.
//!
//! How it works: thin functions and two context managers over the `dashcam` crate. The functions
//! that a program calls often (spans, events, metrics) are laid out by hand. The current request is
//! a context variable, so asyncio tasks keep theirs; names are interned once and found again by the
//! address of the Python string. The pure-Python half (python/dashcam) adds decorators,
//! integrations and the settings' surface.
//!
//! What it promises: nothing here raises into the host because of the recorder (wrong settings do,
//! at `start`); calls that wait release the GIL. On a free-threaded build the GIL stays off: what
//! threads share, and what keeps it whole, is in docs/internals/free-threading.md; "the GIL is
//! held" in a comment means there that the thread is attached, and no more. Missing on purpose:
//! reading captures.

mod alone;
mod aside;
mod call;
#[cfg(Py_3_14)]
mod contexts;
mod disguise;
mod event_loop;
mod hooks;
mod interrupts;
mod kept;
mod life;
mod made;
mod marks;
mod metrics;
mod moments;
mod names;
mod notice;
mod process;
mod safe_point;
mod streams;
mod traces;
mod types;
mod under_gil;
mod unfinished;

use pyo3::prelude::*;

/// A program that survives a lack of memory must not be ended by us.
#[global_allocator]
static ALLOCATOR: sys::reserve::Reserve<std::alloc::System> = sys::reserve::Reserve::new();

/// The module.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    names::make_kept(module.py())?;
    kept::make_words(module.py())?;
    metrics::add_to(module)?;
    moments::add_to(module)?;
    hooks::add_to(module)?;
    module.add_class::<moments::Task>()?;
    module.add_class::<streams::PyStream>()?;
    module.add_class::<traces::OpenSpan>()?;
    add_hooks(module)?;
    add_process(module)
}

/// Functions for requests, spans and metrics, and what integrations hook with.
fn add_hooks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let functions = [
        wrap_pyfunction!(metrics::flush_metrics, module)?,
        wrap_pyfunction!(metrics::leave, module)?,
        wrap_pyfunction!(marks::statsd_event, module)?,
        wrap_pyfunction!(marks::statsd_check, module)?,
        wrap_pyfunction!(hooks::remove_hooks, module)?,
        wrap_pyfunction!(hooks::hook, module)?,
        wrap_pyfunction!(interrupts::interrupts_by, module)?,
        wrap_pyfunction!(hooks::hooked, module)?,
        wrap_pyfunction!(hooks::hook_builtins, module)?,
        wrap_pyfunction!(hooks::before_exec, module)?,
        wrap_pyfunction!(moments::request_arrives, module)?,
        wrap_pyfunction!(moments::request_named, module)?,
        wrap_pyfunction!(moments::asgi_begins, module)?,
        wrap_pyfunction!(moments::asgi_on, module)?,
        wrap_pyfunction!(moments::work, module)?,
        wrap_pyfunction!(moments::handling, module)?,
        wrap_pyfunction!(moments::seen, module)?,
        wrap_pyfunction!(moments::request_begin, module)?,
        wrap_pyfunction!(moments::request_enter, module)?,
        wrap_pyfunction!(moments::request_end, module)?,
        wrap_pyfunction!(moments::request_failed, module)?,
        wrap_pyfunction!(moments::request_rename, module)?,
        wrap_pyfunction!(moments::request_route, module)?,
        wrap_pyfunction!(moments::asgi_arrives, module)?,
        wrap_pyfunction!(moments::wsgi_call, module)?,
        wrap_pyfunction!(moments::serving, module)?,
        wrap_pyfunction!(moments::parsed, module)?,
        wrap_pyfunction!(moments::names_route, module)?,
        wrap_pyfunction!(moments::cursor_is_hooked, module)?,
        wrap_pyfunction!(moments::release_cursors, module)?,
        wrap_pyfunction!(moments::names_path, module)?,
        wrap_pyfunction!(moments::current_request, module)?,
        wrap_pyfunction!(moments::task_begin, module)?,
        wrap_pyfunction!(moments::task_end, module)?,
        wrap_pyfunction!(event_loop::asyncio_is_here, module)?,
        wrap_pyfunction!(moments::gc_callback, module)?,
        wrap_pyfunction!(safe_point::watch_collections, module)?,
    ];
    functions.into_iter().try_for_each(|function| module.add_function(function))
}

/// Functions for traces, the recording of this process, and its threads.
fn add_process(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let functions = [
        wrap_pyfunction!(traces::traceparent, module)?,
        wrap_pyfunction!(traces::tracestate, module)?,
        wrap_pyfunction!(traces::trace_id, module)?,
        wrap_pyfunction!(traces::request_continue, module)?,
        wrap_pyfunction!(traces::request_identify, module)?,
        wrap_pyfunction!(traces::request_ends_as, module)?,
        wrap_pyfunction!(traces::span_open, module)?,
        wrap_pyfunction!(traces::span_close, module)?,
        wrap_pyfunction!(traces::exception, module)?,
        wrap_pyfunction!(traces::lost_span, module)?,
        wrap_pyfunction!(traces::setting_is_on, module)?,
        wrap_pyfunction!(under_gil::stacks_are_refused, module)?,
        wrap_pyfunction!(under_gil::begin_under_gil, module)?,
        wrap_pyfunction!(under_gil::sample_under_gil, module)?,
        wrap_pyfunction!(process::set_runtime, module)?,
        wrap_pyfunction!(process::known_integrations, module)?,
        wrap_pyfunction!(process::integration_in_place, module)?,
        wrap_pyfunction!(process::start, module)?,
        wrap_pyfunction!(process::check_settings, module)?,
        wrap_pyfunction!(process::add_to_environment, module)?,
        wrap_pyfunction!(process::stop, module)?,
        wrap_pyfunction!(process::before_exit, module)?,
        wrap_pyfunction!(process::when, module)?,
        wrap_pyfunction!(process::status_json, module)?,
        wrap_pyfunction!(process::snap, module)?,
        wrap_pyfunction!(process::is_on, module)?,
        wrap_pyfunction!(process::is_started, module)?,
        wrap_pyfunction!(process::thread_begins, module)?,
        wrap_pyfunction!(process::threads_were_there, module)?,
        wrap_pyfunction!(process::name_thread, module)?,
        wrap_pyfunction!(process::name_tid, module)?,
    ];
    functions.into_iter().try_for_each(|function| module.add_function(function))
}
