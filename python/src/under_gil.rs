//! Stacks from the interpreter's own API, where its memory cannot be read (`dashcam::under_gil`).
//!
//! How it works: a Python thread (python/dashcam/_under_gil.py) calls `sample_under_gil`. First
//! everything that may run Python code: the list of threads, and their kernel ids. Then, in one go
//! that runs no Python code, so that the GIL is not released and no thread moves:
//! `sys._current_frames()` and the frames of the threads that the sampler requested, with the
//! garbage collector off meanwhile, as it might run finalizers. Names are kept ones: CPython caches
//! attributes of types by the str that asks for them, which would displace the program's.
//!
//! What it promises: only the interpreter's public API, no layout is assumed; bounded threads and
//! frames; no sample while the GIL is off. Missing on purpose: processes with subinterpreters
//! (`sys._current_frames()` makes frame objects of other interpreters' threads, which breaks their
//! memory from 3.12 on), and threads that `threading` does not know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use dashcam::under_gil::{Next, Round, MOST_FRAMES};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::kept::word;
use crate::made;

/// Stacks of this interpreter could not be read at the start; so neither can they in its forked
/// children. Written and read with the GIL held: Relaxed.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether stacks have to be sampled under the GIL, since they cannot be read otherwise.
#[pyfunction]
pub fn stacks_are_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Remembers whether stacks of this interpreter can be read. Costs up to a tenth of a second if
/// not.
pub fn note(py: Python<'_>, runtime: &dashcam::Runtime) {
    let readable = py.detach(|| dashcam::can_be_read(runtime));
    REFUSED.store(!readable, Ordering::Relaxed);
}

/// In a forked child that has started a new recorder: its parent's thread does not exist.
pub fn begin_again(py: Python<'_>) {
    if stacks_are_refused() {
        let begin = py.import("dashcam._under_gil").and_then(|module| module.call_method0("begin"));
        // Without a thread the source reports that stacks are off.
        drop(begin);
    }
}

/// The calling thread is the one that samples: in the kernel, too, it has a name of ours, so that
/// a fork beside it is as one beside our native threads (`hooks::builtins`).
#[pyfunction]
pub fn begin_under_gil() {
    const NAME: &str = "dashcam-under-gil";
    recorder::name_thread(NAME);
    sys::own_threads::name_own(sys::thread::cached_tid(), NAME);
}

/// One sample of threads. `active`: `threading._active`. Returns the seconds to pause before the
/// next; below 0: there will be none.
#[pyfunction]
pub fn sample_under_gil(py: Python<'_>, active: &Bound<'_, PyDict>) -> PyResult<f64> {
    let round = match Round::begin() {
        Next::Round(round) => round,
        Next::Pause(pause) => return Ok(pause.as_secs_f64()),
        Next::End => return Ok(-1.0),
    };
    if is_alone() {
        let known = known_threads(active);
        round.threads(&known.keys().copied().collect::<Vec<u32>>());
        hand_in(py, &round, &known)?;
    }
    Ok(round.end().as_secs_f64())
}

/// Whether this is the only interpreter of the process.
fn is_alone() -> bool {
    // SAFETY: the GIL is held, under which interpreters are made and ended; the list has at least
    // this one.
    unsafe {
        let first = pyo3::ffi::PyInterpreterState_Head();
        pyo3::ffi::PyInterpreterState_Next(first).is_null()
    }
}

/// Whether the GIL is held, and so until it is released: a free-threaded build has it at times, or
/// always (`PYTHON_GIL=1`).
fn has_gil(py: Python<'_>) -> PyResult<bool> {
    match cfg!(Py_GIL_DISABLED) {
        true => {
            py.import(word!(py, "sys"))?.call_method0(word!(py, "_is_gil_enabled"))?.is_truthy()
        }
        false => Ok(true),
    }
}

