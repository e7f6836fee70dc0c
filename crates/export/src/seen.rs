//! Spans for what the recorder observed: time in the queue, work on other threads, waits, awaits,
//! collections. See `spans`.
//!
//! How it works: the time of each request is divided by the thread that worked for it; in these
//! parts the thread's states give the waits. For requests on an event loop, samples of their tasks
//! give the awaits. Each span is below the innermost span of the program around it, else below the
//! request's root.
//!
//! What it promises: one wait is one span, however many samples saw it. Waits that are too short
//! for a span are summed up in attributes of the root. Missing on purpose: waits of an event loop's
//! own thread, which serves many requests.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use ::otlp::traces::SAMPLED;
use ::otlp::{Attribute, Kind, Span};
use analysis::states::Threads;
use analysis::timeline::{Segment, State};
use analysis::words;
use capture::read::{Capture, RequestRow, Traces};
use format::ids;
use format::record::Await;
use format::wait::WaitKind;

use crate::attributes::{put, thread};
use crate::holders::Holders;

/// A shorter wait is not a span.
const SHORTEST_NS: u64 = 1_000_000;
/// Nor is a wait that is a smaller part of its request than this denominator gives.
const SMALLEST_PART: u64 = 100;
/// Frames of a stack that are shown.
const MOST_FRAMES: usize = 32;
/// A sample of a task shows its await for at most this long.
const STALE_NS: u64 = 300_000_000;
/// Separates ids of observed spans from those of the program's spans: digits of e.
const QUEUED: u64 = 0xb7e1_5162_8aed_2a6a;
const TASK: u64 = 0xbf71_5880_9cf4_f3c7;
const WAIT: u64 = 0x62e7_160f_38b4_da56;
const AWAIT: u64 = 0xa784_d904_5190_cfef;
const GC: u64 = 0x324e_7738_926c_fbe5;

/// A part of a request on a thread.
struct Worked {
    from_ns: u64,
    to_ns: u64,
    /// Index into `Capture::requests`.
    request: usize,
}

/// Sums of what is too short for a span, by request.
#[derive(Clone, Copy, Default)]
struct Short {
    count: u64,
    ns: u64,
}

struct Seer<'s, 'c> {
    threads: &'s Threads<'c>,
    traces: &'s Traces,
    holders: &'s Holders,
    said: &'s [Span<'c>],
    out: Vec<Span<'c>>,
    short: HashMap<usize, Short>,
}

/// All of them. The sums of what is too short become attributes of the roots in `said`, which
/// begins with the requests in their order.
pub(crate) fn of<'c>(
    threads: &Threads<'c>,
    traces: &Traces,
    holders: &Holders,
    said: &mut [Span<'c>],
) -> Vec<Span<'c>> {
    let (out, short) = (Vec::new(), HashMap::new());
    let mut seer = Seer { threads, traces, holders, said, out, short };
    seer.queued();
    seer.tasks();
    for (tid, worked) in worked(threads) {
        seer.on_thread(tid, &worked);
    }
    seer.awaits();
    let Seer { out, short, .. } = seer;
    for (request, short) in short {
        put(&mut said[request].attributes, "dashcam.waits.short", short.count);
        put(&mut said[request].attributes, "dashcam.waits.short_ns", short.ns);
    }
    out
}

/// What each thread did for requests that did not run on an event loop.
fn worked(threads: &Threads<'_>) -> BTreeMap<u32, Vec<Worked>> {
    let capture = threads.capture;
    let by_id = analysis::context::requests_by_id(capture);
    let mut all: BTreeMap<u32, Vec<Worked>> = BTreeMap::new();
    for (request, row) in capture.requests.iter().enumerate().filter(|(_, r)| !r.on_loop) {
        let (from_ns, to_ns) = (row.started_ns.max(row.begin_ns), end_ns(threads, row));
        all.entry(row.tid).or_default().push(Worked { from_ns, to_ns, request });
    }
    for task in &capture.tasks {
        if let Some(request) = by_id.get(&task.request).copied() {
            let one = Worked { from_ns: task.begin_ns, to_ns: task.end_ns, request };
            all.entry(task.tid).or_default().push(one);
        }
    }
    all.values_mut().for_each(|worked| worked.sort_by_key(|p| (p.from_ns, p.to_ns)));
    all
}

fn end_ns(threads: &Threads<'_>, row: &RequestRow) -> u64 {
    row.end_ns.unwrap_or(threads.end_ns).max(row.begin_ns)
}

