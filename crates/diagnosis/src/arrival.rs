//! Time a request lay in its socket before its handler began.
//!
//! No thread worked for it then, so its own timeline says nothing; what kept the *process* from
//! taking it up does. Five answers, the most telling first: the process stood still, a collection
//! ran, its worker got no CPU, threads waited for the GIL, the worker that took the request in the
//! end was busy with another one. The first that covers half of the time has it; none: unknown.

use crate::causes::{stopped, Cause, Claim};
use crate::pieces::Piece;
use crate::requests::Judged;
use crate::scene::{Culprit, Scene};
use crate::timeline::{self, Segment, State};
use capture::read::RequestRow;
use format::wait::WaitKind;

/// Threads whose waits for the GIL are looked at.
const MOST_THREADS: usize = 32;

/// The piece from a request's arrival to its handler's start; None when it was taken up at once.
pub fn piece<'c>(scene: &Scene<'c>, request: &Judged<'c>) -> Option<Piece<'c>> {
    let row = request.row;
    let (from_ns, to_ns) = (row.begin_ns, row.started_ns.min(request.end_ns));
    if to_ns <= from_ns {
        return None;
    }
    let exact = scene.capture.meta.source_on("switches");
    let segment = Segment {
        tid: row.tid,
        from_ns,
        to_ns,
        state: State::Wait,
        sample: None,
        sampled: false,
        exact,
    };
    let answers: [&dyn Fn() -> Answer; 5] = [
        &|| still(scene, &segment),
        &|| collection(scene, &segment),
        &|| starved(scene, &segment),
        &|| gil(scene, &segment),
        &|| busy(scene, request, &segment),
    ];
    let claim = answers.iter().find_map(|answer| {
        let (covered, claim) = answer()?;
        (covered * 2 >= segment.ns()).then_some(claim)
    });
    let claim = claim.unwrap_or_else(|| Claim::of(Cause::Unknown, &segment));
    Some(Piece { segment, claim: Claim { seen: claim.cause != Cause::Unknown, ..claim } })
}

type Answer = Option<(u64, Claim)>;

fn overlap(a: (u64, u64), b: &Segment<'_>) -> u64 {
    a.1.min(b.to_ns).saturating_sub(a.0.max(b.from_ns))
}

fn still(scene: &Scene<'_>, segment: &Segment<'_>) -> Answer {
    let most = |g: &&crate::scene::Gap| overlap((g.from_ns, g.to_ns), segment);
    let gap = scene.gaps.iter().max_by_key(most)?;
    Some((most(&gap), Claim::of(stopped::cause_of(gap), segment)))
}

fn collection(scene: &Scene<'_>, segment: &Segment<'_>) -> Answer {
    let most = |g: &&capture::read::GcRow| overlap((g.begin_ns, g.end_ns), segment);
    let gc = scene.capture.gcs.iter().max_by_key(most)?;
    let stack = scene.main_stack(gc.tid, gc.begin_ns, gc.end_ns);
    let culprit = Some(Culprit::thread(gc.tid, stack, true));
    Some((most(&gc), Claim { culprit, ..Claim::of(Cause::GcPause, segment) }))
}

/// How far behind the wait a sample may lie that still accounts for it.
const ACCOUNT_NS: u64 = 300_000_000;

/// The worker was runnable without a CPU: its next sample says for how long since the one before.
fn starved(scene: &Scene<'_>, segment: &Segment<'_>) -> Answer {
    let after = scene.samples_in(segment.tid, segment.from_ns, segment.to_ns + ACCOUNT_NS);
    let delay_ns = after.iter().map(|s| s.run_delay_ns).sum::<u64>().min(segment.ns());
    Some((delay_ns, Claim::of(Cause::CpuStarved, segment)))
}

/// The thread that waited longest for the GIL stands for all.
fn gil(scene: &Scene<'_>, segment: &Segment<'_>) -> Answer {
    let (from, to) = (segment.from_ns, segment.to_ns);
    let waits = |tid: u32| -> Vec<Segment<'_>> {
        let all = timeline::of_thread(scene.capture, tid, from, to);
        all.into_iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Gil).collect()
    };
    let threads = scene.capture.samples.iter().filter(|(tid, _)| {
        scene.samples_in(**tid, from, to).iter().any(|s| s.wait == WaitKind::Gil)
    });
    let longest = threads.take(MOST_THREADS).map(|(tid, _)| waits(*tid));
    let longest = longest.max_by_key(|w| w.iter().map(Segment::ns).sum::<u64>())?;
    let covered = longest.iter().map(Segment::ns).sum();
    let culprit = longest.iter().max_by_key(|s| s.ns()).and_then(|s| scene.gil_holder(s));
    Some((covered, Claim { culprit, ..Claim::of(Cause::GilWait, segment) }))
}

/// Its worker had other requests in hand. One of the same name that takes most of the time is the
/// head of a line: what it did is what this one waited for. Otherwise it is the pool that is short.
fn busy(scene: &Scene<'_>, request: &Judged<'_>, segment: &Segment<'_>) -> Answer {
    let end = |r: &RequestRow| r.end_ns.unwrap_or(scene.capture.meta.to_ns);
    let held = |r: &RequestRow| overlap((r.started_ns, end(r)), segment);
    let before: Vec<&RequestRow> = scene
        .capture
        .requests
        .iter()
        .filter(|r| r.tid == segment.tid && r.id != request.row.id && held(r) > 0)
        .collect();
    let covered = before.iter().map(|r| held(r)).sum();
    let longest = before.into_iter().max_by_key(|r| held(r))?;
    if held(longest) * 2 >= segment.ns() && longest.name == request.row.name {
        let (from, to) = (longest.started_ns, end(longest).min(segment.to_ns));
        let timeline = timeline::of_thread(scene.capture, segment.tid, from, to);
        let main = timeline.iter().max_by_key(|s| s.ns())?;
        return Some((covered, crate::causes::claim(scene, main)));
    }
    let stack = scene.main_stack(segment.tid, segment.from_ns, segment.to_ns);
    let culprit = (stack != 0).then_some(Culprit::thread(segment.tid, stack, true));
    Some((covered, Claim { culprit, ..Claim::of(Cause::PoolWait, segment) }))
}
