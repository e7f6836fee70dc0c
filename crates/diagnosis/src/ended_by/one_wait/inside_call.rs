//! The one thread that was in the very call that waits, and did something else there: a lock inside
//! of C code is taken and used by one line.

use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference, Threshold};

/// The one thread that was in the very call `segment` waits in for most of the wait, and did
/// something else there: a lock inside of C code (a buffered file's, a database connection's)
/// is taken and used by one line. None when several did.
pub fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<u32> {
    let (from, to) = cx.whole_wait(segment).times();
    let works = |s: &Segment<'_>| {
        let waits = matches!(s.wait(), WaitKind::Futex | WaitKind::Gil);
        !(s.state == State::Wait && waits) && cx.frames.same_call(s.stack(), segment.stack())
    };
    let seen = |tid: &u32| !cx.samples_in(*tid, from, to).is_empty();
    let all = cx.others(segment.tid).filter(seen);
    let inside = all.map(|tid| (tid, cx.ns_of(tid, (from, to), works))).filter(|(_, ns)| *ns > 0);
    let tally: Vec<(u32, u64)> = inside.collect();
    let mut most = tally.iter().filter(|(_, ns)| ns * 2 > to - from);
    let first = most.next().map(|(tid, _)| *tid);
    let won = first.filter(|_| most.next().is_none());
    if !tally.is_empty() {
        let question = Question::about(Inference::InsideCall, segment);
        let lost = if first.is_some() { Dropped::Ambiguous } else { Dropped::TooLittle };
        let least = Threshold::part("inside-the-call.part-of-wait", thresholds::half());
        compare::keep_tally(cx, question, (&tally, Fact::Time), (won, lost), &[least]);
    }
    won
}