impl<'c> Seer<'_, 'c> {
    fn capture(&self) -> &'c Capture {
        self.threads.capture
    }

    /// A span of this module in the trace of a request: below `parent`, or below its root.
    fn push(
        &mut self,
        request: u64,
        parent: Option<usize>,
        id: u64,
        (begin_ns, end_ns): (u64, u64),
        (name, kind): (Cow<'c, str>, &'static str),
        mut attributes: Vec<Attribute<'c>>,
    ) {
        let meta = &self.capture().meta;
        let (trace, parent) = match parent.map(|index| &self.said[index]) {
            Some(span) => (span.trace, span.id),
            None => {
                let root = self.traces.request(request);
                (root.trace, root.span)
            }
        };
        put(&mut attributes, "dashcam.kind", kind);
        self.out.push(Span {
            trace,
            id,
            parent,
            flags: SAMPLED,
            name,
            kind: Kind::Internal,
            begin_ns: meta.epoch_ns(begin_ns),
            end_ns: meta.epoch_ns(end_ns.max(begin_ns)),
            attributes,
            ..Span::default()
        });
    }

    fn queued(&mut self) {
        let capture = self.capture();
        for row in capture.requests.iter().filter(|row| capture.owns(row.begin_ns)) {
            let until_ns = row.started_ns.min(end_ns(self.threads, row));
            if until_ns > row.begin_ns {
                let id = ids::request_span(capture.meta.ids_seed ^ QUEUED, row.id);
                let what = (Cow::Borrowed("queued"), "queued");
                self.push(row.id, None, id, (row.begin_ns, until_ns), what, Vec::new());
            }
        }
    }

    fn tasks(&mut self) {
        let capture = self.capture();
        let own = capture.tasks.iter().filter(|task| capture.owns(task.begin_ns));
        for task in own.filter(|task| task.request != 0) {
            let id = ids::span(capture.meta.ids_seed ^ TASK, task.tid, task.begin_ns);
            let mut list = Vec::new();
            let queued_ns = task.begin_ns.saturating_sub(task.queued_ns);
            put(&mut list, "dashcam.queued_ns", queued_ns);
            thread(&mut list, self.threads, task.tid);
            let name = Cow::Owned(format!("work on {}", self.threads.name(task.tid)));
            let time = (task.begin_ns, task.end_ns);
            self.push(task.request, None, id, time, (name, "task"), list);
        }
    }

    /// Waits and collections of one thread.
    fn on_thread(&mut self, tid: u32, worked: &[Worked]) {
        let capture = self.capture();
        let states = self.threads.states(tid);
        let own = capture.gcs.iter().filter(|gc| capture.owns(gc.begin_ns));
        let gcs: Vec<_> = own.filter(|gc| gc.tid == tid).collect();
        for one in worked {
            let row = &capture.requests[one.request];
            let took_ns = end_ns(self.threads, row) - row.begin_ns;
            let shortest_ns = SHORTEST_NS.max(took_ns / SMALLEST_PART);
            let mut waits: Vec<((u64, u64), &Segment<'c>)> = Vec::new();
            let first = states.partition_point(|s| s.to_ns <= one.from_ns);
            for segment in states[first..].iter().take_while(|s| s.from_ns < one.to_ns) {
                let from_ns = segment.from_ns.max(one.from_ns);
                let to_ns = segment.to_ns.min(one.to_ns);
                if !matches!(segment.state, State::Wait | State::Ready) {
                    continue;
                }
                // One wait is one span, however many samples saw it.
                match waits.last_mut() {
                    Some((time, last)) if time.1 == from_ns && is_same(last, segment) => {
                        time.1 = to_ns;
                    }
                    _ => waits.push(((from_ns, to_ns), segment)),
                }
            }
            let short = self.short.entry(one.request).or_default();
            waits.retain(|((from_ns, to_ns), _)| {
                let took_ns = to_ns.saturating_sub(*from_ns);
                let is_long = took_ns >= shortest_ns;
                if !is_long {
                    short.count += 1;
                    short.ns = short.ns.saturating_add(took_ns);
                }
                is_long
            });
            if short.count == 0 {
                self.short.remove(&one.request);
            }
            let times: Vec<(u64, u64)> = waits.iter().map(|(time, _)| *time).collect();
            let parents = self.holders.around((tid, row.id), &times);
            for ((time, segment), parent) in waits.into_iter().zip(parents) {
                let id = ids::span(capture.meta.ids_seed ^ WAIT, tid, time.0);
                let (name, list) = wait(self.threads, segment);
                self.push(row.id, parent, id, time, (name, "wait"), list);
            }
            let first = gcs.partition_point(|gc| gc.begin_ns < one.from_ns);
            for gc in gcs[first..].iter().take_while(|gc| gc.begin_ns < one.to_ns) {
                let time = (gc.begin_ns, gc.end_ns);
                let id = ids::span(capture.meta.ids_seed ^ GC, tid, gc.begin_ns);
                let mut list = Vec::new();
                put(&mut list, "dashcam.gc.generation", u64::from(gc.generation));
                put(&mut list, "dashcam.gc.collected", gc.collected);
                thread(&mut list, self.threads, tid);
                let parent = self.holders.around((tid, row.id), &[time]).pop().flatten();
                let name = Cow::Owned(format!("GC generation {}", gc.generation));
                self.push(row.id, parent, id, time, (name, "gc"), list);
            }
        }
    }

    /// The awaits of requests' tasks on event loops, from one sample of a task to the next.
    fn awaits(&mut self) {
        let capture = self.capture();
        for row in capture.requests.iter().filter(|row| row.on_loop) {
            let rows = capture.awaits.get(&row.id).map_or(&[][..], Vec::as_slice);
            let mut tasks: BTreeMap<u64, Vec<&Await>> = BTreeMap::new();
            rows.iter().for_each(|at| tasks.entry(at.task).or_default().push(at));
            let until_ns = end_ns(self.threads, row);
            for (task, rows) in tasks {
                let all = stretches(&rows, until_ns).into_iter();
                for (from_ns, to_ns, at) in all.filter(|(from_ns, ..)| capture.owns(*from_ns)) {
                    let salt = capture.meta.ids_seed ^ AWAIT ^ task;
                    let id = ids::span(salt, row.id as u32, from_ns);
                    let mut list = Vec::new();
                    put(&mut list, "dashcam.await", at.kind.text());
                    put(&mut list, "dashcam.task", format!("{task:#x}"));
                    target(&mut list, capture, at.target);
                    if at.holder != 0 {
                        put(&mut list, "dashcam.wait.holder_task", format!("{:#x}", at.holder));
                    }
                    if at.timeout_ns != 0 {
                        put(&mut list, "dashcam.wait.limit_ns", at.timeout_ns);
                    }
                    place(&mut list, capture, at.stack);
                    let name = Cow::Owned(format!("awaits {}", at.kind.text()));
                    let parent = self.holders.around((row.tid, row.id), &[(from_ns, to_ns)]);
                    let parent = parent.into_iter().next().flatten();
                    self.push(row.id, parent, id, (from_ns, to_ns), (name, "await"), list);
                }
            }
        }
    }
}

