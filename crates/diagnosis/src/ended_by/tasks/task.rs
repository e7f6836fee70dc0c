//! The blocker of a task's await on an event loop: another task, or the thread that is to fulfil
//! what was awaited.
//!
//! How it works: the samples of tasks name the holder of an asyncio lock, and which task refers to
//! what is awaited. Otherwise it is inferred: the task that ended other waits at the same place, or
//! a task that awaited something else in the same file or library.

use analysis::signatures::Stdlib;
use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment, State};
use capture::read::TaskRow;
use format::record::{Await, Sample};
use format::wait::{AwaitKind, HolderSource, WaitKind};

use crate::candidate::{self, Candidate, Source};
use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::ended_by::holder;
use crate::ended_by::tasks::tasks_seen::{self, Seen};
use crate::ended_by::tasks::{library_thread, package_workers, task_waker};
use crate::explain::{Dropped, Fate, Inference};
use crate::facts::awaits::{self, Awaited};
use crate::facts::{activity, pools};

/// The task that blocked `row`, as far as it was seen.
fn holder<'c>(cx: &Context<'c>, line: &Awaited<'c>, segment: &Segment<'_>) -> Option<Blocker> {
    let row = line.row;
    let known = |r: &&&Await| is_held(r);
    // Holders are read less often than waiters are sampled: any sample of the same await will do.
    let rows = cx.awaits_of(row.request);
    let alike = rows.iter().filter(|r| awaits::same(Some(r), Some(row)));
    let nearest = alike.collect::<Vec<_>>();
    let asked = nearest.iter().filter(known).min_by_key(|r| r.t_ns.abs_diff(row.t_ns))?;
    let holders = cx.awaits_of(0);
    let own = holders.iter().filter(|h| h.task == asked.holder && h.stack != 0);
    let found = own.min_by_key(|h| h.t_ns.abs_diff(asked.t_ns))?;
    let near = found.t_ns.abs_diff(asked.t_ns) <= thresholds::task_holder_ns();
    let (by, measured) = match asked.how {
        HolderSource::Refers => (Inference::TaskReference, false),
        _ => (Inference::TaskHolder, true),
    };
    let blocker = Blocker {
        doing: Some(awaits::activity(cx, found)),
        ..Blocker::thread(segment.tid, found.stack, measured, by)
    };
    let fate = if near { Fate::Won } else { Fate::Dropped(Dropped::NotSeen) };
    compare::keep_one(cx, Question::about(by, segment), &blocker, fate);
    near.then_some(blocker)
}

/// An inference about what a task awaits.
type Ask = for<'c> fn(&Context<'c>, &Awaited<'c>, &Segment<'_>) -> Option<Candidate>;

/// Which task has a lock of asyncio's, or is to give notice.
const OF_LOCK: &[Source<Ask>] = &[
    (Inference::TaskWaker, of_woken),
    (Inference::TaskHolder, of_samples),
    (Inference::UsualWaker, of_usual),
    (Inference::SameCode, of_same_code),
];

/// Which task is to give notice; another one in that code need not be.
const OF_NOTICE: &[Source<Ask>] = &[
    (Inference::TaskWaker, of_woken),
    (Inference::TaskHolder, of_samples),
    (Inference::UsualWaker, of_usual),
];

/// Which task has what a library hands out.
const OF_LIBRARY: &[Source<Ask>] = &[
    (Inference::TaskWaker, of_woken),
    (Inference::TaskHolder, of_samples),
    (Inference::SameCode, of_same_code),
];

/// Which task or thread is to fulfil a future of the program's own.
const OF_FUTURE: &[Source<Ask>] = &[
    (Inference::TaskWaker, of_woken),
    (Inference::TaskHolder, of_samples),
    (Inference::UsualWaker, of_usual),
    (Inference::LeftPlace, of_thread),
    (Inference::SameCode, of_same_code),
    (Inference::SameCode, of_programs_thread),
];

/// Which thread of a library's works for a future of the library's.
const OF_LIBRARYS_FUTURE: &[Source<Ask>] =
    &[(Inference::TaskWaker, of_woken), (Inference::SameCode, of_librarys_thread)];

