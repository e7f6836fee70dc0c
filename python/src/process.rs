//! Start, stop, fork, capture, status, thread names.
//!
//! How it works: each function is called by python/dashcam and passes the call to the crate
//! `dashcam`, without the GIL if it waits. A forked child starts a new recorder at its first record
//! (`wake`), then its names are looked up again and its thread is named.
//!
//! What it promises: calls that wait for the recorder release the GIL; a wrong setting raises
//! ValueError, a capture that cannot be saved OSError. Missing on purpose: the hooks for exit, gc
//! and threads (python/dashcam/_process.py).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::Mutex;

use dashcam::Runtime;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use recorder::Recorder;
use samplers::python_stacks::{RuntimeInfo, TypeAddresses};

use crate::kept::word;
use crate::made::{self, Text};
use crate::{names, under_gil};

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// Gives the recorder its interpreter and the source folders with their owners.
#[pyfunction]
pub fn set_runtime(
    py: Python<'_>,
    stdlib: Vec<String>,
    site: Vec<String>,
    application: Vec<String>,
    package: String,
) -> PyResult<()> {
    let sys = py.import("sys")?;
    let name: String = sys.getattr("implementation")?.getattr(word!(py, "name"))?.extract()?;
    let version = py.version_info();
    let (major, minor, patch) = (version.major, version.minor, version.patch);
    let (python, no_stacks) = match interpreter(py) {
        Ok(info) => (Some(info), String::new()),
        Err(error) => (None, error.to_string()),
    };
    let runtime = Runtime {
        name: format!("{name} {major}.{minor}.{patch}"),
        stdlib,
        site,
        application,
        package,
        python,
        no_stacks,
    };
    under_gil::note(py, &runtime);
    *RUNTIME.lock().unwrap_or_else(|p| p.into_inner()) = Some(runtime);
    Ok(())
}

/// Gives the recorder the names of all integrations that begin requests.
#[pyfunction]
pub fn known_integrations(names: Vec<String>) {
    dashcam::known_integrations(names);
}

/// One of them is in place: its module was hooked.
#[pyfunction]
pub fn integration_in_place(name: &str) {
    dashcam::integration_in_place(name);
}

/// The facts that the stack reader needs about this interpreter.
fn interpreter(py: Python<'_>) -> PyResult<RuntimeInfo> {
    // SAFETY: dlsym with the default handle only looks a symbol up; null means it is not exported.
    let runtime = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_PyRuntime".as_ptr()) } as usize;
    if runtime == 0 {
        return Err(PyOSError::new_err("_PyRuntime is not exported by this interpreter"));
    }
    let (types, thread) = (py.import("types")?, py.import("_thread")?);
    let address = |module: &Bound<'_, PyModule>, name: &str| -> PyResult<usize> {
        Ok(module.getattr(name)?.as_ptr() as usize)
    };
    Ok(RuntimeInfo {
        version_hex: py.import("sys")?.getattr("hexversion")?.extract()?,
        runtime,
        types: TypeAddresses {
            code: address(&types, "CodeType")?,
            lock: address(&thread, "LockType")?,
            rlock: address(&thread, "RLock")?,
            builtin_method: address(&types, "BuiltinMethodType")?,
        },
    })
}

