//! The holder of the GIL during a wait for it, and whether that thread had a CPU.
//!
//! How it works: a wait for the GIL is many waits of 5 ms each, and in the kernel's records each is
//! a time off the CPU of its own. The holder that a sample of any waiting thread read from the
//! interpreter is true for all that wait at that instant. So the readings of all threads together
//! show which thread held it when, each for the time up to the next. The *whole wait* around an
//! interval is judged first: a thread that held the GIL for most of it is the holder for every part
//! of it. Where several took turns, an interval has the holder of its own time.
//!
//! ```text
//!   waiter:    | 5 ms | 5 ms | 5 ms | 5 ms |        one whole wait
//!   readings:    A      A        B    A    A        A: 80 % of it
//! ```
//!
//! What it promises: candidates are compared by the time that readings give them, never by the
//! longest interval. Without a reading, the only other thread that ran Python code is taken, as an
//! inference.

use std::collections::{BTreeMap, HashMap};

use analysis::timeline::{Segment, State};
use analysis::{cost, thresholds};
use format::wait::WaitKind;

use crate::candidate::{self, Candidate, Source};
use crate::claim::{Blocker, Link};
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Fate, Inference, Threshold};
use crate::facts::long_work;
use crate::memo::{Readings, WholeGilWait};

impl Readings {
    /// Of a capture. Cost: all its samples, once.
    fn of(cx: &Context<'_>) -> Readings {
        let samples = cx.capture.samples.values().flatten();
        let read = samples.filter(|s| s.wait == WaitKind::Gil && s.gil_holder != 0);
        let mut all: Vec<(u64, u32)> = read.map(|s| (s.t_ns, s.gil_holder)).collect();
        all.sort_unstable();
        Readings(all)
    }

    /// The holders of the GIL in `[from, to)`, besides `not`: begin, end, and holder of each time
    /// that a reading covers.
    fn held(&self, (from, to): (u64, u64), not: u32) -> Vec<(u64, u64, u32)> {
        let first =
            self.0.partition_point(|(t, _)| *t < from.saturating_sub(thresholds::sampled_ns()));
        let until = self.0.partition_point(|(t, _)| *t < to);
        let all = &self.0[first..];
        let own = (0..until.saturating_sub(first)).filter_map(|i| {
            let (at, holder) = all[i];
            let next = all.get(i + 1).map_or(u64::MAX, |(t, _)| *t);
            let (begin, end) =
                (at.max(from), next.min(at.saturating_add(thresholds::sampled_ns())).min(to));
            (begin < end && holder != not).then_some((begin, end, holder))
        });
        own.collect()
    }
}

/// An inference about a wait for the GIL.
type Ask = for<'c> fn(&Context<'c>, &Segment<'c>) -> Option<Candidate>;

/// Which thread has the GIL.
const OF_GIL: &[Source<Ask>] =
    &[(Inference::GilHolder, by_readings), (Inference::OnlyPython, by_code)];

/// The holder of the GIL while `segment` waited for it.
pub fn holder<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> Option<Blocker> {
    candidate::best(cx, (segment, OF_GIL), |ask| ask(cx, segment), |_| true)
}

/// Of the whole wait, if one thread held it for most of that; else of this part; else what the
/// sample read that a part between two readings was taken from.
fn by_readings<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> Option<Candidate> {
    let whole = whole_wait(cx, segment);
    let times = segment.times();
    let all = (whole.from_ns, whole.to_ns);
    let found = match whole.holder {
        Some(_) => holder_in(cx, segment.tid, all),
        None => holder_in(cx, segment.tid, times),
    };
    let found = found.or_else(|| holder_near(cx, segment));
    found.map(Candidate::of)
}

/// The thread that ran Python code for most of it.
fn by_code<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> Option<Candidate> {
    let (from, to) = segment.times();
    let tid = busiest(cx, segment.tid, from, to)?;
    let by = Inference::OnlyPython;
    let found = Blocker::thread(tid, cx.main_stack(tid, from, to), false, by);
    compare::keep_one(cx, Question::about(by, segment), &found, Fate::Won);
    Some(Candidate::of(found))
}

