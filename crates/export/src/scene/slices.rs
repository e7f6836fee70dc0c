//! Slices and marks of requests and threads.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use analysis::states::Threads;
use capture::read::{Capture, RequestRow, SpanRow};

use super::lanes::Lanes;
use super::track::{arg, attributes, Arg, Args, Mark, Slice, Subject, Track, Visit};

/// Group of all slices of a thread that nest.
const ON_THREAD: u64 = 0;

/// The requests' tracks.
pub fn requests<'c>(
    threads: &Threads<'c>,
    by_id: &HashMap<u64, usize>,
    lanes: &mut Lanes,
    visit: &mut Visit<'_, 'c>,
) -> io::Result<()> {
    let capture = threads.capture;
    let mut slices = Vec::new();
    for row in capture.requests.iter().filter(|r| capture.owns(r.begin_ns)) {
        slices.push(request(threads, row));
        let (begin_ns, end_ns) =
            (row.begin_ns, row.started_ns.min(slices[slices.len() - 1].end_ns));
        if end_ns > begin_ns {
            let (name, category, args) = (Cow::Borrowed("queued"), "queued", Vec::new());
            slices.push(Slice {
                begin_ns,
                end_ns,
                name,
                category,
                args,
                group: row.id,
                flow: None,
            });
        }
    }
    for row in capture.spans.iter().filter(|s| capture.owns(s.begin_ns)) {
        if on_loop(capture.requests.as_slice(), by_id, row) {
            slices.push(Slice { group: row.request, ..span(threads, row) });
        }
    }
    // A mark is on the lane of its request.
    let mut handed: HashMap<u64, Vec<Mark<'c>>> = HashMap::new();
    let tasks = capture.tasks.iter().enumerate();
    for (i, task) in tasks.filter(|(_, t)| capture.owns(t.begin_ns)) {
        if let Some(owner) = by_id.get(&task.request) {
            let name = Cow::Owned(format!("handed to {}", threads.name(task.tid)));
            let mut args = vec![];
            arg(&mut args, "request id", Arg::Count(task.request));
            let (t_ns, category, flow) = (task.queued_ns, "handed", Some(flow_id(capture, i)));
            let tid = capture.requests[*owner].tid;
            let mark = Mark { t_ns, tid, name, category, args, flow };
            handed.entry(task.request).or_default().push(mark);
        }
    }
    for (lane, slices) in lanes.place(slices).into_iter().enumerate() {
        let own = slices.iter().filter(|s| s.category == "request");
        let mut marks: Vec<Mark<'c>> =
            own.filter_map(|s| handed.remove(&s.group)).flatten().collect();
        marks.sort_by_key(|m| m.t_ns);
        if capture.part.is_some() && slices.is_empty() && marks.is_empty() {
            continue;
        }
        visit(Track {
            subject: Subject::Requests,
            name: "requests".to_owned(),
            lane,
            slices,
            marks,
        })?;
    }
    // Of requests that began in an earlier part.
    let mut marks: Vec<Mark<'c>> = handed.into_values().flatten().collect();
    if capture.part.is_none() || marks.is_empty() {
        return Ok(());
    }
    marks.sort_by_key(|m| (m.t_ns, m.flow));
    let (subject, name, lane, slices) = (Subject::Requests, "requests".to_owned(), 0, Vec::new());
    visit(Track { subject, name, lane, slices, marks })
}

fn on_loop(requests: &[RequestRow], by_id: &HashMap<u64, usize>, span: &SpanRow) -> bool {
    let owner = by_id.get(&span.request).map(|i| &requests[*i]);
    owner.is_some_and(|r| r.on_loop && r.tid == span.tid)
}

/// Flow of the task at an index: never 0, and another one in each part of a capture.
fn flow_id(capture: &Capture, task: usize) -> u64 {
    (capture.part.map_or(0, |part| part.number) << 32) + task as u64 + 1
}

fn request<'c>(threads: &Threads<'c>, row: &'c RequestRow) -> Slice<'c> {
    let capture = threads.capture;
    let mut args = attributes(capture, &row.attributes);
    arg(&mut args, "request id", Arg::Count(row.id));
    arg(&mut args, "thread", Arg::Text(threads.name(row.tid)));
    flags(&mut args, row);
    Slice {
        begin_ns: row.begin_ns,
        end_ns: row.end_ns.unwrap_or(threads.end_ns).max(row.begin_ns),
        name: Cow::Borrowed(capture.name(row.name)),
        category: "request",
        args,
        group: row.id,
        flow: None,
    }
}

fn flags(args: &mut Args<'_>, row: &RequestRow) {
    for (name, is) in [
        ("error", row.error),
        ("on event loop", row.on_loop),
        ("still running", row.end_ns.is_none()),
    ] {
        if is {
            arg(args, name, Arg::Bool(true));
        }
    }
}

