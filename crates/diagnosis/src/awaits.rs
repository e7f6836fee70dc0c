//! A request on an event loop: its time, cut by what its task was seen to await.
//!
//! How it works: while the request's task is suspended no thread executes it; the sample of the
//! task nearest to each moment says what that time was. Of several tasks awaited at once the one
//! seen longest counts: it is the one that was waited for in the end. The loop's thread comes first
//! where it was kept from its poll call, by code in one place or by a stopped process: then the
//! task could not have gone on whatever it awaited.
//!
//! ```text
//!   loop's thread:  poll | callback | poll          | blocked by other code | poll
//!   task, seen:        . sleep   .  sleep  . sleep      .  sleep     .          . lock
//!   told:           sleep ........................... | loop-blocked          | lock-wait
//! ```
//!
//! What it promises: intervals that are exclusive and sum to the segment. An await's begin and end
//! are known to the sampling period only, so they count as estimates. What is missing on purpose:
//! an await that no sample saw (a request within its usual time).

use std::collections::HashMap;

use analysis::frames::{last_part, Owner};
use analysis::requests::Judged;
use analysis::timeline::{Segment, State};
use capture::read::TaskRow;
use format::record::{Await, TARGET_IS_NAME};
use format::wait::{AwaitKind, HolderSource};

use crate::causes::{self, pool_wait, Claim};
use crate::culprits;
use crate::explain::trace::Question;
use crate::explain::{Candidate, Dropped, Fact, Fate, Inference, Subject, Threshold, CANDIDATES};
use crate::pieces::Piece;
use crate::scene::{Culprit, Scene};

/// A moment further from every sample of the task is not explained by any. Tasks that do not move
/// are sampled every 100 ms.
const REACH_NS: u64 = 300_000_000;
/// Between two samples that found the task in the same await it was there all the while, however
/// rare the samples were: on a busy service there is no budget for more. A task that left and came
/// back within that time is taken for one that did not leave.
const ALIKE_NS: u64 = 3_000_000_000;
/// A sample this near to an interval counts as having seen it.
const SEEN_NS: u64 = 120_000_000;
/// How far a sample of the holder may be from a sample of the waiter: of several waiters for one
/// lock, only one at a time has its holder searched for.
const NEAR_NS: u64 = 40_000_000;
/// A wait that lasted this close to its time limit ended by it.
const TIMER_SLACK_NS: u64 = 5_000_000;

/// What the tasks of one request were seen to await, one at a time.
pub struct Line<'c> {
    seen: Vec<&'c Await>,
    /// Begin and end of the request.
    span_ns: (u64, u64),
}

/// An await, and the whole time it was seen for.
#[derive(Clone, Copy)]
pub struct Awaited<'c> {
    /// The sample that represents it.
    pub row: &'c Await,
    /// How long it was at least: from its first to its last sample.
    least_ns: u64,
    /// How long at most: between the samples around these, or the request's begin and end.
    most_ns: u64,
    /// When it was seen first and last, and when it had ended.
    looks_ns: (u64, u64),
    until_ns: u64,
}

