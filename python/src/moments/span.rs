//! Spans and events.

use std::borrow::Cow;
use std::ffi::CStr;

use format::region::losses;
use pyo3::ffi;
use pyo3::prelude::*;
use recorder::{Attribute, OpenPlace, Recorder};

use super::attributes;
use super::given::{are_exact, read};
use super::held::Held;
use super::object::{Kind, Moment, SPANS};
use super::pool::Pool;
use crate::alone::alone;
use crate::aside::error_name;
use crate::call::{guarded, none, quietly};
use crate::names;
use crate::process::recording;

/// Spans.
pub(super) struct Spans;

impl Kind for Spans {
    const TYPE: &'static CStr = c"dashcam._native.Span";
    const NOUN: &'static str = "span";

    #[inline]
    fn pool() -> &'static Pool<Moment> {
        &SPANS
    }

    #[inline]
    fn enter(py: Python<'_>, span: &Moment) -> Result<(), ()> {
        if recording(py).is_none() {
            // SAFETY: the caller holds the GIL and the object.
            unsafe { alone(span.as_object(), || span.begin_ns.set(0)) };
            return Ok(());
        }
        // SAFETY: the caller holds the GIL and the object.
        unsafe { span.settle(py)? };
        // Only now: while a value's `str()` ran, another recorder may have started.
        let Some(recorder) = recording(py) else { return Ok(()) };
        // SAFETY: the GIL is held; a name is exactly a str.
        let name = unsafe { names::id(recorder, span.name.get()) };
        let (request, begin_ns) = (names::current(py), sys::clock::now_ns());
        let begin = || {
            // Entered again without having been left: captures show it once.
            recorder::end_span(span.place.replace(OpenPlace::NONE), span.begin_ns.get());
            span.place.set(recorder::begin_span(name, begin_ns, request));
            span.known.set((name, recorder.epoch()));
            span.previous.set(request);
            span.begin_ns.set(begin_ns);
        };
        // SAFETY: the caller holds the GIL and the object; only Rust is called.
        unsafe { alone(span.as_object(), begin) };
        Ok(())
    }

    #[inline]
    fn exit(py: Python<'_>, span: &Moment, error: *mut ffi::PyObject) {
        let end = || match span.begin_ns.replace(0) {
            // Not entered, or another thread has left it.
            0 => None,
            begin_ns => {
                let place = span.place.replace(OpenPlace::NONE);
                Some((begin_ns, place, span.known.get(), span.previous.get()))
            }
        };
        // SAFETY: the caller holds the GIL and the object.
        let begun = unsafe { alone(span.as_object(), end) };
        let Some((begin_ns, place, known, request)) = begun else { return };
        let Some(recorder) = recorder::current() else { return };
        // SAFETY: the caller holds the GIL and both objects; a name is exactly a str.
        unsafe {
            let (name, request) = match known {
                (name, epoch) if epoch == recorder.epoch() => (name, request),
                // The process forked in between: names have other ids.
                _ => (names::id(recorder, span.name.get()), names::current(py)),
            };
            let failed = error != ffi::Py_None();
            with_attributes(recorder, span, error, |list| {
                recorder::span(name, begin_ns, request, failed, list);
            });
        }
        recorder::end_span(place, begin_ns);
    }
}

/// Calls `then` with the object's name and attributes, and the type of the error it ends with, if
/// any.
///
/// Safety: the GIL is held, so are both objects; the object's values are plain (`settle`).
#[inline]
pub(super) unsafe fn with_attributes(
    recorder: &Recorder,
    moment: &Moment,
    error: *mut ffi::PyObject,
    then: impl FnOnce(&[Attribute<'_>]),
) {
    // SAFETY: promised by the caller.
    unsafe {
        let held = Held::of(moment);
        if held.extra() > 0 {
            recorder.region().lose(losses::ATTRIBUTES_CUT, u64::from(held.extra()));
        }
        let kind = match error == ffi::Py_None() {
            true => Cow::Borrowed(""),
            false => error_name(error),
        };
        attributes::with(
            recorder,
            held.count(),
            |at| held.pair(at),
            |given| {
                with_kind(recorder, &kind, given, then);
            },
        );
    }
}

/// Calls `then` with the attributes, preceded by that of the error's type, unless that is "".
#[inline]
pub(super) fn with_kind(
    recorder: &Recorder,
    kind: &str,
    given: &[Attribute<'_>],
    then: impl FnOnce(&[Attribute<'_>]),
) {
    match kind {
        "" => then(given),
        _ => then(&add_kind(recorder, kind, given)),
    }
}

#[cold]
fn add_kind<'a>(recorder: &Recorder, kind: &'a str, given: &[Attribute<'a>]) -> Vec<Attribute<'a>> {
    // In front: it must not be the one that has no room.
    static KEY: names::Own = names::Own::new("exception.type");
    let key = KEY.id(recorder);
    let mut list = Vec::with_capacity(given.len() + 1);
    list.push((key, format::record::Value::Text(kind)));
    list.extend_from_slice(given);
    list
}

/// `event(name, /, **attributes)`.
///
/// Safety: as CPython calls a function with METH_FASTCALL and METH_KEYWORDS.
pub(super) unsafe extern "C" fn event(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL, `count` positional arguments at `args`, followed by
    // one for each name in the tuple `keywords`, which may be NULL. All are held by the caller.
    unsafe {
        let py = Python::assume_attached();
        if count == 1 && ffi::PyUnicode_CheckExact(*args) != 0 && are_exact(keywords) {
            let given =
                if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) as usize };
            let values = args.add(1);
            if (0..given).all(|at| attributes::is_plain(*values.add(at))) {
                let pair =
                    |at: usize| (ffi::PyTuple_GET_ITEM(keywords, at as isize), *values.add(at));
                quietly((), || put_event(py, *args, given, pair));
                return none();
            }
        }
        guarded(|py| {
            let given = read(py, "event", args, count, keywords)?;
            if recording(py).is_none() {
                return Ok(none());
            }
            let mut plain = Vec::with_capacity(given.pairs.len());
            for (key, value) in &given.pairs {
                let made = attributes::plain(py, value.as_ptr());
                plain.push((key, Bound::from_owned_ptr_or_err(py, made)?));
            }
            let pair = |at: usize| (plain[at].0.as_ptr(), plain[at].1.as_ptr());
            put_event(py, given.name.as_ptr(), plain.len(), pair);
            Ok(none())
        })
    }
}

/// Safety: as `attributes::with`, but for any count; `name` is exactly a str.
#[inline]
unsafe fn put_event(
    py: Python<'_>,
    name: *mut ffi::PyObject,
    count: usize,
    pair: impl Fn(usize) -> (*mut ffi::PyObject, *mut ffi::PyObject),
) {
    let Some(recorder) = recording(py) else { return };
    let most = count.min(format::record::MAX_ATTRIBUTES);
    if count > most {
        recorder.region().lose(losses::ATTRIBUTES_CUT, (count - most) as u64);
    }
    // SAFETY: promised by the caller.
    unsafe {
        let (name, request) = (names::id(recorder, name), names::current(py));
        attributes::with(recorder, most, pair, |list| recorder::event(name, request, list));
    }
}
