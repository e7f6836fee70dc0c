//! Traces across processes: `traceparent` in and out.
//!
//! How it works: a request that comes with a `traceparent` gets that trace, with the caller's span
//! as its parent; code that calls other services asks for the present `traceparent` and sends it
//! along. Nothing is sent by itself.
//!
//! What it promises: requests without the header pay nothing. Ids given out are the ids in
//! captures. Of a `tracestate` 64 bytes are recorded and up to 512 passed on, of at most
//! `STATES_MOST` requests at once. A `tracestate` that finds no room, or the list in use, is
//! counted in `attributes_cut` and not passed on.
//!
//! Missing on purpose: baggage.

use std::sync::Mutex;

use format::record::Value;
use format::region::losses;
use format::trace::{Trace, BEGIN_THREAD, TRACESTATE};
use format::traceparent::{self, Remote};
use sys::cell::StaticRef;

use crate::api::current::{current_request, epoch};
use crate::api::names::Site;
use crate::running::{parent, running};

/// Requests open at once whose `tracestate` is kept.
const STATES_MOST: usize = 1024;

/// Requests, and their `tracestate`. Entries of ended requests are removed when room is wanted. No
/// thread waits for it; it is made anew in a forked child, where its parent's may be held by a
/// thread that does not exist there.
static STATES: StaticRef<Mutex<States>> = StaticRef::empty();
/// Epoch, request, text.
type States = Vec<(u32, u64, Box<str>)>;

/// In a forked child: no request is its own. One store; up to half a MiB of its parent's list is
/// left in memory.
pub(crate) fn forget() {
    STATES.set(None);
}

/// Makes an open request part of its caller's trace. `tracestate` may be empty. False: the header
/// is not valid, or there is no such request; its trace begins here then. One record; allocates
/// only for a `tracestate`.
///
/// ```
/// # let config = dashcam::Config::new().memory("1MiB");
/// # dashcam::start(config.out(std::env::temp_dir().display())).ok();
/// let request = dashcam::request!("GET /checkout");
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// assert!(dashcam::continue_trace(request.id(), header, ""));
/// let sent_along = dashcam::traceparent().unwrap_or_default();
/// assert!(sent_along.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
/// # drop(request);
/// # dashcam::stop();
/// ```
pub fn continue_trace(request: u64, traceparent: &str, tracestate: &str) -> bool {
    static KEY: Site = Site::new(TRACESTATE);
    let Some(recorder) = recorder::current() else { return false };
    let Some(remote) = traceparent::parse(traceparent) else { return false };
    let Some(open) = recorder.open_requests().find(request) else { return false };
    let record = Trace {
        t_ns: open.begin_ns,
        request,
        trace: remote.trace,
        parent: remote.span,
        sampled: remote.sampled,
        remote: true,
        ..Trace::default()
    };
    match traceparent::state(tracestate) {
        None => recorder::traces::identify(&record, &[]),
        Some(state) => {
            let attribute = (KEY.id(recorder.epoch()), Value::Text(&state));
            recorder::traces::identify(&record, &[attribute]);
            keep_state(recorder, request, state);
        }
    }
    true
}

fn keep_state(recorder: &recorder::Recorder, request: u64, state: String) {
    let epoch = recorder.epoch();
    let kept = STATES.get_or_make(Mutex::default).try_lock().ok().is_some_and(|mut states| {
        if states.len() >= STATES_MOST {
            let open = recorder.open_requests();
            states.retain(|(of, id, _)| *of == epoch && open.is_open(*id));
        }
        let has_room = states.len() < STATES_MOST;
        if has_room {
            states.push((epoch, request, state.into_boxed_str()));
        }
        has_room
    });
    if !kept {
        recorder.region().lose(losses::ATTRIBUTES_CUT, 1);
    }
}

/// The header `tracestate` to send along for a request; None: it has none.
pub fn tracestate_of(request: u64) -> Option<String> {
    let epoch = epoch();
    let states = STATES.get()?.try_lock().ok()?;
    let found = states.iter().rev().find(|(of, id, _)| *of == epoch && *id == request);
    found.map(|(.., state)| state.to_string())
}

/// The header `traceparent` for calls that this thread makes now: the present span of its request,
/// or of spans outside of any request. None: there is neither, or nothing is recorded. Allocates.
pub fn traceparent() -> Option<String> {
    traceparent_of(current_request())
}

/// As `traceparent`, for a request whose id the caller knows (0: none).
pub fn traceparent_of(request: u64) -> Option<String> {
    let here: Option<Remote> = match recorder::is_on() {
        true => recorder::traces::innermost(request),
        false => None,
    };
    here.map(|span| traceparent::text(&span))
}

/// The trace id of this thread's request, as 32 hex digits: what tracing tools look it up by.
pub fn trace_id() -> Option<String> {
    trace_id_of(current_request())
}

/// As `trace_id`, for a request whose id the caller knows (0: none).
pub fn trace_id_of(request: u64) -> Option<String> {
    let here = recorder::is_on().then(|| recorder::traces::innermost(request)).flatten();
    here.map(|span| format!("{:032x}", span.trace))
}

/// Whether the setting `calls`, `propagate` or `otel` is on; false while nothing is started.
pub fn setting_is_on(name: &str) -> bool {
    running().or_else(parent).is_some_and(|parts| match name {
        "calls" => parts.recording.config().calls,
        "propagate" => parts.recording.config().propagate,
        "otel" => parts.recording.config().otel,
        _ => false,
    })
}

/// A span as its id is derived: for bindings whose spans know their parents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanKey {
    /// Thread it began on, of `this_thread`.
    pub tid: u32,
    /// When it began.
    pub begin_ns: u64,
    /// When it is a request: that; else 0.
    pub request: u64,
}

impl SpanKey {
    fn id(self, recorder: &recorder::Recorder) -> u64 {
        match self.request {
            0 => format::ids::span(recorder.ids_seed(), self.tid, self.begin_ns),
            request => recorder::traces::of_request(request).map_or(0, |ids| ids.span),
        }
    }
}

/// The calling thread's kernel id. One load after the first call.
#[inline]
pub fn this_thread() -> u32 {
    sys::thread::cached_tid()
}

/// Records the parent of a span, and the id it gave out, where readers cannot infer them from its
/// thread and times: it ended on another thread than it began on, or others of its thread ran in
/// between. On the thread that records the span, and only for spans that are no requests.
pub fn record_span_ids(span: SpanKey, parent: Option<SpanKey>, request: u64) {
    let Some(recorder) = recorder::current() else { return };
    let record = Trace {
        t_ns: span.begin_ns,
        request,
        of_span: true,
        span: span.id(recorder),
        parent: parent.map_or(0, |parent| parent.id(recorder)),
        ..Trace::default()
    };
    static KEY: Site = Site::new(BEGIN_THREAD);
    let moved = (span.tid != this_thread())
        .then(|| (KEY.id(recorder.epoch()), Value::Int(i64::from(span.tid))));
    recorder::traces::record(&record, moved.as_slice());
}
