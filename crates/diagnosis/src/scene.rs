//! What a rule may look at: the capture, and questions about other threads at a given time.

use std::collections::HashSet;

use capture::read::{Capture, GcRow, SpanRow};
use format::own_span;
use format::record::{Sample, TARGET_IS_NAME};
use format::usage::Usage;
use format::wait::{HolderSource, WaitKind};

use crate::frames::{is_stdlib, Frames};
use crate::timeline::{self, slice_between, Segment, State};

/// How far a sample of another thread may lie from the moment asked about.
const NEAR_NS: u64 = 60_000_000;

/// Threads a chain of waits is followed through.
const MOST_HOPS: usize = 6;
/// A wait that ends this close to its time limit ended by it.
const TIMER_SLACK_NS: u64 = 3_000_000;

/// Another thread that is to blame, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The thread.
    pub tid: u32,
    /// Where it was.
    pub stack: u32,
    /// Read from the lock or the interpreter, not inferred from timing.
    pub measured: bool,
    /// It is a task of an event loop, and this is what it did, in words.
    pub doing: Option<&'static str>,
}

impl Culprit {
    /// A thread.
    pub fn thread(tid: u32, stack: u32, measured: bool) -> Culprit {
        Culprit { tid, stack, measured, doing: None }
    }
}

/// A capture and the questions rules ask of it.
pub struct Scene<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Its frames.
    pub frames: Frames<'c>,
    /// Times in which the recorder's own thread did not get to run though it wanted to:
    /// begin, end, and the part it was runnable for.
    pub gaps: Vec<Gap>,
    /// Threads that run requests on an event loop.
    loops: HashSet<u32>,
    /// Times inside `fork`.
    forks: Vec<&'c SpanRow>,
    /// Name id of the spans in which the recorder writes a capture.
    writes: Option<u32>,
}

/// A gap in the recorder's heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Last beat before.
    pub from_ns: u64,
    /// First beat after.
    pub to_ns: u64,
    /// Time the recorder's thread was runnable without a CPU in it.
    pub run_delay_ns: u64,
    /// Time the cgroup was throttled in it.
    pub throttled_ns: u64,
}

impl<'c> Scene<'c> {
    /// Sets a capture up.
    pub fn new(capture: &'c Capture) -> Scene<'c> {
        let on_loop = capture.requests.iter().filter(|r| r.on_loop);
        let loops = on_loop.map(|r| r.tid).collect();
        let id = |name: &str| capture.name_id(name);
        let fork = id(own_span::FORK);
        let forks = capture.own_spans.iter().filter(|s| Some(s.name) == fork).collect();
        let writes = id(own_span::CAPTURE);
        Scene { capture, frames: Frames::new(capture), gaps: gaps(capture), loops, forks, writes }
    }

    /// Whether the segment's thread runs an event loop.
    pub fn is_loop(&self, segment: &Segment<'_>) -> bool {
        self.loops.contains(&segment.tid)
    }

    /// Whether a loop's thread waits for something to do: in its own epoll or its selector, not in a
    /// call that polls a peer (a blocking client's).
    pub fn is_idle_loop(&self, segment: &Segment<'_>) -> bool {
        if segment.state != State::Wait || segment.wait() != WaitKind::Poll {
            return false;
        }
        let target = segment.sample.and_then(|s| self.target(s));
        if target.is_none_or(|t| t.contains("[eventpoll]")) {
            return true;
        }
        let caller = self.frames.of(segment.stack()).nth(1);
        caller.is_some_and(|f| is_stdlib(&f, "base_events.py", &["_run_once"]))
    }

    /// How long the loop's thread was away from its poll call around `segment`, without a break.
    pub fn busy_around(&self, segment: &Segment<'_>) -> u64 {
        const SPAN_NS: u64 = 2_000_000_000;
        let from = segment.from_ns.saturating_sub(SPAN_NS);
        let around = timeline::of_thread(self.capture, segment.tid, from, segment.to_ns + SPAN_NS);
        let polls = |s: &Segment<'_>| self.is_idle_loop(s);
        let (mut begin, mut end) = (segment.from_ns, segment.to_ns);
        for s in around.iter().rev().skip_while(|s| s.to_ns > segment.from_ns) {
            if polls(s) {
                break;
            }
            begin = s.from_ns;
        }
        for s in around.iter().skip_while(|s| s.from_ns < segment.to_ns) {
            if polls(s) {
                break;
            }
            end = s.to_ns;
        }
        end - begin
    }

    /// The garbage collection that covers most of `[from, to)`, on any thread.
    pub fn gc_over(&self, from_ns: u64, to_ns: u64) -> Option<&'c GcRow> {
        let overlap = |g: &&GcRow| g.end_ns.min(to_ns).saturating_sub(g.begin_ns.max(from_ns));
        let until = self.capture.gcs.partition_point(|g| g.begin_ns < to_ns);
        let gc = self.capture.gcs[..until].iter().max_by_key(overlap)?;
        (overlap(&gc) * 2 >= to_ns - from_ns).then_some(gc)
    }

