//! What the task of a request on an event loop was seen to await, one await at a time.
//!
//! How it works: while the request's task is suspended no thread executes it; the sample of the
//! task nearest to each moment says what that time was. Of several tasks awaited at once the one
//! seen longest counts: it is the one that was waited for in the end. Where a server's library
//! waits for the first of its own tasks (the handler, and one that takes the client's messages),
//! the one in the program's code counts: the other one ends with the connection.
//!
//! What it promises: an await's begin and end are known to the sampling period only, except where
//! the interpreter reported when no code of the request ran (CPython 3.14 and later): what samples
//! within such a time agree on, the task awaited for all of it. What is missing on purpose: an
//! await that no sample saw (a request within its usual time).

use std::collections::HashMap;

use analysis::frames::{last_part, Owner};
use analysis::requests::Judged;
use analysis::signatures::Stdlib;
use analysis::thresholds;
use analysis::timeline::Segment;
use capture::read::Frame;
use format::record::{Await, TARGET_IS_NAME};
use format::suspension::Suspension;
use format::wait::AwaitKind;

use crate::context::Context;
use crate::doing::Doing;

/// What the tasks of one request were seen to await, one at a time.
pub struct AwaitTimeline<'c> {
    seen: Vec<&'c Await>,
    /// Begin and end of the request.
    span_ns: (u64, u64),
    /// Awaits whose begin and end are known exactly; by time, disjoint.
    exact: Vec<Exact<'c>>,
}

/// A part of a segment, the sample that says what the task awaited then, and whether it did so for
/// exactly that time.
pub(crate) type Part<'c> = (Segment<'c>, Option<&'c Await>, bool);

/// An await from begin to end.
#[derive(Clone, Copy)]
struct Exact<'c> {
    from_ns: u64,
    to_ns: u64,
    row: &'c Await,
    /// When it was sampled last: what was awaited had not come by then. At `to_ns` the task ran
    /// again, which is later where the loop, or the machine, was busy.
    last_ns: u64,
}

/// The await of a suspension in which samples saw one and the same.
fn exact<'c>(seen: &[&'c Await], suspension: &Suspension) -> Option<Exact<'c>> {
    let Suspension { out_ns: from_ns, in_ns: to_ns, .. } = *suspension;
    let begin = seen.partition_point(|row| row.t_ns < from_ns);
    let end = seen.partition_point(|row| row.t_ns < to_ns);
    let rows = seen.get(begin..end)?;
    let row = *rows.first()?;
    // A sample is read after its time: one at the very end may have seen the task behind it.
    let was_read = row.t_ns + thresholds::clock_slack_ns() <= to_ns;
    let suspended = !matches!(row.kind, AwaitKind::Running | AwaitKind::Ready);
    let is_one = was_read && suspended && rows.iter().all(|other| same(Some(row), Some(other)));
    let last_ns = rows.last().map_or(row.t_ns, |last| last.t_ns);
    is_one.then_some(Exact { from_ns, to_ns, row, last_ns })
}

/// An await, and the whole time it was seen for.
#[derive(Clone, Copy)]
pub struct Awaited<'c> {
    /// The sample that represents it.
    pub row: &'c Await,
    /// How long it was at least: from its first to its last sample.
    pub(crate) least_ns: u64,
    /// How long at most: between the samples around these, or the request's begin and end.
    pub(crate) most_ns: u64,
    /// When it was seen first and last, and when it had ended.
    pub(crate) seen_ns: (u64, u64),
    pub(crate) until_ns: u64,
}

