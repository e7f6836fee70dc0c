//! One request on one screen: its spans, and inside them where its time went.
//!
//! How it works: spans nest by time. The slices of the request's critical path (crates/diagnosis)
//! and its events hang below the innermost span around them. What is alike below one span (the
//! same name, or the same cause, place, resource and holder) is one line with a count. Of the rest
//! the longest lines are shown, `MOST_LINES` of them, and what is left out is counted below its
//! parent.
//!
//! What it promises: the times of the slices sum to the request's time; a hidden line's time is in
//! its parent's. Missing on purpose: threads that the request did not wait for; `--all` has them.

use std::collections::HashMap;

use analysis::frames::Frames;
use analysis::readable::{ms_text, thousands};
use analysis::requests::Judged;
use capture::read::{Capture, RequestRow, Text, Traces};
use diagnosis::{CriticalPaths, Slice};

use crate::output::columns::plain;

/// What fits on a screen below the head.
const MOST_LINES: usize = 38;
/// Of these, for events: they have no time of their own by which to choose.
const MOST_EVENTS: usize = 12;
/// Shorter slices are counted only.
const SHORT_NS: u64 = 20_000;
/// In ns.
const MS: f64 = 1e6;

/// A line and what is below it.
#[derive(Default)]
struct Node {
    text: String,
    /// Begin of the first.
    from_ns: u64,
    total_ns: u64,
    longest_ns: u64,
    count: u64,
    is_event: bool,
    below: Vec<Node>,
}

/// The request as lines.
pub fn to_text(capture: &Capture, request: &RequestRow) -> String {
    let end_ns = request.end_ns.unwrap_or(capture.meta.to_ns).max(request.begin_ns);
    let mut root = Node { from_ns: request.begin_ns, ..Node::default() };
    let spans = spans_of(capture, request);
    let mut items = slices_of(capture, request, end_ns);
    items.extend(events_of(capture, request));
    items.sort_by_key(|item| item.from_ns);
    root.below = nest(spans, items);
    fold(&mut root.below);
    let shown = Shown::of(&root);
    let mut out = head(capture, request, end_ns);
    lines(&mut out, &root, 1, &shown, root.from_ns);
    out
}

fn head(capture: &Capture, request: &RequestRow, end_ns: u64) -> String {
    let took = ms_text((end_ns - request.begin_ns) as f64 / MS);
    let thread = capture.thread_name(request.tid).unwrap_or("?");
    let state = match (request.end_ns, request.error) {
        (None, _) => ", still running",
        (_, true) => ", failed",
        _ => "",
    };
    let trace = Traces::of(capture).request(request.id).trace;
    let (name, attributes) = (capture.name(request.name), of(capture, &request.attributes));
    format!(
        "{}: {took}{state}, on thread {} ({}){attributes}\nrequest {}, trace {trace:032x}\n  \
         {:>10}  {:>10}\n",
        plain(name),
        plain(thread),
        request.tid,
        request.id,
        "at",
        "took"
    )
}

fn spans_of(capture: &Capture, request: &RequestRow) -> Vec<Node> {
    let own = capture.spans.iter().filter(|span| span.request == request.id);
    let node = |span: &capture::read::SpanRow| {
        let state = match (span.open, span.error) {
            (true, _) => ", still open",
            (_, true) => ", failed",
            _ => "",
        };
        let name = plain(capture.name(span.name));
        let text = format!("{name}{}{state}", of(capture, &span.attributes));
        Node::leaf(text, span.begin_ns, span.end_ns.saturating_sub(span.begin_ns))
    };
    let mut spans: Vec<Node> = own.map(node).collect();
    // Parents first.
    spans.sort_by_key(|span| (span.from_ns, std::cmp::Reverse(span.total_ns)));
    spans
}

fn slices_of(capture: &Capture, request: &RequestRow, end_ns: u64) -> Vec<Node> {
    let paths = CriticalPaths::new(capture);
    let slices = paths.of(&Judged { row: request, end_ns });
    let node = |slice: &Slice<'_>| {
        let text = words(capture, paths.frames(), slice);
        Node::leaf(text, slice.segment.from_ns, slice.segment.ns())
    };
    let mut waits: Vec<Node> = Vec::new();
    for slice in slices.iter().map(node) {
        match waits.last_mut() {
            // One wait in parts.
            Some(last) if last.to_ns() == slice.from_ns && last.text == slice.text => {
                last.total_ns += slice.total_ns;
                last.longest_ns = last.total_ns;
            }
            _ => waits.push(slice),
        }
    }
    waits
}

