//! The thread that was inside one function during the waits and hardly at any other time.
//!
//! How it works: a lock without an owner field (SQLite's, one inside C code, a guard of Rust's, a
//! row of a database) is held by the thread that is inside the code which took it. So each function
//! of the program's own that another thread was seen in is compared with the waits of a group: the
//! part of all waits that the thread was in it, and the part of the time in which nobody waited. A
//! function that was left and entered with the waits, and no other function of another thread
//! nearly as well, is where the holder was.
//!
//! ```text
//!   waits:            |------|            |------|        W
//!   job > ask:       |--------|          |-------|        in 100 % of W, 5 % of the rest: odds 20
//!   serve > poll:  ------------------------------------   in 100 % of both: odds 1
//! ```
//!
//! Where the holder of a lock is a request, any worker may be in the function: then it is compared
//! over all threads. A thread that is in one function always, a loop which takes the lock and
//! pauses, is compared by the line of the program's own that it was at, where no function fits.
//!
//! What it promises: asked only where nothing else names a holder; what rests on it is *possible*,
//! with both parts beside. A thread that waits for a lock itself is nobody's holder here, nor is a
//! function that led to the wait. Cost: one walk over all samples of the capture, and over
//! the frames of each stack of a thread.

use std::collections::{BTreeMap, BTreeSet};

use analysis::frames::Owner;
use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment, State};
use capture::read::{Frame, QuickMap};
use format::record::Sample;
use format::wait::WaitKind;

use crate::candidate::OverWaits;
use crate::cause::Cause;
use crate::claim::{Blocker, Weighed};
use crate::context::Context;
use crate::ended_by::one_wait::left_place;
use crate::explain::Inference;
use crate::facts::{threads, waiting};

/// A function of the program's own, and its file.
type Function<'c> = (&'c str, &'c str);

/// How well a function fits the waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    /// The part of the waits that the thread was in it.
    pub(crate) during: f64,
    /// The part of all other time.
    pub(crate) otherwise: f64,
}

impl Odds {
    fn ratio(self) -> f64 {
        self.during / self.otherwise.max(thresholds::exits_chance())
    }
}

/// The thread that most likely had what a group of waits was for, or the threads that had it in
/// turn.
pub(crate) fn holder(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<OverWaits> {
    let Found { tids, function, odds } = find(cx, slices)?;
    let by = Inference::InsideDuring;
    let blocker = |w: &Weighed<'_>| {
        if !is_asked(cx, w) {
            return w.slice.claim.blocker;
        }
        let Segment { from_ns, to_ns, tid: own, .. } = w.slice.segment;
        let at = |tid: u32| (tid, cx.main_stack(tid, from_ns, to_ns));
        let inside = |stack: u32| functions(cx, stack).contains(&function);
        let mut there = tids.iter().filter(|tid| **tid != own).map(|tid| at(*tid));
        let found = match tids.as_slice() {
            [one] => Some(at(*one)).filter(|(_, stack)| *stack != 0),
            _ => there.find(|(_, stack)| inside(*stack)),
        };
        found.map(|(tid, stack)| Blocker::thread(tid, stack, false, by))
    };
    let blockers = slices.iter().map(blocker).collect();
    Some(OverWaits::weighing(by, odds.ratio() * thresholds::half(), blockers))
}

/// The function that fits the waits, and the thread or threads that were in it.
pub(crate) struct Found<'c> {
    tids: Vec<u32>,
    function: Function<'c>,
    odds: Odds,
}

