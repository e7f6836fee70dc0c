//! The threads of a package's own that work for the program: a wait in that package's code is for
//! them.
//!
//! How it works: a package of Rust's with a pool of threads (rayon) runs what the program gives it
//! there, and the program waits inside of the package until that is done. Such a thread's outermost
//! code is the package's, the waiter's is not. Where these threads had work for most of the wait,
//! what they did for the program is what was waited for.
//!
//! A task that awaits what a runtime's thread for blocking work is to do (tokio's) waits for such
//! threads, too. The runtime's workers, which run its tasks, are none of them.
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
use crate::facts::{activity, pools};

/// The thread of the package that `segment` waits in that ran longest for the program.
pub(crate) fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let package = pools::package_of_pool(cx, segment.stack())?;
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
        if pools::outermost_package(cx, stack) != Some(package) {
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

/// The thread of the packages that the task with `stack` awaits in that was longest at the
/// program's work in the whole await, `times`, if they had such work for most of it: whatever that
/// did, the thread was taken.
pub(crate) fn of_task(
    cx: &Context<'_>,
    stack: u32,
    segment: &Segment<'_>,
    times: (u64, u64),
) -> Option<Blocker> {
    let awaits = cx.frames.of(stack).take_while(|f| cx.frames.owner(f.file) != Owner::User);
    let packages: Vec<&str> = awaits.filter_map(|f| cx.frames.cargo_package(f.file)).collect();
    if packages.is_empty() {
        return None;
    }
    let works = |s: &Segment<'_>| {
        let caller = || caller_of_program(cx, s.stack());
        s.state != State::Unknown && caller().is_some_and(|own| packages.contains(&own))
    };
    // Of work on a crowded machine it counts what work it is.
    let heaviest = |s: &&Segment<'_>| (s.state != State::Ready, s.ns());
    let mut all_ns = 0;
    let mut most: Option<(u64, Segment<'_>)> = None;
    for tid in cx.others(segment.tid).filter(|tid| !cx.is_loop(&Segment { tid: *tid, ..*segment }))
    {
        let own = cx.timeline(tid, times.0, times.1);
        let longest = own.iter().filter(|s| works(s)).max_by_key(heaviest).copied();
        let ns = own.iter().filter(|s| works(s)).map(Segment::ns).sum();
        all_ns += ns;
        if most.is_none_or(|(had, _)| ns > had) {
            most = longest.map(|longest| (ns, longest)).or(most);
        }
    }
    let (_, longest) = most.filter(|_| all_ns * 2 > times.1.saturating_sub(times.0))?;
    let doing = Some(activity::of(cx, &longest));
    let thread = Blocker::thread(longest.tid, longest.stack(), false, Inference::SameCode);
    Some(Blocker { doing, ..thread })
}

/// The package that called the program's outermost function.
fn caller_of_program<'c>(cx: &Context<'c>, stack: u32) -> Option<&'c str> {
    let user = |f: &Frame<'c>| cx.frames.owner(f.file) == Owner::User;
    if !cx.frames.any(stack, |f| cx.frames.owner(f.file) == Owner::User) {
        return None;
    }
    let frames: Vec<Frame<'c>> = cx.frames.of(stack).collect();
    let outermost = frames.iter().rposition(user)?;
    frames[outermost + 1..].iter().find_map(|f| cx.frames.cargo_package(f.file))
}