impl<'c> AwaitTimeline<'c> {
    /// Of a request.
    pub fn of(cx: &Context<'c>, request: &Judged<'c>) -> AwaitTimeline<'c> {
        let span_ns = (request.row.begin_ns, request.end_ns);
        let rows = cx.awaits_of(request.row.id);
        // A sample that was under way when it began or ended may have seen the task at something
        // else.
        let begin = rows.partition_point(|row| row.t_ns < span_ns.0);
        let end = rows.partition_point(|row| row.t_ns <= span_ns.1).max(begin);
        let rows = &rows[begin..end];
        let rows: Vec<&Await> = rows.iter().filter(|row| !watches_the_client(cx, row)).collect();
        let mut last_seen: HashMap<u64, u64> = HashMap::new();
        for row in &rows {
            last_seen.insert(row.task, row.t_ns);
        }
        let mut seen: Vec<&Await> = Vec::new();
        for row in rows {
            match seen.last_mut() {
                Some(kept) if kept.t_ns == row.t_ns => {
                    let rank = |row: &Await| {
                        let own = !is_beside_the_handler(cx, row.stack);
                        (own, last_seen.get(&row.task).copied())
                    };
                    if rank(row) > rank(kept) {
                        *kept = row;
                    }
                }
                _ => seen.push(row),
            }
        }
        let suspensions = cx.capture.suspensions.get(&request.row.id).into_iter().flatten();
        let exact = suspensions.filter_map(|one| exact(&seen, one)).collect();
        AwaitTimeline { seen, span_ns, exact }
    }

    /// Cuts a segment where an await is known to begin and end, and elsewhere where the nearest
    /// sample changes.
    pub(crate) fn cut(&self, segment: &Segment<'c>) -> Vec<Part<'c>> {
        let first = self.exact.partition_point(|one| one.to_ns <= segment.from_ns);
        let inside = self.exact[first..].iter().take_while(|one| one.from_ns < segment.to_ns);
        let (mut out, mut at) = (Vec::new(), segment.from_ns);
        let estimate = |from_ns: u64, to_ns: u64, out: &mut Vec<Part<'c>>| {
            if from_ns < to_ns {
                let parts = self.by_nearest(&Segment { from_ns, to_ns, ..*segment });
                out.extend(parts.into_iter().map(|(part, row)| (part, row, false)));
            }
        };
        for Exact { from_ns, to_ns, row, .. } in inside {
            let (from_ns, to_ns) = ((*from_ns).max(at), (*to_ns).min(segment.to_ns));
            estimate(at, from_ns, &mut out);
            out.push((Segment { from_ns, to_ns, ..*segment }, Some(*row), true));
            at = to_ns;
        }
        estimate(at, segment.to_ns, &mut out);
        out
    }

    /// Cuts a segment where the nearest sample changes.
    fn by_nearest(&self, segment: &Segment<'c>) -> Vec<(Segment<'c>, Option<&'c Await>)> {
        let mut out: Vec<(Segment<'c>, Option<&'c Await>)> = Vec::new();
        let mut push = |from_ns: u64, to_ns: u64, row: Option<&'c Await>| {
            let (from_ns, to_ns) = (from_ns.max(segment.from_ns), to_ns.min(segment.to_ns));
            if to_ns <= from_ns {
                return;
            }
            match out.last_mut() {
                Some((last, known)) if same(*known, row) => last.to_ns = to_ns,
                _ => out.push((Segment { from_ns, to_ns, ..*segment }, row)),
            }
        };
        let mut at = segment.from_ns;
        // Only the samples that can be nearest to some moment of the segment.
        let first =
            self.seen.partition_point(|r| r.t_ns + thresholds::one_activity_ns() < segment.from_ns);
        for (i, row) in self.seen.iter().enumerate().skip(first) {
            if at >= segment.to_ns
                || row.t_ns.saturating_sub(thresholds::one_activity_ns()) >= segment.to_ns
            {
                break;
            }
            let next = self.seen.get(i + 1).copied();
            let before = i.checked_sub(1).and_then(|i| self.seen.get(i).copied());
            let middle = next.map(|next| row.t_ns + (next.t_ns - row.t_ns) / 2);
            let end = middle.unwrap_or(u64::MAX).min(row.t_ns + reach_ns(row, next));
            let end = end.min(segment.to_ns);
            let begin = row.t_ns.saturating_sub(reach_ns(row, before)).max(at);
            if end <= at {
                continue;
            }
            push(at, begin, None);
            push(begin, end, Some(row));
            at = end.max(at);
        }
        push(at, segment.to_ns, None);
        out
    }

    /// Whether most samples in `[from, to)` saw it await something that work on another thread
    /// cannot end.
    pub fn awaits_else(&self, from_ns: u64, to_ns: u64) -> bool {
        let by_thread = |kind: AwaitKind| {
            use AwaitKind::{Event, Executor, Future, Ready, Resolve, Running};
            matches!(kind, Executor | Future | Event | Resolve | Running | Ready)
        };
        let samples = self.samples_in(from_ns, to_ns);
        samples.iter().filter(|r| !by_thread(r.kind)).count() * 2 > samples.len()
    }

    /// Whether an await for what no task of the loop ends was seen before `segment`, in which the
    /// loop was kept, and went on after it for as long as that: the loop delayed nothing. A shorter
    /// rest may be the next one of several short awaits at one place.
    pub(crate) fn outlasts(&self, cx: &Context<'_>, segment: &Segment<'_>) -> bool {
        let after = self.seen.partition_point(|row| row.t_ns <= segment.from_ns);
        let Some(before) = after.checked_sub(1).and_then(|i| self.seen.get(i)) else {
            return false;
        };
        if !busy_outside(cx, before) {
            return false;
        }
        let rest = &self.seen[after..];
        let alike = rest.iter().take_while(|row| same(Some(row), Some(before)));
        let until_ns = segment.to_ns.saturating_add(cx.busy_around(segment));
        alike.last().is_some_and(|row| row.t_ns >= until_ns)
    }

    /// The last stack seen in `[from, to)`, 0 without one.
    pub fn stack_in(&self, from_ns: u64, to_ns: u64) -> u32 {
        let samples = self.samples_in(from_ns, to_ns);
        let executor = samples.iter().rev().find(|r| r.kind == AwaitKind::Executor);
        executor.or(samples.last()).map_or(0, |r| r.stack)
    }

    fn samples_in(&self, from_ns: u64, to_ns: u64) -> &[&'c Await] {
        let begin = self.seen.partition_point(|r| r.t_ns < from_ns);
        let end = self.seen.partition_point(|r| r.t_ns < to_ns);
        &self.seen[begin..end.max(begin)]
    }

    /// The whole of the await that `row` is a sample of.
    pub(crate) fn whole(&self, row: &'c Await) -> Awaited<'c> {
        let known = self.exact.partition_point(|one| one.to_ns <= row.t_ns);
        if let Some(one) = self.exact.get(known).filter(|one| one.from_ns <= row.t_ns) {
            let Exact { from_ns, to_ns, last_ns, .. } = *one;
            let (least_ns, most_ns) = (last_ns - from_ns, to_ns - from_ns);
            return Awaited {
                row,
                least_ns,
                most_ns,
                seen_ns: (from_ns, last_ns),
                until_ns: to_ns,
            };
        }
        let place = self.seen.partition_point(|r| r.t_ns < row.t_ns);
        let alike = |r: &&&'c Await| same(Some(**r), Some(row));
        let first = place - self.seen[..place].iter().rev().take_while(alike).count();
        let end = place + self.seen[place..].iter().take_while(alike).count();
        let at = |i: usize| self.seen.get(i).map(|r| r.t_ns);
        let from = at(first).unwrap_or(row.t_ns);
        let to = end.checked_sub(1).and_then(at).unwrap_or(row.t_ns);
        let before = first.checked_sub(1).and_then(at).unwrap_or(self.span_ns.0);
        let after = at(end).unwrap_or(self.span_ns.1);
        let (before, after) = (
            before.max(from.saturating_sub(thresholds::stale_ns())),
            after.min(to + thresholds::stale_ns()),
        );
        let (least_ns, most_ns) = (to.saturating_sub(from), after.saturating_sub(before));
        Awaited { row, least_ns, most_ns, seen_ns: (from, to), until_ns: after }
    }
}

