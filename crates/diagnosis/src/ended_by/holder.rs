//! The blocker of a thread's wait: the inferences combined, and the blocking chain behind it.
//!
//! How it works: what samples read from the lock comes first, then the kernel's record of the
//! wakeup, the thread inside of the same call, the thread that ran just before, and the thread that
//! left a function then. A blocker that waited itself for most of the time is replaced by its own
//! blocker, and so on: the last known one is named (`behind`).
//!
//! What it promises: guesses end a chain that was measured. The question which thread left a
//! function is asked of one wait at a time: the chain behind its answer is known from locks, not
//! from ends of intervals again, which might lead in a circle.

use analysis::frames::Place;
use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::claim::Culprit;
use crate::compare::{self, Question};
use crate::context::Scene;
use crate::ended_by::left_place::{self, EndedWait};
use crate::ended_by::wakeup_record::{self, WakeRecord};
use crate::ended_by::{gil, inside_call, lock_order, owner, ran_before, thread_end};
use crate::explain::{Dropped, Fate, Inference};
use crate::facts::{pools, threads, waiting};

/// Threads a chain of waits is followed through.
const HOPS_MAX: usize = 6;

/// The holder of the lock `segment` waited for; when that thread waited for a lock itself, the
/// holder of that lock, and so on: the last known holder.
pub fn lock_holder(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    let culprit = direct_holder(scene, segment)?;
    // A thread's end has no holder: its waker is the thread that ended, or not known.
    if !culprit.measured && waiting::joins(scene, segment.stack()) {
        return None;
    }
    let culprit = behind(scene, culprit, segment, false);
    // A thread that waited for a thread's end ran because that thread ended, not because it
    // released a lock.
    (culprit.measured || !waiting::joins(scene, culprit.stack)).then_some(culprit)
}

/// The blocker of `culprit`, if it waited for a lock or the GIL for most of the time of
/// `segment`, then the blocker's blocker, and so on; itself if there is none. `measured`:
/// guesses end the chain.
pub fn behind(
    scene: &Scene<'_>,
    culprit: Culprit,
    segment: &Segment<'_>,
    measured: bool,
) -> Culprit {
    behind_with(scene, culprit, segment, measured, true)
}

/// As `behind`; with `pools` also the thread that ended a wait for a pool, as far as samples
/// show.
pub(crate) fn behind_with(
    scene: &Scene<'_>,
    mut culprit: Culprit,
    segment: &Segment<'_>,
    measured: bool,
    pools: bool,
) -> Culprit {
    let mut seen = vec![segment.tid, culprit.tid];
    while seen.len() < HOPS_MAX {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let own = scene.timeline(culprit.tid, from, to);
        let longest =
            analysis::waits::longest_lock(&own).filter(|w| w.waited_ns * 2 > segment.ns());
        let longest = longest.as_ref().map(|wait| &wait.longest);
        // Without switch records it is not known which thread ran when a wait for a pool ended.
        let of_pool = |wait: &&Segment<'_>| {
            let asks = pools && !measured && !wait.exact;
            asks && pools::is_of_a_pool(scene, wait.stack())
        };
        let keeper = || longest.filter(of_pool).and_then(|wait| left_place(scene, wait));
        // Guessed, and it is where the wait began: another waiter.
        let fellow = |next: &Culprit| {
            let stands = || scene.same_place(next.stack, segment.stack());
            !next.measured && (seen.contains(&next.tid) || stands())
        };
        let holder = longest.and_then(|wait| direct_holder(scene, wait)).filter(|c| !fellow(c));
        let next = holder.or_else(keeper);
        let next = next.or_else(|| longest.and_then(|wait| lock_order::inverted(scene, wait)));
        let Some(next) = next.or_else(|| gil::holder_over(scene, &own, segment)) else { break };
        if fellow(&next) || measured && !next.measured || seen.contains(&next.tid) {
            break;
        }
        seen.push(next.tid);
        let through = if culprit.through == 0 { culprit.stack } else { culprit.through };
        culprit = Culprit { measured: culprit.measured && next.measured, through, ..next };
    }
    culprit
}

