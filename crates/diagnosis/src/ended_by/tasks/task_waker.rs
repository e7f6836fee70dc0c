//! The blocker of a native task's await, by the thread that woke the task.
//!
//! How it works: what wakes such a task leaves its stack, the request it worked for, and its
//! thread. What that says depends on what is there:
//!
//! ```text
//!  the waker worked for a request that itself waited at     it was in front in the line: what woke
//!  the same place, or for a lock, for most of the time      that one, and so on
//!  its stack has code of the program                        that code released what was awaited
//!  neither, a thread that runs no tasks                     its work: its longest during the wait
//!  neither, a worker of the runtime                          nobody: a timer or a peer woke it
//! ```
//!
//! What it promises: a waker is measured; a place that only samples of its thread show is not, nor
//! the holder of a lock if the waker is a task of no request: it may have been in the same line.
//! Missing on purpose: what a waker that is a task did meanwhile, unless it works for a request,
//! whose samples say what it awaited.

use std::collections::BTreeMap;

use analysis::frames::Owner;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::record::Await;
use format::wait::{AwaitKind, HolderSource};

use crate::claim::Blocker;
use crate::context::Context;
use crate::doing::Doing;
use crate::explain::Inference;
use crate::facts::{activity, awaits};

/// Wakers that are followed: those in front in a line.
const LINE_MAX: usize = 64;

/// The blocker behind the waker `by` of the await that `row` is a sample of, in `segment`.
/// `Await` says what the row of a waker has.
pub(crate) fn of(
    cx: &Context<'_>,
    row: &Await,
    by: &Await,
    segment: &Segment<'_>,
) -> Option<Blocker> {
    let by = head_of_line(cx, row, by, segment)?;
    let own = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User;
    let loops = cx.is_loop(&Segment { tid: by.target as u32, ..*segment });
    if by.stack != 0 && cx.frames.any(by.stack, own) {
        let tid = if loops { segment.tid } else { by.target as u32 };
        // A task of no request may itself have been in line: nobody watches it.
        let measured = by.holder != 0 || row.kind != AwaitKind::Lock;
        let blocker = Blocker::thread(tid, by.stack, measured, Inference::TaskWaker);
        let doing = || awaited_most(cx, row, by, segment).unwrap_or_else(|| unseen(cx, segment));
        return Some(Blocker { doing: loops.then(doing), ..blocker });
    }
    let work = if loops { None } else { longest_work(cx, by.target as u32, segment) };
    work.map(|s| {
        let blocker = Blocker::thread(s.tid, s.stack(), false, Inference::TaskWaker);
        Blocker { doing: Some(activity::of(cx, &s)), ..blocker }
    })
}

/// What a task did that no sample saw in `segment`: it was suspended, and awaited something, if no
/// worker of the runtime ran for most of the time.
fn unseen(cx: &Context<'_>, segment: &Segment<'_>) -> Doing {
    let runs = |s: &Segment<'_>| s.state != State::Wait;
    let loops = |tid: &u32| cx.is_loop(&Segment { tid: *tid, ..*segment });
    let mut workers = cx.others(0).filter(loops);
    match workers.any(|tid| cx.ns_of(tid, segment.times(), runs) * 2 > segment.ns()) {
        true => Doing::NotSeen,
        false => Doing::Unseen,
    }
}

/// What the task of the request that `by` worked for awaited in most of its samples in `segment`,
/// or else near it, but what `row` awaits; None: it worked for no request, or no sample saw it.
fn awaited_most(cx: &Context<'_>, row: &Await, by: &Await, segment: &Segment<'_>) -> Option<Doing> {
    let rows = cx.capture.awaits.get(&by.holder).filter(|_| by.holder != 0)?;
    let in_line = |other: &Await| other.kind == row.kind && cx.same_place(other.stack, row.stack);
    let before = rows.iter().filter(|r| r.t_ns < by.t_ns && !in_line(r));
    let (from_ns, to_ns) = segment.times();
    let near_ns = thresholds::task_holder_ns();
    let near = from_ns.saturating_sub(near_ns)..to_ns + near_ns;
    let mut inside = before.clone().filter(|r| (from_ns..to_ns).contains(&r.t_ns)).peekable();
    if inside.peek().is_none() {
        let middle = from_ns + segment.ns() / 2;
        let found = before.filter(|r| near.contains(&r.t_ns));
        return found.min_by_key(|r| r.t_ns.abs_diff(middle)).map(|r| awaits::activity(cx, r));
    }
    let mut sums: BTreeMap<&'static str, (Doing, usize)> = BTreeMap::new();
    for other in inside {
        let doing = awaits::activity(cx, other);
        sums.entry(doing.text()).or_insert((doing, 0)).1 += 1;
    }
    sums.into_values().max_by_key(|(_, samples)| *samples).map(|(doing, _)| doing)
}

