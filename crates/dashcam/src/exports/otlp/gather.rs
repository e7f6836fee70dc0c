//! The records of chosen requests as spans of OTLP.
//!
//! Ids, parents and kinds are those that a capture of the same moment has (`capture::read::Traces`
//! derives them there, and a test compares the two): from records, else derived; the parent is the
//! innermost span of the same thread and request around it, else the root.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use ::otlp::traces::{KNOWN_REMOTE, REMOTE, SAMPLED};
use ::otlp::{Attribute, Kind, Link, Moment, Span, Status, Value};
use format::ids;
use format::record::{flag, Attributes, Record, Value as Recorded};
use format::trace::{Link as RecordedLink, SpanKind, Trace, TRACESTATE};
use ring::{BlockCopy, Region};

use super::choose::Chosen;
use super::names::Names;
use super::scan::walk;

/// Records of one scan; a request with more is sent without the rest, and that is counted.
const MOST_RECORDS: usize = 50_000;
/// Moments of one span; the others are counted in it.
const MOST_MOMENTS: usize = 1000;
/// Open spans that are searched for the one around another.
const MOST_OPEN: usize = 256;

/// Earlier spans of a thread that are searched for the one around an event.
const MOST_BACK: usize = 4096;

type List = Vec<(u32, Value<'static>)>;

#[derive(Default)]
struct Root {
    name: u32,
    tid: u32,
    begin_ns: u64,
    started_ns: u64,
    end_ns: u64,
    error: bool,
    on_loop: bool,
    ended: bool,
    attributes: List,
}

struct Inner {
    tid: u32,
    name: u32,
    begin_ns: u64,
    end_ns: u64,
    error: bool,
    kind: Kind,
    attributes: List,
}

struct Event {
    tid: u32,
    t_ns: u64,
    name: u32,
    attributes: List,
}

/// All that is there of one request.
#[derive(Default)]
struct Rows {
    root: Root,
    spans: Vec<Inner>,
    events: Vec<Event>,
    traces: Vec<(u32, u64, Trace, List)>,
    links: Vec<(RecordedLink, List)>,
}

/// Spans, and what is missing of them.
#[derive(Default)]
pub(super) struct Gathered {
    pub spans: Vec<Span<'static>>,
    /// Requests of which something was overwritten before we came.
    pub incomplete: u64,
    /// Records past the bound of one scan.
    pub left_out: u64,
}

/// What is kept from scan to scan.
#[derive(Default)]
pub(super) struct Gatherer {
    names: Names,
    buffer: BlockCopy,
}

impl Gatherer {
    /// Copies what the box holds of these requests. `to_epoch_ns`: what makes Unix time of ours.
    pub(super) fn gather(
        &mut self,
        region: &Region,
        seed: u64,
        to_epoch_ns: u64,
        chosen: &[Chosen],
    ) -> Gathered {
        let mut out = Gathered::default();
        let mut rows: HashMap<u64, Rows> =
            chosen.iter().map(|chosen| (chosen.id, Rows::default())).collect();
        let Some(since_ns) = chosen.iter().map(|chosen| chosen.begin_ns).min() else { return out };
        let mut count = 0;
        walk(region, since_ns, &mut self.buffer, &mut |(tid, _), seq, record| {
            let Some(rows) = request_of(&record).and_then(|id| rows.get_mut(&id)) else { return };
            count += 1;
            if count <= MOST_RECORDS || matches!(record, Record::RequestEnd { .. }) {
                rows.take(tid, seq, record);
            } else {
                out.left_out += 1;
            }
        });
        let oldest_ns = region.oldest_ns();
        self.names.refresh(region);
        for chosen in chosen {
            let Some(rows) = rows.remove(&chosen.id) else { continue };
            // Without its end nothing is known of it; it was overwritten since we chose it.
            if !rows.root.ended {
                out.incomplete += 1;
                continue;
            }
            let is_whole = oldest_ns <= chosen.begin_ns;
            out.incomplete += u64::from(!is_whole);
            let maker = Maker { names: &self.names, seed, to_epoch_ns, is_whole };
            maker.request(chosen, rows, &mut out.spans);
        }
        out
    }
}

fn request_of(record: &Record<'_>) -> Option<u64> {
    match record {
        Record::Event { request, .. }
        | Record::Span { request, .. }
        | Record::RequestBegin { request, .. }
        | Record::RequestEnd { request, .. } => Some(*request),
        Record::Trace(record, _) => Some(record.request),
        Record::Link(link, _) => Some(link.request),
        _ => None,
    }
}

fn list(attributes: Attributes<'_>) -> List {
    let mut out = Vec::new();
    attributes.each(|key, value| {
        out.push((
            key,
            match value {
                Recorded::Int(v) => Value::Int(v),
                Recorded::Float(v) => Value::Float(v),
                Recorded::Bool(v) => Value::Bool(v),
                Recorded::Text(v) => Value::from(v.to_owned()),
            },
        ));
    });
    out
}

impl Rows {
    fn take(&mut self, tid: u32, seq: u64, record: Record<'_>) {
        match record {
            Record::Event { name, t_ns, attributes, .. } => {
                self.events.push(Event { tid, t_ns, name, attributes: list(attributes) });
            }
            Record::Span { name, flags, begin_ns, end_ns, attributes, .. } => {
                let (error, attributes) = (flags & flag::ERROR != 0, list(attributes));
                let is_call = flags & flag::CALL != 0;
                let kind = if is_call { Kind::Client } else { Kind::Internal };
                self.spans.push(Inner { tid, name, begin_ns, end_ns, error, kind, attributes });
            }
            Record::RequestBegin { flags, started_ns, .. } if flags & flag::AGAIN == 0 => {
                (self.root.tid, self.root.started_ns) = (tid, started_ns);
            }
            Record::RequestEnd { name, flags, begin_ns, end_ns, attributes, .. } => {
                let root = &mut self.root;
                (root.name, root.begin_ns, root.end_ns) = (name, begin_ns, end_ns);
                root.error = flags & flag::ERROR != 0;
                root.on_loop = flags & flag::ASYNC != 0;
                root.attributes = list(attributes);
                root.ended = true;
                if root.tid == 0 {
                    root.tid = tid;
                }
            }
            Record::Trace(record, attributes) => {
                self.traces.push((tid, seq, record, list(attributes)));
            }
            Record::Link(link, attributes) => self.links.push((link, list(attributes))),
            _ => (),
        }
    }
}

struct Maker<'n> {
    names: &'n Names,
    seed: u64,
    to_epoch_ns: u64,
    is_whole: bool,
}