/// Which task has the lock of a database that a library's thread asks for on a task's behalf.
const OF_DATABASE: &[Source<Ask>] = &[(Inference::SameCode, of_same_file)];

/// Which thread is to fulfil a future of `concurrent.futures` that no known executor fulfils.
const OF_EXECUTOR: &[Source<Ask>] = &[
    (Inference::TaskWaker, of_woken),
    (Inference::LeftPlace, of_thread),
    (Inference::SameCode, of_package),
];

/// What a task awaits, as far as that says which inferences know its blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A lock, a permit, an item of a queue.
    Lock,
    /// Notice.
    Notice,
    /// What a library hands out.
    Library,
    /// A future of the program's own.
    Future,
    /// A future of a library's.
    LibrarysFuture,
    /// The result of an executor.
    Executor,
    /// A database that a library's thread waits for.
    Database,
}

/// What makes a task one that may have what another one awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows<'a> {
    /// It is in the code of this library, whose pool it is.
    Library(&'a str),
    /// It is in the program's own file that awaits.
    File,
    /// The same of a request's, and what it awaited there ended no later.
    FileUntilThen,
}

/// The task or thread that most likely had what `line` awaited, or is to fulfil it.
pub fn blocker<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
    what: For,
) -> Option<Blocker> {
    let list = match what {
        For::Lock => OF_LOCK,
        For::Notice => OF_NOTICE,
        For::Library => OF_LIBRARY,
        For::Future => OF_FUTURE,
        For::LibrarysFuture => OF_LIBRARYS_FUTURE,
        For::Executor => OF_EXECUTOR,
        For::Database => OF_DATABASE,
    };
    candidate::best(cx, (segment, list), |ask| ask(cx, line, segment), |_| true)
}

fn of_samples<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Candidate> {
    holder(cx, line, segment).map(Candidate::of)
}

/// What woke the task of a native runtime.
fn of_woken<'c>(cx: &Context<'c>, line: &Awaited<'c>, segment: &Segment<'_>) -> Option<Candidate> {
    let until_ns = line.until_ns + thresholds::clock_slack_ns();
    let woken = task_waker::woken(cx, line.row, until_ns)?;
    let by = task_waker::waker(cx, woken)?;
    let blocker = task_waker::of(cx, line.row, by, segment)?;
    compare::keep_one(cx, Question::about(blocker.by, segment), &blocker, Fate::Won);
    Some(Candidate::of(blocker))
}

/// Whether a sample says who has what is awaited, not who ended that.
fn is_held(row: &Await) -> bool {
    row.holder != 0 && row.how != HolderSource::Woke
}

fn of_usual<'c>(cx: &Context<'c>, line: &Awaited<'c>, segment: &Segment<'_>) -> Option<Candidate> {
    usual_ender(cx, line.row, segment).map(Candidate::of)
}

/// What another task knows may lead to the thread that works for it.
fn of_same_code<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Candidate> {
    let library = || awaits::library_of(cx, line.row.stack);
    let package = awaits::by_library(cx, line.row).then(library).flatten();
    let found = likely_holder(cx, line, segment, package.map_or(Knows::File, Knows::Library));
    // The task that has an item of a library's pool need not be in that library's code meanwhile.
    let found = found.or_else(|| {
        package?;
        likely_holder(cx, line, segment, Knows::FileUntilThen)
    });
    found.map(|c| Candidate::found_by(Inference::SameCode, c))
}

fn of_librarys_thread<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Candidate> {
    library_thread::blocker(cx, line, segment).map(Candidate::of)
}

/// The same in the program's own file, whatever the library is.
fn of_same_file<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Candidate> {
    likely_holder(cx, line, segment, Knows::File).map(Candidate::of)
}

