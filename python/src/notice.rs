//! Faults of ours that the program is not to see, for `status()`.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::aside::fetched;
use crate::call::quietly;
use crate::interrupts::unless_it_interrupts;
use crate::kept::word;
use crate::made;

/// Reports it in `status()`.
pub fn note(py: Python<'_>, text: &str) {
    let notice = || {
        let module = py.import(word!(py, "dashcam._notices"))?;
        module.call_method1(word!(py, "notice"), (made::text(py, text)?,))
    };
    // There is nowhere to report a failure of this.
    quietly((), || drop(notice()));
}

/// Faults in serving requests of one server, of which the first is reported.
pub struct Faults {
    /// One was reported. Relaxed: one notice too many does no harm.
    reported: AtomicBool,
}

impl Faults {
    /// None yet.
    pub const fn new() -> Faults {
        Faults { reported: AtomicBool::new(false) }
    }

    /// The result, None for a fault of ours. Err: an exception that interrupts the program. `what`:
    /// the server.
    pub fn or_note<T>(
        &self,
        py: Python<'_>,
        found: PyResult<T>,
        what: impl FnOnce() -> String,
    ) -> PyResult<Option<T>> {
        let error = match found {
            Ok(found) => return Ok(Some(found)),
            Err(error) => unless_it_interrupts(py, error).map_err(|()| fetched(py))?,
        };
        if !self.reported.swap(true, Ordering::Relaxed) {
            let what = what();
            let text = format!("{what} is not as expected, its requests are not recorded: {error}");
            note(py, &text);
        }
        Ok(None)
    }
}
