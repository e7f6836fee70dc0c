//! Trace ids of requests and spans, for callers that pass them on while the request runs.
//!
//! How it works: ids are derived (`format::ids`) unless they came from outside. Ids from outside
//! are kept in the request's slot of the table of open requests, and recorded once.
//!
//! What it promises: no lock, no allocation, no cost for requests whose ids are not asked for. A
//! request that the table had no room for forgets ids from outside (`requests_untracked`); its
//! record keeps them.

use format::ids;
use format::record::{Builder, Kind, MAX_WORDS};
use format::trace::{Link, Trace};
use format::traceparent::Remote;

use crate::current::{current, is_on};
use crate::open_spans::innermost_span;
use crate::records::{finish, Attribute};

/// Records the ids, kind or status of a request or span.
pub fn record(given: &Trace, attributes: &[Attribute<'_>]) {
    if is_on() {
        let now = sys::clock::now_ns();
        let made =
            Builder::<MAX_WORDS>::new(Kind::Trace, given.flags(), given.message, &given.words());
        finish(made, attributes, now);
    }
}

/// Records a link from a span to another.
pub fn link(link: &Link, attributes: &[Attribute<'_>]) {
    if is_on() {
        let made = Builder::<MAX_WORDS>::new(Kind::Link, link.flags(), 0, &link.words());
        finish(made, attributes, sys::clock::now_ns());
    }
}

/// Gives an open request ids that came from outside, and records them. Fields of `given` that are 0
/// keep what was there before, or the derived ids.
pub fn identify(given: &Trace, attributes: &[Attribute<'_>]) {
    if let Some(recorder) = current() {
        recorder.open_requests().set_trace(given);
        record(given, attributes);
    }
}

/// Trace id, root span id and flag of a request; None: nothing was ever recorded, or `request` is
/// 0.
pub fn of_request(request: u64) -> Option<Remote> {
    let recorder = current().filter(|_| request != 0)?;
    let seed = recorder.ids_seed();
    let given = recorder.open_requests().trace(request).unwrap_or_default();
    let or = |given: u64, derived: u64| if given == 0 { derived } else { given };
    Some(match given.trace {
        // The trace begins here, and here all of it is recorded.
        0 => Remote {
            trace: ids::trace_id(seed, request),
            span: or(given.span, ids::request_span(seed, request)),
            sampled: true,
        },
        trace => Remote {
            trace,
            span: or(given.span, ids::request_span(seed, request)),
            sampled: given.sampled,
        },
    })
}

/// The innermost open span of `request` on this thread, or its root span. With `request` 0: the
/// innermost of this thread's spans outside of any request; its trace is that of the outermost one.
pub fn innermost(request: u64) -> Option<Remote> {
    let recorder = current()?;
    let span = |begin_ns| ids::span(recorder.ids_seed(), sys::thread::cached_tid(), begin_ns);
    if request != 0 {
        let root = of_request(request)?;
        let inner = innermost_span(request).map(span);
        return Some(Remote { span: inner.unwrap_or(root.span), ..root });
    }
    let (outer, inner) = crate::open_spans::outermost_and_innermost(0)?;
    let trace = ids::trace_id(recorder.ids_seed(), span(outer));
    Some(Remote { trace, span: span(inner), sampled: true })
}
