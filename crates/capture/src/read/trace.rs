//! Ids, parents, kinds and statuses of requests and spans: recorded ones (`Trace` records) over
//! derived ones (`format::ids`).
//!
//! How it works: `Traces::of` goes over a whole capture once. A span's trace is the recorded one,
//! else its request's, else its outer span's, else a new one. Its parent is the recorded one, else
//! the innermost span of the same thread and request that contains it in time, else the root span
//! of its request.
//!
//! What it promises: the same ids for the same capture, and the ids that the process itself gave
//! out. What it does not: parents by nesting are the best guess that times allow, if spans run
//! interleaved on one event loop within one request.

use std::cmp::Reverse;
use std::collections::HashMap;

use format::ids;
use format::trace::{SpanKind, Status, BEGIN_THREAD, TRACESTATE};

use super::capture::Capture;
use super::rows::{SpanRow, Text, TraceRow};

/// Open spans that are searched for the one that contains the next.
const OPEN_MOST: usize = 256;

/// Identity of one request's root span, or of one span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanIds {
    /// Trace id, never 0.
    pub trace: u128,
    /// The trace id came from outside: other tools know it too.
    pub recorded: bool,
    /// Span id, never 0.
    pub span: u64,
    /// Span id of the parent, 0: the root of its trace.
    pub parent: u64,
    /// The parent is another process's.
    pub remote: bool,
    /// The process that began the trace samples it.
    pub sampled: bool,
    /// Kind; by default a request is a server's, a call to another service a client's, any other
    /// span internal.
    pub kind: SpanKind,
    /// Recorded status; unset if only `error` of the row is known.
    pub status: Status,
    /// Name id of the status's message, 0 none.
    pub message: u32,
    /// W3C's tracestate, empty: none.
    pub tracestate: String,
}

/// The identities of everything in a capture.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    seed: u64,
    /// Requests with recorded ids; all others' are derived when needed.
    requests: HashMap<u64, SpanIds>,
    spans: Vec<SpanIds>,
}

impl Traces {
    /// Goes over the whole capture. Cost: a sort of the spans.
    pub fn of(capture: &Capture) -> Traces {
        let seed = capture.meta.ids_seed;
        let mut requests: HashMap<u64, SpanIds> = HashMap::new();
        let mut records: HashMap<(u32, u64), Vec<&TraceRow>> = HashMap::new();
        let key = capture.name_id(TRACESTATE);
        for row in &capture.traces {
            if row.record.of_span {
                records.entry((row.tid, row.record.t_ns)).or_default().push(row);
                continue;
            }
            let id = row.record.request;
            requests.entry(id).or_insert_with(|| derived(seed, id)).lay_over(row, key);
        }
        let spans = span_ids(capture, seed, &requests, &records, key);
        Traces { seed, requests, spans }
    }

    /// Of a request, by its id; derived ids for one that is not in the capture.
    pub fn request(&self, id: u64) -> SpanIds {
        self.requests.get(&id).cloned().unwrap_or_else(|| derived(self.seed, id))
    }

    /// Of `Capture::spans[index]`; None past the end.
    pub fn span(&self, index: usize) -> Option<&SpanIds> {
        self.spans.get(index)
    }
}

/// Ids of a request without a record of them.
fn derived(seed: u64, request: u64) -> SpanIds {
    SpanIds {
        trace: ids::trace_id(seed, request),
        span: ids::request_span(seed, request),
        kind: SpanKind::Server,
        ..SpanIds::default()
    }
}

impl SpanIds {
    fn lay_over(&mut self, row: &TraceRow, tracestate: Option<u32>) {
        let record = &row.record;
        let set = |place: &mut u64, value: u64| {
            if value != 0 {
                *place = value;
            }
        };
        if record.trace != 0 {
            (self.trace, self.recorded) = (record.trace, true);
            self.sampled = record.sampled;
        }
        set(&mut self.span, record.span);
        if record.parent != 0 {
            (self.parent, self.remote) = (record.parent, record.remote);
        }
        if record.kind != SpanKind::Unset {
            self.kind = record.kind;
        }
        if record.status != Status::Unset {
            (self.status, self.message) = (record.status, record.message);
        }
        for (key, value) in &row.attributes {
            if let (true, Text::Text(text)) = (Some(*key) == tracestate, value) {
                self.tracestate.clone_from(text);
            }
        }
    }
}

/// In the order of `Capture::spans`.
fn span_ids(
    capture: &Capture,
    seed: u64,
    requests: &HashMap<u64, SpanIds>,
    records: &HashMap<(u32, u64), Vec<&TraceRow>>,
    tracestate: Option<u32>,
) -> Vec<SpanIds> {
    let mut order: Vec<usize> = (0..capture.spans.len()).collect();
    let begin_thread = capture.name_id(BEGIN_THREAD);
    // A span that ended on another thread holds those of the thread it began on.
    let home = |s: &SpanRow| {
        let records = records.get(&(s.tid, s.begin_ns)).into_iter().flatten();
        let mut pairs = records.flat_map(|row| &row.attributes);
        pairs.find_map(|(key, value)| match value {
            Text::Int(tid) if Some(*key) == begin_thread => u32::try_from(*tid).ok(),
            _ => None,
        })
    };
    let home = |s: &SpanRow| begin_thread.and_then(|_| home(s)).unwrap_or(s.tid);
    let key = |s: &SpanRow| (home(s), s.request, s.begin_ns, Reverse(s.end_ns));
    order.sort_by_cached_key(|i| key(&capture.spans[*i]));
    let mut all = vec![SpanIds::default(); order.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut place = (0, 0);
    for index in order {
        let span = &capture.spans[index];
        let tid = home(span);
        if place != (tid, span.request) {
            place = (tid, span.request);
            open.clear();
        }
        open.retain(|i| capture.spans[*i].end_ns > span.begin_ns);
        if open.len() > OPEN_MOST {
            open.remove(0);
        }
        let holds = |i: &&usize| capture.spans[**i].end_ns >= span.end_ns;
        let outer = open.iter().rev().find(holds).map(|i| &all[*i]);
        let root = || requests.get(&span.request).filter(|_| span.request != 0);
        let mut ids = SpanIds {
            span: ids::span(seed, tid, span.begin_ns),
            kind: if span.call { SpanKind::Client } else { SpanKind::Internal },
            ..SpanIds::default()
        };
        match outer.or_else(root) {
            Some(parent) => {
                (ids.trace, ids.recorded, ids.parent) =
                    (parent.trace, parent.recorded, parent.span);
                (ids.sampled, ids.tracestate) = (parent.sampled, parent.tracestate.clone());
            }
            None if span.request != 0 => {
                ids.trace = ids::trace_id(seed, span.request);
                ids.parent = ids::request_span(seed, span.request);
            }
            None => ids.trace = ids::trace_id(seed, ids.span),
        }
        for row in records.get(&(span.tid, span.begin_ns)).into_iter().flatten() {
            ids.lay_over(row, tracestate);
        }
        all[index] = ids;
        open.push(index);
    }
    all
}