/// The thread, and how well the function that it was in fits the waits. Where no thread fits, the
/// function that several were in, each during other waits: the holder is a request, which any
/// worker may serve.
pub(crate) fn find<'c>(cx: &Context<'c>, slices: &[Weighed<'_>]) -> Option<Found<'c>> {
    let waits = Waits::of(cx, slices);
    if waits.all_ns == 0 {
        return None;
    }
    let led: BTreeSet<Function<'_>> =
        slices.iter().flat_map(|w| functions(cx, w.slice.claim.stack)).collect();
    let sums: Vec<(u32, Sums<'c>)> =
        cx.threads.iter().map(|tid| (*tid, sums_of(cx, *tid, &waits, &led))).collect();
    let able = |f: &Function<'_>, odds: Odds| {
        odds.during >= thresholds::main_part()
            && odds.ratio() >= thresholds::exits_lead()
            && !led.contains(f)
    };
    let best = |(tid, own): &(u32, Sums<'c>)| {
        let odds = own.odds(&own.in_functions, waits.all_ns).into_iter();
        let able = odds.filter(|(f, odds)| able(f, *odds));
        let (function, odds) = able.max_by(|a, b| a.1.ratio().total_cmp(&b.1.ratio()))?;
        Some(Found { tids: vec![*tid], function, odds })
    };
    let one = clearest(sums.iter().filter_map(best).collect());
    // Several items of a pool are out at once, and its users do what they do in turn anyway.
    let of_lock = || slices.iter().all(|w| w.slice.claim.cause == Cause::LockWait);
    if one.is_some() || !of_lock() {
        return one;
    }
    let all = Sums::together(&sums);
    // What waiters call elsewhere they may do before they take it: `past_acquire_line` knows.
    let apart = |f: &Function<'_>| !all.with_led.contains(f);
    let odds = all.odds(&all.in_functions, waits.all_ns).into_iter();
    let fit = odds.filter(|(f, odds)| able(f, *odds) && apart(f));
    let in_turn = fit.map(|(function, odds)| {
        let was_in = |(tid, own): &(u32, Sums<'c>)| {
            own.in_functions.get(&function).is_some_and(|sum| sum.0 > 0).then_some(*tid)
        };
        Found { tids: sums.iter().filter_map(was_in).collect(), function, odds }
    });
    clearest(in_turn.collect()).or_else(|| {
        let best = |(tid, own): &(u32, Sums<'c>)| {
            let odds = own.odds(&own.at_lines, waits.all_ns).into_iter();
            let able = odds.filter(|((f, _), odds)| able(f, *odds));
            let ((function, _), odds) = able.max_by(|a, b| a.1.ratio().total_cmp(&b.1.ratio()))?;
            Some(Found { tids: vec![*tid], function, odds })
        };
        clearest(sums.iter().filter_map(best).collect())
    })
}

/// The best, if no thread in another function fits nearly as well. Of a function and what it was
/// called by or calls, which fit alike, the one with the better odds.
fn clearest(mut found: Vec<Found<'_>>) -> Option<Found<'_>> {
    let order = |a: &Found<'_>, b: &Found<'_>| {
        let by_odds = b.odds.ratio().total_cmp(&a.odds.ratio());
        by_odds.then_with(|| (&a.tids, a.function).cmp(&(&b.tids, b.function)))
    };
    found.sort_by(order);
    let first = found.first()?;
    let next = found.iter().skip(1).find(|f| f.function != first.function && f.tids != first.tids);
    let clear = next.is_none_or(|n| first.odds.ratio() * thresholds::half() >= n.odds.ratio());
    clear.then(|| found.swap_remove(0))
}

/// Whether a wait may have a holder in this process.
fn is_asked(cx: &Context<'_>, w: &Weighed<'_>) -> bool {
    let (segment, resource) = (&w.slice.segment, w.slice.claim.resource.as_ref());
    let elsewhere = match resource {
        Some(Resource::FileLock { .. } | Resource::ThreadEnd) => true,
        resource => resource.is_some_and(Resource::is_of_nobody_here),
    };
    segment.state == State::Wait && !elsewhere && !waiting::timed_out(cx, segment)
}

/// How many threads waited when: intervals in order, each with their number, and the sum of all
/// waits.
struct Waits {
    times: Vec<(u64, u64, u64)>,
    all_ns: u64,
}

impl Waits {
    /// Of a group.
    fn of(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Waits {
        // A wait that asks again and again is many slices, and so is one that many samples saw.
        let times = |w: &Weighed<'_>| {
            let segment = &w.slice.segment;
            let asking = left_place::end_of_asking(cx, segment).map(|a| (a.from, a.end.0));
            // By estimates, what lies between two samples need not be one wait.
            let one = segment.exact && segment.wait() != WaitKind::Sleep;
            let own = || match one {
                true => cx.whole_wait(segment).times(),
                false => segment.times(),
            };
            let (from, to) = asking.unwrap_or_else(own);
            (from, to, segment.tid)
        };
        let asked = slices.iter().filter(|w| is_asked(cx, w));
        let all: BTreeSet<(u64, u64, u64)> = asked
            .map(times)
            .filter(|(from, to, _)| from.saturating_add(thresholds::sampled_ns()) <= *to)
            .map(|(from, to, tid)| (from, to, tid.into()))
            .collect();
        Waits::of_times(&all.into_iter().map(|(from, to, _)| (from, to)).collect::<Vec<_>>())
    }

    fn of_times(all: &[(u64, u64)]) -> Waits {
        let mut turns: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (from, to) in all {
            turns.entry(*from).or_default().0 += 1;
            turns.entry(*to).or_default().1 += 1;
        }
        let mut times = Vec::new();
        let (mut since, mut waiters) = (0, 0);
        for (at, (begun, ended)) in turns {
            if waiters > 0 {
                times.push((since, at, waiters));
            }
            (since, waiters) = (at, waiters + begun - ended);
        }
        Waits { times, all_ns: all.iter().map(|(from, to)| to - from).sum() }
    }

    /// How much of `[from, to)` threads waited, all together, and how long nobody did.
    fn during(&self, (from, to): (u64, u64)) -> (u64, u64) {
        let first = self.times.partition_point(|(_, end, _)| *end <= from);
        let near = self.times[first..].iter().take_while(|(begin, _, _)| *begin < to);
        let mut sums = (0, to.saturating_sub(from));
        for (begin, end, waiters) in near {
            let both = overlap_ns((from, to), (*begin, *end));
            sums = (sums.0 + both * waiters, sums.1.saturating_sub(both));
        }
        sums
    }
}

/// The functions of the program's own on a stack.
fn functions<'c>(cx: &Context<'c>, stack: u32) -> Vec<Function<'c>> {
    let own = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User;
    let own = cx.frames.above_launchers(stack).filter(own);
    own.filter(|f| !f.is_module_body()).map(|f| (f.function, f.file)).collect()
}

