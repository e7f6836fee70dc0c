//! What a thread worked on at an instant: its request, and the innermost span open on it.
//!
//! How it works: for each thread the times of its requests (from the start of the handler), of the
//! parts of other threads' requests, and of its spans are swept once into a list of instants at
//! which the answer changes. A lookup is a binary search.
//!
//! What it does not promise: requests on an event loop share their thread, and no record says whose
//! turn it was, so they are left out. Parts of such requests on another thread are included.

use std::collections::{BTreeSet, HashMap};

use capture::read::{Capture, Text, Traces};

/// What a thread was at: indices into the capture's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Its request: index into `Capture::requests`.
    pub request: Option<usize>,
    /// Its innermost span: index into `Capture::spans`.
    pub span: Option<usize>,
}

/// Instants at which a thread's work changed.
pub struct Contexts {
    changes: HashMap<u32, Vec<(u64, At)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Request(usize),
    Span(usize),
}

impl Contexts {
    /// Reads the requests, tasks and spans of a capture.
    pub fn new(capture: &Capture) -> Contexts {
        let mut times: HashMap<u32, Vec<(u64, u64, What)>> = HashMap::new();
        let by_id = requests_by_id(capture);
        for (i, request) in capture.requests.iter().enumerate().filter(|(_, r)| !r.on_loop) {
            let end_ns = request.end_ns.unwrap_or(capture.meta.to_ns);
            let begin_ns = request.started_ns.max(request.begin_ns);
            times.entry(request.tid).or_default().push((begin_ns, end_ns, What::Request(i)));
        }
        for task in &capture.tasks {
            if let Some(i) = by_id.get(&task.request) {
                let row = (task.begin_ns, task.end_ns, What::Request(*i));
                times.entry(task.tid).or_default().push(row);
            }
        }
        for (i, span) in capture.spans.iter().enumerate() {
            let owner = by_id.get(&span.request).map(|i| &capture.requests[*i]);
            if !owner.is_some_and(|r| r.on_loop && r.tid == span.tid) {
                let row = (span.begin_ns, span.end_ns, What::Span(i));
                times.entry(span.tid).or_default().push(row);
            }
        }
        Contexts { changes: times.into_iter().map(|(tid, rows)| (tid, sweep(&rows))).collect() }
    }

    /// What `tid` worked on at `t_ns`.
    pub fn at(&self, tid: u32, t_ns: u64) -> At {
        let Some(changes) = self.changes.get(&tid) else { return At::default() };
        let next = changes.partition_point(|(t, _)| *t <= t_ns);
        next.checked_sub(1).map_or(At::default(), |i| changes[i].1)
    }
}

/// Index of each request by its id.
pub fn requests_by_id(capture: &Capture) -> HashMap<u64, usize> {
    capture.requests.iter().enumerate().map(|(i, r)| (r.id, i)).collect()
}

/// The trace id of a request: from its attributes (`trace_id`, or the second field of a W3C
/// `traceparent`), else the id it was given or that is derived.
pub fn trace_id(capture: &Capture, traces: &Traces, request: usize) -> Option<String> {
    let row = capture.requests.get(request)?;
    let given = row.attributes.iter().find_map(|(key, value)| match (capture.name(*key), value) {
        ("trace_id", Text::Text(id)) => Some(id.clone()),
        ("traceparent", Text::Text(header)) => header.split('-').nth(1).map(str::to_owned),
        _ => None,
    });
    Some(given.unwrap_or_else(|| format!("{:032x}", traces.request(row.id).trace)))
}

fn sweep(rows: &[(u64, u64, What)]) -> Vec<(u64, At)> {
    // Ends before begins at one instant, so that a request that follows another replaces it.
    let mut edges: Vec<(u64, bool, usize)> = Vec::with_capacity(rows.len() * 2);
    for (i, (begin_ns, end_ns, _)) in rows.iter().enumerate().filter(|(_, r)| r.1 > r.0) {
        edges.push((*begin_ns, true, i));
        edges.push((*end_ns, false, i));
    }
    edges.sort_unstable();
    let (mut requests, mut spans) = (BTreeSet::new(), BTreeSet::new());
    let mut out: Vec<(u64, At)> = Vec::with_capacity(edges.len());
    for (t_ns, begins, i) in edges {
        let (begin_ns, _, what) = rows[i];
        let (open, index) = match what {
            What::Request(index) => (&mut requests, index),
            What::Span(index) => (&mut spans, index),
        };
        match begins {
            true => open.insert((begin_ns, index)),
            false => open.remove(&(begin_ns, index)),
        };
        let last = |open: &BTreeSet<(u64, usize)>| open.last().map(|(_, index)| *index);
        let at = At { request: last(&requests), span: last(&spans) };
        match out.last_mut() {
            Some((t, now)) if *t == t_ns => *now = at,
            _ => out.push((t_ns, at)),
        }
    }
    out
}