impl Maker<'_> {
    fn text(&self, id: u32) -> Cow<'static, str> {
        Cow::Owned(self.names.get(id).to_owned())
    }

    fn attributes(&self, list: List) -> Vec<Attribute<'static>> {
        list.into_iter().map(|(key, value)| (self.text(key), value)).collect()
    }

    fn epoch(&self, t_ns: u64) -> u64 {
        t_ns.wrapping_add(self.to_epoch_ns)
    }

    fn lay_over(&self, span: &mut Span<'static>, record: &Trace, list: &List) {
        let set = |place: &mut u64, value: u64| {
            if value != 0 {
                *place = value;
            }
        };
        if record.trace != 0 {
            span.trace = record.trace;
        }
        set(&mut span.id, record.span);
        if record.parent != 0 {
            span.parent = record.parent;
            span.flags = span.flags & !REMOTE | if record.remote { REMOTE } else { 0 };
        }
        if record.kind != SpanKind::Unset {
            span.kind = Kind::from_number(record.kind as u64);
        }
        if record.status != format::trace::Status::Unset {
            span.status = Status::from_number(record.status as u64);
            span.message = match record.message {
                0 => Cow::Borrowed(""),
                id => self.text(id),
            };
        }
        for (key, value) in list {
            if let (TRACESTATE, Value::Text(text)) = (self.names.get(*key), value) {
                span.state = text.clone();
            }
        }
    }

    /// The root first, then its spans.
    fn request(&self, chosen: &Chosen, mut rows: Rows, out: &mut Vec<Span<'static>>) {
        rows.traces.sort_by_key(|(_, seq, record, _)| (record.t_ns, *seq));
        rows.spans.sort_by_key(|s| (s.tid, s.begin_ns, Reverse(s.end_ns)));
        let first = out.len();
        let root = std::mem::take(&mut rows.root);
        let root_tid = root.tid;
        out.push(self.root(chosen, root));
        for (_, _, record, list) in rows.traces.iter().filter(|(_, _, record, _)| !record.of_span) {
            self.lay_over(&mut out[first], record, list);
        }
        let mut records: HashMap<(u32, u64), Vec<(&Trace, &List)>> = HashMap::new();
        for (tid, _, trace, list) in rows.traces.iter().filter(|(_, _, record, _)| record.of_span) {
            records.entry((*tid, trace.t_ns)).or_default().push((trace, list));
        }
        let mut places: Vec<(u32, u64, u64)> = vec![(0, 0, 0)];
        let mut open: Vec<usize> = Vec::new();
        for row in std::mem::take(&mut rows.spans) {
            let index = out.len();
            places.push((row.tid, row.begin_ns, row.end_ns));
            let at = |i: usize| places[i - first];
            if open.last().is_some_and(|i| at(*i).0 != row.tid) {
                open.clear();
            }
            open.retain(|i| at(*i).2 > row.begin_ns);
            if open.len() > MOST_OPEN {
                open.remove(0);
            }
            let outer = open.iter().rev().find(|i| at(**i).2 >= row.end_ns).copied();
            let mut span = self.inner(&out[outer.unwrap_or(first)], row);
            let (tid, begin_ns, _) = places[index - first];
            for (record, list) in records.get(&(tid, begin_ns)).into_iter().flatten() {
                self.lay_over(&mut span, record, list);
            }
            out.push(span);
            open.push(index);
        }
        self.moments(&mut out[first..], &places, root_tid, rows.events);
        for (link, list) in rows.links {
            if let Some(span) = out[first..].iter_mut().find(|span| span.id == link.span) {
                let (trace, id) = (link.to_trace, link.to_span);
                let attributes = self.attributes(list);
                span.links.push(Link { trace, span: id, attributes });
            }
        }
    }

    fn root(&self, chosen: &Chosen, root: Root) -> Span<'static> {
        let mut attributes = self.attributes(root.attributes);
        let mut put = |key: &'static str, value: Value<'static>| {
            attributes.push((Cow::Borrowed(key), value));
        };
        put("dashcam.chosen", chosen.why.text().into());
        put("dashcam.request.id", chosen.id.into());
        put("thread.id", root.tid.into());
        if root.on_loop {
            put("dashcam.on_event_loop", true.into());
        }
        if root.started_ns > root.begin_ns {
            put("dashcam.queued_ns", (root.started_ns - root.begin_ns).into());
        }
        if !self.is_whole {
            put("dashcam.incomplete", true.into());
        }
        Span {
            trace: ids::trace_id(self.seed, chosen.id),
            id: ids::request_span(self.seed, chosen.id),
            flags: SAMPLED | KNOWN_REMOTE,
            name: self.text(root.name),
            kind: Kind::Server,
            begin_ns: self.epoch(root.begin_ns),
            end_ns: self.epoch(root.end_ns),
            attributes,
            status: if root.error { Status::Error } else { Status::Unset },
            ..Span::default()
        }
    }

    fn inner(&self, outer: &Span<'static>, row: Inner) -> Span<'static> {
        let mut attributes = self.attributes(row.attributes);
        attributes.push((Cow::Borrowed("thread.id"), row.tid.into()));
        Span {
            trace: outer.trace,
            id: ids::span(self.seed, row.tid, row.begin_ns),
            parent: outer.id,
            state: outer.state.clone(),
            flags: SAMPLED | KNOWN_REMOTE,
            name: self.text(row.name),
            kind: row.kind,
            begin_ns: self.epoch(row.begin_ns),
            end_ns: self.epoch(row.end_ns),
            attributes,
            status: if row.error { Status::Error } else { Status::Unset },
            ..Span::default()
        }
    }

    /// Puts events into the innermost span around them. `spans[0]` is the root.
    fn moments(
        &self,
        spans: &mut [Span<'static>],
        places: &[(u32, u64, u64)],
        root_tid: u32,
        mut events: Vec<Event>,
    ) {
        events.sort_by_key(|event| event.t_ns);
        for event in events {
            let holds = |(tid, begin_ns, end_ns): &(u32, u64, u64)| {
                *tid == event.tid && *begin_ns <= event.t_ns && event.t_ns <= *end_ns
            };
            // By begin within a thread, so the last one that holds it is the innermost.
            let key = |(tid, begin_ns, _): &(u32, u64, u64)| (*tid, *begin_ns);
            let until = places[1..].partition_point(|p| key(p) <= (event.tid, event.t_ns));
            let least = until.saturating_sub(MOST_BACK);
            let found = places[1 + least..=until].iter().rposition(holds);
            let found = found.map_or(0, |i| least + i + 1);
            let span = &mut spans[found];
            if span.moments.len() >= MOST_MOMENTS {
                span.dropped_moments += 1;
                continue;
            }
            let mut attributes = self.attributes(event.attributes);
            if found == 0 && event.tid != root_tid {
                attributes.push((Cow::Borrowed("thread.id"), event.tid.into()));
            }
            let (t_ns, name) = (self.epoch(event.t_ns), self.text(event.name));
            span.moments.push(Moment { t_ns, name, attributes });
        }
    }
}