/// The innermost function of the program's own, and the line that it was at.
fn innermost_line<'c>(cx: &Context<'c>, stack: u32) -> Option<(Function<'c>, u32)> {
    let own = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User && !f.is_module_body();
    let inner = cx.frames.above_launchers(stack).find(own)?;
    Some(((inner.function, inner.file), inner.line))
}

/// The time in each function, in and outside of the waits, of one thread or of several.
#[derive(Default)]
struct Sums<'c> {
    in_functions: BTreeMap<Function<'c>, (u64, u64)>,
    /// The same at each line of the innermost one.
    at_lines: BTreeMap<(Function<'c>, u32), (u64, u64)>,
    /// Functions that were seen on one stack with one that led to the waits.
    with_led: BTreeSet<Function<'c>>,
    all_in: u64,
    all_out: u64,
}

impl<'c> Sums<'c> {
    /// Of several threads, in the time of the one that was seen longest.
    fn together(all: &[(u32, Sums<'c>)]) -> Sums<'c> {
        let mut out = Sums::default();
        for (_, own) in all {
            out.with_led.extend(&own.with_led);
            for (function, (inside, outside)) in &own.in_functions {
                let sum = out.in_functions.entry(*function).or_default();
                (sum.0, sum.1) = (sum.0 + inside, sum.1 + outside);
            }
            if own.all_out > out.all_out {
                (out.all_in, out.all_out) = (own.all_in, own.all_out);
            }
        }
        out
    }

    /// How well each function, or line, fits the waits. There must be as much other time to compare
    /// with.
    fn odds<K: Copy + Ord>(
        &self,
        sums: &BTreeMap<K, (u64, u64)>,
        waits_ns: u64,
    ) -> BTreeMap<K, Odds> {
        if self.all_out <= self.all_in {
            return BTreeMap::new();
        }
        let odds = |(inside, outside): &(u64, u64)| Odds {
            during: *inside as f64 / waits_ns as f64,
            otherwise: *outside as f64 / self.all_out as f64,
        };
        sums.iter().map(|(place, sum)| (*place, odds(sum))).collect()
    }
}

/// What a thread was seen in, in and outside of the waits.
fn sums_of<'c>(
    cx: &Context<'c>,
    tid: u32,
    waits: &Waits,
    led: &BTreeSet<Function<'_>>,
) -> Sums<'c> {
    let mut by_stack: QuickMap<u32, (u64, u64)> = QuickMap::default();
    let mut sums = Sums::default();
    let samples = cx.all_samples(tid);
    for (i, sample) in samples.iter().enumerate() {
        let next_ns = samples.get(i + 1).map_or(u64::MAX, |s| s.t_ns);
        let off_ns = threads::off_cpu_until(cx, tid, sample.t_ns).unwrap_or(0);
        let to_ns = sample.t_ns.saturating_add(thresholds::samples_apart_ns()).max(off_ns);
        let to_ns = to_ns.min(next_ns).min(cx.capture.meta.to_ns).max(sample.t_ns);
        let (inside, outside) = waits.during((sample.t_ns, to_ns));
        sums.all_in += (to_ns - sample.t_ns) - outside;
        sums.all_out += outside;
        if waits_itself(cx, sample) {
            continue;
        }
        let sum = by_stack.entry(sample.stack).or_default();
        (sum.0, sum.1) = (sum.0 + inside, sum.1 + outside);
    }
    for (stack, (inside, outside)) in by_stack {
        if let Some(line) = innermost_line(cx, stack) {
            let sum = sums.at_lines.entry(line).or_default();
            (sum.0, sum.1) = (sum.0 + inside, sum.1 + outside);
        }
        let each: BTreeSet<Function<'c>> = functions(cx, stack).into_iter().collect();
        if each.iter().any(|f| led.contains(f)) {
            sums.with_led.extend(&each);
        }
        for function in each {
            let sum = sums.in_functions.entry(function).or_default();
            (sum.0, sum.1) = (sum.0 + inside, sum.1 + outside);
        }
    }
    sums
}

/// Whether a sample found its thread waiting for a lock: it is released by others.
fn waits_itself(cx: &Context<'_>, sample: &Sample) -> bool {
    let asks = sample.wait == WaitKind::Sleep && cx.frames.asks_for_a_lock(sample.stack);
    asks || matches!(sample.wait, WaitKind::Futex | WaitKind::FileLock | WaitKind::Gil)
}

/// What a finding whose culprit rests on this says beside it: both parts, in percent.
pub fn evidence(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<[(&'static str, f64); 2]> {
    let guessed =
        |w: &Weighed<'_>| w.slice.claim.blocker.is_some_and(|c| c.by == Inference::InsideDuring);
    let Found { odds, .. } = find(cx, slices).filter(|_| slices.iter().any(guessed))?;
    let percent = |part: f64| (100.0 * part.min(1.0)).round();
    Some([
        ("part of these waits during which that thread was there", percent(odds.during)),
        ("part of all other time that it was there", percent(odds.otherwise)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_two_that_wait_counts() {
        let waits = Waits::of_times(&[(10, 20), (15, 30), (50, 60)]);
        assert_eq!(waits.all_ns, 35);
        assert_eq!(waits.during((0, 100)), (35, 70));
        assert_eq!(waits.during((12, 18)), (9, 0));
        assert_eq!(waits.during((30, 50)), (0, 20));
    }

    #[test]
    fn odds_have_a_floor() {
        assert_eq!(Odds { during: 1.0, otherwise: 0.0 }.ratio(), 100.0);
    }
}
