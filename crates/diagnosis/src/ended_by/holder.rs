//! The blocker of a thread's wait: the inferences that may know it, compared, and the blocking
//! chain behind it.
//!
//! How it works: each question about a wait (who has the lock, the item of a pool, the file lock;
//! whose end or notice is it for) is a list of inferences. Each of them answers with a candidate,
//! and the one with the heaviest evidence is the blocker (`candidate`, `evidence`). A blocker that
//! waited itself for most of the time is replaced by its own blocker, and so on: the last known one
//! is named (`behind`). One that waited for room in a queue or pipe is replaced by the thread that
//! empties it.
//!
//! What it promises: guesses end a chain that was measured. The question which thread left a
//! function is asked of one wait at a time: the chain behind its answer is known from locks, not
//! from ends of intervals again, which might lead in a circle.

use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::candidate::{self, Asked, Candidate, Source};
use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::ended_by::chain::{self, Reach};
use crate::ended_by::one_wait::left_place::{self, EndedWait};
use crate::ended_by::one_wait::{inside_call, lock_order, queue_reader, ran_before, transaction};
use crate::ended_by::read::wakeup_record::{self, WakeRecord};
use crate::ended_by::read::{owner, thread_end};
use crate::ended_by::tasks::{library_thread, package_workers};
use crate::evidence;
use crate::explain::{Dropped, Fate, Inference};
use crate::facts::{pools, threads, waiting};
use crate::memo::Transaction;

/// Threads a circle is searched through.
const HOPS_MAX: usize = 6;

/// An inference about one wait.
type Ask = fn(&Context<'_>, &Asked<'_>) -> Option<Candidate>;

/// Which thread has a lock, or is to give notice.
const OF_LOCK: &[Source<Ask>] = &[
    (Inference::NamedHolder, of_owner),
    (Inference::TimeLimit, of_time_limit),
    (Inference::WakeRecord, of_record),
    (Inference::InsideCall, of_call),
    (Inference::RanBefore, of_timing),
    (Inference::LeftPlace, of_condition),
    (Inference::SameCode, of_notifier),
];

/// Which thread had an item of a pool, or gave room in a queue.
const OF_POOL: &[Source<Ask>] = &[
    (Inference::TimeLimit, of_time_limit),
    (Inference::WakeRecord, of_any_record),
    (Inference::RanBefore, of_pool_timing),
    (Inference::LeftPlace, of_pool_samples),
    (Inference::SameCode, of_package),
    (Inference::QueueReader, of_room),
];

/// Which thread had a database.
const OF_DATABASE: &[Source<Ask>] = &[(Inference::OpenTransaction, of_transaction)];

/// Which thread of this process had a file lock.
const OF_FILE_LOCK: &[Source<Ask>] =
    &[(Inference::WakeRecord, of_file_record), (Inference::LeftPlace, of_file_samples)];

/// The end of which thread was waited for.
const OF_END: &[Source<Ask>] = &[
    (Inference::ThreadEndRead, of_joined),
    (Inference::WakeRecord, of_any_record),
    (Inference::RanBefore, of_last_to_run),
];

/// Which thread set an Event.
const OF_EVENT: &[Source<Ask>] = &[
    (Inference::WakeRecord, of_any_record),
    (Inference::RanBefore, of_any_timing),
    (Inference::SameCode, of_notifier),
];

/// Which threads blocked each other.
const OF_CIRCLE: &[Source<Ask>] =
    &[(Inference::NamedHolder, of_circle), (Inference::LockOrder, of_crossed)];

/// The best of what a list finds about a wait. A guess at a thread that could not go on before the
/// waiter did is none.
fn best(
    cx: &Context<'_>,
    list: &[Source<Ask>],
    asked: &Asked<'_>,
    fits: impl Fn(&Blocker) -> bool,
) -> Option<Blocker> {
    let able = |found: &Candidate| match found.blocker {
        Some(guess) if !evidence::is_fact(found.by) => {
            let waits = owner::is_waited_for_by(cx, asked.segment, guess.tid);
            if waits {
                drop_thread(cx, asked.segment, (guess.tid, guess.by), Dropped::Refuted);
            }
            !waits
        }
        _ => true,
    };
    let ask = |ask: Ask| ask(cx, asked).filter(able);
    candidate::best(cx, (asked.segment, list), ask, fits)
}

