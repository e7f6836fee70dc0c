//! Traces seen from Python: `traceparent` in and out, and OpenTelemetry's data about its spans.
//!
//! How it works: identities are checked and stored by the crates `dashcam` and `recorder`; this
//! file converts Python's objects. python/dashcam/otel.py calls it for the spans of an
//! OpenTelemetry provider.
//!
//! What it promises: events and links of a span are bounded, and what exceeds the bounds is counted
//! as a loss.

use format::region::losses;
use format::trace::{self, Link, SpanKind, Status, Trace};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::made::Text;
use crate::moments::with_dict;
use crate::names;
use crate::process::wake;

/// Events of one span that are recorded.
const EVENTS_MOST: usize = 64;
/// Links of one span that are recorded.
const LINKS_MOST: usize = 16;

/// The header `traceparent` for calls made now; None outside of any request and span.
#[pyfunction]
pub fn traceparent(py: Python<'_>) -> Option<Text> {
    wake(py);
    dashcam::traceparent_of(names::current(py)).map(Text)
}

/// The header `tracestate` that came with the current request.
#[pyfunction]
pub fn tracestate(py: Python<'_>) -> Option<Text> {
    match names::current(py) {
        0 => None,
        request => dashcam::tracestate_of(request).map(Text),
    }
}

/// The trace id of the current request, 32 hex digits; None outside of any request and span.
#[pyfunction]
pub fn trace_id(py: Python<'_>) -> Option<Text> {
    wake(py);
    dashcam::trace_id_of(names::current(py)).map(Text)
}

/// Makes an open request part of its caller's trace. False: the header is not valid.
#[pyfunction]
#[pyo3(signature = (request, traceparent, tracestate = ""))]
pub fn request_continue(request: u64, traceparent: &str, tracestate: &str) -> bool {
    dashcam::continue_trace(request, traceparent, tracestate)
}

/// Whether a setting that is on or off is on.
#[pyfunction]
pub fn setting_is_on(name: &str) -> bool {
    dashcam::setting_is_on(name)
}

/// The identity of a span in OpenTelemetry.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Identity {
    trace: u128,
    span: u64,
    parent: u64,
    remote: bool,
    sampled: bool,
    kind: String,
    status: String,
    message: String,
}

impl Identity {
    fn ids(&self, recorder: &recorder::Recorder, request: u64, t_ns: u64, of_span: bool) -> Trace {
        let message = match self.message.as_str() {
            "" => 0,
            text => recorder.tables().classed(ring::Class::Target, text),
        };
        Trace {
            t_ns,
            request,
            of_span,
            trace: self.trace,
            span: self.span,
            parent: self.parent,
            sampled: self.sampled,
            remote: self.remote,
            kind: SpanKind::from_text(&self.kind).unwrap_or_default(),
            status: Status::from_text(&self.status).unwrap_or_default(),
            message,
        }
    }
}

/// Gives the open request `request` the ids of the span that represents it.
#[pyfunction]
pub fn request_identify(request: u64, identity: &Bound<'_, PyDict>) -> PyResult<()> {
    let identity: Identity = identity.extract()?;
    if let Some(recorder) = recorder::current().filter(|_| request != 0) {
        let ids = identity.ids(recorder, request, sys::clock::now_ns(), false);
        recorder::traces::identify(&ids, &[]);
    }
    Ok(())
}

/// The end of the span that represents `request`: status, attributes, events and links.
#[pyfunction]
pub fn request_ends_as(
    request: u64,
    identity: &Bound<'_, PyDict>,
    attributes: &Bound<'_, PyDict>,
    events: &Bound<'_, PyList>,
    links: &Bound<'_, PyList>,
) -> PyResult<()> {
    let identity: Identity = identity.extract()?;
    let Some(recorder) = recorder::current().filter(|_| request != 0) else { return Ok(()) };
    let ids = identity.ids(recorder, request, sys::clock::now_ns(), false);
    with_dict(recorder, attributes, |list| recorder::traces::record(&ids, list))?;
    put_beside(recorder, request, identity.span, (events, links))
}

/// An open span, kept by its owner until it ends.
#[pyclass(frozen)]
pub struct OpenSpan {
    #[pyo3(get)]
    begin_ns: u64,
    #[pyo3(get)]
    request: u64,
    tid: u32,
    epoch: u32,
    place: recorder::OpenPlace,
}

/// A span of the current request begins, `ago_ns` before now. None while nothing is recorded.
#[pyfunction]
pub fn span_open(name: &Bound<'_, PyString>, ago_ns: u64) -> Option<OpenSpan> {
    let py = name.py();
    wake(py);
    let recorder = recorder::current().filter(|_| recorder::is_on())?;
    let request = names::current(py);
    let begin_ns = sys::clock::now_ns().saturating_sub(ago_ns);
    let place = recorder::begin_span(names::name(recorder, name), begin_ns, request);
    let (tid, epoch) = (sys::thread::cached_tid(), recorder.epoch());
    Some(OpenSpan { begin_ns, request, tid, epoch, place })
}

