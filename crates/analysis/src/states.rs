//! Threads, their names, and their states over the whole capture, as `timeline` has them for a part
//! of it.
//!
//! The kernel gives a thread id again: threads that had the same one, one after the other, are one
//! thread here, under the last one's name.

use std::collections::{BTreeMap, BTreeSet};

use capture::read::{Capture, RequestRow};
use format::sample::YOUNG_REQUEST_NS;

use crate::timeline::{self, Segment};

/// Times past this are damage (292 years of uptime); they are cut, so that sums fit.
const LATEST_NS: u64 = i64::MAX as u64;

/// The threads of a capture.
pub struct Threads<'c> {
    /// Theirs.
    pub capture: &'c Capture,
    /// The last instant the capture knows: what it says, or its latest row, when it was cut off or
    /// comes from a stream that still grows.
    pub end_ns: u64,
    switches: bool,
    /// By thread id: its name, and its end if it ended.
    rows: BTreeMap<u32, (String, Option<u64>)>,
    /// Ids of the threads that anything was recorded of.
    ids: BTreeSet<u32>,
    /// By thread id: its long requests, by begin.
    long: BTreeMap<u32, Vec<Long>>,
}

/// A request that took so long that its thread was sampled more often than others.
#[derive(Clone, Copy, Debug)]
pub struct Long {
    /// When its thread began with it.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl<'c> Threads<'c> {
    /// Finds them.
    pub fn new(capture: &'c Capture) -> Threads<'c> {
        let mut rows: BTreeMap<u32, (String, Option<u64>)> = BTreeMap::new();
        let mut given: BTreeSet<u32> = BTreeSet::new();
        for thread in capture.threads.iter().filter(|t| !t.nested) {
            let alive = thread.end_ns.is_none();
            let row = rows.entry(thread.tid).or_insert((String::new(), Some(0)));
            // The name the program gave the thread that lives, else the last one's.
            if alive && thread.named || !given.contains(&thread.tid) {
                row.0.clone_from(&thread.name);
            }
            if alive && thread.named {
                given.insert(thread.tid);
            }
            row.1 = thread.end_ns.and_then(|end_ns| row.1.map(|last| last.max(end_ns)));
        }
        let mut ids: BTreeSet<u32> = rows.keys().copied().collect();
        ids.extend(capture.samples.keys().chain(capture.off_cpu.keys()));
        ids.extend(capture.requests.iter().map(|r| r.tid));
        ids.extend(capture.spans.iter().map(|s| s.tid));
        ids.extend(capture.events.iter().map(|e| e.tid));
        ids.extend(capture.gcs.iter().map(|g| g.tid));
        ids.extend(capture.tasks.iter().map(|t| t.tid));
        let end_ns = end_ns(capture).min(LATEST_NS);
        let switches = capture.meta.source_on("switches");
        Threads { capture, end_ns, switches, rows, ids, long: long_requests(capture, end_ns) }
    }

    /// The long requests that ran on a thread, by begin.
    pub fn long(&self, tid: u32) -> &[Long] {
        self.long.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// Their ids, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.ids.iter().copied()
    }

    /// A thread's name; `thread TID` without one.
    pub fn name(&self, tid: u32) -> String {
        match self.rows.get(&tid) {
            Some((name, _)) if !name.is_empty() => name.clone(),
            _ => format!("thread {tid}"),
        }
    }

    /// Whether a thread's times off the CPU come from switch records; else they are estimates.
    pub fn is_exact(&self, tid: u32) -> bool {
        self.switches && self.capture.off_cpu.get(&tid).is_some_and(|o| !o.is_empty())
    }

    /// The time in which something is known of a thread's states: from its first sample or switch
    /// (not before the capture's window) to its end, or the capture's. None: nothing is known. The
    /// ring is written while it is copied, so some rows are later than the copy's begin. A thread
    /// that was off the CPU at that moment is known up to it, and did not run from there on. Of a
    /// part of a capture: what of it lies in the part.
    pub fn bounds(&self, tid: u32) -> Option<(u64, u64)> {
        let sample = self.capture.samples.get(&tid).and_then(|s| s.first());
        let off = self.capture.off_cpu.get(&tid).and_then(|o| o.first());
        let first = [sample.map(|s| s.t_ns.saturating_sub(s.wall_ns)), off.map(|o| o.out_ns)];
        let from_ns = first.into_iter().flatten().min()?.max(self.capture.meta.from_ns);
        let end_ns = self.rows.get(&tid).and_then(|(_, end_ns)| *end_ns);
        let mut to_ns = end_ns.map_or(self.end_ns, |end| end.min(self.end_ns));
        if self.is_exact(tid) {
            let sample = self.capture.samples.get(&tid).and_then(|s| s.last());
            let off = self.capture.off_cpu.get(&tid).and_then(|o| o.last());
            let last = [sample.map_or(0, |s| s.t_ns), off.map_or(0, |o| o.in_ns)];
            to_ns = last.into_iter().fold(self.capture.meta.to_ns, u64::max).min(to_ns);
        }
        let (mut from_ns, mut to_ns) = (from_ns, to_ns);
        if let Some(part) = self.capture.part {
            (from_ns, to_ns) = (from_ns.max(part.from_ns), to_ns.min(part.to_ns));
        }
        (from_ns < to_ns).then_some((from_ns, to_ns))
    }

    /// The states of `tid`, in order, without gaps within its bounds. Cut at every switch first:
    /// the cost of a short interval's timeline is linear in what it contains, that of a long one
    /// quadratic.
    pub fn states(&self, tid: u32) -> Vec<Segment<'c>> {
        let Some((from_ns, to_ns)) = self.bounds(tid) else { return Vec::new() };
        if !self.is_exact(tid) {
            return timeline::of_thread(self.capture, tid, from_ns, to_ns);
        }
        let mut cuts = Vec::new();
        for off in self.capture.off_cpu.get(&tid).into_iter().flatten() {
            cuts.extend([off.out_ns, off.in_ns].map(|t| t.clamp(from_ns, to_ns)));
        }
        cuts.push(to_ns);
        let late = timeline::late_of(self.capture, tid);
        let (mut out, mut at) = (Vec::new(), from_ns);
        for cut in cuts {
            if cut > at {
                out.append(&mut timeline::of_thread_with(self.capture, tid, &late, (at, cut)));
                at = cut;
            }
        }
        out
    }
}