/// The thread that held the GIL longest in `[from, to)` while `waiter` waited for it, by the
/// readings.
pub(crate) fn holder_in(cx: &Context<'_>, waiter: u32, (from, to): (u64, u64)) -> Option<Blocker> {
    let tally = tally(cx, waiter, (from, to));
    let (tid, _) = *tally.iter().max_by_key(|(tid, ns)| (*ns, *tid))?;
    let by = Inference::GilHolder;
    let question = Question { by, waiter, from_ns: from, to_ns: to };
    let apart = Threshold::ns("gil-holder-read.reading-holds-for", thresholds::sampled_ns());
    let won = (Some(tid), Dropped::LessEvidence);
    compare::keep_tally(cx, question, (&tally, Fact::Time), won, &[apart]);
    Some(Blocker::thread(tid, cx.main_stack(tid, from, to), true, by))
}

/// How long each thread held the GIL.
fn tally(cx: &Context<'_>, waiter: u32, times: (u64, u64)) -> Vec<(u32, u64)> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (begin, end, holder) in readings(cx).held(times, waiter) {
        *sums.entry(holder).or_default() += end - begin;
    }
    sums.into_iter().collect()
}

/// The holder that the sample of this interval, or the one it was carried over from, read.
fn holder_near(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let (from, to) = segment.times();
    let read = segment.sample.filter(|s| s.wait == WaitKind::Gil);
    let tid = read.map(|s| s.gil_holder).filter(|tid| *tid != 0 && *tid != segment.tid)?;
    let by = Inference::GilHolder;
    let found = Blocker::thread(tid, cx.main_stack(tid, from, to), true, by);
    compare::keep_one(cx, Question::about(by, segment), &found, Fate::Won);
    Some(found)
}

/// Whether, for most of the whole wait around `segment`, the holder of the GIL was runnable
/// without a CPU; and not because its work is long by itself.
pub(crate) fn holder_starves<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> bool {
    whole_wait(cx, segment).starved
}

/// The same of any time in which a thread waited for the GIL. Cost: a timeline of each holder.
pub(crate) fn is_starved(cx: &Context<'_>, wait: &Segment<'_>) -> bool {
    let times = wait.times();
    let mut by_holder: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for (begin, end, holder) in readings(cx).held(times, wait.tid) {
        by_holder.entry(holder).or_default().push((begin, end));
    }
    let read_ns: u64 = by_holder.values().flatten().map(|(begin, end)| end - begin).sum();
    // Long work keeps the GIL too long on a free machine as well.
    let short = by_holder.iter().filter(|(tid, _)| !long_work::works_long(cx, **tid, wait));
    let ready_ns: u64 = short.map(|(tid, held)| ready_ns(cx, *tid, held, times)).sum();
    ready_ns * 2 > read_ns
}

/// How long `tid` was runnable without a CPU in these parts of a time, which are in order.
fn ready_ns(cx: &Context<'_>, tid: u32, parts: &[(u64, u64)], (from, to): (u64, u64)) -> u64 {
    let own = cx.timeline(tid, from, to);
    let ready = own.iter().filter(|s| s.state == State::Ready).map(|s| {
        let first = parts.partition_point(|(_, end)| *end <= s.from_ns);
        let within = parts[first..].iter().take_while(|(begin, _)| *begin < s.to_ns);
        let overlap = |(begin, end): &(u64, u64)| end.min(&s.to_ns) - begin.max(&s.from_ns);
        within.map(overlap).sum::<u64>()
    });
    ready.sum()
}

fn readings<'s>(cx: &'s Context<'_>) -> &'s Readings {
    cx.gil_readings.get_or_init(|| Readings::of(cx))
}