fn span<'c>(threads: &Threads<'c>, row: &'c SpanRow) -> Slice<'c> {
    let capture = threads.capture;
    let mut args = attributes(capture, &row.attributes);
    if row.request != 0 {
        arg(&mut args, "request id", Arg::Count(row.request));
    }
    for (name, is) in [("error", row.error), ("still running", row.open)] {
        if is {
            arg(&mut args, name, Arg::Bool(true));
        }
    }
    Slice {
        begin_ns: row.begin_ns,
        end_ns: row.end_ns.max(row.begin_ns),
        name: Cow::Borrowed(capture.name(row.name)),
        category: "span",
        args,
        group: ON_THREAD,
        flow: None,
    }
}

/// The rows of each thread; taken as the threads are visited.
pub struct ThreadRows<'c> {
    slices: HashMap<u32, Vec<Slice<'c>>>,
    marks: HashMap<u32, Vec<Mark<'c>>>,
}

impl<'c> ThreadRows<'c> {
    /// Sorts the rows of the capture by thread.
    pub fn new(threads: &Threads<'c>, by_id: &HashMap<u64, usize>) -> ThreadRows<'c> {
        let capture = threads.capture;
        let mut rows = ThreadRows { slices: HashMap::new(), marks: HashMap::new() };
        let handled = capture.requests.iter().filter(|r| !r.on_loop && capture.owns(r.begin_ns));
        for row in handled {
            let whole = request(threads, row);
            let begin_ns = row.started_ns.max(row.begin_ns);
            let end_ns = whole.end_ns.max(begin_ns);
            let (category, group) = ("handler", ON_THREAD);
            rows.slice(row.tid, Slice { begin_ns, end_ns, category, group, ..whole });
        }
        rows.tasks(threads, by_id);
        let own = |s: &&SpanRow| capture.owns(s.begin_ns);
        let spans = capture.spans.iter().filter(own);
        for row in spans.filter(|s| !on_loop(&capture.requests, by_id, s)) {
            rows.slice(row.tid, span(threads, row));
        }
        for row in capture.gcs.iter().filter(|gc| capture.owns(gc.begin_ns)) {
            let mut args = vec![];
            arg(&mut args, "generation", Arg::Count(u64::from(row.generation)));
            arg(&mut args, "collected", Arg::Count(row.collected));
            let (begin_ns, end_ns) = (row.begin_ns, row.end_ns.max(row.begin_ns));
            let name = Cow::Owned(format!("GC generation {}", row.generation));
            let (category, group, flow) = ("gc", ON_THREAD, None);
            rows.slice(row.tid, Slice { begin_ns, end_ns, name, category, args, group, flow });
        }
        for row in &capture.events {
            let mut args = attributes(capture, &row.attributes);
            if row.request != 0 {
                arg(&mut args, "request id", Arg::Count(row.request));
            }
            let name = Cow::Borrowed(capture.name(row.name));
            let (t_ns, tid, category, flow) = (row.t_ns, row.tid, "event", None);
            let mark = Mark { t_ns, tid, name, category, args, flow };
            rows.marks.entry(row.tid).or_default().push(mark);
        }
        rows
    }

    fn tasks(&mut self, threads: &Threads<'c>, by_id: &HashMap<u64, usize>) {
        let capture = threads.capture;
        let tasks = capture.tasks.iter().enumerate();
        for (i, row) in tasks.filter(|(_, t)| capture.owns(t.begin_ns)) {
            let owner = by_id.get(&row.request).map(|i| &capture.requests[*i]);
            let name = owner.map_or("?", |r| capture.name(r.name));
            let mut args = vec![];
            arg(&mut args, "request id", Arg::Count(row.request));
            let queued_ns = row.begin_ns.saturating_sub(row.queued_ns);
            arg(&mut args, "queued_ns", Arg::Count(queued_ns));
            let (begin_ns, end_ns) = (row.begin_ns, row.end_ns.max(row.begin_ns));
            let (category, group) = ("task", ON_THREAD);
            let name = Cow::Owned(format!("for {name}"));
            let flow = owner.map(|_| flow_id(capture, i));
            self.slice(row.tid, Slice { begin_ns, end_ns, name, category, args, group, flow });
        }
    }

    fn slice(&mut self, tid: u32, slice: Slice<'c>) {
        self.slices.entry(tid).or_default().push(slice);
    }
}

/// A thread's own track, and the tracks for slices that do not nest on it.
pub fn thread<'c>(
    threads: &Threads<'c>,
    tid: u32,
    rows: &mut ThreadRows<'c>,
    lanes: &mut Lanes,
    visit: &mut Visit<'_, 'c>,
) -> io::Result<()> {
    let mut lanes = lanes.place(rows.slices.remove(&tid).unwrap_or_default()).into_iter();
    let (subject, name) = (Subject::Thread(tid), threads.name(tid));
    let slices = lanes.next().unwrap_or_default();
    // Events are read in the order of time over all threads, so each thread's are in order too.
    let marks = rows.marks.remove(&tid).unwrap_or_default();
    visit(Track { subject, name, lane: 0, slices, marks })?;
    for (lane, slices) in lanes.enumerate().filter(|(_, slices)| !slices.is_empty()) {
        let name = format!("{} (overlapping)", threads.name(tid));
        visit(Track { subject: Subject::Overflow(tid), name, lane, slices, marks: Vec::new() })?;
    }
    Ok(())
}