/// The kernel's ids of threads, and the interpreter's.
fn known_threads<'py>(active: &Bound<'py, PyDict>) -> HashMap<u32, Bound<'py, PyAny>> {
    // A copy: a thread's attribute may be the program's code, and other threads run then.
    let threads = active.items();
    let native_id = word!(active.py(), "_native_id");
    let native = |pair: Bound<'py, PyAny>| {
        let (ident, thread): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair.extract().ok()?;
        Some((thread.getattr(native_id).ok()?.extract().ok()?, ident))
    };
    threads.iter().filter_map(native).collect()
}

/// Runs `round` without the garbage collector: code that runs no Python code does not release the
/// GIL, then.
fn undisturbed<R>(py: Python<'_>, round: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let gc = py.import(word!(py, "gc"))?;
    let is_enabled: bool = gc.call_method0(word!(py, "isenabled"))?.extract()?;
    if is_enabled {
        gc.call_method0(word!(py, "disable"))?;
    }
    let result = round();
    if is_enabled {
        gc.call_method0(word!(py, "enable"))?;
    }
    result
}

fn hand_in(py: Python<'_>, round: &Round, known: &HashMap<u32, Bound<'_, PyAny>>) -> PyResult<()> {
    let current = py.import(word!(py, "sys"))?.getattr(word!(py, "_current_frames"))?;
    let mut walker = Walker::new(py, round);
    undisturbed(py, || {
        if !has_gil(py)? {
            return Ok(());
        }
        let frames = current.call0()?;
        for tid in round.wanted() {
            let Some(ident) = known.get(tid) else { continue };
            // A thread that is ending has none.
            if let Ok(frame) = frames.get_item(ident) {
                let truncated = walker.walk(frame)?;
                round.put(*tid, &walker.frames, truncated);
            }
        }
        Ok(())
    })
}

/// Walks frames from the innermost on.
struct Walker<'a, 'py> {
    py: Python<'py>,
    round: &'a Round,
    /// Ids of the code objects seen in this sample: their frames keep them alive.
    codes: HashMap<usize, u32>,
    frames: Vec<(u32, u32)>,
}

impl<'a, 'py> Walker<'a, 'py> {
    fn new(py: Python<'py>, round: &'a Round) -> Walker<'a, 'py> {
        Walker { py, round, codes: HashMap::new(), frames: Vec::new() }
    }

    /// True if there are more frames than a sample takes.
    fn walk(&mut self, innermost: Bound<'py, PyAny>) -> PyResult<bool> {
        self.frames.clear();
        let py = self.py;
        let mut frame = innermost;
        while !frame.is_none() {
            if self.frames.len() >= MOST_FRAMES {
                return Ok(true);
            }
            let id = self.code(&frame.getattr(word!(py, "f_code"))?)?;
            let line: Option<u32> = frame.getattr(word!(py, "f_lineno"))?.extract()?;
            self.frames.push((id, line.unwrap_or(0)));
            frame = frame.getattr(word!(py, "f_back"))?;
        }
        Ok(false)
    }

    fn code(&mut self, code: &Bound<'py, PyAny>) -> PyResult<u32> {
        let address = code.as_ptr() as usize;
        if let Some(id) = self.codes.get(&address) {
            return Ok(*id);
        }
        let py = self.py;
        let qualified = code
            .getattr(word!(py, "co_qualname"))
            .or_else(|_| code.getattr(word!(py, "co_name")))?;
        let file = code.getattr(word!(py, "co_filename"))?;
        let first_line: u32 = code.getattr(word!(py, "co_firstlineno"))?.extract()?;
        let names = code.getattr(word!(py, "co_names"))?;
        let releases = names.cast::<PyTuple>()?.contains(word!(py, "release"))?;
        let (qualified, file) = (qualified.cast::<PyString>()?, file.cast::<PyString>()?);
        let (qualified, file) = (made::characters(qualified), made::characters(file));
        let id = self.round.code(&qualified, &file, first_line, releases);
        self.codes.insert(address, id);
        Ok(id)
    }
}
