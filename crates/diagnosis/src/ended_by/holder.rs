//! The blocker of a thread's wait: the inferences combined, and the blocking chain behind it.
//!
//! How it works: what samples read from the lock comes first, then the kernel's record of the
//! wakeup, the thread inside of the same call, the thread that ran just before, and the thread that
//! left a function then. A blocker that waited for room in a queue or pipe is replaced by the
//! thread that empties it. A blocker that waited itself for most of the time is replaced by its own
//! blocker, and so on: the last known one is named (`behind`).
//!
//! What it promises: guesses end a chain that was measured. The question which thread left a
//! function is asked of one wait at a time: the chain behind its answer is known from locks, not
//! from ends of intervals again, which might lead in a circle.

use analysis::frames::Place;
use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::ended_by::left_place::{self, EndedWait};
use crate::ended_by::wakeup_record::{self, WakeRecord};
use crate::ended_by::{gil, inside_call, lock_order, owner, queue_reader, ran_before, thread_end};
use crate::explain::{Dropped, Fate, Inference};
use crate::facts::{pools, threads, waiting};

/// Threads a chain of waits is followed through.
const HOPS_MAX: usize = 6;

/// The holder of the lock `segment` waited for; when that thread waited for a lock itself, the
/// holder of that lock, and so on: the last known holder.
pub fn lock_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let blocker = direct_holder(cx, segment)?;
    // A thread's end has no holder: its waker is the thread that ended, or not known.
    if !blocker.measured && waiting::joins(cx, segment.stack()) {
        return None;
    }
    let blocker = behind(cx, blocker, segment, false);
    // A thread that waited for a thread's end ran because that thread ended, not because it
    // released a lock.
    (blocker.measured || !waiting::joins(cx, blocker.stack)).then_some(blocker)
}

/// The blocker of `culprit`, if it waited for a lock or the GIL for most of the time of
/// `segment`, then the blocker's blocker, and so on; itself if there is none. `measured`:
/// guesses end the chain.
pub fn behind(
    cx: &Context<'_>,
    blocker: Blocker,
    segment: &Segment<'_>,
    measured: bool,
) -> Blocker {
    behind_with(cx, blocker, segment, measured, true)
}

/// As `behind`; with `pools` also the thread that ended a wait for a pool, as far as samples
/// show.
pub(crate) fn behind_with(
    cx: &Context<'_>,
    mut blocker: Blocker,
    segment: &Segment<'_>,
    measured: bool,
    pools: bool,
) -> Blocker {
    let mut seen = vec![segment.tid, blocker.tid];
    while seen.len() < HOPS_MAX {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let own = cx.timeline(blocker.tid, from, to);
        let longest =
            analysis::waits::longest_lock(&own).filter(|w| w.waited_ns * 2 > segment.ns());
        let longest = longest.as_ref().map(|wait| &wait.longest);
        // Without switch records it is not known which thread ran when a wait for a pool ended.
        let of_pool = |wait: &&Segment<'_>| {
            let asks = pools && !measured && !wait.exact;
            asks && pools::is_of_a_pool(cx, wait.stack())
        };
        let leaver = || longest.filter(of_pool).and_then(|wait| left_place(cx, wait));
        // Guessed, and it is where the wait began: another waiter.
        let fellow = |next: &Blocker| {
            let waits_there = || cx.same_place(next.stack, segment.stack());
            !next.measured && (seen.contains(&next.tid) || waits_there())
        };
        let holder = longest.and_then(|wait| direct_holder(cx, wait)).filter(|c| !fellow(c));
        let next = holder.or_else(leaver);
        let next = next.or_else(|| longest.and_then(|wait| lock_order::inverted(cx, wait)));
        let next = next.or_else(|| reader(cx, &own, segment).filter(|c| !fellow(c)));
        let Some(next) = next.or_else(|| gil::holder_over(cx, &own, segment)) else { break };
        if fellow(&next) || measured && !next.measured || seen.contains(&next.tid) {
            break;
        }
        seen.push(next.tid);
        let through = if blocker.through == 0 { blocker.stack } else { blocker.through };
        blocker = Blocker { measured: blocker.measured && next.measured, through, ..next };
    }
    blocker
}

/// The thread that was to make room, or to give notice, for which the thread of this timeline
/// waited most of the time of `segment`.
fn reader(cx: &Context<'_>, own: &[Segment<'_>], segment: &Segment<'_>) -> Option<Blocker> {
    let waits = own.iter().filter(|s| queue_reader::waits_for(cx, s).is_some());
    let ns: u64 = waits.clone().map(Segment::ns).sum();
    let longest = waits.max_by_key(|s| s.ns()).filter(|_| ns * 2 > segment.ns())?;
    let link = queue_reader::waits_for(cx, longest)?;
    let found = queue_reader::of(cx, longest)?;
    Some(Blocker { link, ..found })
}

