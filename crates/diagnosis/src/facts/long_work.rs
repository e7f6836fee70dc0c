//! Whether a thread's work is long by itself, on however free a machine.
//!
//! How it works: a thread that computes for long on a crowded machine is off the CPU for longer
//! than on it. What the CPU was needed *for* decides: if one thread's work without a break (its
//! *burst*: time on a CPU between two waits) reaches the slow requests' limit by itself, it would
//! have been too slow on a free machine as well. A burst is that of one request: many short ones in
//! a row delay nobody for long where there are CPUs.

use std::collections::HashMap;

use analysis::timeline::{overlap_ns, Segment, State};
use analysis::{cost, thresholds};
use capture::read::Capture;
use format::wait::WaitKind;

use crate::context::Context;
use crate::memo::Burst;

/// Whether the work that `tid` was at during `segment` takes longer than the limit by itself,
/// on however free a machine: without a break, or for one request. Cost: a timeline, unless it
/// is the work asked for last.
pub fn works_long(cx: &Context<'_>, tid: u32, segment: &Segment<'_>) -> bool {
    let (from, to) = segment.times();
    let found = burst_around(cx, tid, from, to);
    found.ran_ns >= cx.limit_ns || serves_long(cx, tid, (from, to))
}

/// Whether what kept an event loop's thread around `segment` is long for a loop: of that, nobody on
/// the loop could go on, on a free machine as well.
pub fn keeps_loop(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let part_ns = (cx.limit_ns as f64 * thresholds::doubtful_part()) as u64;
    let least_ns = thresholds::loop_blocked_ns().max(part_ns).min(cx.limit_ns);
    let found = burst_around(cx, segment.tid, segment.from_ns, segment.to_ns);
    let served = serves_long(cx, segment.tid, segment.times());
    found.ran_ns >= least_ns || served
}

/// Whether a request that `tid` worked for in `[from, to)` took more of a CPU than the limit,
/// with whatever waits in between.
fn serves_long(cx: &Context<'_>, tid: u32, (from, to): (u64, u64)) -> bool {
    let all = cx.served().get(&tid).map_or(&[][..], Vec::as_slice);
    // A thread works for one after the other.
    let first = all.partition_point(|(_, end)| *end <= from);
    let ended = all[first..].iter().take_while(|(begin, _)| *begin < to).copied();
    // One that still runs is the last.
    let open = open_requests(cx).get(&tid).filter(|begin| **begin < to);
    let open = open.map(|begin| (*begin, cx.capture.meta.to_ns));
    // A damaged capture may say that one ended before it began.
    ended.chain(open).filter(|(begin, end)| begin < end).any(|(begin, end)| {
        let known = cx.request_work.borrow().get(&(tid, begin)).copied();
        let ran_ns = known.unwrap_or_else(|| cx.ran_ns(tid, (begin, end)));
        cx.request_work.borrow_mut().insert((tid, begin), ran_ns);
        ran_ns >= cx.limit_ns
    })
}

/// When each thread took up the request that it was at when the capture ended.
fn open_requests<'s>(cx: &'s Context<'_>) -> &'s HashMap<u32, u64> {
    cx.open_requests.get_or_init(|| {
        let open = cx.capture.requests.iter().filter(|r| !r.on_loop && r.end_ns.is_none());
        open.map(|r| (r.tid, r.started_ns)).collect()
    })
}

/// The burst of `tid` around `[from, to)`. Waits for the GIL are no break: they are part of
/// working. Cost: a timeline of twice its length, and some more, of 12 s at most, unless it is
/// the one asked for last.
fn burst_around(cx: &Context<'_>, tid: u32, from: u64, to: u64) -> Burst {
    let mut bursts = cx.bursts.borrow_mut();
    let known = bursts.last.get(&tid).filter(|b| b.from_ns <= from && to <= b.to_ns);
    if let Some(known) = known {
        return *known;
    }
    let ends = bursts.ends.get_or_insert_with(|| ends_of_work(cx.capture));
    let ends = ends.get(&tid).map_or(&[][..], Vec::as_slice);
    let found = burst(cx, tid, from, to, ends);
    bursts.last.insert(tid, found);
    found
}

fn ends_of_work(capture: &Capture) -> HashMap<u32, Vec<u64>> {
    let mut ends: HashMap<u32, Vec<u64>> = HashMap::new();
    for request in &capture.requests {
        ends.entry(request.tid).or_default().extend(request.end_ns);
    }
    for task in &capture.tasks {
        ends.entry(task.tid).or_default().push(task.end_ns);
    }
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    ends
}