/// The waker of the request that was at the head of the line, if wakers worked for requests that
/// waited in the same line. None: what woke one of them was not recorded.
fn head_of_line<'c>(
    cx: &Context<'c>,
    row: &Await,
    by: &'c Await,
    segment: &Segment<'_>,
) -> Option<&'c Await> {
    let mut by = by;
    // Others' turns on the loop cut an await into short segments.
    let alike = |own: &&Await| awaits::same(Some(*own), Some(row));
    let first_ns = cx.awaits_of(row.request).iter().find(alike).map_or(row.t_ns, |own| own.t_ns);
    let from_ns = segment.from_ns.min(first_ns);
    for _ in 0..LINE_MAX {
        let until_ns = by.t_ns;
        let theirs = cx.capture.awaits.get(&by.holder).filter(|_| by.holder != 0);
        let theirs = theirs.into_iter().flatten();
        let theirs = theirs.filter(|other| other.kind == row.kind && other.t_ns < until_ns);
        let mut fellows = theirs
            .clone()
            .filter(|other| other.t_ns >= segment.from_ns && cx.same_place(other.stack, row.stack));
        let covers = |(first, last): &(&Await, &Await), from_ns: u64| {
            (last.t_ns - first.t_ns) * 2 > until_ns.saturating_sub(from_ns)
        };
        let Some(first) = fellows.next() else {
            // One that wanted the lock for something else (a writer among readers), or another
            // lock before it released this one: what it waited for most of the time counts.
            let mut theirs = theirs.filter(|other| other.t_ns >= from_ns);
            let ends = theirs.next().filter(|_| row.kind == AwaitKind::Lock);
            let ends = ends.map(|first| (first, theirs.next_back().unwrap_or(first)));
            let ends = ends.filter(|ends| covers(ends, from_ns));
            let next = ends.and_then(|(_, last)| waker(cx, last));
            match next.filter(|next| next.t_ns < until_ns) {
                Some(next) => by = next,
                None => return Some(by),
            }
            continue;
        };
        let last = fellows.last().unwrap_or(first);
        if !covers(&(first, last), segment.from_ns) && last.how != HolderSource::Woke {
            return Some(by);
        }
        by = waker(cx, last).filter(|next| next.t_ns < until_ns)?;
    }
    None
}

/// The row of the waker of an await, if `last`, its last sample, is of its end.
pub(crate) fn waker<'c>(cx: &Context<'c>, last: &Await) -> Option<&'c Await> {
    if last.how != HolderSource::Woke {
        return None;
    }
    let rows = cx.awaits_of(0);
    let begin = rows.partition_point(|row| row.t_ns < last.t_ns);
    let same = rows[begin..].iter().take_while(|row| row.t_ns == last.t_ns);
    same.into_iter().find(|row| row.task == last.holder)
}

/// The last sample of the await that `row` is one of, if it was woken before `until_ns`.
pub(crate) fn woken<'c>(cx: &Context<'c>, row: &Await, until_ns: u64) -> Option<&'c Await> {
    let rows = cx.awaits_of(row.request);
    let begin = rows.partition_point(|other| other.t_ns < row.t_ns);
    let rest = rows[begin..].iter().take_while(|other| other.t_ns <= until_ns);
    let mut alike = rest.filter(|other| awaits::same(Some(other), Some(row)));
    alike.find(|other| other.how == HolderSource::Woke)
}

/// What a thread did for the longest part of a time, apart from waiting for work.
fn longest_work<'c>(cx: &Context<'c>, tid: u32, segment: &Segment<'_>) -> Option<Segment<'c>> {
    let own = cx.timeline(tid, segment.from_ns, segment.to_ns);
    // A stack of which only the system's library was read says nothing.
    let named = |stack: u32| {
        let own = |f: &Frame<'_>| matches!(cx.frames.owner(f.file), Owner::User | Owner::Library);
        cx.frames.any(stack, own)
    };
    let works = |s: &Segment<'_>| {
        let waits = s.state == State::Wait && (cx.is_parked_worker(s) || s.stack() == 0);
        s.state != State::Unknown && named(s.stack()) && !waits
    };
    own.into_iter().filter(works).max_by_key(Segment::ns)
}