/// Samples of one task with the same await are one interval; short intervals are left out.
fn stretches<'l>(rows: &[&'l Await], until_ns: u64) -> Vec<(u64, u64, &'l Await)> {
    let mut out: Vec<(u64, u64, &Await)> = Vec::new();
    for (i, at) in rows.iter().enumerate() {
        let next_ns = rows.get(i + 1).map_or(until_ns, |next| next.t_ns);
        let to_ns = next_ns.min(at.t_ns.saturating_add(STALE_NS)).max(at.t_ns);
        let what = |l: &Await| (l.kind, l.stack, l.target, l.holder);
        match out.last_mut() {
            Some(last) if last.1 == at.t_ns && what(last.2) == what(at) => last.1 = to_ns,
            _ => out.push((at.t_ns, to_ns, at)),
        }
    }
    out.retain(|(from_ns, to_ns, _)| to_ns - from_ns >= SHORTEST_NS);
    out
}

fn is_same(a: &Segment<'_>, b: &Segment<'_>) -> bool {
    let what = |s: &Segment<'_>| {
        let sample = s.sample.filter(|_| s.state == State::Wait);
        (s.state, s.exact, sample.map(|s| (s.wait, s.stack, s.target, s.lock_holder)))
    };
    what(a) == what(b)
}

fn wait<'c>(threads: &Threads<'c>, segment: &Segment<'c>) -> (Cow<'c, str>, Vec<Attribute<'c>>) {
    let capture = threads.capture;
    let mut list = Vec::new();
    let kind = match (segment.state, segment.wait()) {
        (State::Ready, _) => crate::weights::NO_CPU,
        (_, WaitKind::Unknown | WaitKind::Running) => "unknown",
        (_, kind) => kind.text(),
    };
    put(&mut list, "dashcam.wait", kind);
    put(&mut list, "dashcam.exact", segment.exact);
    thread(&mut list, threads, segment.tid);
    if let Some(sample) = segment.sample {
        place(&mut list, capture, sample.stack);
        if segment.state == State::Wait {
            let (_, limit_ns) = words::target_and_limit(sample);
            target(&mut list, capture, words::named_target(sample));
            if limit_ns != 0 {
                put(&mut list, "dashcam.wait.limit_ns", limit_ns);
            }
            match words::holder(sample) {
                0 => (),
                holder => {
                    put(&mut list, "dashcam.wait.holder", threads.name(holder));
                    put(&mut list, "dashcam.wait.holder_id", holder);
                }
            }
        }
    }
    (Cow::Owned(format!("wait: {kind}")), list)
}

fn target<'c>(list: &mut Vec<Attribute<'c>>, capture: &'c Capture, target: u64) {
    if let Some(text) = words::target(capture, target) {
        put(list, "dashcam.wait.target", text);
    }
}

/// The innermost frame as OpenTelemetry names code, and the stack.
fn place<'c>(list: &mut Vec<Attribute<'c>>, capture: &'c Capture, stack: u32) {
    let Some(frame) = capture.frames(stack).next() else { return };
    put(list, "code.function.name", frame.function);
    put(list, "code.file.path", frame.file);
    put(list, "code.line.number", frame.line);
    let frames = capture.frames(stack).take(MOST_FRAMES);
    let lines: Vec<String> = frames.map(|frame| words::frame(capture, &frame)).collect();
    put(list, "code.stacktrace", lines.join("\n"));
}
