//! The thread of a library's own that works for a task which awaits a future of the library's.
//!
//! How it works: a library hands calls that block to a thread of its own, one for each connection.
//! What that thread did is what the task waited for. As it has no code of the program's, the task
//! whose call it was at counts where samples show it; or, where the thread asked for a lock itself,
//! the lock.
//!
//! The same of a thread that waits for notice inside of a library: `flush()` of a client that sends
//! in the background.
//!
//! What it promises: an inference; nobody where several threads were at work at different things.

use analysis::frames::Owner;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::{AwaitKind, WaitKind};

use crate::claim::Blocker;
use crate::context::Context;
use crate::ended_by::tasks::tasks_seen::{self, Seen};
use crate::explain::Inference;
use crate::facts::activity;
use crate::facts::awaits::{self, Awaited};

/// The one thread in the code of the library whose future is awaited that was at work most of the
/// time: a library hands calls that block to a thread of its own.
pub(super) fn blocker(
    cx: &Context<'_>,
    line: &Awaited<'_>,
    segment: &Segment<'_>,
) -> Option<Blocker> {
    let package = awaits::library_of(cx, line.row.stack)?;
    let of_library =
        |stack: u32| cx.frames.any(stack, |f| cx.frames.package(f.file) == Some(package));
    let waits = |s: &Segment<'_>| s.state == State::Wait && s.wait() == WaitKind::Futex;
    let works = |s: &Segment<'_>| of_library(s.stack()) && !waits(s);
    let worker = at_work(cx, segment.tid, segment.times(), works)?;
    if cx.frames.has_user(worker.stack) {
        return Some(worker);
    }
    // It does what tasks asked for, one after the other.
    Some(on_whose_behalf(cx, (line, package), segment, worker).unwrap_or(worker))
}

/// The one thread of a library's own that was at work most of the time in which `segment` waited
/// inside of that library: for its notice, or for room in a queue that the thread empties. The
/// waiter's own thread is not the library's.
pub(in crate::ended_by) fn behind_call(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let runtime = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::Runtime;
    let package = |file| cx.frames.cargo_package(file).or_else(|| cx.frames.package(file));
    // What a library calls to wait is another one's at times.
    let called = cx.frames.of(segment.stack()).filter(|f| !runtime(f));
    let called = called.take_while(|f| cx.frames.owner(f.file) == Owner::Library);
    let called: Vec<&str> = called.filter_map(|f| package(f.file)).collect();
    let began = |stack: u32| {
        let outer = cx.frames.of(stack).filter(|f| !runtime(f)).last();
        outer.and_then(|f| package(f.file)).is_some_and(|own| called.contains(&own))
    };
    if called.is_empty() || began(segment.stack()) {
        return None;
    }
    let native = cx.frames.is_native_program();
    let rests = |s: &Segment<'_>| match s.wait() {
        WaitKind::Futex => true,
        // A runtime's thread has work of its own there, or none.
        WaitKind::Poll | WaitKind::Accept | WaitKind::Sleep => native,
        _ => false,
    };
    let works = |s: &Segment<'_>| {
        let own = began(s.stack()) && !(native && cx.frames.has_user(s.stack()));
        own && !(s.state == State::Wait && rests(s))
    };
    // One sample before is enough of a thread that has not moved since.
    let seen = |tid: &u32| !cx.all_samples(*tid).is_empty();
    let found = at_work_of(cx, segment.tid, cx.whole_wait(segment).times(), works, seen)?;
    // It is a thread: what it did is read from its samples.
    Some(Blocker { doing: None, ..found })
}