    /// The heartbeat gap that covers most of `[from, to)`.
    pub fn gap_over(&self, from_ns: u64, to_ns: u64) -> Option<&Gap> {
        let overlap = |g: &&Gap| g.to_ns.min(to_ns).saturating_sub(g.from_ns.max(from_ns));
        let gap = self.gaps.iter().max_by_key(overlap)?;
        (overlap(&gap) * 2 >= to_ns - from_ns).then_some(gap)
    }

    /// The sample that tells where `tid` was at `t_ns`: the last one before, if the thread has not
    /// run since; else the nearest, if it is near.
    pub fn sample_near(&self, tid: u32, t_ns: u64) -> Option<&'c Sample> {
        let samples = self.capture.samples.get(&tid)?;
        let before = samples[..samples.partition_point(|s| s.t_ns <= t_ns)].last();
        if let Some(still) = before.filter(|s| self.is_out(tid, s.t_ns, t_ns)) {
            return Some(still);
        }
        let around = slice_between(samples, t_ns.saturating_sub(NEAR_NS), t_ns + NEAR_NS);
        around.iter().min_by_key(|s| s.t_ns.abs_diff(t_ns))
    }

    /// Whether switch records say that `tid` was off the CPU all of `[from, to)`.
    fn is_out(&self, tid: u32, from_ns: u64, to_ns: u64) -> bool {
        let Some(off) = self.capture.off_cpu.get(&tid) else { return false };
        let last = off[..off.partition_point(|o| o.out_ns <= from_ns)].last();
        last.is_some_and(|o| o.in_ns >= to_ns)
    }

    /// The samples of `tid` in `[from, to)`.
    pub fn samples_in(&self, tid: u32, from_ns: u64, to_ns: u64) -> &'c [Sample] {
        let samples = self.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
        slice_between(samples, from_ns, to_ns)
    }

    /// The stack `tid` spent most of `[from, to)` in; the nearest one to its middle when nothing is
    /// known of it. By time, not by samples: a thread that waits is sampled less often than one that
    /// runs. Cost: one timeline.
    pub fn main_stack(&self, tid: u32, from_ns: u64, to_ns: u64) -> u32 {
        let mut sums: Vec<(u32, u64)> = Vec::new();
        let own = timeline::of_thread(self.capture, tid, from_ns, to_ns);
        for segment in own.iter().filter(|s| s.stack() != 0) {
            match sums.iter_mut().find(|(stack, _)| *stack == segment.stack()) {
                Some((_, sum)) => *sum += segment.ns(),
                None => sums.push((segment.stack(), segment.ns())),
            }
        }
        let most = sums.into_iter().max_by_key(|(_, sum)| *sum).map(|(stack, _)| stack);
        let middle = from_ns + (to_ns - from_ns) / 2;
        most.or_else(|| self.sample_near(tid, middle).map(|s| s.stack)).unwrap_or(0)
    }

    /// What the thread of `segment` used around it, by the readings of its samples; None when these
    /// cover too little. Cost: one look at each sample within a quarter of a second.
    pub fn usage_around(&self, segment: &Segment<'_>) -> Option<Usage> {
        /// Kernel and user time come in steps of 10 ms: a shorter stretch says nothing.
        const LEAST_NS: u64 = 80_000_000;
        const AROUND_NS: u64 = 250_000_000;
        let middle = segment.from_ns + segment.ns() / 2;
        let read = |s: &Sample| s.usage().map(|usage| (s.t_ns, usage));
        let near = self.samples_in(
            segment.tid,
            segment.from_ns.saturating_sub(AROUND_NS),
            segment.to_ns + AROUND_NS,
        );
        let readings: Vec<(u64, Usage)> = near.iter().filter_map(read).collect();
        let (mut first, mut last) = {
            let at = readings.partition_point(|(t, _)| *t <= middle);
            (at.saturating_sub(1), at)
        };
        // Outwards from the segment, until the stretch is long enough.
        loop {
            let (begin, end) = (readings.get(first)?, readings.get(last.min(readings.len() - 1))?);
            if end.0.saturating_sub(begin.0) >= LEAST_NS {
                return Some(end.1.since(begin.1));
            }
            let (before, after) = (first > 0, last + 1 < readings.len());
            match (before, after) {
                (false, false) => return None,
                (true, false) => first -= 1,
                (false, true) => last += 1,
                (true, true) => {
                    let left = begin.0 - readings[first - 1].0;
                    let right = readings[last + 1].0 - end.0;
                    if left <= right {
                        first -= 1;
                    } else {
                        last += 1;
                    }
                }
            }
        }
    }

    /// The part of `segment` that its thread spent inside `fork`, ns.
    pub fn forked_ns(&self, segment: &Segment<'_>) -> u64 {
        let inside = |begin: u64, end: u64| {
            end.min(segment.to_ns).saturating_sub(begin.max(segment.from_ns))
        };
        let own = self.forks.iter().filter(|f| f.tid == segment.tid);
        own.map(|f| inside(f.begin_ns, f.end_ns)).sum()
    }

    /// The fork of another thread that covers most of `segment`.
    pub fn fork_elsewhere(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let overlap = |f: &&SpanRow| {
            f.end_ns.min(segment.to_ns).saturating_sub(f.begin_ns.max(segment.from_ns))
        };
        let others = self.forks.iter().copied().filter(|f| f.tid != segment.tid);
        let fork = others.max_by_key(overlap).filter(|f| overlap(f) * 2 > segment.ns())?;
        let stack = self.main_stack(fork.tid, fork.begin_ns, fork.end_ns);
        Some(Culprit::thread(fork.tid, stack, true))
    }

    /// The part of `[from, to)` in which a thread of the recorder's wrote a capture, ns.
    pub fn recorder_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let own = self.capture.own_spans.iter().filter(|s| Some(s.name) == self.writes);
        own.map(|s| s.end_ns.min(to_ns).saturating_sub(s.begin_ns.max(from_ns))).sum()
    }

    /// What a sample's target says in words: a peer, a path; None for a bare address.
    pub fn target(&self, sample: &Sample) -> Option<String> {
        let named = sample.target & TARGET_IS_NAME != 0;
        named.then(|| self.capture.name(sample.target as u32).to_owned())
    }

    /// Who held the GIL while `segment` waited for it: the thread most samples of the wait name;
    /// without one, the only other thread that ran Python then.
    pub fn gil_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let inside = self.samples_in(segment.tid, from, to.max(from + 1));
        let own = segment.sample.into_iter().chain(inside);
        let named = own.filter(|s| s.wait == WaitKind::Gil && s.gil_holder != 0);
        if let Some(tid) = most_common(named.map(|s| s.gil_holder).filter(|t| *t != segment.tid)) {
            return Some(Culprit::thread(tid, self.main_stack(tid, from, to), true));
        }
        let tid = self.busiest(segment.tid, from, to)?;
        Some(Culprit::thread(tid, self.main_stack(tid, from, to), false))
    }

    /// Whether `tid` was runnable without a CPU for most of `segment`.
    pub fn starves(&self, tid: u32, segment: &Segment<'_>) -> bool {
        let own = timeline::of_thread(self.capture, tid, segment.from_ns, segment.to_ns);
        let ready = own.iter().filter(|s| s.state == State::Ready).map(Segment::ns).sum::<u64>();
        ready * 2 > segment.ns()
    }

    /// Who held the lock `segment` waited for; when that thread waited for a lock itself, who held
    /// that one, and so on: the last that is known.
    pub fn lock_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let mut culprit = self.direct_holder(segment)?;
        let mut seen = vec![segment.tid, culprit.tid];
        while seen.len() < MOST_HOPS {
            let (from, to) = (segment.from_ns, segment.to_ns);
            let own = timeline::of_thread(self.capture, culprit.tid, from, to);
            let waits =
                own.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
            let longest = waits.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns());
            let Some(next) = longest.and_then(|wait| self.direct_holder(wait)) else { break };
            // Guessed, and it stands where the wait began: another of those that wait.
            let fellow = !next.measured && self.same_place(next.stack, segment.stack());
            if fellow || seen.contains(&next.tid) {
                break;
            }
            seen.push(next.tid);
            culprit = Culprit { measured: culprit.measured && next.measured, ..next };
        }
        // One that waited for a thread's end ran because that thread ended, not because it let go.
        let joins = self
            .frames
            .of(culprit.stack)
            .take(2)
            .any(|f| is_stdlib(&f, "threading.py", &["join", "_wait_for_tstate_lock"]));
        (culprit.measured || !joins).then_some(culprit)
    }

    /// The holder of the lock `segment` waits for, when that thread waited most of the while for a
    /// lock that this one held, itself or through others: nobody could go on.
    pub fn holder_that_waits_for_us(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let first = self.direct_holder(segment).filter(|c| c.measured)?;
        let mut at = first;
        for _ in 0..MOST_HOPS {
            let own = timeline::of_thread(self.capture, at.tid, segment.from_ns, segment.to_ns);
            let waits =
                own.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
            let longest = waits.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns())?;
            at = self.direct_holder(longest).filter(|c| c.measured)?;
            if at.tid == segment.tid {
                return Some(first);
            }
        }
        None
    }

    fn direct_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let (from, to) = (segment.from_ns, segment.to_ns);
        // The piece's own samples first; then what any sample of the same wait knows.
        let lock = segment.sample.map_or(0, |s| s.target);
        let (begin, end) = self.whole_wait(segment, lock);
        let own = segment.sample.into_iter().chain(self.samples_in(segment.tid, from, to));
        let whole = self.samples_in(segment.tid, begin, end).iter().filter(|s| s.target == lock);
        let known = |s: &&Sample| s.holder_source != HolderSource::None && s.lock_holder != 0;
        let holder = |s: &Sample| s.lock_holder;
        let named = most_common(own.filter(known).map(holder).filter(|t| *t != segment.tid));
        let named = named
            .or_else(|| most_common(whole.filter(known).map(holder).filter(|t| *t != segment.tid)));
        if let Some(tid) = named {
            return Some(Culprit::thread(tid, self.main_stack(tid, from, to), true));
        }
        if self.timed_out(segment) {
            return None;
        }
        let tid = self.releaser(segment)?;
        let stack = self.main_stack(tid, from, to);
        // One that stood where we stand most of the while waited as we did.
        let fellow = self.same_place(stack, segment.stack());
        (!fellow).then_some(Culprit::thread(tid, stack, false))
    }

    /// Whether two stacks have the same known innermost place.
    fn same_place(&self, a: u32, b: u32) -> bool {
        let place = self.frames.innermost(a);
        place.is_some() && place == self.frames.innermost(b)
    }

    /// Whether the wait ended because its time was up: nobody ended it.
    pub fn timed_out(&self, segment: &Segment<'_>) -> bool {
        let Some(sample) = segment.sample.filter(|s| s.timeout_ns > 1) else { return false };
        let (_, end_ns) = self.whole_wait(segment, sample.target);
        end_ns + TIMER_SLACK_NS >= sample.t_ns + sample.timeout_ns
    }

    /// The thread that most likely ended the wait: it ran just before the waiter came back, was
    /// seen during the wait, and did not stand at the same place for the same lock itself. None
    /// when several fit equally.
    pub fn releaser(&self, segment: &Segment<'_>) -> Option<u32> {
        let lock = segment.sample.map(|s| s.target)?;
        let (from, to) = self.whole_wait(segment, lock);
        let just_before_ns = if segment.exact { 3_000_000 } else { 30_000_000 };
        let place = self.frames.innermost(segment.stack());
        let others = self.capture.samples.keys().filter(|tid| **tid != segment.tid);
        let candidate = |tid: &&u32| {
            let seen = self.samples_in(**tid, from, to);
            let waits_too = seen.iter().any(|s| s.wait == WaitKind::Futex && s.target == lock);
            let stack = self.main_stack(**tid, from, to);
            let stands_there = stack != 0 && self.frames.innermost(stack) == place;
            let ran = self.ran_in(**tid, to.saturating_sub(just_before_ns), to + 50_000);
            !waits_too && !stands_there && stack != 0 && ran
        };
        let mut able: Vec<u32> = others.filter(candidate).copied().collect();
        // A thread that idles (accepts, polls) holds nothing; one that was in the file of the code
        // that waits knows the lock; one whose code says `release` lets go of one by hand.
        let file = place.as_ref().map(|p| p.file.as_str());
        let busy = |tid: &u32| {
            let seen = self.sample_near(*tid, from + (to - from) / 2);
            !seen.is_some_and(|s| matches!(s.wait, WaitKind::Accept | WaitKind::Poll))
        };
        // A module's top level is under everything its thread does: it knows what it stands at only.
        let knows = |tid: &u32| {
            let mut own = self.frames.of(self.main_stack(*tid, from, to)).enumerate();
            own.any(|(i, f)| Some(f.file) == file && (i == 0 || f.function != "<module>"))
        };
        let releases = |tid: &u32| {
            let stack = self.main_stack(*tid, from, to);
            self.frames.any(stack, |f| f.releases)
        };
        let preferences: [&dyn Fn(&u32) -> bool; 3] = [&busy, &knows, &releases];
        for prefer in preferences {
            if able.len() > 1 && able.iter().any(prefer) {
                able.retain(prefer);
            }
        }
        // Who shares no code with the waiter and releases nothing happened to run: no name is better
        // than a wrong one.
        able.retain(|tid| knows(tid) || releases(tid));
        // Of several, the one that ran last: the wake-up is the last thing before the waiter ran.
        let ran_until = |tid: u32| {
            let begin = to.saturating_sub(just_before_ns);
            let before = timeline::of_thread(self.capture, tid, begin, to);
            let run = before.iter().filter(|s| s.state == State::Run);
            run.map(|s| s.to_ns).max().unwrap_or(0)
        };
        let mut latest: Vec<(u64, u32)> = able.iter().map(|tid| (ran_until(*tid), *tid)).collect();
        latest.sort_unstable();
        match latest.as_slice() {
            [.., (second, _), (first, tid)] if first > second => Some(*tid),
            [(_, only)] => Some(*only),
            // Several of one kind at one place: it does not matter which of them it was.
            [.., (_, any)] if self.stand_together(&able, from, to) => Some(*any),
            _ => None,
        }
    }

    /// A thread that was seen during the wait `segment` is a piece of, in the code of the file that
    /// waits, and never behind it: for waits for a thread's end. None when several fit that stood at
    /// different places.
    pub fn ended_at(&self, segment: &Segment<'_>) -> Option<u32> {
        let lock = segment.sample.map(|s| s.target)?;
        let (from, to) = self.whole_wait(segment, lock);
        let file = self.frames.innermost(segment.stack())?.file;
        let ended = |tid: &u32, samples: &[Sample]| {
            let last = samples.last().map_or(0, |s| s.t_ns);
            let inside = *tid != segment.tid && (from..to).contains(&last);
            inside && self.frames.any(self.main_stack(*tid, from, to), |f| f.file == file)
        };
        let all = self.capture.samples.iter().filter(|(tid, samples)| ended(tid, samples));
        let mut able: Vec<u32> = all.map(|(tid, _)| *tid).collect();
        able.sort_unstable();
        let one = able.len() == 1 || self.stand_together(&able, from, to);
        able.last().copied().filter(|_| one)
    }

    /// Whether these threads spent most of `[from, to)` in the same function.
    fn stand_together(&self, tids: &[u32], from_ns: u64, to_ns: u64) -> bool {
        let place = |tid: &u32| {
            let place = self.frames.innermost(self.main_stack(*tid, from_ns, to_ns))?;
            Some((place.qualified, place.file))
        };
        let mut places = tids.iter().map(place);
        let first = places.next().flatten();
        first.is_some() && places.all(|place| place == first)
    }

    /// Begin and end of the wait that `segment` is a piece of (pieces end between samples).
    fn whole_wait(&self, segment: &Segment<'_>, lock: u64) -> (u64, u64) {
        let off = self.capture.off_cpu.get(&segment.tid).map_or(&[][..], Vec::as_slice);
        let around = off[..off.partition_point(|o| o.out_ns <= segment.from_ns)].last();
        if let Some(around) = around.filter(|o| segment.exact && o.in_ns >= segment.to_ns) {
            return (around.out_ns, around.in_ns);
        }
        // Without switch records: as long as samples see the same wait.
        let later = self.samples_in(segment.tid, segment.from_ns, u64::MAX).iter();
        let same = |s: &&Sample| s.wait == WaitKind::Futex && s.target == lock;
        let end = later.clone().find(|s| !same(s)).or(later.last()).map(|s| s.t_ns);
        (segment.from_ns, end.unwrap_or(segment.to_ns).max(segment.to_ns))
    }

    /// Whether `tid` was on a CPU at some time in `[from, to)`, by switch records or samples.
    pub fn ran_in(&self, tid: u32, from_ns: u64, to_ns: u64) -> bool {
        let timeline = timeline::of_thread(self.capture, tid, from_ns, to_ns);
        timeline.iter().any(|s| s.state == State::Run)
    }

    /// The thread that ran longest in `[from, to)`, besides `not`.
    pub fn busiest(&self, not: u32, from_ns: u64, to_ns: u64) -> Option<u32> {
        let run_ns = |tid: u32| -> u64 {
            let timeline = timeline::of_thread(self.capture, tid, from_ns, to_ns);
            timeline.iter().filter(|s| s.state == State::Run).map(Segment::ns).sum()
        };
        let others = self.capture.samples.keys().filter(|tid| **tid != not);
        let (tid, ns) = others.map(|tid| (*tid, run_ns(*tid))).max_by_key(|(_, ns)| *ns)?;
        (ns * 2 > to_ns - from_ns).then_some(tid)
    }
}

fn most_common(tids: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: Vec<(u32, usize)> = Vec::new();
    for tid in tids {
        match counts.iter_mut().find(|(t, _)| *t == tid) {
            Some((_, count)) => *count += 1,
            None => counts.push((tid, 1)),
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(tid, _)| tid)
}

/// The recorder writes three vitals at each late beat, at the same instant.
fn gaps(capture: &Capture) -> Vec<Gap> {
    let value = |name: &str, t_ns: u64| {
        let row = |v: &&capture::read::VitalRow| v.t_ns == t_ns && capture.name(v.name) == name;
        capture.vitals.iter().find(row).map_or(0, |v| v.value as u64)
    };
    let beats = capture.vitals.iter().filter(|v| capture.name(v.name) == "recorder_gap_ns");
    beats
        .map(|v| Gap {
            from_ns: v.t_ns.saturating_sub(v.value as u64),
            to_ns: v.t_ns,
            run_delay_ns: value("recorder_gap_run_delay_ns", v.t_ns),
            throttled_ns: value("recorder_gap_throttled_ns", v.t_ns),
        })
        .collect()
}