/// `ends`: where it is cut. On a crowded machine a thread that is done with a request has the next
/// one in hand at once: several short ones in a row are no long work.
fn burst(cx: &Context<'_>, tid: u32, from_ns: u64, to_ns: u64, ends: &[u64]) -> Burst {
    // Before its first record and behind its last one nobody knows what it did, or whether it was
    // there.
    let (first, last) = known(cx, tid);
    let first =
        first.max(ends[..ends.partition_point(|end| *end <= from_ns)].last().copied().unwrap_or(0));
    let last =
        last.min(ends.get(ends.partition_point(|end| *end < to_ns)).copied().unwrap_or(u64::MAX));
    let mut span_ns = cost::BURST.ns();
    loop {
        let begin = from_ns.saturating_sub(span_ns).max(first).min(from_ns);
        let end = (to_ns + span_ns).min(last).max(begin);
        let found = burst_within(&cx.timeline(tid, begin, end), ends, (from_ns, to_ns));
        // One that reaches an edge goes on behind it, or a wait there was cut to what is no break.
        let whole = (begin == first || found.from_ns > begin) && (end == last || found.to_ns < end);
        if whole || span_ns >= thresholds::one_activity_ns() {
            return found;
        }
        span_ns = (span_ns * 4).min(thresholds::one_activity_ns());
    }
}

/// The burst around `[from, to)` with most time on a CPU, as far as this timeline shows: cut at
/// `ends`, where the thread was done with something.
fn burst_within(all: &[Segment<'_>], ends: &[u64], (from_ns, to_ns): (u64, u64)) -> Burst {
    // A wait behind which there was no CPU is as long as both.
    let ns = |i: usize| {
        let late = all.get(i + 1).filter(|s| s.state == State::Ready && s.exact);
        all[i].ns() + late.map_or(0, Segment::ns)
    };
    let works = |i: &usize| match all[*i].state {
        State::Run | State::Ready => true,
        State::Wait => all[*i].wait() == WaitKind::Gil || ns(*i) < thresholds::short_wait_ns(),
        // By estimates work has such holes between two samples of it.
        State::Unknown => ns(*i) < thresholds::short_wait_ns(),
    };
    let before = (0..all.len()).rev().skip_while(|i| all[*i].from_ns >= from_ns);
    let begin_ns = before.take_while(works).last().map_or(from_ns, |i| all[i].from_ns.min(from_ns));
    let behind = (0..all.len()).skip_while(|i| all[*i].to_ns <= to_ns);
    let end_ns = behind.take_while(works).last().map_or(to_ns, |i| all[i].to_ns.max(to_ns));
    let first = ends.partition_point(|end| *end <= from_ns);
    let inside = ends[first..].iter().copied().take_while(|end| *end < to_ns);
    let mut most = Burst { from_ns: begin_ns, to_ns: begin_ns, ran_ns: 0 };
    let mut at = begin_ns;
    for until in inside.chain([end_ns]) {
        let part = |s: &Segment<'_>| overlap_ns(s.times(), (at, until));
        let ran_ns = all.iter().filter(|s| s.state == State::Run).map(part).sum();
        if ran_ns > most.ran_ns || most.to_ns == most.from_ns {
            most = Burst { from_ns: at, to_ns: until, ran_ns };
        }
        at = until;
    }
    most
}

/// When something was recorded of a thread first and last.
fn known(cx: &Context<'_>, tid: u32) -> (u64, u64) {
    let samples = cx.all_samples(tid);
    let off = cx.off_cpu(tid);
    let first = samples.first().map(|s| s.t_ns).into_iter().chain(off.first().map(|o| o.out_ns));
    let last = samples.last().map(|s| s.t_ns).into_iter().chain(off.last().map(|o| o.in_ns));
    (first.min().unwrap_or(u64::MAX), last.max().unwrap_or(0))
}

/// Whether `tid` was runnable without a CPU for most of `segment`, and not because its work is
/// long.
pub fn starves(cx: &Context<'_>, tid: u32, segment: &Segment<'_>) -> bool {
    let ready_ns = cx.ns_of(tid, segment.times(), |s| s.state == State::Ready);
    ready_ns * 2 > segment.ns() && !works_long(cx, tid, segment)
}