/// The whole wait for the GIL around a part of it. Cost: a timeline of twice its length and
/// those of its holders, unless it is the one asked for last of its thread.
fn whole_wait<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> WholeGilWait {
    let (tid, from, to) = (segment.tid, segment.from_ns, segment.to_ns);
    let known = cx.gil_waits.borrow().0.get(&tid).copied();
    if let Some(known) = known.filter(|w| w.from_ns <= from && to <= w.to_ns) {
        return known;
    }
    let (from_ns, to_ns) = wait_around(cx, segment);
    let tally = tally(cx, tid, (from_ns, to_ns));
    let all_ns: u64 = tally.iter().map(|(_, ns)| ns).sum();
    let most = tally.into_iter().max_by_key(|(tid, ns)| (*ns, *tid));
    let holder = most.filter(|(_, ns)| ns * 2 > all_ns).map(|(tid, _)| tid);
    let starved = is_starved(cx, &Segment { from_ns, to_ns, ..*segment });
    let found = WholeGilWait { from_ns, to_ns, holder, starved };
    cx.gil_waits.borrow_mut().0.insert(tid, found);
    found
}

/// Begin and end of the whole wait: its parts follow each other, with hardly any running in
/// between, or time without a CPU.
fn wait_around<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> (u64, u64) {
    let (from, to) = segment.times();
    let passes = |s: &&Segment<'_>| match s.state {
        State::Wait => s.wait() == WaitKind::Gil,
        State::Ready => true,
        State::Run => s.ns() < thresholds::asking_ns(),
        State::Unknown => false,
    };
    let mut span_ns = cost::GIL_WAIT.ns();
    loop {
        let (begin, end) = (from.saturating_sub(span_ns), to.saturating_add(span_ns));
        let all = cx.timeline(segment.tid, begin, end);
        let before = all.iter().rev().skip_while(|s| s.from_ns >= from);
        let first = before.take_while(passes).last().map_or(from, |s| s.from_ns.min(from));
        let behind = all.iter().skip_while(|s| s.to_ns <= to);
        let last = behind.take_while(passes).last().map_or(to, |s| s.to_ns.max(to));
        // One that reaches an edge may go on behind it.
        let whole = first > begin && last < end;
        if whole || span_ns >= thresholds::one_activity_ns() {
            return (first, last);
        }
        span_ns *= 4;
    }
}

/// The thread with Python code that ran longest in `[from, to)`, besides `not`.
pub fn busiest(cx: &Context<'_>, not: u32, from_ns: u64, to_ns: u64) -> Option<u32> {
    // A thread that was never in Python code (the recorder's threads, a library's own) has no
    // GIL.
    let python = |tid: u32| {
        let samples = cx.samples_in(
            tid,
            from_ns.saturating_sub(thresholds::sample_near_ns()),
            to_ns + thresholds::sample_near_ns(),
        );
        samples.iter().any(|s| cx.frames.of(s.stack).any(|f| !f.native))
    };
    let others = cx.others(not).filter(|tid| python(*tid));
    let (ns, tid) = others.map(|tid| (cx.ran_ns(tid, (from_ns, to_ns)), tid)).max()?;
    (ns * 2 > to_ns - from_ns).then_some(tid)
}

/// The holder of the GIL while the thread of this timeline waited for it most of the time of
/// `segment`; none where several took turns.
pub(crate) fn holder_over(
    cx: &Context<'_>,
    own: &[Segment<'_>],
    segment: &Segment<'_>,
) -> Option<Blocker> {
    let waits = |s: &&Segment<'_>| s.state == State::Wait && s.wait() == WaitKind::Gil;
    let all = own.iter().filter(waits).map(Segment::ns).sum::<u64>();
    if all * 2 <= segment.ns() {
        return None;
    }
    let mut had: HashMap<u32, u64> = HashMap::new();
    for wait in own.iter().filter(waits) {
        let holder = holder(cx, wait).filter(|holder| holder.measured);
        *had.entry(holder.map_or(0, |holder| holder.tid)).or_default() += wait.ns();
    }
    let (tid, ns) = had.into_iter().max_by_key(|(tid, ns)| (*ns, *tid))?;
    let stack = cx.main_stack(tid, segment.from_ns, segment.to_ns);
    let by = Inference::GilHolder;
    let found = Blocker { link: Link::Gil, ..Blocker::thread(tid, stack, true, by) };
    (tid != 0 && ns * 2 > all).then_some(found)
}