/// The holder of the lock `segment` waited for; when that thread waited for a lock itself, the
/// holder of that lock, and so on: the last known holder.
pub fn lock_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let blocker = direct_holder(cx, &Asked::about(segment))?;
    // A thread's end has no holder: its waker is the thread that ended, or not known.
    if !blocker.measured && waiting::joins(cx, segment.stack()) {
        return None;
    }
    let blocker = behind(cx, blocker, segment, false);
    // A thread that waited for a thread's end ran because that thread ended, not because it
    // released a lock.
    (blocker.measured || !waiting::joins(cx, blocker.stack)).then_some(blocker)
}

fn direct_holder(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Blocker> {
    best(cx, OF_LOCK, asked, |_| true)
}

/// The thread that had what `segment` waits for from a pool. `ended_here`: a thread of this process
/// ended the wait; else only what code says of a queue's reader counts.
pub fn pool_holder(cx: &Context<'_>, segment: &Segment<'_>, ended_here: bool) -> Option<Blocker> {
    let times = segment.times();
    let reads = |c: &Blocker| c.by == Inference::QueueReader;
    // A thread that has no work, or waits for the same, is no candidate: another one may be.
    let fits = |c: &Blocker| {
        let fellow = cx.same_place(c.stack, segment.stack())
            || pools::is_same_pool(cx, c.stack, segment.stack());
        let works = || reads(c) || !threads::is_idle_worker(cx, c.tid, times, c.stack);
        (ended_here || reads(c)) && !pools::is_idle(cx, c.stack) && !fellow && works()
    };
    best(cx, OF_POOL, &Asked::about(segment), fits)
}

/// The thread of this process that had the file lock that `segment` waits for.
pub fn file_lock_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    best(cx, OF_FILE_LOCK, &Asked::about(segment), |_| true)
}

/// The thread of this process that had the database whose lock `segment` waits for.
pub fn database_holder(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    best(cx, OF_DATABASE, &Asked::about(segment), |_| true)
}

/// The thread whose end, or whose `Event.set`, `segment` waits for.
pub fn awaited_thread(cx: &Context<'_>, segment: &Segment<'_>, joins: bool) -> Option<Blocker> {
    let list = if joins { OF_END } else { OF_EVENT };
    best(cx, list, &Asked::about(segment), |_| true)
}

/// The thread that `segment` waits for in a circle of threads that block each other.
pub fn in_circle(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    // Each thread of a circle waits for the next one, and so for the first.
    candidate::best(cx, (segment, OF_CIRCLE), |ask| ask(cx, &Asked::about(segment)), |_| true)
}

/// The blocker of `culprit`, if it waited for a lock or the GIL for most of the wait, then the
/// blocker's blocker, and so on; itself if there is none. A holder that was read may have had the
/// lock for a part of the wait: for most of `segment` then. `measured`: guesses end the chain.
pub fn behind(
    cx: &Context<'_>,
    blocker: Blocker,
    segment: &Segment<'_>,
    measured: bool,
) -> Blocker {
    let (from_ns, to_ns) = match blocker.measured {
        true => segment.times(),
        false => cx.whole_wait(segment).times(),
    };
    let wait = Segment { from_ns, to_ns, ..*segment };
    chain::follow(cx, blocker, &wait, &reach(measured, false))
}

fn reach(measured: bool, is_chained: bool) -> Reach {
    Reach { measured, is_chained, holder: direct_holder }
}

/// A thread that left a function, or the last of the chain behind it.
fn of_left(found: Blocker) -> Candidate {
    Candidate::found_by(Inference::LeftPlace, found)
}

fn of_owner(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    owner::of(cx, asked.segment).map(Candidate::of)
}

fn of_time_limit(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let ran_out = waiting::timed_out(cx, asked.segment);
    ran_out.then(|| Candidate::nobody(Inference::TimeLimit))
}

/// What the kernel recorded, with the waker where it released.
fn of_record(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let nobody = Candidate::nobody(Inference::WakeRecord);
    match wakeup_record::of(cx, asked.segment) {
        WakeRecord::Nothing => None,
        WakeRecord::Elsewhere => Some(nobody),
        WakeRecord::By(tid) => {
            let waker = admitted(cx, asked.segment, (tid, Inference::WakeRecord));
            // A thread's end is no lock that anybody had.
            let joins = waiting::joins(cx, asked.segment.stack());
            let read = |c: Blocker| Blocker { measured: c.stack != 0 && !joins, ..c };
            Some(waker.map_or(nobody, |c| Candidate::of(read(c))))
        }
    }
}

/// What the kernel recorded, whatever the waker did.
fn of_any_record(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    match wakeup_record::of(cx, asked.segment) {
        WakeRecord::Nothing => None,
        WakeRecord::Elsewhere => Some(Candidate::nobody(Inference::WakeRecord)),
        WakeRecord::By(tid) => Some(at_main_stack(cx, asked.segment, (tid, Inference::WakeRecord))),
    }
}

