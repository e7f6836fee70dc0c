//! A request's time as claimed segments, on its own thread and on those that worked for it.

use capture::read::{Capture, Frame, TaskRow};

use crate::arrival;
use crate::awaits::{self, Line};
use crate::causes::{self, pool_wait, Cause, Claim};
use crate::crowded;
use crate::scene::Scene;
use crate::woken::Told;
use analysis::frames::Owner;
use analysis::requests::Judged;
use analysis::signatures::Stdlib;
use analysis::timeline::{self, Segment, State};
use format::wait::WaitKind;

/// A segment of a request and its claim.
pub struct Piece<'c> {
    /// The segment.
    pub segment: Segment<'c>,
    /// The claim.
    pub claim: Claim,
}

/// How far work is followed from thread to thread.
const MAX_HOPS: u32 = 4;

/// All claimed segments of a request. Their lengths sum to the request's time.
pub fn of_request<'c>(scene: &Scene<'c>, request: &Judged<'c>) -> Vec<Piece<'c>> {
    let row = request.row;
    let mut out;
    if row.on_loop {
        out = on_loop(scene, request);
    } else {
        out = arrival::pieces(scene, request);
        let started_ns = row.started_ns.clamp(row.begin_ns, request.end_ns);
        let all = (started_ns, request.end_ns);
        follow(scene, row.id, row.tid, all, all, 0, &mut out);
    }
    crowded::settle(scene, &mut out);
    crowded::doubt(&mut out);
    out
}

/// How the time of one request is divided: begin, end and cause of each interval, in order, without
/// gaps. Empty when the capture does not have the request.
pub fn divided(capture: &Capture, id: u64) -> Vec<(u64, u64, Cause)> {
    let Some(row) = capture.requests.iter().find(|r| r.id == id) else { return Vec::new() };
    let end_ns = row.end_ns.unwrap_or(capture.meta.to_ns).max(row.begin_ns);
    let pieces = of_request(&Scene::new(capture), &Judged { row, end_ns });
    pieces.iter().map(|p| (p.segment.from_ns, p.segment.to_ns, p.claim.cause)).collect()
}

/// Claimed segments of a request on an event loop. While a part of its work is with another thread,
/// they are that thread's, unless its task was seen to await something else or the loop itself
/// waited for a result. Otherwise they are what the loop did and what the task was seen to await.
/// They begin at its arrival: what the loop did instead of taking it up is part of it.
fn on_loop<'c>(scene: &Scene<'c>, request: &Judged<'c>) -> Vec<Piece<'c>> {
    let (row, mut out, mut at) = (request.row, Vec::new(), request.row.begin_ns);
    let line = Line::of(scene, request);
    let handed = scene.handed(row.id);
    let mut tasks: Vec<&TaskRow> = handed.filter(|t| t.tid != row.tid).collect();
    tasks.sort_by_key(|t| t.queued_ns);
    let alone = |from_ns: u64, to_ns: u64, out: &mut Vec<Piece<'c>>| {
        for segment in scene.timeline(row.tid, from_ns, to_ns) {
            awaits::pieces(scene, &line, segment, out);
        }
    };
    for task in tasks {
        let (from_ns, to_ns) = (task.queued_ns.max(at), task.end_ns.min(request.end_ns));
        let apart = |from, to| line.awaits_else(from, to) || stands(scene, row.tid, from, to);
        if from_ns < to_ns && !apart(from_ns, to_ns) {
            alone(at, from_ns, &mut out);
            let (state, exact) = (State::Wait, scene.capture.has_switches(from_ns, to_ns));
            let (sample, sampled) = (None, false);
            let handed = Segment { tid: row.tid, from_ns, to_ns, state, sample, sampled, exact };
            let before = out.len();
            through_task(scene, row.id, handed, task, 0, &mut out);
            // Time in the executor's queue belongs to the code that awaits, not to the loop's.
            let stack = line.stack_in(from_ns, to_ns);
            let queued = out[before..].iter_mut().filter(|p| p.segment.tid == row.tid);
            queued.for_each(|piece| piece.claim.stack = stack);
            at = to_ns;
        }
    }
    alone(at, request.end_ns, &mut out);
    out
}

/// Whether a loop's thread waited for the result of a pool most of the time, as no task does that
/// awaits it: that stops all its requests.
fn stands(scene: &Scene<'_>, tid: u32, from_ns: u64, to_ns: u64) -> bool {
    let own = scene.timeline(tid, from_ns, to_ns);
    let waits = own.iter().filter(|s| {
        s.state == State::Wait
            && s.wait() == WaitKind::Futex
            && pool_wait::is_of_a_pool(scene, s.stack())
    });
    waits.map(Segment::ns).sum::<u64>() * 2 > to_ns - from_ns
}