impl<'c> Awaited<'c> {
    /// An await that is taken to be that of another task, too, for all of a segment.
    pub(crate) fn over(row: &'c Await, segment: &Segment<'_>) -> Awaited<'c> {
        let (seen_ns, until_ns) = (segment.times(), segment.to_ns);
        Awaited { row, least_ns: 0, most_ns: segment.ns(), seen_ns, until_ns }
    }

    /// Whether it may have ended because its time was up: no shorter, as far as the samples show.
    pub fn timed_out(&self) -> bool {
        let limit = self.row.timeout_ns;
        let possible = self.most_ns + thresholds::clock_slack_ns() >= limit;
        limit > 0 && possible && self.least_ns <= limit + thresholds::clock_slack_ns()
    }
}

/// Whether the request of an await failed as soon as that ended: it got nothing.
pub(crate) fn failed_behind(cx: &Context<'_>, seen: &Awaited<'_>) -> bool {
    let own = cx.capture.requests.iter().find(|r| r.id == seen.row.request);
    let ended_ns = own.filter(|r| r.error).and_then(|r| r.end_ns);
    ended_ns.is_some_and(|end_ns| end_ns <= seen.until_ns + thresholds::await_seen_ns())
}

/// How far from `row`, towards the sample beside it, `row` is valid for the task.
fn reach_ns(row: &Await, beside: Option<&Await>) -> u64 {
    let alike = beside.is_some_and(|other| {
        same(Some(row), Some(other))
            && row.t_ns.abs_diff(other.t_ns) <= thresholds::one_activity_ns()
    });
    if alike {
        thresholds::one_activity_ns()
    } else {
        thresholds::stale_ns()
    }
}