fn of_transaction(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let Transaction { tid, from_ns, to_ns } = transaction::of(cx, asked.segment)?;
    let stack = cx.main_stack(tid, from_ns, to_ns);
    let blocker = Blocker::thread(tid, stack, false, Inference::OpenTransaction);
    (stack != 0).then(|| Candidate::of(blocker))
}

fn of_file_record(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let nobody = Candidate::nobody(Inference::WakeRecord);
    let segment = asked.segment;
    match wakeup_record::of(cx, segment) {
        WakeRecord::Nothing => None,
        WakeRecord::Elsewhere => Some(nobody),
        WakeRecord::By(tid) => {
            let stack = wakeup_record::release_stack(cx, segment, tid, stack_of(cx, segment, tid));
            let waker = Blocker::thread(tid, stack, true, Inference::WakeRecord);
            Some(if stack == 0 { nobody } else { Candidate::of(waker) })
        }
    }
}

fn of_call(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let inside = inside_call::of(cx, asked.segment);
    let at = |tid| at_main_stack(cx, asked.segment, (tid, Inference::InsideCall));
    inside.map(at)
}

/// The thread that ran just before the wait ended, unless it had nothing to do with the lock.
fn of_timing(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let (segment, by) = (asked.segment, Inference::RanBefore);
    let tid = ran_before(cx, asked)?;
    if threads::computes_on(cx, tid, cx.whole_wait(segment).times()) {
        drop_thread(cx, segment, (tid, by), Dropped::ComputesOn);
        return None;
    }
    admitted(cx, segment, (tid, by)).map(Candidate::of)
}

/// Estimates hardly show which thread ran then, except for native code, whose few threads are where
/// they wait.
fn of_pool_timing(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    match shows_timing(cx, asked.segment) {
        true => of_any_releaser(cx, asked),
        false => None,
    }
}

fn of_pool_samples(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    match shows_timing(cx, asked.segment) {
        true => None,
        false => left_place(cx, asked).map(of_left),
    }
}

fn shows_timing(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    segment.exact || pools::native(cx, segment.stack()).is_some()
}

fn of_any_releaser(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let found = ran_before(cx, asked);
    let at = |tid| at_main_stack(cx, asked.segment, (tid, Inference::RanBefore));
    found.map(at)
}

/// Where each waiter is woken by another thread.
fn of_any_timing(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let left = || left_place(cx, asked).map(|c| c.tid);
    let found = ran_before::waker(cx, asked.segment, &left);
    let at = |tid| at_main_stack(cx, asked.segment, (tid, Inference::RanBefore));
    found.map(at)
}

/// The same, for the end of a thread: not a thread that was seen later.
fn of_last_to_run(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let (from, to) = cx.whole_wait(asked.segment).times();
    let ended =
        |tid: u32| !thread_end::lives_behind(cx, tid, to) && thread_end::is_born_at(cx, tid, from);
    of_any_timing(cx, asked).filter(|c| c.blocker.is_some_and(|b| ended(b.tid)))
}

fn of_joined(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let read = thread_end::joined(cx, asked.segment);
    let at = |tid| at_main_stack(cx, asked.segment, (tid, Inference::ThreadEndRead));
    read.map(at)
}

/// Of a Condition the thread counts that did something else until then, by estimates, which hardly
/// show which thread ran; a lock of its own kind is held by whichever thread comes next, too.
fn of_condition(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let segment = asked.segment;
    let waits = cx.frames.leaf_at(segment.stack(), Stdlib::Wait) && !segment.exact;
    let left = if waits { left_place(cx, asked) } else { None };
    left.filter(|c| !cx.same_place(c.stack, segment.stack())).map(of_left)
}

/// The thread that works for the package that waits: at what the program gave it, or at what a
/// full queue has.
fn of_package(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let segment = asked.segment;
    let sends = || {
        pools::puts(cx, segment.stack())
            || pools::native(cx, segment.stack()) == Some(Resource::Room)
    };
    let empties = || sends().then(|| library_thread::behind_call(cx, segment)).flatten();
    package_workers::of(cx, segment).or_else(empties).map(Candidate::of)
}

/// The thread of a library's own that is to give notice inside of that library.
fn of_notifier(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let waits = cx.frames.leaf_at(asked.segment.stack(), Stdlib::Wait);
    waits.then(|| library_thread::behind_call(cx, asked.segment)).flatten().map(Candidate::of)
}