/// The one thread in the file whose future is awaited that was at work most of the time, if it
/// takes its work there from others: it was seen to wait for some. Those who wait in line behind
/// what it does see it leave nothing when their own wait ends.
fn of_programs_thread<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Candidate> {
    let place = cx.frames.innermost_user(line.row.stack)?;
    let takes_work = |s: &Sample| {
        let waits = || pools::is_idle(cx, s.stack) || cx.frames.leaf_at(s.stack, Stdlib::Wait);
        s.wait == WaitKind::Futex && cx.frames.is_in_file(s.stack, &place.file) && waits()
    };
    let works = |s: &Segment<'_>| {
        let pauses = matches!(s.wait(), WaitKind::Futex | WaitKind::Sleep | WaitKind::Accept);
        !(s.state == State::Wait && pauses) && cx.frames.is_in_file(s.stack(), &place.file)
    };
    // Of the whole await: others' turns on the loop cut it into short segments.
    let found = library_thread::at_work(cx, segment.tid, (line.seen_ns.0, line.until_ns), works)?;
    let is_worker = cx.all_samples(found.tid).iter().any(takes_work);
    is_worker.then(|| Candidate::of(found))
}

/// The thread of a native runtime's for blocking work that was at the program's.
fn of_package<'c>(
    cx: &Context<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Candidate> {
    if !cx.frames.is_native_program() {
        return None;
    }
    let times = (line.seen_ns.0.min(segment.from_ns), line.until_ns.max(segment.to_ns));
    package_workers::of_task(cx, line.row.stack, segment, times).map(Candidate::of)
}

/// A thread that shares a file with the task and left a function when the await ended, or the last
/// of the chain behind it.
fn of_thread<'c>(cx: &Context<'c>, line: &Awaited<'c>, segment: &Segment<'_>) -> Option<Candidate> {
    let Awaited { row, seen_ns, until_ns, .. } = *line;
    let found = holder::fulfiller(cx, segment, row.stack, seen_ns, until_ns);
    found.map(|c| Candidate::found_by(Inference::LeftPlace, c))
}

/// The task that is to end a wait is searched for seldom. So it is taken to be the one that was to
/// end another wait at the same place of the code, as long as it was seen around this wait, too. An
/// inference.
fn usual_ender(cx: &Context<'_>, own: &Await, segment: &Segment<'_>) -> Option<Blocker> {
    // The task that released a lock or an item for one waiter need not be the one that has it now.
    if matches!(own.kind, AwaitKind::Lock | AwaitKind::Semaphore) {
        return None;
    }
    let refers = |r: &&Await| r.holder != 0 && r.how == HolderSource::Refers && r.kind == own.kind;
    let referring = cx.capture.awaits.values().flatten().filter(refers);
    let there = referring.filter(|r| cx.same_place(r.stack, own.stack));
    let row = there.min_by_key(|r| (r.t_ns.abs_diff(own.t_ns), r.holder))?;
    let middle = segment.from_ns + segment.ns() / 2;
    let samples = cx.awaits_of(0);
    let its = samples.iter().filter(|h| h.task == row.holder && h.stack != 0);
    let found = its.min_by_key(|h| h.t_ns.abs_diff(middle))?;
    let near = segment.from_ns.saturating_sub(thresholds::await_seen_ns())
        ..segment.to_ns + thresholds::await_seen_ns();
    let (doing, by) = (Some(awaits::activity(cx, found)), Inference::UsualWaker);
    let blocker = Blocker { doing, ..Blocker::thread(segment.tid, found.stack, false, by) };
    let near = near.contains(&found.t_ns);
    let fate = if near { Fate::Won } else { Fate::Dropped(Dropped::NotSeen) };
    compare::keep_one(cx, Question::about(by, segment), &blocker, fate);
    near.then_some(blocker)
}

