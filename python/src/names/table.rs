//! From a str to its id: by its address, else by its characters.
//!
//! How it works: what is found by its characters, in a dict, takes a place among the addresses. An
//! id is stored together with the epoch of the recorder that gave it, in one word, and is none for
//! another recorder.
//!
//! What it promises: safe from any thread, with and without the GIL. The dict has at most `MOST`
//! names; further names are looked up in the recorder each time. Missing on purpose: which
//! addresses are kept (`held`, `immortal`).

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use recorder::Recorder;

#[cfg(not(Py_GIL_DISABLED))]
use super::held::Places;
use super::ids::{packed, unpacked};
#[cfg(Py_GIL_DISABLED)]
use super::immortal::Places;
use crate::kept::Dict;
use crate::made;

/// At most this many names in a dict.
const MOST: usize = 20_000;

/// Str -> id.
pub(super) struct Table {
    places: Places,
    /// Bounded by the name area, too: a refused name is not entered.
    dict: Dict,
}

impl Table {
    pub const fn new() -> Table {
        Table { places: Places::new(), dict: Dict::new() }
    }

    /// The id of `text`.
    ///
    /// Safety: the GIL is held; `text` is exactly a str, held by the caller.
    #[inline]
    pub unsafe fn id(
        &'static self,
        recorder: &Recorder,
        text: *mut ffi::PyObject,
        intern: impl FnOnce(&str) -> u32,
    ) -> u32 {
        if let Some(id) = self.places.find(text, recorder.epoch()) {
            return id;
        }
        // SAFETY: promised by the caller: a str.
        let text = unsafe {
            Bound::from_borrowed_ptr(Python::assume_attached(), text).cast_into_unchecked()
        };
        self.look_up(recorder, &text, intern)
    }

    #[cold]
    fn look_up(
        &'static self,
        recorder: &Recorder,
        text: &Bound<'_, PyString>,
        intern: impl FnOnce(&str) -> u32,
    ) -> u32 {
        let id = self.by_characters(recorder, text, intern);
        if id != 0 {
            self.places.put(text, recorder.epoch(), id);
        }
        id
    }

    /// As `id`. The dict keeps the str: exactly that, whose hash and comparison run no code of the
    /// program.
    pub fn by_characters(
        &'static self,
        recorder: &Recorder,
        text: &Bound<'_, PyString>,
        intern: impl FnOnce(&str) -> u32,
    ) -> u32 {
        let (py, epoch) = (text.py(), recorder.epoch());
        let Some(dict) = self.dict.get().map(|dict| dict.bind(py)) else { return 0 };
        let found = dict.get_item(text).ok().flatten().and_then(|word| word.extract().ok());
        if let Some(id) = found.and_then(|word| unpacked(word, epoch)) {
            return id;
        }
        let Some(characters) = made::all_characters(text) else { return 0 };
        let id = intern(&characters);
        if id != 0 && (found.is_some() || dict.len() < MOST) {
            // An error: there is no memory, and the next call asks again.
            let _ = made::int(py, packed(epoch, id)).and_then(|word| dict.set_item(text, word));
        }
        id
    }

    /// Makes what is kept.
    pub fn make(&'static self, py: Python<'_>) -> PyResult<()> {
        self.dict.make(py)
    }

    /// Releases everything.
    pub fn forget(&self, py: Python<'_>) {
        if let Some(dict) = self.dict.get() {
            dict.bind(py).clear();
        }
        self.places.forget(py);
    }
}