/// The thread that is to make room in a queue.
fn of_room(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let puts = pools::puts(cx, asked.segment.stack());
    puts.then(|| queue_reader::of(cx, asked.segment)).flatten().map(Candidate::of)
}

/// The thread of this process that most likely had a file lock: its interval in one function of the
/// program's own ended when the wait did, whatever file that is in.
fn of_file_samples(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    let wait = left_place::near_end_of(cx, asked.segment)?;
    left(cx, asked, &wait.by_any_code()).map(of_left)
}

/// The holder of the lock, in a deadlock that records show: that thread waited most of the time
/// for a lock that this one held, itself or through others, or is behind some that blocked each
/// other so.
fn of_circle(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    in_deadlock(cx, asked.segment).map(Candidate::of)
}

fn of_crossed(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Candidate> {
    lock_order::inverted(cx, asked.segment).map(Candidate::of)
}

fn in_deadlock(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let known = |wait: &Segment<'_>| {
        direct_holder(cx, &Asked::about(wait)).filter(|holder| holder.measured)
    };
    let first = known(segment)?;
    let mut met = vec![segment.tid, first.tid];
    let mut at = first;
    for _ in 0..HOPS_MAX {
        let own = cx.timeline(at.tid, segment.from_ns, segment.to_ns);
        let waits = own.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
        let longest = waits.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns())?;
        at = known(longest)?;
        if met.contains(&at.tid) {
            return Some(first);
        }
        met.push(at.tid);
    }
    None
}

/// A thread as a candidate, at the place where it was most of the time.
fn at_main_stack(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    (tid, by): (u32, Inference),
) -> Candidate {
    Candidate::of(Blocker::thread(tid, stack_of(cx, segment, tid), false, by))
}

/// Where `tid` was for most of the wait: a part of it shows where the thread was before or after.
fn stack_of(cx: &Context<'_>, segment: &Segment<'_>, tid: u32) -> u32 {
    let (from, to) = cx.whole_wait(segment).times();
    cx.main_stack(tid, from, to)
}

/// A thread as the holder of a lock, where it released that. None where it was at the waiter's
/// place most of the time, and waited as well, or had no work then, and held nothing.
fn admitted(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    (tid, by): (u32, Inference),
) -> Option<Blocker> {
    let stack = stack_of(cx, segment, tid);
    let dropped = match cx.same_place(stack, segment.stack()) {
        true => Some(Dropped::SamePlace),
        false => pools::is_idle(cx, stack).then_some(Dropped::Idle),
    };
    if let Some(why) = dropped {
        drop_thread(cx, segment, (tid, by), why);
        return None;
    }
    let stack = wakeup_record::release_stack(cx, segment, tid, stack);
    Some(Blocker::thread(tid, stack, false, by))
}

fn drop_thread(cx: &Context<'_>, segment: &Segment<'_>, (tid, by): (u32, Inference), why: Dropped) {
    let found = Blocker::thread(tid, stack_of(cx, segment, tid), false, by);
    compare::keep_one(cx, Question::about(by, segment), &found, Fate::Dropped(why));
}

/// The thread that ran just before the wait ended.
fn ran_before(cx: &Context<'_>, asked: &Asked<'_>) -> Option<u32> {
    ran_before::releaser(cx, asked, &|| left_place(cx, asked).map(|c| c.tid))
}

/// The thread whose interval in the program's own code ended when this wait did, as far as
/// samples show; None when several fit, in different functions. Cost: the samples of all
/// threads during the wait.
fn left_place(cx: &Context<'_>, asked: &Asked<'_>) -> Option<Blocker> {
    left(cx, asked, &left_place::near_end_of(cx, asked.segment)?)
}

/// The thread whose interval in a function ended when a task's await of `segment` did: one that
/// fulfils a future with `call_soon_threadsafe`. `seen_ns`: when the task was seen there first and
/// last; `until_ns`: when it was not any more.
pub fn fulfiller(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    stack: u32,
    seen_ns: (u64, u64),
    until_ns: u64,
) -> Option<Blocker> {
    let wait = left_place::end_of_await(stack, seen_ns, until_ns)?;
    left(cx, &Asked::about(segment), &wait)
}

/// The thread whose interval in a function took part of the wait and ended with it, or its own
/// blocker; None where it may be one or another, or where the question is part of such a one.
fn left(cx: &Context<'_>, asked: &Asked<'_>, wait: &EndedWait) -> Option<Blocker> {
    if asked.is_chained {
        return None;
    }
    let reach = reach(true, true);
    let chain = |first: Blocker, whole: &Segment<'_>| chain::follow(cx, first, whole, &reach);
    left_place::thread(cx, asked.segment, wait, &chain)
}
