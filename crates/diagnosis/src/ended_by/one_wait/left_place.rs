//! The thread that left a function at the moment the wait ended: it had what a request waited for
//! from a pool, or fulfilled its future.
//!
//! A thread that gives back a connection goes on to something else: its *interval* in one function
//! ends just when the wait does. The time of that end is known only to lie between two samples; so
//! this is an inference, and what rests on it is *likely* at most. Only threads that share a file
//! of the program's own with the waiter are asked, or, where none does, with the waiter's caller;
//! and none is named when intervals in several functions end then. With switch records a thread
//! that is off the CPU is not sampled again: it was there until it came back.

use std::collections::HashMap;

use analysis::frames::{Owner, Place};
use analysis::thresholds::{self, is_part};
use analysis::timeline::Segment;
use capture::read::Frame;
use format::record::Sample;
use format::wait::WaitKind;

use crate::claim::Blocker;
use crate::compare::{Contest, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::facts::{pools, threads, waiting};

/// A thread's interval in one function, and whether it waited for a lock there.
pub(crate) struct InFunction {
    pub(crate) place: Place,
    pub(crate) tid: u32,
    pub(crate) stack: u32,
    pub(crate) locked: bool,
    first_ns: u64,
    /// When it was there last, and when it was not any more.
    pub(crate) last_ns: u64,
    pub(crate) gone_ns: u64,
    /// When what it did for a request ended, if it left with that.
    pub(crate) done_ns: Option<u64>,
}

impl InFunction {
    /// Whether it took part of the wait and ended when that did.
    pub(crate) fn ended_with(&self, wait: &EndedWait) -> bool {
        let ends_then = self.gone_ns >= wait.end.0 && self.last_ns <= wait.end.1;
        let stayed_ns = self.gone_ns.saturating_sub(self.first_ns.max(wait.from));
        ends_then && is_part(stayed_ns, thresholds::comparable_part(), wait.end.1 - wait.from)
    }
}

/// A wait, and when it ended.
#[derive(Clone, Copy)]
pub(crate) struct EndedWait {
    /// The code that waited, and for what; 0: for no lock.
    stack: u32,
    lock: u64,
    /// When it began, and the interval in which it ended.
    pub(crate) from: u64,
    pub(crate) end: (u64, u64),
    /// When the request that waited ended, if no sample saw the thread between the two.
    pub(crate) done_ns: Option<u64>,
    /// Only a thread that was in the file of the code that waited may have ended it.
    knows: bool,
}

impl EndedWait {
    /// The same wait, which a thread in whatever file may have ended.
    pub(crate) fn by_any_code(self) -> EndedWait {
        EndedWait { knows: false, ..self }
    }
}

/// The interval in which a wait ended that was seen to go on at one time, and not at another.
fn about(last_ns: u64, until_ns: u64) -> (u64, u64) {
    let slack_ns = thresholds::clock_slack_ns();
    (last_ns.saturating_sub(slack_ns), until_ns.saturating_add(slack_ns))
}

/// When a wait for a lock or a pool ended, as far as samples show; None when that is too rough
/// and it did not end with what it was for.
pub(crate) fn end_of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<EndedWait> {
    if waiting::is_still_waiting(cx, segment) {
        return None;
    }
    let lock = segment.sample?.target;
    let wait = cx.whole_wait(segment);
    let (from, until) = wait.times();
    let last = cx.samples_of(&wait).next_back().map_or(from, |s| s.t_ns);
    // Switch records say when it came back.
    let last = if segment.exact { until } else { last };
    let done_ns = cx.request_end(segment.tid, last).filter(|done| *done <= until);
    let until = done_ns.unwrap_or(until);
    let end = about(last, until);
    let known = done_ns.is_some() || until.saturating_sub(last) <= thresholds::samples_apart_ns();
    let stack = segment.stack();
    known.then_some(EndedWait { stack, lock, from, end, done_ns, knows: true })
}

/// When a wait for a lock of SQLite's ended: the waiter asks again and again, so the holder
/// released the lock between the last time it asked in vain and the end.
pub(crate) fn end_of_asking(cx: &Context<'_>, segment: &Segment<'_>) -> Option<EndedWait> {
    let own = segment.sample.filter(|s| asks(cx, s))?;
    let samples = cx.all_samples(segment.tid);
    let at = samples.partition_point(|s| s.t_ns < own.t_ns);
    let near = |pair: &&[Sample]| {
        asks(cx, &pair[1]) && pair[1].t_ns - pair[0].t_ns <= thresholds::samples_apart_ns()
    };
    let back = samples[..=at].windows(2).rev().take_while(|p| near(p) && asks(cx, &p[0]));
    let first = back.last().map_or(own, |pair| &pair[0]);
    let later = samples[at..].windows(2).take_while(near).last();
    let last = later.map_or(own, |pair| &pair[1]);
    let after = samples[samples.partition_point(|s| s.t_ns <= last.t_ns)..].first();
    let asked = cx.off_at(segment.tid, last.t_ns);
    let done_ns = cx.request_end(segment.tid, last.t_ns);
    let seen_ns = after.map(|s| s.t_ns).into_iter().chain(done_ns).min();
    let until = asked.map(|off| off.in_ns).or(seen_ns)?;
    let in_vain = asked.map_or(last.t_ns, |off| off.out_ns);
    let end = about(in_vain, until);
    let known =
        until.saturating_sub(in_vain) <= thresholds::samples_apart_ns() && first.t_ns < until;
    let (stack, lock, from) = (segment.stack(), 0, first.t_ns);
    known.then_some(EndedWait { stack, lock, from, end, done_ns: None, knows: false })
}

/// As `end_of`; None where the samples around the end are too far apart.
pub(crate) fn near_end_of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<EndedWait> {
    end_of(cx, segment).filter(|wait| {
        wait.end.1 - wait.end.0 <= thresholds::samples_apart_ns() + 2 * thresholds::clock_slack_ns()
    })
}

/// When a task's await ended. `seen_ns`: when the task was seen there first and last; `until_ns`:
/// when it was not any more.
pub(crate) fn end_of_await(stack: u32, seen_ns: (u64, u64), until_ns: u64) -> Option<EndedWait> {
    if until_ns.saturating_sub(seen_ns.1) > thresholds::samples_apart_ns() {
        return None;
    }
    let end = about(seen_ns.1, until_ns);
    Some(EndedWait { stack, lock: 0, from: seen_ns.0, end, done_ns: None, knows: true })
}

fn asks(cx: &Context<'_>, sample: &Sample) -> bool {
    sample.wait == WaitKind::Sleep && cx.frames.asks_for_a_lock(sample.stack)
}

pub(crate) fn thread(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    wait: &EndedWait,
    chain: &dyn Fn(Blocker, &Segment<'_>) -> Blocker,
) -> Option<Blocker> {
    let EndedWait { from, end, .. } = *wait;
    let mut exits = that_ended(cx, segment.tid, wait);
    let wants = cx.trace.wants(segment.from_ns, segment.to_ns);
    let mut contest = Contest::of(exits.iter().map(|s| s.tid), wants);
    // A thread that waited for a lock until then was released as well, by one that did
    // something else.
    if exits.iter().any(|s| !s.locked) {
        exits.retain(|s| !s.locked);
        contest.keep(Dropped::Locked, |tid| exits.iter().any(|s| s.tid == tid));
    }
    let held = |s: &InFunction| (s.tid, s.gone_ns.saturating_sub(s.first_ns.max(from)));
    let held: Vec<(u32, u64)> = exits.iter().filter(|_| wants).map(held).collect();
    let whole = Segment { from_ns: from, to_ns: end.1.max(from), ..*segment };
    let mut found: Vec<(Place, Blocker)> = exits
        .into_iter()
        .filter_map(|InFunction { place, tid, stack, locked, .. }| {
            // One of them may have waited for another: that is one and the same end.
            let first = Blocker::thread(tid, stack, false, Inference::LeftPlace);
            let last = chain(first, &whole);
            // A thread that waited for a lock until then ended nothing: its holder may have.
            let released = locked && [tid, segment.tid].contains(&last.tid);
            let behind = cx.frames.innermost_user(last.stack).filter(|_| last.tid != tid);
            let found = (behind.unwrap_or(place), Blocker { measured: false, ..last });
            (!released).then_some(found)
        })
        .collect();
    // By place: of several at one the same is named each time.
    found.sort_by(|a, b| (&a.0, a.1.tid).cmp(&(&b.0, b.1.tid)));
    let (first, blocker) = found.first()?;
    let one = found.iter().all(|(place, _)| place.is_in_function_of(first));
    if wants {
        let of_ns = whole.ns();
        let evidence = |tid: u32| {
            let ns: u64 = held.iter().filter(|(t, _)| *t == tid).map(|(_, ns)| ns).sum();
            (vec![Fact::Time(ns, of_ns)], Some((ns as f64 / of_ns.max(1) as f64).min(1.0)))
        };
        // If the thread waited for another thread, the other is named.
        let won = held.iter().map(|(tid, _)| *tid).find(|tid| *tid == blocker.tid);
        let won = won.or(held.first().map(|(tid, _)| *tid)).filter(|_| one);
        let lost = if one { Dropped::LessEvidence } else { Dropped::Ambiguous };
        let times = (whole.from_ns, whole.to_ns);
        let candidates = contest.candidates(cx, times, (won, lost), evidence);
        let least =
            Threshold::part("left-when-wait-ended.part-of-wait", thresholds::comparable_part());
        let apart =
            Threshold::ns("left-when-wait-ended.samples-apart", thresholds::samples_apart_ns());
        let question = Question::about(Inference::LeftPlace, segment);
        cx.trace.put(question.answered(candidates, vec![least, apart]));
    }
    one.then_some(*blocker)
}

/// The last interval of each other thread that ended with the wait. Where the waiter shares its
/// file with others, only theirs; else of those that share the file of its caller, and so on.
pub(crate) fn that_ended(cx: &Context<'_>, not: u32, wait: &EndedWait) -> Vec<InFunction> {
    let last = |tid: u32| {
        let own = intervals(cx, tid, wait).into_iter().rev();
        let mut ended = own.filter(|s| {
            s.ended_with(wait) && s.gone_ns - s.last_ns <= thresholds::samples_apart_ns()
        });
        ended.next()
    };
    let mut all: Vec<InFunction> = cx.others(not).filter_map(last).collect();
    if !wait.knows {
        return all;
    }
    for file in cx.frames.own_files(wait.stack) {
        let knows = |s: &InFunction| cx.frames.is_in_file(s.stack, file);
        if all.iter().any(knows) {
            all.retain(knows);
            return all;
        }
    }
    Vec::new()
}

/// The intervals of `tid` during and just after a wait, each in one function of the program's
/// own, except where it waited for the same.
pub(crate) fn intervals(cx: &Context<'_>, tid: u32, wait: &EndedWait) -> Vec<InFunction> {
    intervals_at(cx, tid, wait, |sample| cx.frames.innermost_user(sample.stack))
}

/// The intervals of `tid` in any of the program's own functions, whatever that called
/// meanwhile.
pub(crate) fn outer_intervals(cx: &Context<'_>, tid: u32, wait: &EndedWait) -> Vec<InFunction> {
    let user = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User && !f.is_module_body();
    let samples = cx.samples_in(tid, wait.from, wait.end.1 + thresholds::samples_apart_ns());
    let mut stacks: Vec<u32> = samples.iter().map(|s| s.stack).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let mut functions: Vec<(String, String)> = Vec::new();
    for frame in stacks.iter().flat_map(|stack| cx.frames.of(*stack)).filter(user) {
        let function = (frame.function.to_owned(), frame.file.to_owned());
        if !functions.contains(&function) {
            functions.push(function);
        }
    }
    let exits = |(function, file): &(String, String)| {
        let is_it = |f: &Frame<'_>| f.function == *function && f.file == *file;
        intervals_at(cx, tid, wait, |sample| {
            let at = cx.frames.of(sample.stack).find(is_it)?;
            Some(cx.frames.place(&at))
        })
    };
    functions.iter().flat_map(exits).collect()
}

fn function(place: &Option<Place>) -> Option<(&str, &str)> {
    place.as_ref().map(|p| (&*p.qualified, &*p.file))
}

/// The intervals of `tid` where `place_of`, which asks about the stack alone, says that it was.
fn intervals_at(
    cx: &Context<'_>,
    tid: u32,
    wait: &EndedWait,
    place_of: impl Fn(&Sample) -> Option<Place>,
) -> Vec<InFunction> {
    let EndedWait { stack, lock, from, end, .. } = *wait;
    let before = cx.samples_in(tid, 0, from).last();
    let still_there =
        before.filter(|s| threads::off_cpu_until(cx, tid, s.t_ns).is_some_and(|t| t > from));
    let begin_ns = still_there.map_or(from, |s| s.t_ns);
    let samples = cx.samples_in(tid, begin_ns, end.1 + thresholds::samples_apart_ns());
    let works = |s: &Sample| {
        let parked = threads::waits_for_work(cx, tid, s);
        let waits = s.wait == WaitKind::Futex;
        // A fellow that waits for the same keeps nobody.
        let fellow = s.target == lock || pools::is_of_a_pool(cx, s.stack);
        let file = s.wait == WaitKind::FileLock && s.target == lock;
        let file = file || asks(cx, s) && cx.frames.asks_for_a_lock(stack);
        !(parked || waits && fellow || file)
    };
    // A stack is in one place whatever sample saw it: each is asked about once.
    let mut of_stacks: HashMap<u32, Option<Place>> = HashMap::new();
    let mut place = |s: &Sample| {
        let known = of_stacks.entry(s.stack).or_insert_with(|| place_of(s));
        works(s).then(|| known.clone()).flatten()
    };
    let seen: Vec<(&Sample, Option<Place>)> = samples.iter().map(|s| (s, place(s))).collect();
    let mut found = Vec::new();
    let mut runs = seen.chunk_by(|a, b| function(&a.1) == function(&b.1)).peekable();
    while let Some(run) = runs.next() {
        let (Some((first, _)), Some((last, place))) = (run.first(), run.last()) else { continue };
        let next = runs.peek().and_then(|run| run.first()).map(|(s, _)| s.t_ns);
        let done = cx.request_end(tid, last.t_ns);
        let gone = done.into_iter().chain(next).min();
        // With switch records a thread that does not run is not sampled: it was there until it
        // came back.
        let out = threads::off_cpu_until(cx, tid, last.t_ns);
        let last_ns = out.map_or(last.t_ns, |t| t.max(last.t_ns));
        let gone = gone.or(out).map(|t| t.max(last_ns));
        let gone = gone.filter(|t| {
            done == Some(*t) || t.saturating_sub(last_ns) <= thresholds::samples_apart_ns()
        });
        let (Some(gone_ns), Some(place)) = (gone, place.clone()) else { continue };
        let (first_ns, locked) = (first.t_ns, last.wait == WaitKind::Futex);
        let done_ns = done.filter(|done| *done == gone_ns);
        found.push(InFunction {
            place,
            tid,
            stack: last.stack,
            locked,
            first_ns,
            last_ns,
            gone_ns,
            done_ns,
        });
    }
    found
}
