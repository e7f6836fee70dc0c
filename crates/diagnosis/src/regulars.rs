//! Who was there each time: the thread that ran just before every one of several waits at a place ended.
//!
//! How it works: at the end of one wait somebody always happens to run, so a thread that shares no code with the
//! waiter is not named for it (`wakers`). But the chance that a thread was about just before an end is known
//! from how often it came during the wait, and how near to the end; for a thread that was there at the end of every one of several waits
//! these chances are multiplied. What is left of them must be small, and far from what any other thread has.
//! Inferred, so *likely* at most. Only where switch records are.

use crate::group::Weighed;
use crate::scene::{Culprit, Scene};
use crate::timeline::{Segment, State};
use capture::read::OffCpu;
use format::wait::WaitKind;

/// So many waits, this far apart, must have ended, and a chance of no more than this be left.
const LEAST_ENDS: usize = 3;
const APART_NS: u64 = 100_000_000;
const CHANCE: f64 = 1e-3;
/// The next best thread's chance must be this much larger.
const FAR: f64 = 100.0;
/// So short a time before an end a thread must have run; nearer than this is no better.
const JUST_BEFORE_NS: u64 = 3_000_000;
const NEAR_NS: u64 = 200_000;
/// More ends than these tell nothing new.
const MOST_ENDS: usize = 64;

/// A time in which threads waited at the place: from when the first of them to come back had begun to.
#[derive(Clone, Copy)]
struct Ended {
    from_ns: u64,
    to_ns: u64,
}

/// Names who ended the waits of a group in which no culprit is known, if one thread did each time.
pub fn name(scene: &Scene<'_>, pieces: &mut [Weighed<'_>]) {
    let waits = pieces.iter().map(|w| &w.piece.segment).filter(|s| is_told(s));
    let mut tids: Vec<u32> = waits.clone().map(|s| s.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    let ended = ends(waits.filter_map(|s| whole(scene, s)).collect());
    let Some(tid) = always_before(scene, &tids, &ended) else { return };
    for w in pieces.iter_mut().filter(|w| is_told(&w.piece.segment)) {
        let (from, to) = (w.piece.segment.from_ns, w.piece.segment.to_ns);
        let stack = scene.main_stack(tid, from, to);
        w.piece.claim.culprit = (stack != 0).then(|| Culprit::thread(tid, stack, false));
    }
}

fn is_told(segment: &Segment<'_>) -> bool {
    segment.exact && segment.state == State::Wait && segment.wait() == WaitKind::Futex
}

fn whole(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Ended> {
    if scene.is_still_waiting(segment) || scene.timed_out(segment) {
        return None;
    }
    let (from_ns, to_ns) = scene.whole_wait(segment, segment.sample?.target);
    (from_ns < to_ns).then_some(Ended { from_ns, to_ns })
}

/// The first of those that ended together: the others may have been let go by their fellows.
fn ends(mut all: Vec<Ended>) -> Vec<Ended> {
    all.sort_unstable_by_key(|e| e.to_ns);
    let mut out: Vec<Ended> = Vec::new();
    let mut last_ns: u64 = 0;
    for ended in all {
        if out.is_empty() || ended.to_ns > last_ns.saturating_add(APART_NS) {
            out.push(ended);
        }
        last_ns = ended.to_ns;
    }
    out.truncate(MOST_ENDS);
    out
}

/// The thread, not one of `waiters`, that ran just before each end, where that can hardly be chance.
fn always_before(scene: &Scene<'_>, waiters: &[u32], ended: &[Ended]) -> Option<u32> {
    if ended.len() < LEAST_ENDS {
        return None;
    }
    let others = scene.capture.samples.keys().copied().filter(|tid| !waiters.contains(tid));
    let chance = |tid: u32| -> Option<f64> {
        ended.iter().try_fold(1.0, |all, end| Some(all * chance_of(scene, tid, *end)?))
    };
    let mut found: Vec<(f64, u32)> = others.filter_map(|tid| Some((chance(tid)?, tid))).collect();
    found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    match found.as_slice() {
        [(best, tid), rest @ ..] if *best <= CHANCE => {
            rest.first().is_none_or(|(next, _)| *next >= FAR * best).then_some(*tid)
        }
        _ => None,
    }
}

/// How likely it was that `tid`, as often as it ran during the wait, ran so shortly before its end by chance;
/// None if it did not run then, or waited for others all the while.
fn chance_of(scene: &Scene<'_>, tid: u32, end: Ended) -> Option<f64> {
    let (from, to) = (end.from_ns, end.to_ns);
    if scene.is_parked(tid, from, to) {
        return None;
    }
    let off = scene.capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
    let during = &off[off.partition_point(|o| o.in_ns <= from)..];
    let during = &during[..during.partition_point(|o| o.out_ns < to)];
    let last = during.last()?;
    // It ran at the end, or so long before.
    let before_ns = if last.in_ns <= to { 0 } else { to - last.out_ns };
    if before_ns > JUST_BEFORE_NS {
        return None;
    }
    let away = |o: &OffCpu| o.in_ns.min(to).saturating_sub(o.out_ns.max(from));
    // A damaged capture may say that it was away twice at once.
    let away_ns = during.iter().map(away).fold(0, u64::saturating_add);
    let ran_ns = (to - from).saturating_sub(away_ns) as f64;
    let near_ns = before_ns.max(NEAR_NS) as f64 * during.len() as f64;
    Some(((ran_ns + near_ns) / (to - from) as f64).min(1.0))
}
