//! Calls made again and again by one line: a query for each row instead of one for all.
//!
//! How it works: a finding's stacks show which line of the program most of it passes through, and
//! which function of a library that line called. The number of calls is known in three ways only.
//! Spans of one name inside the request count calls. Waits for a peer that switch records show at
//! that function count answers waited for, and are reported as such. Without switch records, the
//! kernel's count of how often the thread got a CPU between two samples that both found it there,
//! waiting or on its way, is as many or more (it may also have waited for the GIL): less the turns
//! that its own time on the CPU may have taken, which other threads cut short where CPUs are few.
//! If there is none of these, nothing is said.
//!
//! What it promises: a number is a count of records or the kernel's, never of samples. Cost: one
//! pass over the spans of a capture.

use std::collections::{BTreeMap, HashMap};

use analysis::frames::{last_part, Function, Owner, Place};
use analysis::requests::Judged;
use analysis::thresholds;
use analysis::waits::ended_by_request;
use analysis::words::target_and_limit;
use capture::read::Capture;
use format::record::Sample;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::rule::{Counted, Repeats};
use crate::claim::Weighed;
use crate::context::Context;
use crate::groups::Group;

pub const ADVICE: &str =
    "Ask once for all of them (a join, IN, a pipeline, eager loading) instead of \
     once for each.";

/// Number and time of a request's spans of one name.
type Tally = HashMap<u32, (usize, u64)>;

/// The spans inside of the requests that are considered.
pub struct Counts<'c> {
    capture: &'c Capture,
    of: HashMap<u64, Tally>,
    controls: Vec<u64>,
}

impl<'c> Counts<'c> {
    /// Of slow requests and their controls.
    pub fn of(capture: &'c Capture, slow: &[Judged<'_>], controls: &[Judged<'_>]) -> Counts<'c> {
        let ids = slow.iter().chain(controls).map(|r| r.row.id);
        let mut of: HashMap<u64, Tally> = ids.map(|id| (id, Tally::new())).collect();
        for span in capture.spans.iter().filter(|s| !s.open && s.request != 0) {
            if let Some(tally) = of.get_mut(&span.request) {
                let (times, ns) = tally.entry(span.name).or_default();
                *times += 1;
                *ns += span.end_ns.saturating_sub(span.begin_ns);
            }
        }
        for ((request, name), (times, ns)) in &capture.span_sums {
            if let Some(tally) = of.get_mut(request) {
                let sum = tally.entry(*name).or_default();
                (sum.0, sum.1) = (sum.0 + times, sum.1 + ns);
            }
        }
        Counts { capture, of, controls: controls.iter().map(|r| r.row.id).collect() }
    }

    /// The span name of which these requests have many, that takes most of `ns`.
    fn many(&self, ids: &[u64], ns: u64) -> Option<Repeats> {
        let mut sums: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        for (name, (times, spent)) in ids.iter().filter_map(|id| self.of.get(id)).flatten() {
            let sum = sums.entry(*name).or_default();
            (sum.0, sum.1) = (sum.0 + times, sum.1 + spent);
        }
        let wanted = (thresholds::half() * ns as f64) as u64;
        let enough = |(_, (times, spent)): &(u32, (usize, u64))| {
            *times >= thresholds::loop_calls() * ids.len() && *spent >= wanted
        };
        let (name, (times, _)) = sums.into_iter().filter(enough).max_by_key(|(_, (n, _))| *n)?;
        let own = |id: &u64| self.of.get(id).and_then(|t| t.get(&name)).map_or(0, |(n, _)| *n);
        let normally = self.controls.iter().map(own).sum::<usize>();
        Some(Repeats {
            place: Place::default(),
            callee: None,
            times: times / ids.len(),
            normally: Some(normally / self.controls.len().max(1)),
            counted: Counted::Spans(self.capture.name(name).to_owned()),
        })
    }
}

/// Waits for a peer by slow request and function of the program's own.
pub type Waits = HashMap<(usize, Function), usize>;

/// Counts the waits for a peer that switch records show.
pub fn waits(cx: &Context<'_>, groups: &[Group<'_>]) -> Waits {
    let asks = groups.iter().filter(|g| g.cause == Cause::DownstreamWait);
    let exact = asks.flat_map(|g| &g.slices).filter(|w| w.slice.segment.exact);
    let mut out = Waits::new();
    for (request, wait) in ended_by_request(exact.map(Weighed::part)) {
        if let Some(place) = cx.frames.innermost_user(wait.stack) {
            *out.entry((request, place.in_function())).or_default() += 1;
        }
    }
    out
}

