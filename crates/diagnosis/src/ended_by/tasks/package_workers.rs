//! The threads of a package's own that work for the program: a wait in that package's code is for
//! them.
//!
//! How it works: a package of Rust's with a pool of threads (rayon) runs what the program gives it
//! there, and the program waits inside of the package until that is done. Such a thread's outermost
//! code is the package's, the waiter's is not. Where these threads had work for most of the wait,
//! what they did for the program is what was waited for.
//!
//! What it promises: an inference; nobody where no sample saw them in the program's code. Which of
//! them did the waiter's own part is not known: the thread that ran longest stands for all. Cost:
//! the stacks of all samples during the wait, and a timeline of each such thread.

use std::collections::BTreeMap;

use analysis::frames::Owner;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::record::Sample;

use crate::claim::Blocker;
use crate::context::Context;
use crate::explain::Inference;

/// The thread of the package that `segment` waits in that ran longest for the program.
pub(crate) fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let package = innermost_package(cx, segment.stack())?;
    if outermost_package(cx, segment.stack()) == Some(package) {
        return None;
    }
    let (from, to) = cx.whole_wait(segment).times();
    let mut all_ns = 0;
    let mut most: Option<(u64, u32, u32)> = None;
    let mut tids: Vec<u32> = cx.capture.samples.keys().copied().collect();
    // A map has no order.
    tids.sort_unstable();
    for tid in tids.into_iter().filter(|tid| *tid != segment.tid) {
        let samples = cx.samples_in(tid, from, to);
        let Some(stack) = work_of(cx, samples, package) else { continue };
        let runs = |s: &&Segment<'_>| matches!(s.state, State::Run | State::Ready);
        let ns = cx.timeline(tid, from, to).iter().filter(runs).map(Segment::ns).sum();
        all_ns += ns;
        most = most.max(Some((ns, tid, stack)));
    }
    let (_, tid, stack) = most.filter(|_| all_ns * 2 > to - from)?;
    Some(Blocker::thread(tid, stack, false, Inference::SameCode))
}

/// The stack at whose place of the program's own code a worker of the package was seen most often.
fn work_of(cx: &Context<'_>, samples: &[Sample], package: &str) -> Option<u32> {
    let mut seen: BTreeMap<_, (usize, u32)> = BTreeMap::new();
    for stack in samples.iter().map(|s| s.stack).filter(|stack| *stack != 0) {
        if outermost_package(cx, stack) != Some(package) {
            return None;
        }
        if !cx.frames.has_user(stack) {
            continue;
        }
        let place = cx.frames.innermost_user(stack).map(|p| (p.qualified, p.file));
        seen.entry(place).or_insert((0, stack)).0 += 1;
    }
    seen.into_values().max().map(|(_, stack)| stack)
}

/// The package in whose code a stack is, under all of the program's own.
fn innermost_package<'c>(cx: &Context<'c>, stack: u32) -> Option<&'c str> {
    let runtime = |f: &Frame<'c>| cx.frames.owner(f.file) == Owner::Runtime;
    let first = cx.frames.of(stack).find(|f| !runtime(f))?;
    cx.frames.cargo_package(first.file)
}

/// The package whose code began what a thread with this stack does.
fn outermost_package<'c>(cx: &Context<'c>, stack: u32) -> Option<&'c str> {
    let runtime = |f: &Frame<'c>| cx.frames.owner(f.file) == Owner::Runtime;
    let last = cx.frames.of(stack).filter(|f| !runtime(f)).last()?;
    cx.frames.cargo_package(last.file)
}
