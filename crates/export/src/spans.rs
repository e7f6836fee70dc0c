//! A capture as traces: what OTLP and Zipkin share.
//!
//! | of the capture | in a trace |
//! | --- | --- |
//! | a request | its root span |
//! | a span | a span; recorded parents, else by nesting in time: `capture::read::Traces` |
//! | an event | a moment of the innermost span around it, else a span of no length |
//! | links, kinds, statuses, `tracestate` | themselves |
//! | time in the queue, work on other threads, waits, awaits, collections | spans `seen` |
//!
//! What the program recorded and what the recorder observed are two scopes, `dashcam` and
//! `dashcam.seen`, so that a reader can leave the second out. A wait is a span if it took a
//! millisecond and a hundredth of its request; shorter waits are summed up in attributes of the
//! root. Waits exist for requests with a thread of their own; a request on an event loop has
//! awaits.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use ::otlp::traces::{KNOWN_REMOTE, REMOTE, SAMPLED};
use ::otlp::{Attribute, Kind, Link, Moment, Span, Status};
use analysis::states::Threads;
use capture::read::{Capture, EventRow, RequestRow, SpanIds, SpanRow, Traces};
use format::ids;

use crate::attributes::{attributes, put, thread};
use crate::holders::Holders;
use crate::seen;

/// Moments of one span; further ones are only counted.
const MOST_MOMENTS: usize = 1000;

/// The spans of a capture.
#[derive(Debug, Default)]
pub struct Spans<'c> {
    /// What the program recorded, by begin.
    pub said: Vec<Span<'c>>,
    /// What the recorder observed, by begin.
    pub seen: Vec<Span<'c>>,
}

impl<'c> Spans<'c> {
    /// Gathers them; of a part of a capture, those that begin in it. An event in a span of an
    /// earlier part is a span without length below it. Cost: sorts the rows, and computes the
    /// states of every thread once.
    pub fn of(threads: &Threads<'c>) -> Spans<'c> {
        let capture = threads.capture;
        let traces = Traces::of(capture);
        let mut said: Vec<Span<'c>> = Vec::new();
        let requests = capture.requests.iter();
        said.extend(requests.map(|row| request(threads, row, &traces.request(row.id))));
        let spans = capture.spans.iter().zip(0..);
        said.extend(spans.filter_map(|(row, i)| Some(span(threads, row, traces.span(i)?))));
        let begins = capture.requests.iter().map(|row| row.begin_ns);
        let begins = begins.chain(capture.spans.iter().map(|row| row.begin_ns));
        let own: Vec<bool> = begins.map(|begin_ns| capture.owns(begin_ns)).collect();
        let holders = Holders::new(capture);
        moments(threads, &traces, &holders, &mut said);
        links(capture, &mut said);
        let mut seen = seen::of(threads, &traces, &holders, &mut said);
        let mut own = own.into_iter();
        // Behind them are events that are spans of their own.
        said.retain(|_| own.next().unwrap_or(true));
        for spans in [&mut said, &mut seen] {
            spans.sort_by_key(|s| (s.begin_ns, Reverse(s.end_ns), s.trace, s.id));
        }
        Spans { said, seen }
    }
}

fn identified<'c>(capture: &'c Capture, ids: &SpanIds, error: bool) -> Span<'c> {
    let status = match (Status::from_number(ids.status as u64), error) {
        (Status::Unset, true) => Status::Error,
        (status, _) => status,
    };
    let message = match ids.message {
        0 => Cow::Borrowed(""),
        id => Cow::Borrowed(capture.name(id)),
    };
    Span {
        trace: ids.trace,
        id: ids.span,
        parent: ids.parent,
        state: Cow::Owned(ids.tracestate.clone()),
        flags: SAMPLED | KNOWN_REMOTE | if ids.remote { REMOTE } else { 0 },
        kind: Kind::from_number(ids.kind as u64),
        status,
        message,
        ..Span::default()
    }
}

fn request<'c>(threads: &Threads<'c>, row: &'c RequestRow, ids: &SpanIds) -> Span<'c> {
    let capture = threads.capture;
    let name = capture.name(row.name);
    let mut list = attributes(capture, &row.attributes);
    if let Some((method, route)) = route(name) {
        put(&mut list, "http.request.method", method);
        put(&mut list, "http.route", route);
    }
    put(&mut list, "dashcam.request.id", row.id);
    thread(&mut list, threads, row.tid);
    if row.on_loop {
        put(&mut list, "dashcam.on_event_loop", true);
    }
    if row.end_ns.is_none() {
        put(&mut list, "dashcam.unfinished", true);
    }
    let end_ns = row.end_ns.unwrap_or(threads.end_ns).max(row.begin_ns);
    Span {
        name: Cow::Borrowed(name),
        begin_ns: capture.meta.epoch_ns(row.begin_ns),
        end_ns: capture.meta.epoch_ns(end_ns),
        attributes: list,
        ..identified(capture, ids, row.error)
    }
}