impl<'c> Line<'c> {
    /// Of a request.
    pub fn of(scene: &Scene<'c>, request: &Judged<'c>) -> Line<'c> {
        let span_ns = (request.row.begin_ns, request.end_ns);
        let rows = scene.capture.awaits.get(&request.row.id).map_or(&[][..], Vec::as_slice);
        // A sample that was under way when it began or ended may have seen the task at something
        // else.
        let begin = rows.partition_point(|row| row.t_ns < span_ns.0);
        let end = rows.partition_point(|row| row.t_ns <= span_ns.1).max(begin);
        let rows = &rows[begin..end];
        // A library's task that waits for the client to go away holds nothing up.
        let watches = |row: &&Await| {
            scene.frames.any(row.stack, |f| {
                let library = || scene.frames.owner(f.file) == Owner::Library;
                last_part(f.function).contains("disconnect") && library()
            })
        };
        let rows: Vec<&Await> = rows.iter().filter(|row| !watches(row)).collect();
        let mut last_seen: HashMap<u64, u64> = HashMap::new();
        for row in &rows {
            last_seen.insert(row.task, row.t_ns);
        }
        let mut seen: Vec<&Await> = Vec::new();
        for row in rows {
            match seen.last_mut() {
                Some(kept) if kept.t_ns == row.t_ns => {
                    if last_seen.get(&row.task) > last_seen.get(&kept.task) {
                        *kept = row;
                    }
                }
                _ => seen.push(row),
            }
        }
        Line { seen, span_ns }
    }

    /// Cuts a segment where the nearest sample changes.
    fn cut(&self, segment: &Segment<'c>) -> Vec<(Segment<'c>, Option<&'c Await>)> {
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
        let first = self.seen.partition_point(|r| r.t_ns + ALIKE_NS < segment.from_ns);
        for (i, row) in self.seen.iter().enumerate().skip(first) {
            if at >= segment.to_ns || row.t_ns.saturating_sub(ALIKE_NS) >= segment.to_ns {
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
        let looks = self.looks_in(from_ns, to_ns);
        looks.iter().filter(|r| !by_thread(r.kind)).count() * 2 > looks.len()
    }

    /// The last stack seen in `[from, to)`, 0 without one.
    pub fn stack_in(&self, from_ns: u64, to_ns: u64) -> u32 {
        let looks = self.looks_in(from_ns, to_ns);
        let executor = looks.iter().rev().find(|r| r.kind == AwaitKind::Executor);
        executor.or(looks.last()).map_or(0, |r| r.stack)
    }

    fn looks_in(&self, from_ns: u64, to_ns: u64) -> &[&'c Await] {
        let begin = self.seen.partition_point(|r| r.t_ns < from_ns);
        let end = self.seen.partition_point(|r| r.t_ns < to_ns);
        &self.seen[begin..end.max(begin)]
    }

    /// The whole of the await that `row` is a sample of.
    fn whole(&self, row: &'c Await) -> Awaited<'c> {
        let place = self.seen.partition_point(|r| r.t_ns < row.t_ns);
        let alike = |r: &&&'c Await| same(Some(**r), Some(row));
        let first = place - self.seen[..place].iter().rev().take_while(alike).count();
        let end = place + self.seen[place..].iter().take_while(alike).count();
        let at = |i: usize| self.seen.get(i).map(|r| r.t_ns);
        let from = at(first).unwrap_or(row.t_ns);
        let to = end.checked_sub(1).and_then(at).unwrap_or(row.t_ns);
        let before = first.checked_sub(1).and_then(at).unwrap_or(self.span_ns.0);
        let after = at(end).unwrap_or(self.span_ns.1);
        let (before, after) = (before.max(from.saturating_sub(REACH_NS)), after.min(to + REACH_NS));
        let (least_ns, most_ns) = (to.saturating_sub(from), after.saturating_sub(before));
        Awaited { row, least_ns, most_ns, looks_ns: (from, to), until_ns: after }
    }
}

impl Awaited<'_> {
    /// Whether it may have ended because its time was up: no shorter, as far as the samples show.
    pub fn timed_out(&self) -> bool {
        let limit = self.row.timeout_ns;
        let possible = self.most_ns + TIMER_SLACK_NS >= limit;
        limit > 0 && possible && self.least_ns <= limit + TIMER_SLACK_NS
    }
}

/// How far from `row`, towards the sample beside it, `row` is valid for the task.
fn reach_ns(row: &Await, beside: Option<&Await>) -> u64 {
    let alike = beside.is_some_and(|other| {
        same(Some(row), Some(other)) && row.t_ns.abs_diff(other.t_ns) <= ALIKE_NS
    });
    if alike {
        ALIKE_NS
    } else {
        REACH_NS
    }
}

fn same(a: Option<&Await>, b: Option<&Await>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a.task, a.stack, a.kind) == (b.task, b.stack, b.kind),
        (None, None) => true,
        _ => false,
    }
}

