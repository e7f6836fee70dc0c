//! `dashcam._reader`: captures in Python. A library of its own, loaded by `dashcam.open`.
//!
//! How it works: `Capture` reads a file and keeps it; `Table` returns one of its tables as an Arrow
//! C stream in a capsule (`__arrow_c_stream__`), which pyarrow, Polars, pandas and DuckDB accept.
//! `dashcam.reading` is the public form of both. It is built against the stable ABI, once for every
//! interpreter. It and `dashcam._native` are independent, so that the recorder does not contain
//! Arrow.
//!
//! What it promises: the GIL is released while a file is read, a verdict is found and tables are
//! made; a stream of a capture keeps the capture alive, whatever becomes of the Python objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use capture::read::ReadError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tables::{Reader, Source, Table, Verdict};
use trigger::Rules;

/// Rules for captures without readable rules of their own.
const DEFAULT_SLOW: &str = "500ms";

/// A capture in memory.
#[pyclass(frozen, module = "dashcam._reader", name = "Capture")]
struct PyCapture {
    source: Arc<Source>,
    notes: Vec<String>,
}

#[pymethods]
impl PyCapture {
    /// Reads the file at `path`. Raises OSError with the reason. Without `native_names` no binary
    /// of this machine is read, so the result depends on the file alone.
    #[new]
    #[pyo3(signature = (path, native_names=true))]
    fn new(py: Python<'_>, path: PathBuf, native_names: bool) -> PyResult<PyCapture> {
        py.detach(|| read(&path, native_names)).map_err(PyOSError::new_err)
    }

    /// Code that could not be named, and the reason.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The damage of the file; empty for a whole one.
    #[getter]
    fn damage(&self) -> Vec<String> {
        self.source.capture.damage.clone()
    }

    /// The summary, as JSON.
    fn summary(&self, py: Python<'_>) -> String {
        let source = &self.source;
        py.detach(|| tables::summary::to_json(&source.capture, &source.file).to_string())
    }

    /// The verdict as JSON, as text and as Markdown. Without `slow` it is found once, for the
    /// tables too. Raises ValueError for wrong rules.
    #[pyo3(signature = (slow=None))]
    fn why(&self, py: Python<'_>, slow: Option<&str>) -> PyResult<(String, String, String)> {
        let rules = slow.map(Rules::parse).transpose();
        let rules = rules.map_err(|wrong| PyValueError::new_err(format!("slow: {wrong}")))?;
        let source = &self.source;
        let texts = |v: &Verdict| (v.json.clone(), v.text.clone(), v.markdown.clone());
        Ok(py.detach(|| match &rules {
            Some(rules) => texts(&source.judged(|name| rules.limit_ns(name))),
            None => texts(source.verdict()),
        }))
    }

    /// The table with this name; None: there is no such table.
    fn table(&self, name: &str) -> Option<PyTable> {
        let table = tables::named(name)?;
        Some(PyTable { source: self.source.clone(), table })
    }
}

/// One table of a capture. Its rows are made each time it is read.
#[pyclass(frozen, module = "dashcam._reader", name = "Table")]
struct PyTable {
    source: Arc<Source>,
    table: &'static Table,
}

#[pymethods]
impl PyTable {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.table.name
    }

    /// The meaning of a row.
    #[getter]
    fn about(&self) -> &'static str {
        self.table.about
    }

    /// Name, type and meaning of each column, in order.
    #[getter]
    fn columns(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        described(self.table)
    }

    /// The Arrow PyCapsule interface: the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.table.schema())
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The Arrow PyCapsule interface: the rows. Types are as documented: `requested_schema`, which
    /// the interface lets a producer ignore, is ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let rows = Reader::new(self.source.clone(), self.table);
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<dashcam table {}: {}>", self.table.name, self.table.about)
    }
}

/// Name, type and meaning of each column of a table, in order, without a capture; None: there is no
/// such table.
#[pyfunction]
fn columns(name: &str) -> Option<Vec<(&'static str, &'static str, &'static str)>> {
    tables::named(name).map(described)
}

fn described(table: &Table) -> Vec<(&'static str, &'static str, &'static str)> {
    table.columns.iter().map(|c| (c.name, c.kind.text(), c.about)).collect()
}

fn read(path: &Path, native_names: bool) -> Result<PyCapture, String> {
    let mut capture = capture::read::Capture::open(path).map_err(|error| match &error {
        ReadError::Io(..) => error.to_string(),
        _ => format!("{}: {error}", path.display()),
    })?;
    let notes = match native_names {
        true => symbols::name_native(&mut capture),
        false => Vec::new(),
    };
    // A recovered box that lost its settings is judged by the default, as in `dashcam why`.
    let rules = Rules::parse(&capture.meta.slow).or_else(|_| Rules::parse(DEFAULT_SLOW));
    let rules = rules.unwrap_or_default();
    let limit = Box::new(move |name: &str| rules.limit_ns(name));
    let source = Arc::new(Source::new(capture, path.display().to_string(), limit));
    Ok(PyCapture { source, notes })
}

/// The module.
#[pymodule]
#[pyo3(name = "_reader")]
mod reader {
    #[pymodule_export]
    use super::{columns, PyCapture, PyTable};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        let names: Vec<&str> = tables::all().iter().map(|t| t.name).collect();
        module.add("TABLES", names)
    }
}