/// Another task that most likely had what `line` awaited, where the lock or pool itself does not
/// name its holder: it was seen, most of the time, to await something else in the code of the
/// library whose pool it is, or, for what is the program's own, in the same file of it; for room in
/// a full queue, a task of no request that awaits something outside of the process. Tasks of
/// requests first; others only where none of a request fits. None when several at different places
/// were seen so. An inference, never more. Cost: the samples of that time.
fn likely_holder(
    cx: &Context<'_>,
    line: &Awaited<'_>,
    segment: &Segment<'_>,
    what: Knows<'_>,
) -> Option<Blocker> {
    let own = line.row;
    let file = cx.frames.innermost_user(own.stack)?.file;
    let knows = |stack: u32| match what {
        Knows::Library(own) => cx.frames.any(stack, |f| cx.frames.package(f.file) == Some(own)),
        Knows::File | Knows::FileUntilThen => cx.frames.any(stack, |f| f.file == file),
    };
    // A task that awaits elsewhere may have an item of a pool, but empties no queue. The one that
    // empties it is a task of no request, which may know the queue from elsewhere.
    let empties =
        |row: &Await| row.request == 0 && awaits::busy_outside(cx, row) && awaits::is_own(cx, row);
    let fills = pools::awaits_room(cx, own.stack);
    let able = |row: &Await| if fills { empties(row) } else { knows(row.stack) };
    let mut found = Seen::new();
    for row in cx.await_samples_around(segment) {
        let is_task = row.request != 0 || row.how != HolderSource::Woke;
        let other = is_task && row.request != own.request && row.task != own.task && row.stack != 0;
        let busy = !matches!(row.kind, AwaitKind::Lock | AwaitKind::Semaphore | AwaitKind::Queue);
        let fellow = cx.same_place(row.stack, own.stack);
        // A task of no request that only pauses, or waits for notice, is no more than idle. The
        // task that is to fulfil a future may itself wait for one, of a client library's.
        let future = |row: &Await| row.kind == AwaitKind::Future;
        let works = row.request != 0
            || awaits::busy_outside(cx, row)
            || future(own) && future(row) && awaits::is_own(cx, row)
            || cx.frames.any(row.stack, |f| f.releases);
        // A server's task between two requests of its client has nothing.
        let idle = !awaits::is_own(cx, row) && cx.frames.any(row.stack, |f| cx.frames.serves(f));
        if other && busy && works && !idle && !fellow && able(row) {
            let seen = found.entry(row.task).or_insert((row.t_ns, row.t_ns, row));
            (seen.0, seen.1) = (seen.0.min(row.t_ns), seen.1.max(row.t_ns));
        }
    }
    let mut able = tasks_seen::covering(found, segment);
    if what == Knows::FileUntilThen {
        able.retain(|row| row.request != 0 && ends_with(cx, row, line));
    }
    if able.iter().any(|row| row.request != 0) {
        able.retain(|row| row.request != 0);
    }
    able.sort_unstable_by_key(|row| (row.t_ns, row.task));
    let first = *able.first()?;
    let one = able.iter().all(|row| cx.same_place(row.stack, first.stack));
    tasks_seen::keep(cx, segment, &able, one);
    if let Some(worker) = worker(cx, first, segment).filter(|_| one) {
        return Some(worker);
    }
    let doing = Some(awaits::activity(cx, first));
    let own = Blocker::thread(segment.tid, first.stack, false, Inference::SameCode);
    one.then_some(Blocker { doing, ..own })
}

/// Whether the await of `row` was not seen any more once that of `line` had ended.
fn ends_with(cx: &Context<'_>, row: &Await, line: &Awaited<'_>) -> bool {
    let until_ns = line.until_ns + thresholds::await_seen_ns();
    let rows = cx.awaits_of(row.request);
    !rows.iter().any(|r| r.t_ns > until_ns && awaits::same(Some(r), Some(row)))
}

/// The thread that works for a request whose task awaits it in a library's code: what the thread
/// does says more than the await.
fn worker(cx: &Context<'_>, row: &Await, segment: &Segment<'_>) -> Option<Blocker> {
    let waits = matches!(row.kind, AwaitKind::Future | AwaitKind::Executor | AwaitKind::Event);
    if row.request == 0 || !waits || !awaits::by_library(cx, row) {
        return None;
    }
    let (from, to) = segment.times();
    let overlap = |t: &&TaskRow| overlap_ns((t.begin_ns, t.end_ns), (from, to));
    let own = cx.handed(row.request);
    let task = own.max_by_key(overlap).filter(|t| overlap(t) * 2 > segment.ns())?;
    let (from, to) = (task.begin_ns.max(from), task.end_ns.min(to));
    let (tid, stack) = (task.tid, cx.main_stack(task.tid, from, to));
    let longest = cx.timeline(tid, from, to).into_iter().max_by_key(Segment::ns);
    let doing = longest.map(|s| activity::of(cx, &s));
    let by = Inference::ExecutorRecord;
    (stack != 0).then_some(Blocker { doing, ..Blocker::thread(tid, stack, false, by) })
}