/// It ends, `ago_ns` before now, under this name (it may have been renamed).
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn span_close(
    open: &OpenSpan,
    name: &Bound<'_, PyString>,
    ago_ns: u64,
    identity: &Bound<'_, PyDict>,
    attributes: &Bound<'_, PyDict>,
    events: &Bound<'_, PyList>,
    links: &Bound<'_, PyList>,
) -> PyResult<()> {
    let identity: Identity = identity.extract()?;
    // The process forked in between: the span is the parent's.
    let Some(recorder) = recorder::current().filter(|r| r.epoch() == open.epoch) else {
        return Ok(());
    };
    if recorder::is_on() {
        let end_ns = sys::clock::now_ns().saturating_sub(ago_ns).max(open.begin_ns);
        let error = identity.status.eq_ignore_ascii_case("error");
        let id = names::name(recorder, name);
        let times = [open.begin_ns, end_ns];
        with_dict(recorder, attributes, |list| {
            recorder::span_at(id, times, open.request, error, list);
        })?;
        recorder::traces::record(&identity.ids(recorder, open.request, open.begin_ns, true), &[]);
        put_beside(recorder, open.request, identity.span, (events, links))?;
    }
    recorder::end_span(open.place, open.begin_ns);
    Ok(())
}

#[pymethods]
impl OpenSpan {
    /// The id it has by default: from its thread and begin.
    #[getter]
    fn derived_id(&self) -> u64 {
        recorder::current().map_or(0, |r| format::ids::span(r.ids_seed(), self.tid, self.begin_ns))
    }
}

/// The events and the links of a span, or of a request that one represents.
fn put_beside(
    recorder: &recorder::Recorder,
    request: u64,
    span: u64,
    (events, links): (&Bound<'_, PyList>, &Bound<'_, PyList>),
) -> PyResult<()> {
    put_events(recorder, request, events)?;
    put_links(recorder, request, span, links)
}

/// (name, ns ago, attributes) each.
fn put_events(
    recorder: &recorder::Recorder,
    request: u64,
    events: &Bound<'_, PyList>,
) -> PyResult<()> {
    let now = sys::clock::now_ns();
    for event in events.iter().take(EVENTS_MOST) {
        let (name, ago_ns, attributes): (Bound<'_, PyString>, u64, Bound<'_, PyDict>) =
            event.extract()?;
        let (id, t_ns) = (names::name(recorder, &name), now.saturating_sub(ago_ns));
        with_dict(recorder, &attributes, |list| {
            recorder::event_at(id, t_ns, request, list);
        })?;
    }
    let cut = events.len().saturating_sub(EVENTS_MOST);
    if cut > 0 {
        recorder.region().lose(losses::SPAN_EVENTS_CUT, cut as u64);
    }
    Ok(())
}

/// (trace id, span id, remote, attributes) each.
fn put_links(
    recorder: &recorder::Recorder,
    request: u64,
    span: u64,
    links: &Bound<'_, PyList>,
) -> PyResult<()> {
    for link in links.iter().take(LINKS_MOST) {
        let (to_trace, to_span, remote, attributes): (u128, u64, bool, Bound<'_, PyDict>) =
            link.extract()?;
        let t_ns = sys::clock::now_ns();
        let link = Link { t_ns, request, span, to_trace, to_span, remote };
        with_dict(recorder, &attributes, |list| recorder::traces::link(&link, list))?;
    }
    let cut = links.len().saturating_sub(LINKS_MOST);
    if cut > 0 {
        recorder.region().lose(losses::SPAN_LINKS_CUT, cut as u64);
    }
    Ok(())
}

/// Counts a span that had no room.
#[pyfunction]
pub fn lost_span() {
    if let Some(recorder) = recorder::current() {
        recorder.region().lose(losses::SPANS_UNTRACKED, 1);
    }
}

/// Records an exception as an event of the current request.
#[pyfunction]
pub fn exception(py: Python<'_>, kind: &str, message: &str) {
    let (true, Some(recorder)) = (recorder::is_on(), recorder::current()) else { return };
    let id = |text: &str| recorder.tables().name(text);
    let attributes = [
        (id(trace::EXCEPTION_TYPE), format::record::Value::Text(kind)),
        (id(trace::EXCEPTION_MESSAGE), format::record::Value::Text(message)),
    ];
    recorder::event(id(trace::EXCEPTION), names::current(py), &attributes);
}