/// The intervals of a segment of the loop's thread, for a request whose task was seen in `line`.
pub fn pieces<'c>(
    scene: &Scene<'c>,
    line: &Line<'c>,
    segment: Segment<'c>,
    out: &mut Vec<Piece<'c>>,
) {
    if let Some(claim) = causes::of_the_loop(scene, &segment) {
        out.push(Piece { segment, claim });
        return;
    }
    for (part, row) in line.cut(&segment) {
        let suspended = |row: &&Await| !matches!(row.kind, AwaitKind::Running | AwaitKind::Ready);
        let Some(row) = row.filter(suspended) else {
            out.push(Piece { claim: causes::claim(scene, &part), segment: part });
            continue;
        };
        let estimate = Segment { exact: false, state: State::Wait, ..part };
        let claim = causes::awaited(scene, &line.whole(row), &estimate);
        out.push(Piece { claim, segment: estimate });
    }
}

impl Claim {
    /// A claim with the await's stack.
    pub fn of_await(cause: causes::Cause, row: &Await, segment: &Segment<'_>) -> Claim {
        let near = row.t_ns + SEEN_NS >= segment.from_ns && row.t_ns <= segment.to_ns + SEEN_NS;
        Claim { stack: row.stack, seen: near, ..Claim::of(cause, segment) }
    }
}

/// The task that blocked `row`, as far as it was seen.
pub fn holder<'c>(scene: &Scene<'c>, line: &Awaited<'c>, segment: &Segment<'_>) -> Option<Culprit> {
    let row = line.row;
    let known = |r: &&&Await| r.holder != 0;
    // Holders are read less often than waiters are sampled: any sample of the same await will do.
    let rows = scene.capture.awaits.get(&row.request).map_or(&[][..], Vec::as_slice);
    let alike = rows.iter().filter(|r| same(Some(r), Some(row)));
    let nearest = alike.collect::<Vec<_>>();
    let asked = nearest.iter().filter(known).min_by_key(|r| r.t_ns.abs_diff(row.t_ns))?;
    let holders = scene.capture.awaits.get(&0).map_or(&[][..], Vec::as_slice);
    let own = holders.iter().filter(|h| h.task == asked.holder && h.stack != 0);
    let found = own.min_by_key(|h| h.t_ns.abs_diff(asked.t_ns))?;
    let near = found.t_ns.abs_diff(asked.t_ns) <= NEAR_NS;
    let (by, measured) = match asked.how {
        HolderSource::Refers => (Inference::TaskReference, false),
        _ => (Inference::TaskHolder, true),
    };
    let culprit = Culprit {
        doing: Some(told(scene, found)),
        ..Culprit::thread(segment.tid, found.stack, measured, by)
    };
    let fate = if near { Fate::Won } else { Fate::Dropped(Dropped::NotSeen) };
    scene.trace_one(Question::about(by, segment), &culprit, fate);
    near.then_some(culprit)
}

/// As `holder`; without one, the holder that was found for another request which waited at the same
/// place at the same time: tasks behind the head of a line wait for what blocks the head.
pub fn holder_of_any<'c>(
    scene: &Scene<'c>,
    line: &Awaited<'c>,
    segment: &Segment<'_>,
) -> Option<Culprit> {
    holder(scene, line, segment)
        .or_else(|| {
            let own = line.row;
            let (from, to) = (segment.from_ns.saturating_sub(SEEN_NS), segment.to_ns + SEEN_NS);
            let fellow = |r: &&Await| {
                r.holder != 0 && r.kind == own.kind && scene.same_place(r.stack, own.stack)
            };
            let rows = scene.looks_between(from, to).filter(fellow);
            let row = rows.min_by_key(|r| r.t_ns.abs_diff(own.t_ns))?;
            let theirs = Awaited { row, least_ns: 0, most_ns: 0, ..*line };
            let found = holder(scene, &theirs, segment)?;
            Some(Culprit { measured: false, by: Inference::FellowsHolder, ..found })
        })
        .or_else(|| usual_ender(scene, line.row, segment))
}

