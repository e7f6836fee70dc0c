//! The asyncio task, or the greenlet, that runs on this thread.
//!
//! How it works: up to 3.13 asyncio keeps the running task of each loop in one dict for the life of
//! the process. Once `_asyncio` was imported (never by us), that dict and the function that returns
//! the running loop are looked up once; from then on a query is one call and one dict lookup, about
//! 60 ns. From 3.14 on there is no dict, and a second function of `_asyncio` is called. The same
//! first lookup, at the latest when `asyncio.tasks` was imported, gives the sampler the places
//! where asyncio keeps all its tasks, and the running ones: a set and that dict, from 3.14 on the
//! table in which it says so itself.
//!
//! Where no asyncio loop runs and `greenlet` was imported, its `getcurrent` is called: one call,
//! and the attribute that shows whether it is the thread's own greenlet (then the thread is treated
//! like any other).
//!
//! What it promises: an address, never a reference: a query does not change the life of the task.
//! The sampler follows the address by guarded reads only. Missing on purpose: loops that are not
//! asyncio's own; up to 3.13 uvloop's are.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use samplers::python_stacks::{find_task_table, RunningTasks};
use sys::cell::StaticRef;

use crate::kept::word;

struct Asyncio {
    running_loop: Py<PyAny>,
    running_task: RunningTask,
}

/// How the running task of a loop is found.
enum RunningTask {
    /// The dict of event loop -> running task.
    ByLoop(Py<PyDict>),
    /// `_asyncio.current_task` (3.14 and later).
    Asked(Py<PyAny>),
}

impl RunningTask {
    fn of<'py>(&self, event_loop: Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let py = event_loop.py();
        let task = match self {
            RunningTask::ByLoop(tasks) => tasks.bind(py).get_item(event_loop).ok().flatten(),
            RunningTask::Asked(current) => current.bind(py).call1((event_loop,)).ok(),
        };
        task.filter(|task| !task.is_none())
    }
}

static ASYNCIO: StaticRef<Asyncio> = StaticRef::empty();
/// `greenlet.getcurrent`.
static GREENLETS: StaticRef<Py<PyAny>> = StaticRef::empty();

/// The address of the task or greenlet that runs on this thread, 0 when a loop runs a callback
/// instead; None when no loop runs here.
pub fn running_task(py: Python<'_>) -> Option<u64> {
    asyncio_task(py).or_else(|| greenlet(py).inspect(|_| refuse_contexts()))
}

fn refuse_contexts() {
    #[cfg(Py_3_14)]
    crate::contexts::refuse();
}

/// The address of the greenlet that runs on this thread, unless it is the thread's own.
pub fn greenlet(py: Python<'_>) -> Option<u64> {
    let current = match GREENLETS.get() {
        Some(current) => current,
        None => {
            let function =
                imported(py, word!(py, "greenlet"))?.getattr(word!(py, "getcurrent")).ok()?;
            GREENLETS.get_or_make(|| function.unbind())
        }
    };
    let greenlet = current.bind(py).call0().ok()?;
    let parent = greenlet.getattr(word!(py, "parent")).ok()?;
    (!parent.is_none()).then(|| greenlet.as_ptr() as u64)
}

fn asyncio_task(py: Python<'_>) -> Option<u64> {
    let asyncio = match ASYNCIO.get() {
        Some(asyncio) => asyncio,
        None => find_asyncio(py)?,
    };
    let running = asyncio.running_loop.bind(py).call0().ok().filter(|found| !found.is_none())?;
    Some(asyncio.running_task.of(running).map_or(0, |task| task.as_ptr() as u64))
}

/// asyncio was imported: from now on the sampler can see which of its tasks runs.
#[pyfunction]
pub fn asyncio_is_here(py: Python<'_>) {
    if ASYNCIO.get().is_none() {
        find_asyncio(py);
    }
}

/// A module, if it was imported.
pub fn imported<'py>(py: Python<'py>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: a borrowed reference to the dict of modules, which lives as long as the interpreter;
    // the GIL is held.
    let modules = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyImport_GetModuleDict())? };
    modules.cast_into::<PyDict>().ok()?.get_item(name).ok().flatten()
}

#[cold]
fn find_asyncio(py: Python<'_>) -> Option<&Asyncio> {
    let module = imported(py, word!(py, "_asyncio"))?;
    let running_loop = module.getattr(word!(py, "_get_running_loop")).ok()?.unbind();
    // What is leaked below is leaked on purpose: the sampler keeps addresses for the life of the
    // process. The dict lives as long as `ASYNCIO`, which is never freed.
    let (running_task, by_loop) = match module.getattr(word!(py, "_current_tasks")) {
        Ok(tasks) => {
            let tasks: Py<PyDict> = tasks.cast_into().ok()?.unbind();
            let all = module
                .getattr(word!(py, "_scheduled_tasks"))
                .or_else(|_| module.getattr(word!(py, "_all_tasks")));
            if let Ok(set) = all.and_then(|all| all.getattr(word!(py, "data"))) {
                dashcam::set_asyncio_tasks(set.into_ptr() as usize);
            }
            let by_loop = tasks.as_ptr() as usize;
            (RunningTask::ByLoop(tasks), by_loop)
        }
        Err(_) => {
            let current = module.getattr(word!(py, "current_task")).ok()?.unbind();
            let table = find_task_table().unwrap_or(0);
            dashcam::set_asyncio_tasks(table);
            (RunningTask::Asked(current), table)
        }
    };
    if let Ok(kind) = module.getattr(word!(py, "Task")) {
        dashcam::set_asyncio_running(RunningTasks { by_loop, kind: kind.into_ptr() as usize });
    }
    #[cfg(Py_3_14)]
    crate::names::watch_contexts(py);
    Some(ASYNCIO.get_or_make(|| Asyncio { running_loop, running_task }))
}