/// `lock-wait at cache.py:31 get(): a lock, because of thread rates at cache.py:12 refresh()`.
fn words(capture: &Capture, frames: &Frames<'_>, slice: &Slice<'_>) -> String {
    let claim = &slice.claim;
    let place = |stack: u32| frames.innermost_user(stack);
    let mut text = claim.cause.text().to_owned();
    if let Some(place) = place(claim.stack) {
        text += &format!(" at {}", place.short());
    }
    if let Some(resource) = &claim.resource {
        text += &format!(": {resource}");
    }
    if let Some(blocker) = &claim.blocker {
        let thread = capture.thread_name(blocker.tid).unwrap_or("?");
        text += &format!(", because of thread {thread}");
        if let Some(place) = frames.innermost(blocker.stack) {
            text += &format!(" at {}", place.short());
        }
    }
    plain(&text)
}

fn events_of(capture: &Capture, request: &RequestRow) -> Vec<Node> {
    let own = capture.events.iter().filter(|event| event.request == request.id);
    let node = |event: &capture::read::EventRow| {
        let name = plain(capture.name(event.name));
        let text = format!("* {name}{}", of(capture, &event.attributes));
        Node { is_event: true, ..Node::leaf(text, event.t_ns, 0) }
    };
    own.map(node).collect()
}

/// ` key=value key=value`.
fn of(capture: &Capture, attributes: &[(u32, Text)]) -> String {
    let one = |(key, value): &(u32, Text)| {
        let value = match value {
            Text::Int(v) => v.to_string(),
            Text::Float(v) => v.to_string(),
            Text::Bool(v) => v.to_string(),
            Text::Text(v) => format!("{v:?}"),
        };
        format!(" {}={}", plain(capture.name(*key)), plain(&value))
    };
    attributes.iter().map(one).collect()
}

impl Node {
    fn leaf(text: String, from_ns: u64, ns: u64) -> Node {
        let (total_ns, longest_ns) = (ns, ns);
        Node { text, from_ns, total_ns, longest_ns, count: 1, ..Node::default() }
    }

    /// When it ends, while it stands for one interval.
    fn to_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.total_ns)
    }
}

/// Spans inside spans, and each item inside the innermost span around its middle. Spans that only
/// overlap are beside each other.
fn nest(spans: Vec<Node>, items: Vec<Node>) -> Vec<Node> {
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(spans.len());
    let mut around: Vec<usize> = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        while around.last().is_some_and(|last| spans[*last].to_ns() <= span.from_ns) {
            around.pop();
        }
        let holds = |outer: &&usize| spans[**outer].to_ns() >= span.to_ns();
        parents.push(around.iter().rev().find(holds).copied());
        around.push(at);
    }
    let mut below: HashMap<Option<usize>, Vec<Node>> = HashMap::new();
    for item in items {
        let middle = item.from_ns + item.total_ns / 2;
        // Of several around it, the one that began last.
        let first_later = spans.partition_point(|span| span.from_ns <= middle);
        let holds = |at: &usize| spans[*at].to_ns() > middle;
        below.entry((0..first_later).rev().find(holds)).or_default().push(item);
    }
    // From the last to the first: a span is whole before its parent takes it.
    for (at, mut span) in spans.into_iter().enumerate().rev() {
        span.below.extend(below.remove(&Some(at)).unwrap_or_default());
        below.entry(parents[at]).or_default().push(span);
    }
    below.remove(&None).unwrap_or_default()
}

/// Lines of one text below the same parent are one; what is below them, too.
fn fold(nodes: &mut Vec<Node>) {
    let mut folded: Vec<Node> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    nodes.sort_by_key(|node| node.from_ns);
    for node in nodes.drain(..) {
        match known.get(&node.text).and_then(|at| folded.get_mut(*at)) {
            Some(same) => {
                same.total_ns += node.total_ns;
                same.longest_ns = same.longest_ns.max(node.longest_ns);
                same.count += node.count;
                same.below.extend(node.below);
            }
            None => {
                known.insert(node.text.clone(), folded.len());
                folded.push(node);
            }
        }
    }
    folded.iter_mut().for_each(|node| fold(&mut node.below));
    *nodes = folded;
}

/// Which lines fit.
struct Shown {
    /// Lines with less time are left out.
    least_ns: u64,
    /// Events that began later are left out.
    last_event_ns: u64,
}

impl Shown {
    fn of(root: &Node) -> Shown {
        let (mut times, mut events) = (Vec::new(), Vec::new());
        collect(root, &mut times, &mut events);
        times.sort_unstable_by(|a, b| b.cmp(a));
        events.sort_unstable();
        let last_event_ns = events.get(MOST_EVENTS).map_or(u64::MAX, |next| next - 1);
        let left = MOST_LINES - events.len().min(MOST_EVENTS);
        let least_ns = times.get(left).map_or(SHORT_NS, |next| next + 1).max(SHORT_NS);
        Shown { least_ns, last_event_ns }
    }

    fn has(&self, node: &Node) -> bool {
        match node.is_event {
            true => node.from_ns <= self.last_event_ns,
            false => node.total_ns >= self.least_ns,
        }
    }
}

fn collect(node: &Node, times: &mut Vec<u64>, events: &mut Vec<u64>) {
    for below in &node.below {
        match below.is_event {
            true => events.push(below.from_ns),
            false => times.push(below.total_ns),
        }
        collect(below, times, events);
    }
}

