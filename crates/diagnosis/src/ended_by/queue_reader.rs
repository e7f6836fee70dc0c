//! The thread that is to empty the full queue that is waited for.

use analysis::thresholds::{self, is_part};
use analysis::timeline::Segment;
use capture::read::Frame;
use format::record::Sample;
use format::wait::WaitKind;

use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference};
use crate::facts::{pools, threads};

/// The thread that most likely is to empty the full queue that is waited for: it was in the file of
/// the code that waits for most of the while, at something else than a pool; None if several were,
/// at different places.
pub(crate) fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let (from, to) = (segment.from_ns, segment.to_ns);
    let file = cx.frames.innermost_user(segment.stack())?.file;
    let is_in = |f: &Frame<'_>| f.file == file && f.function != "<module>";
    let works = |s: &Sample| {
        let waits = s.wait == WaitKind::Futex && pools::is_of_a_pool(cx, s.stack);
        !waits && cx.frames.any(s.stack, is_in)
    };
    // A wait is cut at samples: those of its whole length show more.
    let (begin, end) = cx.whole_wait(segment).times();
    // With switch records a blocked thread is sampled once, which may have been before: it was
    // there until it ran.
    let was_there = |tid: u32| {
        let before = cx.samples_in(tid, 0, to).last().filter(|s| segment.exact && works(s))?;
        let until = threads::off_cpu_until(cx, tid, before.t_ns)?.min(to);
        is_part(until.saturating_sub(before.t_ns.max(from)), thresholds::main_part(), to - from)
            .then_some(tid)
    };
    let able = |tid: u32| {
        let samples = cx.samples_in(tid, begin.min(from), end.max(to));
        let there = samples.iter().filter(|s| works(s)).count();
        let often = there >= thresholds::repeated()
            && is_part(there as u64, thresholds::main_part(), samples.len() as u64);
        often.then_some(tid).or_else(|| was_there(tid))
    };
    let mut all: Vec<u32> = cx.capture.samples.keys().copied().collect();
    all.sort_unstable();
    let others = all.into_iter().filter(|tid| *tid != segment.tid).filter_map(able);
    let with_stack = |tid: u32| (tid, cx.main_stack(tid, from, to));
    let found: Vec<(u32, u32)> = others.map(with_stack).filter(|(_, stack)| *stack != 0).collect();
    let (tid, stack) = *found.first()?;
    let one = found.iter().all(|(_, other)| cx.same_place(*other, stack));
    let by = Inference::QueueReader;
    let tally: Vec<(u32, u64)> = found.iter().map(|(tid, _)| (*tid, 1)).collect();
    let won = (one.then_some(tid), Dropped::Ambiguous);
    compare::keep_tally(cx, Question::about(by, segment), (&tally, Fact::Samples), won, &[]);
    one.then(|| Blocker::thread(tid, stack, false, by))
}
