//! Events and service checks to the StatsD server (docs/statsd.md), for `dashcam.compat.datadog`.
//!
//! What it promises: no call waits. The result None: the environment names no server. False:
//! refused (plain StatsD has neither; too long; busy), and the sink counts the reason. A wrong type
//! raises TypeError.

use dashcam::marks::{self, Alert, Event, ServiceCheck, Status};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::made;
use crate::process::wake;

fn pairs(tags: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let list = tags.map_or_else(|| Ok(Vec::new()), made::pairs)?.into_iter();
    list.map(|(key, value)| Ok((key.str()?.extract()?, value.str()?.extract()?))).collect()
}

/// Sends an event. `alert`: info, success, warning or error; ValueError for another.
#[pyfunction]
#[pyo3(signature = (title, text, *, at_s=None, host=None, key=None, low=false, source=None, alert="info", tags=None))]
#[allow(clippy::too_many_arguments)] // The protocol's fields.
pub fn statsd_event(
    py: Python<'_>,
    title: String,
    text: String,
    at_s: Option<u64>,
    host: Option<String>,
    key: Option<String>,
    low: bool,
    source: Option<String>,
    alert: &str,
    tags: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<bool>> {
    wake(py);
    let alert = match alert {
        "info" => Alert::Info,
        "success" => Alert::Success,
        "warning" => Alert::Warning,
        "error" => Alert::Error,
        _ => {
            let text = format!("alert: found {alert}, wanted info, success, warning or error");
            return Err(PyValueError::new_err(text));
        }
    };
    let tags = pairs(tags)?;
    let event = Event { title, text, at_s, host, key, low, source, alert, tags };
    Ok(marks::event(&event))
}

/// Sends the outcome of a check: 0 ok, 1 warning, 2 critical, 3 unknown; ValueError for another.
#[pyfunction]
#[pyo3(signature = (name, status, *, at_s=None, host=None, message=None, tags=None))]
pub fn statsd_check(
    py: Python<'_>,
    name: String,
    status: i64,
    at_s: Option<u64>,
    host: Option<String>,
    message: Option<String>,
    tags: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<bool>> {
    wake(py);
    let status = match status {
        0 => Status::Ok,
        1 => Status::Warning,
        2 => Status::Critical,
        3 => Status::Unknown,
        _ => {
            return Err(PyValueError::new_err(format!("status: found {status}, wanted 0 to 3")));
        }
    };
    let check = ServiceCheck { name, status, at_s, host, message, tags: pairs(tags)? };
    Ok(marks::service_check(&check))
}
