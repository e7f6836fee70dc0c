//! Objects that are made at their first use and kept for the life of the process.
//!
//! How it works: a pointer, set once; a thread that comes second drops its own object. Not a
//! `PyOnceLock`, nor `intern!`, which is made of one: it releases the GIL while it is being set,
//! and a child that another thread forks then would wait for ever at its own first use.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use sys::cell::StaticRef;

/// A dict.
pub struct Dict(StaticRef<Py<PyDict>>);

impl Dict {
    /// Not made yet.
    pub const fn new() -> Dict {
        Dict(StaticRef::empty())
    }

    /// The dict, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&'static Py<PyDict>> {
        self.0.get()
    }

    /// The dict, made if need be.
    #[inline]
    pub fn made<'py>(&'static self, py: Python<'py>) -> &'py Bound<'py, PyDict> {
        self.0.get_or_make(|| PyDict::new(py).unbind()).bind(py)
    }
}

/// A str with the name of an attribute or key of the program's objects.
pub struct Word {
    text: &'static str,
    kept: StaticRef<Py<PyString>>,
}

impl Word {
    /// With this text.
    pub const fn new(text: &'static str) -> Word {
        Word { text, kept: StaticRef::empty() }
    }

    /// The str.
    #[inline]
    pub fn get<'py>(&'static self, py: Python<'py>) -> &'py Bound<'py, PyString> {
        self.kept.get_or_make(|| PyString::intern(py, self.text).unbind()).bind(py)
    }
}

/// As `pyo3::intern!`.
macro_rules! word {
    ($py:expr, $text:literal) => {{
        static WORD: $crate::kept::Word = $crate::kept::Word::new($text);
        WORD.get($py)
    }};
}
pub(crate) use word;