/// The thread that most likely fulfilled the future that was awaited.
pub fn fulfiller(scene: &Scene<'_>, line: &Awaited<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    scene.fulfiller(segment, line.row.stack, line.looks_ns, line.until_ns, true)
}

/// The same of a future of `concurrent.futures` that no known executor fulfils: a thread of the
/// program's own does, in whatever file, or a thread that it waited for.
pub fn worker_of_any(
    scene: &Scene<'_>,
    line: &Awaited<'_>,
    segment: &Segment<'_>,
) -> Option<Culprit> {
    let in_any = || scene.fulfiller(segment, line.row.stack, line.looks_ns, line.until_ns, false);
    fulfiller(scene, line, segment).or_else(in_any)
}

/// The blocker of the thread that most likely works for the future that was awaited, where that was
/// a lock with a known holder: what the request waited for in the end.
pub fn lock_of_worker(
    scene: &Scene<'_>,
    line: &Awaited<'_>,
    segment: &Segment<'_>,
) -> Option<Claim> {
    let row = line.row;
    let wait = scene.locked_worker(segment, row.stack, line.looks_ns, line.until_ns)?;
    let claim = causes::claim(scene, &wait);
    let known = claim.cause == causes::Cause::LockWait && claim.culprit.is_some();
    known.then_some(Claim { waiter: row.stack, inferred: true, ..claim })
}

/// The task that is to end a wait is searched for seldom. So it is taken to be the one that was to
/// end another wait at the same place of the code, as long as it was seen around this wait, too. An
/// inference.
fn usual_ender(scene: &Scene<'_>, own: &Await, segment: &Segment<'_>) -> Option<Culprit> {
    // The task that released a lock or an item for one waiter need not be the one that has it now.
    if matches!(own.kind, AwaitKind::Lock | AwaitKind::Semaphore) {
        return None;
    }
    let refers = |r: &&Await| r.holder != 0 && r.how == HolderSource::Refers && r.kind == own.kind;
    let told = scene.capture.awaits.values().flatten().filter(refers);
    let there = told.filter(|r| scene.same_place(r.stack, own.stack));
    let row = there.min_by_key(|r| (r.t_ns.abs_diff(own.t_ns), r.holder))?;
    let middle = segment.from_ns + segment.ns() / 2;
    let looks = scene.capture.awaits.get(&0).map_or(&[][..], Vec::as_slice);
    let its = looks.iter().filter(|h| h.task == row.holder && h.stack != 0);
    let found = its.min_by_key(|h| h.t_ns.abs_diff(middle))?;
    let near = segment.from_ns.saturating_sub(SEEN_NS)..segment.to_ns + SEEN_NS;
    let (doing, by) = (Some(self::told(scene, found)), Inference::UsualWaker);
    let culprit = Culprit { doing, ..Culprit::thread(segment.tid, found.stack, false, by) };
    let near = near.contains(&found.t_ns);
    let fate = if near { Fate::Won } else { Fate::Dropped(Dropped::NotSeen) };
    scene.trace_one(Question::about(by, segment), &culprit, fate);
    near.then_some(culprit)
}

