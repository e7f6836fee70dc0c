//! The span around an instant or interval of a thread and request.

use std::cmp::Reverse;
use std::collections::HashMap;

use analysis::context::requests_by_id;
use capture::read::Capture;

/// Open spans that are examined to find the one around an instant.
const MOST_OPEN: usize = 256;

/// Begin, end, index in `Spans::said`.
type Held = (u64, u64, usize);

/// Finds the span around an instant or interval, by thread and request.
pub(crate) struct Holders {
    /// By begin, outer ones first.
    spans: HashMap<(u32, u64), Vec<Held>>,
    /// Index in `Spans::said` of a request's root.
    roots: HashMap<u64, usize>,
}

impl Holders {
    pub(crate) fn new(capture: &Capture) -> Holders {
        let mut spans: HashMap<(u32, u64), Vec<Held>> = HashMap::new();
        let first = capture.requests.len();
        for (row, index) in capture.spans.iter().zip(first..) {
            let place = spans.entry((row.tid, row.request)).or_default();
            place.push((row.begin_ns, row.end_ns, index));
        }
        for list in spans.values_mut() {
            list.sort_by_key(|(begin_ns, end_ns, _)| (*begin_ns, Reverse(*end_ns)));
        }
        Holders { spans, roots: requests_by_id(capture) }
    }

    /// The root span of a request.
    pub(crate) fn root(&self, request: u64) -> Option<usize> {
        self.roots.get(&request).copied()
    }

    /// For each interval (begin, end; by begin) of `request` on `tid`: the innermost span that
    /// holds it, or the request's root.
    pub(crate) fn around(
        &self,
        (tid, request): (u32, u64),
        stretches: &[(u64, u64)],
    ) -> Vec<Option<usize>> {
        let mut spans = self.spans.get(&(tid, request)).into_iter().flatten().peekable();
        let mut open: Vec<(u64, usize)> = Vec::new();
        let mut find = |(begin_ns, end_ns): &(u64, u64)| {
            while let Some((_, span_end_ns, i)) = spans.next_if(|(from, _, _)| from <= begin_ns) {
                open.push((*span_end_ns, *i));
            }
            open.retain(|(span_end_ns, _)| span_end_ns >= begin_ns);
            let excess = open.len().saturating_sub(MOST_OPEN);
            open.drain(..excess);
            let holds = |(span_end_ns, _): &&(u64, usize)| span_end_ns >= end_ns;
            let found = open.iter().rev().find(holds).map(|(_, i)| *i);
            found.or_else(|| self.root(request))
        };
        stretches.iter().map(&mut find).collect()
    }
}
