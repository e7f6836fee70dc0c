//! Live streams, for Python.
//!
//! How it works: `Stream` wraps a stream of the crate `dashcam`; opening and closing wait without
//! the GIL. What it promises: its counters remain readable after `close`. Missing on purpose: the
//! public class (python/dashcam/__init__.py).

use std::sync::Mutex;

use dashcam::{SessionCounts, Stream, StreamConfig};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{made, process};

/// An open stream. Closed by `close`, at `stop`, and when it is dropped.
#[pyclass(module = "dashcam._native", name = "Stream", frozen)]
pub struct PyStream {
    stream: Mutex<Option<Stream>>,
    /// Its counters when it was closed.
    last: Mutex<SessionCounts>,
}

#[pymethods]
impl PyStream {
    /// Opens a stream. ValueError: a wrong setting. OSError: no such sink, not recording.
    #[new]
    fn new(py: Python<'_>, sink: &str, settings: &Bound<'_, PyDict>) -> PyResult<PyStream> {
        process::wake(py);
        let mut config = StreamConfig::to(sink);
        for (name, value) in made::pairs(settings)? {
            let (name, value): (String, String) = (name.extract()?, value.str()?.extract()?);
            config = config.set(&name, &value).map_err(PyValueError::new_err)?;
        }
        let opened = py.detach(|| Stream::open(&config)).map_err(PyOSError::new_err)?;
        Ok(PyStream { stream: Mutex::new(Some(opened)), last: Mutex::default() })
    }

    /// The counts of the records it received, by name.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Not locked while the dict is made: the collector may run code that comes here again.
        let counts = match &*self.stream.lock().unwrap_or_else(|p| p.into_inner()) {
            Some(stream) => stream.counts(),
            None => *self.last.lock().unwrap_or_else(|p| p.into_inner()),
        };
        let (dict, q) = (PyDict::new(py), counts.queue);
        for (name, count) in [
            ("filtered", counts.filtered),
            ("offered", q.offered),
            ("read", q.read),
            ("overwritten", q.overwritten),
            ("dropped", q.dropped),
            ("torn", q.torn),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// Why it ended by itself; None while it runs.
    fn error(&self) -> Option<String> {
        let open = self.stream.lock().unwrap_or_else(|p| p.into_inner());
        open.as_ref().and_then(Stream::error)
    }

    /// Writes the queued records and ends the stream. OSError: the sink had broken, or refuses the
    /// data.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.stream.lock().unwrap_or_else(|p| p.into_inner()).take();
        let Some(stream) = open else { return Ok(()) };
        let closed = py.detach(|| stream.close());
        *self.last.lock().unwrap_or_else(|p| p.into_inner()) = stream.counts();
        py.detach(|| drop(stream));
        closed.map(drop).map_err(PyOSError::new_err)
    }
}