/// Twice the median of its name, and never young.
fn long_requests(capture: &Capture, last_ns: u64) -> BTreeMap<u32, Vec<Long>> {
    let took = |r: &RequestRow| r.end_ns.unwrap_or(last_ns).saturating_sub(r.started_ns);
    let mut by_name: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for request in &capture.requests {
        by_name.entry(request.name).or_default().push(took(request));
    }
    let usual: BTreeMap<u32, u64> = by_name
        .into_iter()
        .map(|(name, mut took)| {
            let middle = took.len() / 2;
            (name, *took.select_nth_unstable(middle).1)
        })
        .collect();
    let mut long: BTreeMap<u32, Vec<Long>> = BTreeMap::new();
    for request in capture.requests.iter().filter(|r| !r.on_loop) {
        let usual_ns = usual.get(&request.name).map_or(0, |ns| ns.saturating_mul(2));
        if took(request) > usual_ns.max(YOUNG_REQUEST_NS) {
            let end_ns = request.end_ns.unwrap_or(last_ns);
            let its = Long { begin_ns: request.started_ns, end_ns };
            long.entry(request.tid).or_default().push(its);
        }
    }
    long.values_mut().for_each(|its| its.sort_unstable_by_key(|l| l.begin_ns));
    long
}

fn end_ns(capture: &Capture) -> u64 {
    let samples = capture.samples.values().filter_map(|s| s.last()).map(|s| s.t_ns);
    let off = capture.off_cpu.values().filter_map(|o| o.last()).map(|o| o.out_ns);
    let events = capture.events.last().map(|e| e.t_ns);
    let requests = capture.requests.iter().map(|r| r.end_ns.unwrap_or(r.begin_ns)).max();
    let last = samples.chain(off).chain(events).chain(requests).max().unwrap_or(0);
    capture.meta.to_ns.max(last)
}