/// What one line of a group's requests called many times; None when nothing counts it.
pub fn of_group(
    cx: &Context<'_>,
    group: &Group<'_>,
    slow: &[(usize, u64)],
    counts: &Counts<'_>,
    waits: &Waits,
) -> Option<Repeats> {
    if !matches!(group.cause, Cause::Cpu | Cause::DownstreamWait | Cause::DiskIo) || slow.is_empty()
    {
        return None;
    }
    let (place, callee) = main_line(cx, &group.slices)?;
    let own = group.slices.iter().filter(|w| slow.iter().any(|(i, _)| *i == w.request));
    let ns = own.map(|w| w.slice.segment.ns()).sum();
    let ids: Vec<u64> = slow.iter().map(|(_, id)| *id).collect();
    if let Some(found) = counts.many(&ids, ns) {
        return Some(Repeats { place, callee, ..found });
    }
    let key = |i: usize| (i, place.in_function());
    let sum: usize = slow.iter().map(|(i, _)| waits.get(&key(*i)).copied().unwrap_or(0)).sum();
    let (sum, counted) = match group.slices.iter().any(|w| w.slice.segment.exact) {
        true => (sum, Counted::Waits),
        false => (slices(cx, group, slow, &place), Counted::Slices),
    };
    let times = sum / slow.len();
    // A function of the program's own that the line called may be what loops.
    let many = times >= thresholds::loop_calls() && callee.is_some();
    many.then_some(Repeats { place, callee, times, normally: None, counted })
}

/// How often the threads of these requests were given a CPU between two samples that found them
/// in the function of `place`, at least one of them waiting for a peer.
fn slices(cx: &Context<'_>, group: &Group<'_>, slow: &[(usize, u64)], place: &Place) -> usize {
    if group.cause != Cause::DownstreamWait {
        return 0;
    }
    let mut spans: BTreeMap<(usize, u32), (u64, u64)> = BTreeMap::new();
    let of_slow = |w: &&Weighed<'_>| slow.iter().any(|(i, _)| *i == w.request);
    for w in group.slices.iter().filter(of_slow) {
        let s = &w.slice.segment;
        let span = spans.entry((w.request, s.tid)).or_insert(s.times());
        *span = (span.0.min(s.from_ns), span.1.max(s.to_ns));
    }
    let there =
        |s: &Sample| cx.frames.innermost_user(s.stack).is_some_and(|p| p.is_in_function_of(place));
    let waits = |s: &Sample| {
        use WaitKind::{PipeRead, Poll, SocketRead, SocketWrite};
        matches!(s.wait, SocketRead | SocketWrite | Poll | PipeRead)
    };
    let counts = |pair: &&[Sample]| {
        let [first, second] = [&pair[0], &pair[1]];
        let runs = |s: &Sample| waits(s) || s.wait == WaitKind::Running;
        (waits(first) && runs(second) || runs(first) && waits(second))
            && there(first)
            && there(second)
    };
    let between = |((_, tid), (from, to)): (&(usize, u32), &(u64, u64))| -> usize {
        let samples = cx.samples_in(*tid, *from, *to);
        let pairs = samples.windows(2).filter(counts);
        pairs.map(|pair| turns(&pair[0], &pair[1])).sum()
    };
    spans.iter().map(between).sum()
}

/// How often the thread of two consecutive samples got a CPU because something came: without the
/// turns of a wait in slices, whose time was up, and of a thread that was found on a CPU without
/// those that it may have been given because it lost one.
fn turns(first: &Sample, second: &Sample) -> usize {
    let limit_ns =
        [first, second].map(|s| target_and_limit(s).1).into_iter().filter(|ns| *ns > 1).min();
    let time_ns = second.t_ns.saturating_sub(first.t_ns);
    let timed_out = limit_ns.map_or(0, |limit_ns| time_ns.div_ceil(limit_ns) as usize);
    let cut_short = match [first, second].iter().any(|s| s.wait == WaitKind::Running) {
        true => (second.cpu_ns / thresholds::turn_ns()) as usize,
        false => 0,
    };
    (second.slices as usize).saturating_sub(timed_out + cut_short)
}

/// The innermost line of the program's own that most of the claimed segments pass through, and the
/// function of a library that it called.
fn main_line(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<(Place, Option<String>)> {
    let mut sums: BTreeMap<(Place, Option<&str>), f64> = BTreeMap::new();
    let seen = slices.iter().filter(|w| w.slice.claim.stack != 0);
    let total: f64 = seen.clone().map(|w| w.excess_ns).sum();
    for w in seen {
        let stack = w.slice.claim.stack;
        let Some(place) = cx.frames.innermost_user(stack) else { continue };
        let of_user = |f: &capture::read::Frame<'_>| cx.frames.owner(f.file) == Owner::User;
        let inside = cx.frames.of(stack).take_while(|f| !of_user(f)).last();
        let callee = inside.map(|f| last_part(f.function));
        *sums.entry((place, callee)).or_default() += w.excess_ns;
    }
    let mut lines: BTreeMap<&Place, f64> = BTreeMap::new();
    for ((place, _), weight) in &sums {
        *lines.entry(place).or_default() += weight;
    }
    let (line, weight) = lines.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let own = line.clone();
    if weight < thresholds::loop_line_part() * total || cx.frames.owner(&own.file) != Owner::User {
        return None;
    }
    let here = sums.into_iter().filter(|((place, callee), _)| *place == own && callee.is_some());
    let callee = here.max_by(|a, b| a.1.total_cmp(&b.1)).and_then(|((_, callee), _)| callee);
    Some((own, callee.map(str::to_owned)))
}