fn lines(out: &mut String, parent: &Node, depth: usize, shown: &Shown, root_ns: u64) {
    let indent = "  ".repeat(depth);
    for node in parent.below.iter().filter(|node| shown.has(node)) {
        let at = node.from_ns as f64 - root_ns as f64;
        let took = if node.is_event { String::new() } else { ms_text(node.total_ns as f64 / MS) };
        let times = match node.count {
            1 => String::new(),
            n if node.is_event => format!("  ({} times)", thousands(n)),
            n => {
                let longest = ms_text(node.longest_ns as f64 / MS);
                format!("  ({} times, longest {longest})", thousands(n))
            }
        };
        *out += &format!("  {:>7.1} ms  {took:>10}{indent}{}{times}\n", at / MS, node.text);
        lines(out, node, depth + 1, shown, root_ns);
    }
    let hidden = || parent.below.iter().filter(|node| !shown.has(node));
    let count: u64 = hidden().map(|node| node.count).sum();
    if count > 0 {
        let took = ms_text(hidden().map(|node| node.total_ns).sum::<u64>() as f64 / MS);
        *out += &format!("  {:>10}  {took:>10}{indent}and {} shorter\n", "", thousands(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS_NS: u64 = 1_000_000;

    fn leaf(text: &str, from_ms: u64, ms: u64) -> Node {
        Node::leaf(text.to_owned(), from_ms * MS_NS, ms * MS_NS)
    }

    fn event(text: &str, at_ms: u64) -> Node {
        Node { is_event: true, ..leaf(text, at_ms, 0) }
    }

    /// Spans and items of a request of 100 ms as lines, without the figures' spaces.
    fn shown(spans: Vec<Node>, items: Vec<Node>) -> Vec<String> {
        let mut root = Node { below: nest(spans, items), ..Node::default() };
        fold(&mut root.below);
        let mut text = String::new();
        lines(&mut text, &root, 1, &Shown::of(&root), 0);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    }

    #[test]
    fn what_is_alike_below_one_span_is_one_line() {
        let spans = vec![
            leaf("view", 0, 100),
            leaf("query", 10, 20),
            leaf("query", 40, 30),
            leaf("render", 80, 20),
        ];
        let items = vec![
            leaf("cpu", 0, 10),
            leaf("wait db", 12, 10),
            leaf("wait db", 45, 20),
            event("* warning", 50),
            leaf("cpu", 85, 5),
        ];
        assert_eq!(
            shown(spans, items),
            [
                "0.0 ms 100 ms view",
                "0.0 ms 10 ms cpu",
                "10.0 ms 50 ms query (2 times, longest 30 ms)",
                "12.0 ms 30 ms wait db (2 times, longest 20 ms)",
                "50.0 ms * warning",
                "80.0 ms 20 ms render",
                "85.0 ms 5.0 ms cpu",
            ]
        );
    }

    #[test]
    fn spans_that_only_overlap_are_beside_each_other() {
        let spans = vec![leaf("a", 0, 60), leaf("b", 40, 60)];
        let lines = shown(spans, vec![leaf("wait", 50, 10), leaf("end", 95, 10)]);
        let wanted = ["0.0 ms 60 ms a", "40.0 ms 60 ms b", "50.0 ms 10 ms wait"];
        assert_eq!(lines[..3], wanted);
        assert_eq!(lines[3], "95.0 ms 10 ms end", "its middle is outside of both");
    }

    #[test]
    fn a_screen_has_the_longest_lines_and_the_sum_of_the_others() {
        let many = (0..200).map(|n| leaf(&format!("wait {n}"), n, n + 1)).collect();
        let lines = shown(Vec::new(), many);
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines[0], "162.0 ms 163 ms wait 162");
        // 1 + 2 + ... + 162 ms.
        assert_eq!(lines[MOST_LINES], "13.2 s and 162 shorter");
        let events = (0..50).map(|n| event(&format!("* line {n}"), n)).collect();
        assert_eq!(shown(Vec::new(), events).len(), MOST_EVENTS + 1);
    }

    #[test]
    fn shares_of_sorted_times() {
        let times: Vec<(f64, u64)> = (1..=200).map(|ms| (f64::from(ms), 1)).collect();
        let of = |share| crate::show::percentile(&times, share);
        assert_eq!((of(0.5), of(0.95), of(0.99), of(1.0)), (100.0, 190.0, 198.0, 200.0));
        assert_eq!(crate::show::percentile(&[], 0.5), 0.0);
        // One that stands for several counts as often.
        let few = [(1.0, 97), (7.0, 2), (9.0, 1)];
        let of = |share| crate::show::percentile(&few, share);
        assert_eq!((of(0.5), of(0.97), of(0.98), of(0.99), of(1.0)), (1.0, 1.0, 7.0, 7.0, 9.0));
    }
}