/// Method and route of a request that a server's integration named `METHOD route`.
fn route(name: &str) -> Option<(&str, &str)> {
    const METHODS: [&str; 9] =
        ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "CONNECT"];
    name.split_once(' ')
        .filter(|(method, route)| METHODS.contains(method) && route.starts_with('/'))
}

fn span<'c>(threads: &Threads<'c>, row: &'c SpanRow, ids: &SpanIds) -> Span<'c> {
    let capture = threads.capture;
    let mut list = attributes(capture, &row.attributes);
    thread(&mut list, threads, row.tid);
    if row.open {
        put(&mut list, "dashcam.unfinished", true);
    }
    Span {
        name: Cow::Borrowed(capture.name(row.name)),
        begin_ns: capture.meta.epoch_ns(row.begin_ns),
        end_ns: capture.meta.epoch_ns(row.end_ns.max(row.begin_ns)),
        attributes: list,
        ..identified(capture, ids, row.error)
    }
}

/// Puts the events into the spans around them.
fn moments<'c>(
    threads: &Threads<'c>,
    traces: &Traces,
    holders: &Holders,
    said: &mut Vec<Span<'c>>,
) {
    let capture = threads.capture;
    let mut places: Vec<((u32, u64), Vec<&'c EventRow>)> = Vec::new();
    let mut known: HashMap<(u32, u64), usize> = HashMap::new();
    for event in &capture.events {
        let key = (event.tid, event.request);
        let at = *known.entry(key).or_insert(places.len());
        if at == places.len() {
            places.push((key, Vec::new()));
        }
        places[at].1.push(event);
    }
    for (key, mut events) in places {
        events.sort_by_key(|event| event.t_ns);
        let times: Vec<(u64, u64)> = events.iter().map(|e| (e.t_ns, e.t_ns)).collect();
        for (event, holder) in events.into_iter().zip(holders.around(key, &times)) {
            let t_ns = capture.meta.epoch_ns(event.t_ns);
            let name = Cow::Borrowed(capture.name(event.name));
            let mut list = attributes(capture, &event.attributes);
            let Some(index) = holder else {
                said.push(alone(threads, traces, event, name, list));
                continue;
            };
            if !owns(capture, index) {
                // The span was written with the part in which it began.
                let (trace, parent) = (said[index].trace, said[index].id);
                let alone = alone(threads, traces, event, name, list);
                said.push(Span { trace, parent, ..alone });
                continue;
            }
            let span = &mut said[index];
            if span.moments.len() >= MOST_MOMENTS {
                span.dropped_moments += 1;
                continue;
            }
            // The root of a request may have been on another thread.
            if index < capture.requests.len() && capture.requests[index].tid != event.tid {
                thread(&mut list, threads, event.tid);
            }
            span.moments.push(Moment { t_ns, name, attributes: list });
        }
    }
    for span in said {
        span.moments.sort_by_key(|moment| moment.t_ns);
    }
}

/// Whether the request or span at an index of `Spans::said` began in this part of the capture.
fn owns(capture: &Capture, index: usize) -> bool {
    let span = index.checked_sub(capture.requests.len());
    capture.owns(match span {
        Some(span) => capture.spans.get(span).map_or(0, |row| row.begin_ns),
        None => capture.requests[index].begin_ns,
    })
}

/// Distinct from a span that begins at the same instant.
const EVENT: u64 = 0x13_198a_2e03_7073;

/// An event with no span around it: a span without length.
fn alone<'c>(
    threads: &Threads<'c>,
    traces: &Traces,
    event: &EventRow,
    name: Cow<'c, str>,
    mut list: Vec<Attribute<'c>>,
) -> Span<'c> {
    let meta = &threads.capture.meta;
    let id = ids::span(meta.ids_seed ^ EVENT, event.tid, event.t_ns);
    let (trace, parent) = match event.request {
        0 => (ids::trace_id(meta.ids_seed, id), 0),
        request => {
            let root = traces.request(request);
            (root.trace, root.span)
        }
    };
    put(&mut list, "dashcam.kind", "event");
    thread(&mut list, threads, event.tid);
    let t_ns = meta.epoch_ns(event.t_ns);
    let (begin_ns, end_ns, flags, kind) = (t_ns, t_ns, SAMPLED, Kind::Internal);
    let attributes = list;
    Span { trace, id, parent, flags, name, kind, begin_ns, end_ns, attributes, ..Span::default() }
}

fn links<'c>(capture: &'c Capture, said: &mut [Span<'c>]) {
    if capture.links.is_empty() {
        return;
    }
    let by_id: HashMap<u64, usize> = said.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
    for row in &capture.links {
        // A link whose span is not in the capture is left out.
        if let Some(index) = by_id.get(&row.link.span) {
            let (trace, span) = (row.link.to_trace, row.link.to_span);
            let attributes = attributes(capture, &row.attributes);
            said[*index].links.push(Link { trace, span, attributes });
        }
    }
}