/// The holder of the lock `segment` waits for, in a deadlock: that thread waited most of the
/// while for a lock that this one held, itself or through others, or is behind some that
/// blocked each other so.
pub fn in_deadlock(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let first = measured_holder(cx, segment)?;
    let mut met = vec![segment.tid, first.tid];
    let mut at = first;
    for _ in 0..HOPS_MAX {
        let own = cx.timeline(at.tid, segment.from_ns, segment.to_ns);
        let waits = own.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
        let longest = waits.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns())?;
        at = measured_holder(cx, longest)?;
        if met.contains(&at.tid) {
            return Some(first);
        }
        met.push(at.tid);
    }
    None
}

/// The holder, if samples or the kernel's records name it.
fn measured_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let record = || matches!(wakeup_record::of(cx, segment), WakeRecord::By(_));
    let named = owner::of(cx, segment);
    let by_kernel = || direct_holder(cx, segment).filter(|c| c.measured);
    named.or_else(|| record().then(by_kernel).flatten())
}

fn direct_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    if let Some(named) = owner::of(cx, segment) {
        return Some(named);
    }
    let (from, to) = (segment.from_ns, segment.to_ns);
    let wait = cx.whole_wait(segment);
    if waiting::timed_out(cx, segment) {
        return None;
    }
    let record = wakeup_record::of(cx, segment);
    let inside = || inside_call::of(cx, segment);
    if let Some(tid) = (record == WakeRecord::Nothing).then(inside).flatten() {
        let by = Inference::InsideCall;
        return Some(Blocker::thread(tid, cx.main_stack(tid, from, to), false, by));
    }
    let by = match record {
        WakeRecord::By(_) => Inference::WakeRecord,
        _ => Inference::RanBefore,
    };
    let question = Question::about(by, segment);
    let thread = |tid: u32| Blocker::thread(tid, cx.main_stack(tid, from, to), false, by);
    let busy = |tid: u32| {
        let busy = record != WakeRecord::By(tid)
            && threads::computes_on(cx, tid, (wait.from_ns, wait.to_ns));
        if busy {
            compare::keep_one(cx, question, &thread(tid), Fate::Dropped(Dropped::ComputesOn));
        }
        busy
    };
    let Some(tid) = releaser(cx, segment).filter(|tid| !busy(*tid)) else {
        // Estimates hardly show which thread ran then. Of a Condition the thread counts that
        // did something else until then; a lock of its own kind is held by whichever thread
        // comes next, too.
        let record = cx.frames.leaf_at(segment.stack(), Stdlib::Wait);
        let leaver = if record && !segment.exact { left_place(cx, segment) } else { None };
        return leaver.filter(|c| !cx.same_place(c.stack, segment.stack()));
    };
    let stack = cx.main_stack(tid, from, to);
    // A thread that was at the waiter's place most of the while waited as well; a thread that
    // had no work then held nothing.
    let dropped = match cx.same_place(stack, segment.stack()) {
        true => Some(Dropped::SamePlace),
        false => pools::is_idle(cx, stack).then_some(Dropped::Idle),
    };
    if let Some(why) = dropped {
        compare::keep_one(cx, question, &thread(tid), Fate::Dropped(why));
        return None;
    }
    let stack = wakeup_record::release_stack(cx, segment, tid, stack);
    // A thread's end is no lock that anybody had.
    let measured =
        record == WakeRecord::By(tid) && stack != 0 && !waiting::joins(cx, segment.stack());
    Some(Blocker::thread(tid, stack, measured, by))
}

/// The thread that most likely ended the wait (`ran_before::releaser`).
pub fn releaser(cx: &Context<'_>, segment: &Segment<'_>) -> Option<u32> {
    match wakeup_record::of(cx, segment) {
        WakeRecord::By(tid) => Some(tid),
        WakeRecord::Elsewhere => None,
        WakeRecord::Nothing => {
            ran_before::releaser(cx, segment, &|| left_place(cx, segment).map(|c| c.tid))
        }
    }
}

/// As `releaser`, where each waiter is woken by another thread: for an Event or a thread's end.
pub fn waker(cx: &Context<'_>, segment: &Segment<'_>) -> Option<u32> {
    match wakeup_record::of(cx, segment) {
        WakeRecord::By(tid) => Some(tid),
        WakeRecord::Elsewhere => None,
        WakeRecord::Nothing => {
            ran_before::waker(cx, segment, &|| left_place(cx, segment).map(|c| c.tid))
        }
    }
}