/// Another task that most likely had what `line` awaited, where the lock or pool itself does not
/// name its holder: it was seen, most of the while, to await something else in the code of the
/// library whose pool it is, or, for what is the program's own, in the same file of it; for room in
/// a full queue, a task of no request that awaits something outside of the process. Tasks of
/// requests first; others only where none of a request fits. None when several at different places
/// were seen so. An inference, never more. Cost: the samples of that time.
pub fn likely_holder(
    scene: &Scene<'_>,
    line: &Awaited<'_>,
    segment: &Segment<'_>,
) -> Option<Culprit> {
    let own = line.row;
    let file = scene.frames.innermost_user(own.stack)?.file;
    let package = if by_library(scene, own) { library_of(scene, own.stack) } else { None };
    let knows = |stack: u32| match package {
        Some(package) => scene.frames.any(stack, |f| scene.frames.package(f.file) == Some(package)),
        None => scene.frames.any(stack, |f| f.file == file),
    };
    // A task that awaits elsewhere may have an item of a pool, but empties no queue. The one that
    // empties it is a task of no request, which may know the queue from elsewhere.
    let empties = |row: &Await| row.request == 0 && busy_outside(scene, row) && is_own(scene, row);
    let fills = pool_wait::awaits_room(scene, own.stack);
    let able = |row: &Await| if fills { empties(row) } else { knows(row.stack) };
    let (from, to) = (segment.from_ns.saturating_sub(SEEN_NS), segment.to_ns + SEEN_NS);
    let mut found: HashMap<u64, (u64, u64, &Await)> = HashMap::new();
    for row in scene.looks_between(from, to) {
        let other = row.request != own.request && row.task != own.task && row.stack != 0;
        let busy = !matches!(row.kind, AwaitKind::Lock | AwaitKind::Semaphore | AwaitKind::Queue);
        let fellow = scene.same_place(row.stack, own.stack);
        // A task of no request that only pauses, or waits for notice, is no more than idle. The
        // task that is to fulfil a future may itself wait for one, of a client library's.
        let future = |row: &Await| row.kind == AwaitKind::Future;
        let works = row.request != 0
            || busy_outside(scene, row)
            || future(own) && future(row) && is_own(scene, row)
            || scene.frames.any(row.stack, |f| f.releases);
        if other && busy && works && !fellow && able(row) {
            let seen = found.entry(row.task).or_insert((row.t_ns, row.t_ns, row));
            (seen.0, seen.1) = (seen.0.min(row.t_ns), seen.1.max(row.t_ns));
        }
    }
    let covers = |(begin, end, _): &(u64, u64, &Await)| {
        end.min(&segment.to_ns).saturating_sub(*begin.max(&segment.from_ns)) * 2 > segment.ns()
    };
    let mut able: Vec<&Await> = found.into_values().filter(covers).map(|f| f.2).collect();
    if able.iter().any(|row| row.request != 0) {
        able.retain(|row| row.request != 0);
    }
    able.sort_unstable_by_key(|row| (row.t_ns, row.task));
    let first = *able.first()?;
    let one = able.iter().all(|row| scene.same_place(row.stack, first.stack));
    trace_tasks(scene, segment, &able, one);
    if let Some(worker) = worker(scene, first, segment).filter(|_| one) {
        return Some(worker);
    }
    let doing = Some(told(scene, first));
    let own = Culprit::thread(segment.tid, first.stack, false, Inference::SameCode);
    one.then_some(Culprit { doing, ..own })
}

/// Keeps, if it is wanted, which tasks may have had what was awaited.
fn trace_tasks(scene: &Scene<'_>, segment: &Segment<'_>, able: &[&Await], one: bool) {
    if !scene.trace.wants(segment.from_ns, segment.to_ns) {
        return;
    }
    let fate = if one { Fate::Won } else { Fate::Dropped(Dropped::Ambiguous) };
    let candidate = |row: &&Await| Candidate {
        who: Subject::Task(row.task),
        place: scene.frames.innermost(row.stack),
        evidence: vec![Fact::SharesCode],
        weight: Some(1.0 / able.len() as f64),
        fate,
        won: usize::from(one),
    };
    let shown = able.iter().take(CANDIDATES).map(candidate).collect();
    let more = able.len().saturating_sub(CANDIDATES);
    let least = Threshold::part("task-in-same-code.part-of-wait", 0.5);
    let question = Question::about(Inference::SameCode, segment);
    scene.trace.put(question.answered((shown, more), vec![least]));
}

