//! The span of one call to another service.
//!
//! What it promises: it is recorded once, when it ends; in a process that was forked meanwhile not
//! at all, since its name belongs to the parent's recorder. Missing on purpose: how calls are named
//! (`calls`), and when those of async functions end (`awaited`).

use format::record::Value;
use pyo3::prelude::*;
use recorder::{OpenPlace, Recorder};

use super::span;
use crate::names;

/// A call that is recorded.
#[derive(Clone, Copy)]
pub(super) struct Call {
    name: u32,
    kind: &'static str,
    /// Of the recorder that gave the name: in a forked child there is another one.
    epoch: u32,
    request: u64,
    /// 0 until it begins.
    begin_ns: u64,
    place: OpenPlace,
}

impl Call {
    /// One that has not begun.
    pub fn new(recorder: &Recorder, name: u32, kind: &'static str) -> Call {
        let (epoch, place) = (recorder.epoch(), OpenPlace::NONE);
        Call { name, kind, epoch, request: 0, begin_ns: 0, place }
    }

    /// It begins now, for the current request.
    pub fn begun(self, py: Python<'_>) -> Call {
        let (request, begin_ns) = (names::current(py), sys::clock::now_ns());
        let place = recorder::begin_span(self.name, begin_ns, request);
        Call { request, begin_ns, place, ..self }
    }

    /// It ends now. `error`: the type of the exception it ends with; "" for none.
    pub fn end(self, error: &str) {
        static KIND: names::Own = names::Own::new("call");
        let Some(recorder) = recorder::current().filter(|one| one.epoch() == self.epoch) else {
            return;
        };
        if self.begin_ns != 0 {
            let given = [(KIND.id(recorder), Value::Text(self.kind))];
            span::with_kind(recorder, error, &given, |list| {
                recorder::call(self.name, self.begin_ns, self.request, !error.is_empty(), list);
            });
            recorder::end_span(self.place, self.begin_ns);
        }
    }
}