pub(crate) fn same(a: Option<&Await>, b: Option<&Await>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a.task, a.stack, a.kind) == (b.task, b.stack, b.kind),
        (None, None) => true,
        _ => false,
    }
}

/// What the await's target says in words.
pub fn target(cx: &Context<'_>, row: &Await) -> Option<String> {
    let named = row.target & TARGET_IS_NAME != 0;
    named.then(|| cx.capture.name(row.target as u32).to_owned())
}

/// Whether the code that awaits, behind the interpreter's own, is an installed package's.
pub fn by_library(cx: &Context<'_>, row: &Await) -> bool {
    let owner = cx.frames.of(row.stack).map(|f| cx.frames.owner(f.file));
    let mut own = owner.filter(|o| matches!(o, Owner::User | Owner::Library));
    own.next() == Some(Owner::Library)
}

/// The library in whose code `stack` is innermost.
pub(crate) fn library_of<'c>(cx: &Context<'c>, stack: u32) -> Option<&'c str> {
    let library = |f: &capture::read::Frame<'c>| cx.frames.owner(f.file) == Owner::Library;
    let file = cx.frames.of(stack).find(library)?.file;
    cx.frames.package(file)
}

/// Whether a task awaits something outside of the process: work of its own, however long it takes.
pub(crate) fn busy_outside(cx: &Context<'_>, row: &Await) -> bool {
    use AwaitKind::{Child, Connect, Executor, Resolve, Socket};
    matches!(row.kind, Socket | Connect | Resolve | Executor | Child) || target(cx, row).is_some()
}

/// Whether a library waits for this task and others, and none of the program's code is inside of
/// that wait.
fn is_beside_the_handler(cx: &Context<'_>, stack: u32) -> bool {
    let user = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User;
    let mut inner =
        cx.frames.of(stack).skip_while(|f| !user(f) && !cx.frames.is_at(f, Stdlib::TasksWait));
    let waits = inner.next().is_some_and(|f| cx.frames.is_at(&f, Stdlib::TasksWait));
    let by = inner.find(|f| !cx.frames.is_at(f, Stdlib::TasksWait));
    waits && by.is_some_and(|f| cx.frames.owner(f.file) == Owner::Library)
}

/// Whether a library's task waits for its client to go away, or for its next message while the
/// handler works in another task: it holds nothing up.
pub(crate) fn watches_the_client(cx: &Context<'_>, row: &Await) -> bool {
    let for_the_end = cx.frames.any(row.stack, |f| {
        let library = || cx.frames.owner(f.file) == Owner::Library;
        last_part(f.function).contains("disconnect") && library()
    });
    let for_a_message =
        || row.kind == AwaitKind::Queue && !is_own(cx, row) && is_beside_the_handler(cx, row.stack);
    for_the_end || for_a_message()
}

/// Whether the program's own code is on the task's stack.
pub(crate) fn is_own(cx: &Context<'_>, row: &Await) -> bool {
    cx.frames.any(row.stack, |f| cx.frames.owner(f.file) == Owner::User)
}

/// What a task did that was in another one's way.
pub(crate) fn activity(cx: &Context<'_>, row: &Await) -> Doing {
    match target(cx, row) {
        Some(_) => Doing::Peer,
        None => by_kind(row),
    }
}

fn by_kind(row: &Await) -> Doing {
    match row.kind {
        AwaitKind::Sleep => Doing::Slept,
        AwaitKind::Lock | AwaitKind::Condition => Doing::AnotherLock,
        AwaitKind::Semaphore | AwaitKind::Queue => Doing::Pool,
        AwaitKind::Socket | AwaitKind::Connect | AwaitKind::Resolve => Doing::Peer,
        AwaitKind::Executor => Doing::Executor,
        AwaitKind::Child => Doing::Child,
        AwaitKind::Running | AwaitKind::Ready => Doing::Computed,
        // What a client library waits in, with a single socket behind it.
        AwaitKind::Future | AwaitKind::Event if row.target & TARGET_IS_NAME != 0 => Doing::Peer,
        AwaitKind::Future | AwaitKind::Event | AwaitKind::Native => Doing::Unseen,
    }
}
