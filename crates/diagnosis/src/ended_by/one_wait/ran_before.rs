//! The thread that ran just before the waiter came back.
//!
//! How it works: switch records say which threads ran, not which thread woke which; so these are
//! inferences, and what rests on them is *likely* at most. A thread that shares no code with the
//! waiter and releases nothing is not named at all. Where all that may have ended the wait run so
//! often that each was there by chance, the caller says which of them left a function then.
//!
//! Missing on purpose: the kernel's record of the wakeup (`wakeup_record`); it is asked first.

use analysis::signatures::{Pattern, Stdlib};
use analysis::timeline::{overlap_ns, Segment, State};
use analysis::{cost, thresholds};
use format::record::Sample;
use format::wait::WaitKind;

use crate::candidate::Asked;
use crate::compare::{Contest, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::facts::{pools, threads, waiting};
use crate::memo::WaitEnd;

/// Which thread left a function when the wait ended, as far as that is asked.
pub(crate) type LeftPlace<'a> = &'a dyn Fn() -> Option<u32>;

fn end_of_wait(from_ns: u64, to_ns: u64) -> WaitEnd {
    match to_ns.saturating_sub(from_ns) < thresholds::turn_ns() {
        true => WaitEnd::In(to_ns / cost::SHORT_WAITS.ns()),
        false => WaitEnd::At(to_ns),
    }
}

/// The thread that most likely ended the wait: it ran just before the waiter came back, was
/// seen during the wait, and was not at the same place for the same lock itself. None when
/// several fit equally.
pub(crate) fn releaser(
    cx: &Context<'_>,
    Asked { segment, is_chained }: &Asked<'_>,
    left_place: LeftPlace<'_>,
) -> Option<u32> {
    if waiting::is_still_waiting(cx, segment) {
        return None;
    }
    let lock = segment.sample?.target;
    let (from, to) = cx.whole_wait(segment).times();
    let infer =
        || ran_before(cx, segment, (from, first_released(cx, segment, from, to)), left_place);
    // Between samples a wait is many segments, and each is asked about. A chained question has
    // less of an answer.
    let traced = cx.trace.wants(segment.from_ns, segment.to_ns);
    if *is_chained || !segment.exact || traced {
        return infer();
    }
    let key = (segment.tid, end_of_wait(from, to), lock, segment.stack());
    let known = cx.releasers.borrow().get(&key).copied();
    known.unwrap_or_else(|| {
        let found = infer();
        cx.releasers.borrow_mut().insert(key, found);
        found
    })
}

/// As `releaser`, where each waiter is woken by another thread: for an Event or a thread's end.
pub fn waker(cx: &Context<'_>, segment: &Segment<'_>, left_place: LeftPlace<'_>) -> Option<u32> {
    if waiting::is_still_waiting(cx, segment) {
        return None;
    }
    let (from, to) = cx.whole_wait(segment).times();
    ran_before(cx, segment, (from, to), left_place)
}

/// When `tid` was done with a request that it worked for during most of a wait, if that was within
/// `window_ns` of the wait's end: it ran then, and it is known when without switch records, too.
fn done_with(cx: &Context<'_>, tid: u32, (from, to): (u64, u64), window_ns: u64) -> Option<u64> {
    // One that waited for a lock itself went on because the same thread let go.
    let seen = cx.samples_in(tid, from, to);
    let waits = |s: &&Sample| matches!(s.wait, WaitKind::Futex | WaitKind::FileLock);
    if seen.iter().filter(waits).count() * 2 > seen.len() {
        return None;
    }
    let served = cx.served().get(&tid)?;
    let first = served.partition_point(|(begin, _)| *begin < from).saturating_sub(1);
    let near = served[first..].iter().take_while(|(begin, _)| *begin <= from.midpoint(to));
    let ends = near.map(|(_, end)| *end);
    ends.into_iter().find(|end| {
        (to.saturating_sub(window_ns)..=to.saturating_add(thresholds::just_before_ns()))
            .contains(end)
    })
}

/// The thread that ran just before `to`; if none did that may have ended the wait, the thread
/// that ran just before the waiter was woken and was without a CPU until then.
fn ran_before(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    (from, to): (u64, u64),
    left_place: LeftPlace<'_>,
) -> Option<u32> {
    let just_before_ns = match segment.exact {
        true => thresholds::just_before_ns(),
        false => thresholds::just_before_sampled_ns(),
    };
    let found = ran_shortly_before(cx, segment, (from, to), just_before_ns, left_place);
    found.or_else(|| {
        let late_ns = ready_before(cx, segment.tid, to).min((to - from) / 2);
        let before = (from, to - late_ns);
        (late_ns > 0)
            .then(|| ran_shortly_before(cx, segment, before, just_before_ns, left_place))?
    })
}

/// How long `tid` may have been runnable without a CPU before it got one at `t_ns`: the kernel
/// adds that up, and the next sample has it. A switch record only says when it ran again.
fn ready_before(cx: &Context<'_>, tid: u32, t_ns: u64) -> u64 {
    threads::ready_at_most(cx, tid, t_ns).unwrap_or(0)
}

fn ran_shortly_before(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    (from, to): (u64, u64),
    just_before_ns: u64,
    left_place: LeftPlace<'_>,
) -> Option<u32> {
    let mut contest = ran_then(cx, segment, (from, to), just_before_ns)?;
    keep_related(cx, segment, (from, to), &mut contest);
    let done = |tid: u32| match segment.exact {
        true => None,
        false => done_with(cx, tid, (from, to), just_before_ns),
    };
    // By estimates others hardly show when they ran.
    contest.prefer(Dropped::RanEarlier, |tid| done(tid).is_some());
    // A thread that runs all the time ran just before as well, by chance.
    let quiet = |tid: u32| !is_always_about(cx, tid, (from, to), just_before_ns);
    let any_quiet = contest.able.iter().any(|tid| quiet(*tid));
    // Of several, the thread that ran last: the wake-up is the last thing before the waiter
    // ran.
    let ran_until = |tid: u32| {
        let begin = to.saturating_sub(just_before_ns);
        let before = cx.timeline(tid, begin, to);
        let run = before.iter().filter(|s| s.state == State::Run);
        run.map(|s| s.to_ns).chain(done(tid)).max().unwrap_or(0)
    };
    let mut lost = Dropped::RanEarlier;
    let won = if any_quiet || contest.able.is_empty() {
        contest.prefer(Dropped::AlwaysAbout, quiet);
        let able = contest.able.iter();
        let mut latest: Vec<(u64, u32)> = able.map(|tid| (ran_until(*tid), *tid)).collect();
        latest.sort_unstable();
        match latest.as_slice() {
            [.., (second, _), (first, tid)] if first > second => Some(*tid),
            [(_, only)] => Some(*only),
            // Several of one kind at one place: it does not matter which of them it was.
            [.., (_, any)] if at_one_place(cx, &contest.able, from, to) => Some(*any),
            _ => {
                lost = Dropped::Ambiguous;
                None
            }
        }
    } else {
        lost = Dropped::AlwaysAbout;
        left_place().filter(|tid| contest.able.contains(tid))
    };
    if cx.trace.wants(segment.from_ns, segment.to_ns) {
        let evidence = |tid: u32| {
            let before_ns = to.saturating_sub(ran_until(tid));
            let near = 1.0 - before_ns as f64 / just_before_ns as f64;
            (vec![Fact::BeforeEnd(before_ns)], Some(near.clamp(0.0, 1.0)))
        };
        let candidates = contest.candidates(cx, (from, to), (won, lost), evidence);
        let window = Threshold::ns("ran-before-wakeup.window", just_before_ns);
        let question = Question::about(Inference::RanBefore, segment);
        cx.trace.put(question.answered(candidates, vec![window]));
    }
    won
}

/// The threads that ran when a wait ended and may have ended it: seen during it, not at the
/// same place or for the same lock, and not waiting for others all that time.
fn ran_then(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    (from, to): (u64, u64),
    just_before_ns: u64,
) -> Option<Contest> {
    let lock = segment.sample.map(|s| s.target)?;
    let place = cx.frames.innermost(segment.stack());
    let others = cx.others(segment.tid);
    let remembers = cx.trace.wants(segment.from_ns, segment.to_ns);
    let mut contest = Contest::of(others, remembers);
    contest.keep(Dropped::DidNotRun, |tid| {
        let begin_ns = to.saturating_sub(just_before_ns);
        let done = || done_with(cx, tid, (from, to), just_before_ns).is_some();
        threads::ran_in(cx, tid, begin_ns, to + thresholds::sliver_ns()) || !segment.exact && done()
    });
    contest.keep(Dropped::WaitsForTheSame, |tid| {
        let mut seen = cx.samples_in(tid, from, to).iter();
        !seen.any(|s| s.wait == WaitKind::Futex && s.target == lock)
    });
    contest.keep(Dropped::NotSeen, |tid| cx.main_stack(tid, from, to) != 0);
    contest.keep(Dropped::SamePlace, |tid| {
        let stack = cx.main_stack(tid, from, to);
        cx.frames.innermost(stack) != place && !pools::is_same_pool(cx, stack, segment.stack())
    });
    contest.keep(Dropped::Parked, |tid| !threads::is_parked(cx, tid, from, to));
    Some(contest)
}

/// Keeps the candidates that have most to do with the code that waits.
fn keep_related(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    (from, to): (u64, u64),
    contest: &mut Contest,
) {
    // A thread that idles (accepts, polls) holds nothing; a thread that was in the file of the
    // code that waits knows the lock; a thread whose code says `release` releases one by hand.
    let place = cx.frames.innermost(segment.stack());
    let file = place.as_ref().map(|p| p.file.as_str());
    let busy = |tid: u32| {
        let seen = cx.sample_near(tid, from + (to - from) / 2);
        !seen.is_some_and(|s| matches!(s.wait, WaitKind::Accept | WaitKind::Poll))
    };
    // A module's top level is under everything its thread does: it knows only its own line.
    // What waits inside an installed package is handed out by it: there, a thread that called
    // the package from the same file of the program's own knows it too.
    let caller = cx.frames.innermost_user(segment.stack()).map(|p| p.file);
    let knows = |tid: u32| {
        let mut own = cx.frames.of(cx.main_stack(tid, from, to)).enumerate();
        let known = |f: &str| Some(f) == file || Some(f) == caller.as_deref();
        own.any(|(i, f)| known(f.file) && (i == 0 || !f.is_module_body()))
    };
    let releases = |tid: u32| {
        let stack = cx.main_stack(tid, from, to);
        cx.frames.any(stack, |f| f.releases)
    };
    contest.prefer(Dropped::Idle, busy);
    contest.prefer(Dropped::LessRelated, knows);
    contest.prefer(Dropped::LessRelated, releases);
    // A thread that shares no code with the waiter and releases nothing happened to run: no
    // name is better than a wrong one. Where the code that waits is in a file of its own (a
    // lock written by hand), a thread that knows the lock shares the file of the lock's caller.
    let files = cx.frames.own_files(segment.stack());
    let shares = |tid: u32| {
        let own = cx.main_stack(tid, from, to);
        files.iter().any(|file| cx.frames.is_in_file(own, file))
    };
    let related = contest.able.iter().any(|tid| knows(*tid) || releases(*tid));
    contest.keep(Dropped::SharesNoCode, |tid| match related {
        true => knows(tid) || releases(tid),
        false => shares(tid) && busy(tid),
    });
}

/// Whether `tid` comes and goes so often in `[from, to)` that it is seen in any slice of
/// `window_ns` more likely than not.
fn is_always_about(cx: &Context<'_>, tid: u32, (from, to): (u64, u64), window_ns: u64) -> bool {
    let until = to.saturating_sub(window_ns);
    let off = cx.off_cpu(tid);
    let (begin, end) =
        (off.partition_point(|o| o.in_ns < from), off.partition_point(|o| o.in_ns < until));
    let came = off[begin..end.max(begin)].iter().filter(|o| !o.preempted).count();
    let samples = cx.samples_in(tid, from, until);
    // It ran between two samples, and waited for most of the time: not for a CPU, nor for the
    // GIL.
    let some = |s: &&Sample| {
        let awake_ns = s.cpu_ns.saturating_add(s.run_delay_ns);
        s.cpu_ns > 0 && awake_ns.saturating_mul(2) < s.wall_ns && s.wait != WaitKind::Gil
    };
    let came = came.max(samples.iter().filter(some).count());
    came as u64 * window_ns * 2 > to.saturating_sub(from)
}

/// When the first of the waiters at the same place was woken, if it waited for most of this
/// wait too: those behind it are woken by fellow waiters, and the question is which thread woke
/// the first.
fn first_released(cx: &Context<'_>, segment: &Segment<'_>, from_ns: u64, to_ns: u64) -> u64 {
    let half = from_ns + (to_ns - from_ns) / 2;
    let ends = cx.others(segment.tid).filter_map(|tid| {
        let seen = cx.samples_in(tid, from_ns, to_ns);
        let waits =
            |s: &&Sample| s.wait == WaitKind::Futex && cx.same_place(s.stack, segment.stack());
        let last = seen.iter().rev().find(waits)?;
        let off = cx.capture.off_cpu.get(&tid)?;
        let around = |s: &Sample| off[..off.partition_point(|o| o.out_ns <= s.t_ns)].last();
        // One that asks in slices waits for all of them; behind one that ran out there may be more
        // that no sample saw.
        let slices = cx.slices(tid, last);
        let (first, last) = slices.unwrap_or((last, last));
        let (begin_ns, end_ns) = (around(first)?.out_ns, around(last)?.in_ns);
        let limit_ns = last.t_ns.saturating_add(last.timeout_ns);
        let goes_on = slices.is_some() && end_ns + thresholds::turn_ns() >= limit_ns;
        let most = overlap_ns((begin_ns, end_ns), (from_ns, to_ns));
        let fits = end_ns > half && end_ns < to_ns && most * 2 > to_ns - from_ns && !goes_on;
        fits.then_some(end_ns)
    });
    let first = ends.min().unwrap_or(to_ns);
    // Waiters at one Barrier are woken together; others at the same place are at other ones.
    let barrier = Pattern::Within(4, Stdlib::BarrierWait);
    let barrier = cx.frames.fits(segment.stack(), barrier);
    if barrier && to_ns - first > thresholds::short_wait_ns() {
        to_ns
    } else {
        first
    }
}

/// Whether these threads spent most of `[from, to)` in the same function.
pub(crate) fn at_one_place(cx: &Context<'_>, tids: &[u32], from_ns: u64, to_ns: u64) -> bool {
    let place = |tid: &u32| {
        let place = cx.frames.innermost(cx.main_stack(*tid, from_ns, to_ns));
        place.map(|place| place.in_function())
    };
    let mut places = tids.iter().map(place);
    let first = places.next().flatten();
    first.is_some() && places.all(|place| place == first)
}