/// The thread that works for a request whose task awaits it in a library's code: what the thread
/// does says more than the await.
fn worker(scene: &Scene<'_>, row: &Await, segment: &Segment<'_>) -> Option<Culprit> {
    let waits = matches!(row.kind, AwaitKind::Future | AwaitKind::Executor | AwaitKind::Event);
    if row.request == 0 || !waits || !by_library(scene, row) {
        return None;
    }
    let (from, to) = (segment.from_ns, segment.to_ns);
    let overlap = |t: &&TaskRow| t.end_ns.min(to).saturating_sub(t.begin_ns.max(from));
    let own = scene.handed(row.request);
    let task = own.max_by_key(overlap).filter(|t| overlap(t) * 2 > segment.ns())?;
    let (from, to) = (task.begin_ns.max(from), task.end_ns.min(to));
    let (tid, stack) = (task.tid, scene.main_stack(task.tid, from, to));
    let longest = scene.timeline(tid, from, to).into_iter().max_by_key(Segment::ns);
    let doing = longest.map(|s| culprits::words(scene, &s));
    let by = Inference::ExecutorRecord;
    (stack != 0).then_some(Culprit { doing, ..Culprit::thread(tid, stack, false, by) })
}

/// Whether a task awaits something outside of the process: work of its own, however long it takes.
fn busy_outside(scene: &Scene<'_>, row: &Await) -> bool {
    use AwaitKind::{Child, Connect, Executor, Resolve, Socket};
    matches!(row.kind, Socket | Connect | Resolve | Executor | Child)
        || target(scene, row).is_some()
}

/// Whether the program's own code is on the task's stack.
fn is_own(scene: &Scene<'_>, row: &Await) -> bool {
    scene.frames.any(row.stack, |f| scene.frames.owner(f.file) == Owner::User)
}

/// The library in whose code `stack` is innermost.
fn library_of<'c>(scene: &Scene<'c>, stack: u32) -> Option<&'c str> {
    let library = |f: &capture::read::Frame<'c>| scene.frames.owner(f.file) == Owner::Library;
    let file = scene.frames.of(stack).find(library)?.file;
    scene.frames.package(file)
}

/// What a task did that was in another one's way.
fn told(scene: &Scene<'_>, row: &Await) -> &'static str {
    match target(scene, row) {
        Some(_) => "waited for a peer",
        None => doing(row),
    }
}

fn doing(row: &Await) -> &'static str {
    match row.kind {
        AwaitKind::Sleep => "slept",
        AwaitKind::Lock | AwaitKind::Condition => "waited for another lock",
        AwaitKind::Semaphore | AwaitKind::Queue => "waited for a pool",
        AwaitKind::Socket | AwaitKind::Connect | AwaitKind::Resolve => "waited for a peer",
        AwaitKind::Executor => "waited for an executor",
        AwaitKind::Child => "waited for a child process",
        AwaitKind::Running | AwaitKind::Ready => "computed",
        // What a client library waits in, with a single socket behind it.
        AwaitKind::Future | AwaitKind::Event if row.target & TARGET_IS_NAME != 0 => {
            "waited for a peer"
        }
        AwaitKind::Future | AwaitKind::Event => "waited for something that was not seen",
    }
}

/// What the await's target says in words.
pub fn target(scene: &Scene<'_>, row: &Await) -> Option<String> {
    let named = row.target & TARGET_IS_NAME != 0;
    named.then(|| scene.capture.name(row.target as u32).to_owned())
}

/// Whether the code that awaits, behind the interpreter's own, is an installed package's.
pub fn by_library(scene: &Scene<'_>, row: &Await) -> bool {
    let owner = scene.frames.of(row.stack).map(|f| scene.frames.owner(f.file));
    let mut own = owner.filter(|o| matches!(o, Owner::User | Owner::Library));
    own.next() == Some(Owner::Library)
}