/// Starts recording. False: it was on, or its settings turn it off. ValueError: a wrong setting.
#[pyfunction]
pub fn start(py: Python<'_>, config: &Bound<'_, PyDict>) -> PyResult<bool> {
    let given = settings(config)?;
    let runtime = RUNTIME.lock().unwrap_or_else(|p| p.into_inner()).clone().unwrap_or_default();
    if dashcam::is_forked() {
        names::forget(py);
    }
    sys::environment::copy();
    let started = py.detach(|| dashcam::start_with_runtime(&given, runtime));
    started.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Sets variables of the environment, without `os.environ`. False: one could not be set, so none
/// was.
#[pyfunction]
pub fn add_to_environment(variables: Vec<(Vec<u8>, Vec<u8>)>) -> bool {
    sys::environment::add(&variables)
}

/// Raises ValueError for the name of no setting and for a value that does not fit its setting.
#[pyfunction]
pub fn check_settings(config: &Bound<'_, PyDict>) -> PyResult<()> {
    let checked = dashcam::check_settings(&settings(config)?);
    checked.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn settings(config: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        Ok((key.extract()?, value.str()?.extract()?))
    };
    made::pairs(config)?.into_iter().map(pair).collect()
}

/// Stops recording; waits at most two seconds for our threads, without the GIL.
#[pyfunction]
pub fn stop(py: Python<'_>) {
    py.detach(dashcam::stop);
}

/// Stops and removes the black box: the process exits normally. `crash`: the type of the uncaught
/// exception that ends it, "" for none.
#[pyfunction]
#[pyo3(signature = (crash = ""))]
pub fn before_exit(py: Python<'_>, crash: &str) {
    dashcam::when_no_more();
    sys::stay::from_now_on();
    if !crash.is_empty() {
        dashcam::crashing(crash);
    }
    py.detach(dashcam::before_exit);
    // It leads to its module's globals, which would never be finalized.
    release_predicate(py, null_mut());
}

/// The program's predicate, owned until the program has ended; NULL: there is none. It is set and
/// released by a thread with the GIL, which its readers hold. Without the GIL it is never released,
/// and Release and Acquire make its readers see a whole object.
static PREDICATE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(null_mut());

/// Asks `predicate(name, seconds, error)` at the end of each request, on its own thread, whether to
/// make a capture.
#[pyfunction]
pub fn when(predicate: Bound<'_, PyAny>) {
    let py = predicate.py();
    release_predicate(py, predicate.into_ptr());
    dashcam::when(|ended| {
        let seconds = ended.took_ns as f64 / 1e9;
        // Requests of Python end with the interpreter attached, so this never waits.
        let asked = Python::try_attach(|py| {
            // SAFETY: the GIL is held; it gets a reference of its own for the call.
            let predicate =
                unsafe { Bound::from_borrowed_ptr_or_opt(py, PREDICATE.load(Ordering::Acquire)) };
            let Some(predicate) = predicate else { return Ok(false) };
            predicate.call1((ended.name, seconds, ended.error))?.is_truthy()
        });
        asked.unwrap_or(Ok(false)).map_err(|error| error.to_string())
    });
}

/// Another predicate in the place of the present one, which is released; not without the GIL, where
/// another thread may be about to call it.
fn release_predicate(_py: Python<'_>, next: *mut ffi::PyObject) {
    let last = PREDICATE.swap(next, Ordering::AcqRel);
    if !cfg!(Py_GIL_DISABLED) {
        // SAFETY: the GIL is held; the reference was the static's.
        unsafe { ffi::Py_XDECREF(last) };
    }
}

/// In a forked child with its first record: starts a new recorder. Children that only exec never
/// come here, at no cost. Cost otherwise: one load.
#[inline]
pub fn wake(py: Python<'_>) {
    if dashcam::is_forked() {
        start_afresh(py);
    }
}

#[cold]
fn start_afresh(py: Python<'_>) {
    names::forget(py);
    sys::environment::copy();
    py.detach(dashcam::after_fork_child);
    let thread_name = || -> PyResult<String> {
        let thread =
            py.import(word!(py, "threading"))?.call_method0(word!(py, "current_thread"))?;
        thread.getattr(word!(py, "name"))?.extract()
    };
    if let Ok(name) = thread_name() {
        recorder::name_thread(&name);
    }
    under_gil::begin_again(py);
}

/// Threads were there before us, so nothing was armed as they began. Relaxed: a thread that does
/// not see it yet is armed with its next call.
static LATE: AtomicBool = AtomicBool::new(false);

/// Threads of the program were there before the recorder was: each is armed as soon as it calls
/// code of ours (`thread_begins`).
#[pyfunction]
pub fn threads_were_there() {
    LATE.store(true, Ordering::Relaxed);
}

/// Before code of the program is called from code of ours, on any thread. Cost: one load, unless
/// threads were there before us.
#[inline]
pub fn arm_late() {
    if LATE.load(Ordering::Relaxed) {
        sys::stay::arm();
    }
}

/// The recorder, while records are taken. In a forked child the first call starts a new one. Cost:
/// two loads.
#[inline]
pub fn recording(py: Python<'_>) -> Option<&'static Recorder> {
    if !recorder::is_on() {
        return None;
    }
    arm_late();
    // A forked child has none until its first record.
    recorder::current().or_else(|| wake_and_check(py))
}

#[cold]
fn wake_and_check(py: Python<'_>) -> Option<&'static Recorder> {
    wake(py);
    recorder::current().filter(|_| recorder::is_on())
}

/// The state as JSON text.
#[pyfunction]
pub fn status_json(py: Python<'_>) -> Text {
    wake(py);
    Text(py.detach(dashcam::status_json))
}

/// Saves a capture now; its path. OSError: not recording, or not writable.
#[pyfunction]
pub fn snap(py: Python<'_>, reason: &str) -> PyResult<Text> {
    wake(py);
    let saved = py.detach(|| dashcam::snap(reason));
    saved.map(|path| Text(path.display().to_string())).map_err(PyOSError::new_err)
}

/// Whether records are taken.
#[pyfunction]
pub fn is_on(py: Python<'_>) -> bool {
    wake(py);
    recorder::is_on()
}

/// Whether the recorder was started.
#[pyfunction]
pub fn is_started() -> bool {
    dashcam::is_started()
}

/// Keeps the calling thread, one of `threading`, from unwinding through code of ours when the
/// interpreter ends.
#[pyfunction]
pub fn thread_begins() {
    sys::stay::arm();
}

/// Names the calling thread.
#[pyfunction]
pub fn name_thread(name: &str) {
    recorder::name_thread(name);
}

/// Names another thread by its kernel id.
#[pyfunction]
pub fn name_tid(tid: u32, name: &str) {
    recorder::name_other_thread(tid, name);
}