/// The holder of the lock `segment` waits for, in a deadlock: that thread waited most of the
/// while for a lock that this one held, itself or through others, or is behind some that
/// blocked each other so.
pub fn in_deadlock(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    let first = measured_holder(scene, segment)?;
    let mut met = vec![segment.tid, first.tid];
    let mut at = first;
    for _ in 0..HOPS_MAX {
        let own = scene.timeline(at.tid, segment.from_ns, segment.to_ns);
        let waits = own.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
        let longest = waits.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns())?;
        at = measured_holder(scene, longest)?;
        if met.contains(&at.tid) {
            return Some(first);
        }
        met.push(at.tid);
    }
    None
}

/// The holder, if samples or the kernel's records name it.
fn measured_holder(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    let told = || matches!(wakeup_record::of(scene, segment), WakeRecord::By(_));
    let named = owner::of(scene, segment);
    let by_kernel = || direct_holder(scene, segment).filter(|c| c.measured);
    named.or_else(|| told().then(by_kernel).flatten())
}

fn direct_holder(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    if let Some(named) = owner::of(scene, segment) {
        return Some(named);
    }
    let (from, to) = (segment.from_ns, segment.to_ns);
    let wait = scene.whole_wait(segment);
    if waiting::timed_out(scene, segment) {
        return None;
    }
    let told = wakeup_record::of(scene, segment);
    let inside = || inside_call::of(scene, segment);
    if let Some(tid) = (told == WakeRecord::Nothing).then(inside).flatten() {
        let by = Inference::InsideCall;
        return Some(Culprit::thread(tid, scene.main_stack(tid, from, to), false, by));
    }
    let by = match told {
        WakeRecord::By(_) => Inference::WakeRecord,
        _ => Inference::RanBefore,
    };
    let question = Question::about(by, segment);
    let thread = |tid: u32| Culprit::thread(tid, scene.main_stack(tid, from, to), false, by);
    let busy = |tid: u32| {
        let busy = told != WakeRecord::By(tid)
            && threads::computes_on(scene, tid, (wait.from_ns, wait.to_ns));
        if busy {
            compare::keep_one(scene, question, &thread(tid), Fate::Dropped(Dropped::ComputesOn));
        }
        busy
    };
    let Some(tid) = releaser(scene, segment).filter(|tid| !busy(*tid)) else {
        // Estimates hardly show which thread ran then. Of a Condition the thread counts that
        // did something else until then; a lock of its own kind is held by whichever thread
        // comes next, too.
        let told = scene.frames.leaf_at(segment.stack(), Stdlib::Wait);
        let keeper = if told && !segment.exact { left_place(scene, segment) } else { None };
        return keeper.filter(|c| !scene.same_place(c.stack, segment.stack()));
    };
    let stack = scene.main_stack(tid, from, to);
    // A thread that was at the waiter's place most of the while waited as well; a thread that
    // had no work then held nothing.
    let dropped = match scene.same_place(stack, segment.stack()) {
        true => Some(Dropped::SamePlace),
        false => pools::is_idle(scene, stack).then_some(Dropped::Idle),
    };
    if let Some(why) = dropped {
        compare::keep_one(scene, question, &thread(tid), Fate::Dropped(why));
        return None;
    }
    let stack = wakeup_record::release_stack(scene, segment, tid, stack);
    // A thread's end is no lock that anybody had.
    let measured =
        told == WakeRecord::By(tid) && stack != 0 && !waiting::joins(scene, segment.stack());
    Some(Culprit::thread(tid, stack, measured, by))
}