/// Claimed segments of `tid` in `[from, to)`; while it waits for work handed to another thread for
/// this request, that thread's segments replace the wait. `all`: the interval that it is a part of,
/// which samples describe as a whole.
fn follow<'c>(
    scene: &Scene<'c>,
    request: u64,
    tid: u32,
    (from_ns, to_ns): (u64, u64),
    all: (u64, u64),
    hops: u32,
    out: &mut Vec<Piece<'c>>,
) {
    let own = match hops {
        0 => timeline::of_request(scene.capture, tid, all.0, all.1),
        _ => scene.timeline(tid, all.0, all.1),
    };
    for segment in timeline::within(own, from_ns, to_ns) {
        let waits = segment.state == State::Wait && segment.wait() == WaitKind::Futex;
        let task = if waits && hops < MAX_HOPS { handed(scene, request, &segment) } else { None };
        match task {
            Some(task) => through_task(scene, request, segment, task, hops, out),
            None => match awaited_thread(scene, &segment).filter(|_| waits && hops < MAX_HOPS) {
                Some((other, told)) => {
                    let before = out.len();
                    let part = (segment.from_ns, segment.to_ns);
                    let (begin, end) = scene.whole_wait(&segment).times();
                    let all = (begin.clamp(from_ns, part.0), end.clamp(part.1, to_ns));
                    follow(scene, request, other, part, all, hops + 1, out);
                    // A thread that was not seen explains nothing.
                    let seen = out[before..].iter().filter(|p| p.claim.stack != 0);
                    if seen.map(|p| p.segment.ns()).sum::<u64>() * 2 < segment.ns() {
                        out.truncate(before);
                        out.push(Piece { claim: causes::claim(scene, &segment), segment });
                    }
                    let stack = segment.stack();
                    let others = |p: &&mut Piece<'_>| p.segment.tid != tid && p.claim.waiter == 0;
                    out[before..].iter_mut().filter(others).for_each(|p| p.claim.waiter = stack);
                    if !told {
                        out[before..].iter_mut().for_each(|piece| piece.claim.inferred = true);
                    }
                }
                None => out.push(Piece { claim: causes::claim(scene, &segment), segment }),
            },
        }
    }
}

/// The thread whose end or whose `Event.set` the code of `segment` waits for, as far as it is
/// known, and whether that was read: from the object that is joined, or recorded by the kernel.
/// What it did meanwhile is what the request waited for.
fn awaited_thread(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<(u32, bool)> {
    let mut waits = 0;
    let mut joins = false;
    for frame in scene.frames.of(segment.stack()).take(3) {
        waits += usize::from(scene.frames.is_at(&frame, Stdlib::Wait));
        joins |= scene.frames.is_at(&frame, Stdlib::ThreadJoin);
    }
    // `Event.wait` calls `Condition.wait`; one alone is a condition of the program's own. What a
    // pool hands out comes from no thread in particular.
    let pool = pool_wait::is_of_a_pool(scene, segment.stack());
    if !joins && waits < 2 || pool || scene.timed_out(segment) {
        return None;
    }
    if let Some(joined) = scene.joined(segment).filter(|_| joins) {
        return Some((joined, true));
    }
    let told = scene.told_waker(segment);
    let other = match joins {
        true if told != Told::Nothing => scene.waker(segment)?,
        true => scene.ended_at(segment).or_else(|| scene.last_to_run(segment))?,
        false => scene.waker(segment)?,
    };
    // A thread in its own accept or poll loop is nobody's worker.
    let seen = scene.sample_near(other, segment.from_ns + segment.ns() / 2);
    let idles = seen.is_some_and(|s| matches!(s.wait, WaitKind::Accept | WaitKind::Poll));
    (!idles).then_some((other, told == Told::By(other)))
}

/// The longest part of this request's work on another thread that `segment` waited for.
fn handed<'c>(scene: &Scene<'c>, request: u64, segment: &Segment<'_>) -> Option<&'c TaskRow> {
    let overlap =
        |t: &&TaskRow| t.end_ns.min(segment.to_ns).saturating_sub(t.queued_ns.max(segment.from_ns));
    let own = scene.handed(request).filter(|t| t.tid != segment.tid);
    own.max_by_key(overlap).filter(|t| overlap(t) * 2 >= segment.ns())
}

fn through_task<'c>(
    scene: &Scene<'c>,
    request: u64,
    segment: Segment<'c>,
    task: &TaskRow,
    hops: u32,
    out: &mut Vec<Piece<'c>>,
) {
    let begun = task.begin_ns.clamp(segment.from_ns, segment.to_ns);
    let done = task.end_ns.clamp(begun, segment.to_ns);
    if begun > segment.from_ns {
        let queued = Segment { to_ns: begun, ..segment };
        let claim = pool_wait::queued(scene, &queued, task.tid);
        out.push(Piece { segment: queued, claim });
    }
    if done > begun {
        let before = out.len();
        follow(scene, request, task.tid, (begun, done), (begun, done), hops + 1, out);
        // The work of a thread that has no code of the program's or a library's is reported where
        // that is waited for.
        let program =
            |f: &Frame<'_>| matches!(scene.frames.owner(f.file), Owner::User | Owner::Library);
        for piece in &mut out[before..] {
            let stack = piece.claim.stack;
            if stack != 0 && !scene.frames.any(stack, program) && segment.stack() != 0 {
                piece.claim.stack = segment.stack();
            }
        }
    }
    if segment.to_ns > done {
        let rest = Segment { from_ns: done, ..segment };
        out.push(Piece { claim: causes::claim(scene, &rest), segment: rest });
    }
}