/// The task whose call a library's thread most likely worked at, while others waited in line with
/// theirs: one that awaited the library's answer elsewhere in the program for most of the time, and
/// did not come after this one. None where several did, at different places.
fn on_whose_behalf(
    cx: &Context<'_>,
    (line, package): (&Awaited<'_>, &str),
    segment: &Segment<'_>,
    worker: Blocker,
) -> Option<Blocker> {
    let own = line.row;
    let begin = |id: u64| cx.capture.requests.iter().find(|r| r.id == id).map(|r| r.begin_ns);
    let came = begin(own.request);
    let place = |stack: u32| cx.frames.innermost_user(stack);
    let mut found = Seen::new();
    for row in cx.await_samples_around(segment) {
        let asks = row.kind == AwaitKind::Future
            && (row.request, row.task) != (own.request, own.task)
            && awaits::by_library(cx, row)
            && awaits::library_of(cx, row.stack) == Some(package);
        let apart = || awaits::is_own(cx, row) && place(row.stack) != place(own.stack);
        let first = || row.request == 0 || begin(row.request) < came;
        if asks && apart() && first() {
            let seen = found.entry(row.task).or_insert((row.t_ns, row.t_ns, row));
            (seen.0, seen.1) = (seen.0.min(row.t_ns), seen.1.max(row.t_ns));
        }
    }
    let mut able = tasks_seen::covering(found, segment);
    able.sort_unstable_by_key(|row| (row.t_ns, row.task));
    let first = *able.first()?;
    let one = able.iter().all(|row| place(row.stack) == place(first.stack));
    tasks_seen::keep(cx, segment, &able, one);
    let task = Blocker::thread(segment.tid, first.stack, false, Inference::SameCode);
    one.then_some(Blocker { doing: worker.doing, ..task })
}

/// What the threads of the library whose future is awaited waited in for most of the time, if all
/// that did anything waited in the same way: each connection has its own, and all ask for one lock.
/// Of the whole await: others' turns on the loop cut it into short segments.
pub(crate) fn wait<'c>(
    cx: &Context<'c>,
    seen: &Awaited<'_>,
    segment: &Segment<'_>,
) -> Option<Segment<'c>> {
    let package = awaits::library_of(cx, seen.row.stack)?;
    let (from, to) = (seen.seen_ns.0.min(segment.from_ns), seen.until_ns.max(segment.to_ns));
    let of_library =
        |stack: u32| cx.frames.any(stack, |f| cx.frames.package(f.file) == Some(package));
    let asks = |s: &Segment<'_>| {
        s.state == State::Wait && s.wait() != WaitKind::Futex && of_library(s.stack())
    };
    let seen = |tid: &u32| !cx.samples_in(*tid, from, to).is_empty();
    let waits = |tid: u32| {
        let own: Vec<Segment<'c>> = cx.timeline(tid, from, to).into_iter().filter(asks).collect();
        let longest = *own.iter().max_by_key(|s| s.ns())?;
        Some((own.iter().map(Segment::ns).sum::<u64>(), longest))
    };
    let found: Vec<(u64, Segment<'c>)> =
        cx.others(segment.tid).filter(seen).filter_map(waits).collect();
    let (waited_ns, most) = *found.iter().max_by_key(|(ns, _)| *ns)?;
    let alike = |s: &Segment<'_>| s.wait() == most.wait() && cx.same_place(s.stack(), most.stack());
    (found.iter().all(|(_, s)| alike(s)) && waited_ns * 2 > to - from).then_some(most)
}

/// The one thread but `own` that ran, or waited, as `works` says for most of the time.
pub(super) fn at_work(
    cx: &Context<'_>,
    own: u32,
    (from, to): (u64, u64),
    works: impl Fn(&Segment<'_>) -> bool,
) -> Option<Blocker> {
    let seen = |tid: &u32| !cx.samples_in(*tid, from, to).is_empty();
    at_work_of(cx, own, (from, to), works, seen)
}

/// The same of those that `seen` says.
fn at_work_of(
    cx: &Context<'_>,
    own: u32,
    (from, to): (u64, u64),
    works: impl Fn(&Segment<'_>) -> bool,
    seen: impl Fn(&u32) -> bool,
) -> Option<Blocker> {
    let works = |s: &Segment<'_>| {
        matches!(s.state, State::Run | State::Ready | State::Wait) && s.stack() != 0 && works(s)
    };
    let at_work = |tid: &u32| cx.ns_of(*tid, (from, to), works) * 2 > to - from;
    let mut found = cx.others(own).filter(seen).filter(at_work);
    let (Some(tid), None) = (found.next(), found.next()) else { return None };
    // Of work on a crowded machine it counts what work it is.
    let longest = |s: &Segment<'_>| (s.state != State::Ready, s.ns());
    let longest = cx.timeline(tid, from, to).into_iter().filter(works).max_by_key(longest)?;
    let doing = Some(activity::of(cx, &longest));
    let own = Blocker::thread(tid, longest.stack(), false, Inference::SameCode);
    Some(Blocker { doing, ..own })
}
