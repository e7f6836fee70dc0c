//! Faults of ours that the program is not to see, for `status()`.

use pyo3::prelude::*;

use crate::call::quietly;
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