/// As `waker`, for the end of a thread: not a thread that was seen later.
pub fn last_to_run(cx: &Context<'_>, segment: &Segment<'_>) -> Option<u32> {
    let (from, to) = cx.whole_wait(segment).times();
    let ended = |tid: &u32| {
        !thread_end::lives_behind(cx, *tid, to) && thread_end::is_born_at(cx, *tid, from)
    };
    waker(cx, segment).filter(ended)
}

/// The thread of this process that had the file lock that `segment` waits for: the waker, where
/// the kernel recorded it; else the one thread that was in the function that waits and did
/// something else there most of the while; else the one that went on just when the wait ended.
/// None when several did.
pub fn file_lock_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let (from, to) = (segment.from_ns, segment.to_ns);
    let by = Inference::InsideCall;
    let thread = |tid| Blocker::thread(tid, cx.main_stack(tid, from, to), false, by);
    match wakeup_record::of(cx, segment) {
        WakeRecord::By(tid) => {
            let stack =
                wakeup_record::release_stack(cx, segment, tid, cx.main_stack(tid, from, to));
            let by = Inference::WakeRecord;
            return (stack != 0).then(|| Blocker::thread(tid, stack, true, by));
        }
        WakeRecord::Elsewhere => return None,
        WakeRecord::Nothing => (),
    }
    match inside_call::of_file_lock(cx, segment)?.as_slice() {
        [only] => Some(thread(*only)),
        [] => file_lock_left(cx, segment),
        _ => None,
    }
}

/// The thread of this process that most likely had the file lock that `segment` waits for: its
/// interval in one function of the program's own ended when the wait did, whatever file that is
/// in; None when several fit, in different functions.
pub fn file_lock_left(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    left(cx, segment, &left_place::end_of_file_lock(cx, segment)?)
}

/// The thread whose interval in the program's own code ended when this wait did, as far as
/// samples show; None when several fit, in different functions. Cost: the samples of all
/// threads during the wait.
pub fn left_place(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    left(cx, segment, &left_place::near_end_of(cx, segment)?)
}

/// The thread whose interval in a function ended when a task's await of `segment` did, as
/// `leaver`: one that fulfils a future with `call_soon_threadsafe`. `seen_ns`: when the task
/// was seen there first and last; `until_ns`: when it was not any more. `knows`: only a thread
/// that shares a file with the task.
pub fn fulfiller(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    stack: u32,
    seen_ns: (u64, u64),
    until_ns: u64,
    knows: bool,
) -> Option<Blocker> {
    left(cx, segment, &left_place::end_of_await(stack, seen_ns, until_ns, knows)?)
}

/// A thread that waited for a lock for most of that time and was released when the task's await
/// ended: most likely it works for the future that was awaited. Its wait. None where several
/// fit, in different functions.
pub fn locked_worker<'c>(
    cx: &Context<'c>,
    segment: &Segment<'_>,
    stack: u32,
    seen_ns: (u64, u64),
    until_ns: u64,
) -> Option<Segment<'c>> {
    let wait = left_place::end_of_await(stack, seen_ns, until_ns, false)?;
    let mut exits = left_place::that_ended(cx, segment.tid, &wait);
    exits.retain(|s| s.locked);
    exits.sort_by(|a, b| (&a.place, a.tid).cmp(&(&b.place, b.tid)));
    let first = exits.first()?;
    let function = |p: &Place| (p.qualified.clone(), p.file.clone());
    if exits.iter().any(|s| function(&s.place) != function(&first.place)) {
        return None;
    }
    let own = cx.timeline(first.tid, segment.from_ns, segment.to_ns);
    let locked = |s: &&Segment<'_>| s.state == State::Wait && s.wait() == WaitKind::Futex;
    let longest = own.into_iter().filter(|s| locked(&s)).max_by_key(Segment::ns)?;
    (longest.ns() * 2 > segment.ns()).then_some(longest)
}

/// The thread whose interval in a function took part of the wait and ended with it, or its own
/// blocker; None where it may be one or another. Asked about one wait at a time: the blocker of
/// an inferred holder is known from locks, not from ends of intervals again, which might lead
/// in a circle.
fn left(cx: &Context<'_>, segment: &Segment<'_>, wait: &EndedWait) -> Option<Blocker> {
    if cx.left_place_asked.replace(true) {
        return None;
    }
    let chain = |first: Blocker, whole: &Segment<'_>| behind_with(cx, first, whole, true, false);
    let found = left_place::thread(cx, segment, wait, &chain);
    cx.left_place_asked.set(false);
    found
}
