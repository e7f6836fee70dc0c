//! Requests, with what their threads did.
//!
//! Costs the states of one thread at a time.

use std::collections::{BTreeMap, HashMap};

use analysis::states::Threads;
use analysis::timeline::{self, Segment, State};
use capture::read::RequestRow;

use crate::cell::{always, id, int, maybe, opt, Cell, Kind};
use crate::counts::Of;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const REQUESTS: Table = Table {
    name: "requests",
    about: "A request: a unit of work whose latency is judged. By begin.",
    columns: &[
        always("request_id", Kind::Int, "Unique in the capture"),
        always("name", Kind::Text, "Its name, `METHOD route` of a web request"),
        maybe("tid", Kind::Int, "Thread that it began on"),
        always("begin_ns", Kind::Int, "Its arrival, if that is known"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("started_ns", Kind::Int, "When its handler began"),
        maybe("end_ns", Kind::Int, "Its end; NULL: it still ran"),
        always("duration_ns", Kind::Int, "From arrival to end, or to the capture's end"),
        always("queued_ns", Kind::Int, "From arrival until its handler began"),
        always("is_open", Kind::Bool, "It still ran when the capture was made"),
        always("is_error", Kind::Bool, "It ended by an exception or an error status"),
        always("on_loop", Kind::Bool, "It ran on an event loop, so its thread served others too"),
        always("is_slow", Kind::Bool, "It took as long as its limit, or longer"),
        maybe("limit_ns", Kind::Int, "Its limit by the capture's `slow` rules; NULL: none"),
        maybe("run_ns", Kind::Int, "Its thread was on a CPU, from `started_ns` on; NULL on a loop"),
        maybe("ready_ns", Kind::Int, "Its thread was runnable without a CPU; NULL on a loop"),
        maybe("wait_ns", Kind::Int, "Its thread was blocked; NULL on a loop"),
        maybe("unknown_ns", Kind::Int, "What its thread did is not known; NULL on a loop"),
        maybe(
            "excess_ns",
            Kind::Int,
            "What it took beyond typical for its name; NULL: `why` does not judge it as slow",
        ),
    ],
    rows: Rows::InTime(&[(Of::Requests, requests)]),
};

fn requests(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let times = times(source);
    let excess = source.excess_ns();
    let mut limits: HashMap<u32, u64> = HashMap::new();
    let all = capture.requests.iter().enumerate();
    for (i, row) in all.filter(|(_, row)| capture.owns(row.begin_ns)) {
        let name = capture.name(row.name);
        let limit = *limits.entry(row.name).or_insert_with(|| source.limit_ns(name));
        let took = source.took_ns(row);
        let part = |state: usize| times[i].map_or(Cell::Null, |sums| int(sums[state]));
        sink.row([
            int(row.id),
            Cell::Text(name),
            id(row.tid),
            int(row.begin_ns),
            Cell::Int(source.utc_us(row.begin_ns)),
            int(row.started_ns),
            opt(row.end_ns),
            int(took),
            int(row.started_ns.saturating_sub(row.begin_ns)),
            Cell::Bool(row.end_ns.is_none()),
            Cell::Bool(row.error),
            Cell::Bool(row.on_loop),
            Cell::Bool(row.begin_ns != 0 && took >= limit),
            if limit == u64::MAX { Cell::Null } else { int(limit) },
            part(0),
            part(1),
            part(2),
            part(3),
            opt(excess.get(&row.id).copied()),
        ])?;
    }
    Ok(())
}

type Sums = [u64; 4];

/// Run, ready, wait and unknown time of each request's own thread; None on an event loop.
fn times(source: &Source) -> Vec<Option<Sums>> {
    let capture = &source.capture;
    let threads = Threads::new(capture);
    let mut by_thread: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let own = |row: &RequestRow| !row.on_loop && capture.owns(row.begin_ns);
    for (i, row) in capture.requests.iter().enumerate().filter(|(_, row)| own(row)) {
        by_thread.entry(row.tid).or_default().push(i);
    }
    let mut out = vec![None; capture.requests.len()];
    for (tid, requests) in by_thread {
        let spans = requests.iter().map(|i| handled(source, &capture.requests[*i]));
        let first_ns = spans.clone().map(|(from_ns, _)| from_ns).min().unwrap_or(0);
        let last_ns = spans.clone().map(|(_, to_ns)| to_ns).max().unwrap_or(0);
        let line = Line::new(whole(&threads, tid, first_ns, last_ns));
        for (i, (from_ns, to_ns)) in requests.iter().zip(spans) {
            out[*i] = Some(line.between(from_ns, to_ns));
        }
    }
    out
}

/// When a request's handler began and ended.
fn handled(source: &Source, row: &RequestRow) -> (u64, u64) {
    let from_ns = row.started_ns.max(row.begin_ns);
    (from_ns, row.end_ns.unwrap_or(source.capture.meta.to_ns).max(from_ns))
}

/// A thread's states, with the diagnosis's rule for the time around them: before its first switch a
/// thread ran.
fn whole<'c>(threads: &Threads<'c>, tid: u32, first_ns: u64, last_ns: u64) -> Vec<Segment<'c>> {
    let of_thread = |from_ns, to_ns| match from_ns < to_ns {
        true => timeline::of_thread(threads.capture, tid, from_ns, to_ns),
        false => Vec::new(),
    };
    let Some((from_ns, to_ns)) = threads.bounds(tid) else { return of_thread(first_ns, last_ns) };
    let mut out = of_thread(first_ns, from_ns.min(last_ns));
    out.extend(threads.states(tid));
    out.extend(of_thread(to_ns.max(first_ns), last_ns));
    out
}

/// A thread's states with running sums, so that any interval costs two searches.
struct Line<'c> {
    segments: Vec<Segment<'c>>,
    /// The sum before the segment of the same index.
    sums: Vec<Sums>,
}

impl<'c> Line<'c> {
    fn new(segments: Vec<Segment<'c>>) -> Line<'c> {
        let mut sum = Sums::default();
        let mut sums = Vec::with_capacity(segments.len());
        for segment in &segments {
            sums.push(sum);
            sum[index(segment.state)] += segment.ns();
        }
        Line { segments, sums }
    }

    /// The sums up to `t_ns`.
    fn until(&self, t_ns: u64) -> Sums {
        let next = self.segments.partition_point(|s| s.from_ns < t_ns);
        let Some(last) = next.checked_sub(1) else { return Sums::default() };
        let (segment, mut sum) = (&self.segments[last], self.sums[last]);
        sum[index(segment.state)] += segment.to_ns.min(t_ns) - segment.from_ns;
        sum
    }

    /// Time outside of the thread's states is unknown.
    fn between(&self, from_ns: u64, to_ns: u64) -> Sums {
        let (before, after) = (self.until(from_ns), self.until(to_ns));
        let mut out = Sums::default();
        for i in 0..3 {
            out[i] = after[i].saturating_sub(before[i]);
        }
        out[3] = (to_ns - from_ns).saturating_sub(out[0] + out[1] + out[2]);
        out
    }
}

fn index(state: State) -> usize {
    match state {
        State::Run => 0,
        State::Ready => 1,
        State::Wait => 2,
        State::Unknown => 3,
    }
}