/// The thread that most likely ended the wait (`ran_before::releaser`).
pub fn releaser(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<u32> {
    match wakeup_record::of(scene, segment) {
        WakeRecord::By(tid) => Some(tid),
        WakeRecord::Elsewhere => None,
        WakeRecord::Nothing => {
            ran_before::releaser(scene, segment, &|| left_place(scene, segment).map(|c| c.tid))
        }
    }
}

/// As `releaser`, where each waiter is woken by another thread: for an Event or a thread's end.
pub fn waker(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<u32> {
    match wakeup_record::of(scene, segment) {
        WakeRecord::By(tid) => Some(tid),
        WakeRecord::Elsewhere => None,
        WakeRecord::Nothing => {
            ran_before::waker(scene, segment, &|| left_place(scene, segment).map(|c| c.tid))
        }
    }
}

/// As `waker`, for the end of a thread: not a thread that was seen later.
pub fn last_to_run(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<u32> {
    let (from, to) = scene.whole_wait(segment).times();
    let ended = |tid: &u32| {
        !thread_end::lives_behind(scene, *tid, to) && thread_end::is_born_at(scene, *tid, from)
    };
    waker(scene, segment).filter(ended)
}

/// The thread of this process that had the file lock that `segment` waits for: the waker, where
/// the kernel recorded it; else the one thread that was in the function that waits and did
/// something else there most of the while; else the one that went on just when the wait ended.
/// None when several did.
pub fn file_lock_holder(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    let (from, to) = (segment.from_ns, segment.to_ns);
    let by = Inference::InsideCall;
    let thread = |tid| Culprit::thread(tid, scene.main_stack(tid, from, to), false, by);
    match wakeup_record::of(scene, segment) {
        WakeRecord::By(tid) => {
            let stack =
                wakeup_record::release_stack(scene, segment, tid, scene.main_stack(tid, from, to));
            let by = Inference::WakeRecord;
            return (stack != 0).then(|| Culprit::thread(tid, stack, true, by));
        }
        WakeRecord::Elsewhere => return None,
        WakeRecord::Nothing => (),
    }
    match inside_call::of_file_lock(scene, segment)?.as_slice() {
        [only] => Some(thread(*only)),
        [] => file_lock_left(scene, segment),
        _ => None,
    }
}

/// The thread of this process that most likely had the file lock that `segment` waits for: its
/// interval in one function of the program's own ended when the wait did, whatever file that is
/// in; None when several fit, in different functions.
pub fn file_lock_left(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    left(scene, segment, &left_place::end_of_file_lock(scene, segment)?)
}

/// The thread whose interval in the program's own code ended when this wait did, as far as
/// samples show; None when several fit, in different functions. Cost: the samples of all
/// threads during the wait.
pub fn left_place(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    left(scene, segment, &left_place::near_end_of(scene, segment)?)
}

/// The thread whose interval in a function ended when a task's await of `segment` did, as
/// `keeper`: one that fulfils a future with `call_soon_threadsafe`. `looks_ns`: when the task
/// was seen there first and last; `until_ns`: when it was not any more. `knows`: only a thread
/// that shares a file with the task.
pub fn fulfiller(
    scene: &Scene<'_>,
    segment: &Segment<'_>,
    stack: u32,
    looks_ns: (u64, u64),
    until_ns: u64,
    knows: bool,
) -> Option<Culprit> {
    left(scene, segment, &left_place::end_of_await(stack, looks_ns, until_ns, knows)?)
}

/// A thread that waited for a lock for most of that time and was released when the task's await
/// ended: most likely it works for the future that was awaited. Its wait. None where several
/// fit, in different functions.
pub fn locked_worker<'c>(
    scene: &Scene<'c>,
    segment: &Segment<'_>,
    stack: u32,
    looks_ns: (u64, u64),
    until_ns: u64,
) -> Option<Segment<'c>> {
    let wait = left_place::end_of_await(stack, looks_ns, until_ns, false)?;
    let mut stays = left_place::that_ended(scene, segment.tid, &wait);
    stays.retain(|s| s.locked);
    stays.sort_by(|a, b| (&a.place, a.tid).cmp(&(&b.place, b.tid)));
    let first = stays.first()?;
    let function = |p: &Place| (p.qualified.clone(), p.file.clone());
    if stays.iter().any(|s| function(&s.place) != function(&first.place)) {
        return None;
    }
    let own = scene.timeline(first.tid, segment.from_ns, segment.to_ns);
    let locked = |s: &&Segment<'_>| s.state == State::Wait && s.wait() == WaitKind::Futex;
    let longest = own.into_iter().filter(|s| locked(&s)).max_by_key(Segment::ns)?;
    (longest.ns() * 2 > segment.ns()).then_some(longest)
}

/// The thread whose interval in a function took part of the wait and ended with it, or its own
/// blocker; None where it may be one or another. Asked about one wait at a time: the blocker of
/// an inferred holder is known from locks, not from ends of intervals again, which might lead
/// in a circle.
fn left(scene: &Scene<'_>, segment: &Segment<'_>, wait: &EndedWait) -> Option<Culprit> {
    if scene.left_place_asked.replace(true) {
        return None;
    }
    let chain = |first: Culprit, whole: &Segment<'_>| behind_with(scene, first, whole, true, false);
    let found = left_place::thread(scene, segment, wait, &chain);
    scene.left_place_asked.set(false);
    found
}
