//! Suspensions: times in which no code of a request ran on its event loop's thread.
//!
//! How it works: the binding reports each switch of a thread from one context to another, with the
//! requests of both. The table of open requests keeps when a request's context was left last
//! (`OpenTable`); when one is entered again, the time between is recorded if the sampler saw the
//! request's task meanwhile: only then does it say how long something was awaited.
//!
//! A native task (`dashcam::api::watch`) is suspended from the end of a poll to the next one, which
//! may be on another thread; its watch reports both.
//!
//! What it promises: a time is recorded only if every switch in it was reported. Records are no
//! more than samples of tasks. Missing on purpose: a suspension that has not ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use format::suspension::Suspension;

use crate::current::{current, is_on};
use crate::records::append;

/// A switch was not reported, since recording was off. Relaxed, as `SEEN_SINCE`: both are written
/// by threads that switch contexts, one at a time with the GIL; without it a thread reads its own.
static HAS_MISSED: AtomicBool = AtomicBool::new(false);
/// All switches since then were reported.
static SEEN_SINCE_NS: AtomicU64 = AtomicU64::new(0);

/// The calling thread goes on from a context of the request `left` to one of `entered` (0: of
/// none). Cost: one clock read; two loads and a store for each of the two.
#[inline]
pub fn context_switched(left: u64, entered: u64) {
    let Some(recorder) = current().filter(|_| left != entered) else { return };
    if !is_on() {
        return context_switch_missed();
    }
    let (now, open) = (sys::clock::now_ns(), recorder.open_requests());
    if HAS_MISSED.load(Ordering::Relaxed) {
        HAS_MISSED.store(false, Ordering::Relaxed);
        SEEN_SINCE_NS.store(now, Ordering::Relaxed);
    }
    if left != 0 {
        open.context_left(left, now);
    }
    if entered == 0 {
        return;
    }
    if let Some(out_ns) = open.context_entered(entered) {
        if out_ns >= SEEN_SINCE_NS.load(Ordering::Relaxed) {
            append(&Suspension { out_ns, in_ns: now, request: entered }.encode(), now);
        }
    }
}

/// The native task of `request` is suspended from `now_ns` on: its poll has ended. Cost: two loads
/// and a store.
#[inline]
pub fn task_left(request: u64, now_ns: u64) {
    if let Some(recorder) = current() {
        recorder.open_requests().task_left(request, now_ns);
    }
}

/// It is polled again, by whichever thread.
#[inline]
pub fn task_entered(request: u64) {
    let Some(recorder) = current().filter(|_| is_on()) else { return };
    let now = sys::clock::now_ns();
    if let Some(out_ns) = recorder.open_requests().task_entered(request) {
        append(&Suspension { out_ns, in_ns: now, request }.encode(), now);
    }
}

/// The calling thread switched contexts, and nothing is known of it.
#[inline]
pub fn context_switch_missed() {
    HAS_MISSED.store(true, Ordering::Relaxed);
}
