//! The thread of this process that had a CPU while another one had none.

use analysis::thresholds;
use analysis::timeline::Segment;

use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference, Threshold};

/// The thread of this process that had a CPU most while `segment` had none, if its threads took
/// at least half of all that the process may use; None where others of the machine did, or how
/// many there are is not known. Cost: a timeline of each thread.
pub fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let cpus = cx.capture.meta.all["cpus"].as_u64().filter(|cpus| *cpus > 0)?;
    let (from, to) = segment.times();
    if segment.ns() < thresholds::turn_ns() {
        return None;
    }
    // The recorder's threads use a CPU as any others do.
    let others = cx.threads.iter().copied().filter(|tid| *tid != segment.tid);
    let all: Vec<(u64, u32)> = others.map(|tid| (cx.ran_ns(tid, (from, to)), tid)).collect();
    let sum = all.iter().fold(0u64, |sum, (ns, _)| sum.saturating_add(*ns));
    let (_, tid) = all.iter().copied().max()?;
    let stack = cx.main_stack(tid, from, to);
    let ours = sum.saturating_mul(2) >= cpus.saturating_mul(segment.ns()) && stack != 0;
    let question = Question::about(Inference::CpuUser, segment);
    if cx.trace.wants(from, to) {
        let tally: Vec<(u32, u64)> =
            all.iter().filter(|(ns, _)| *ns > 0).map(|(ns, tid)| (*tid, *ns)).collect();
        let lost = if ours { Dropped::LessEvidence } else { Dropped::TooLittle };
        let least = Threshold::part("cpu-user.part-of-all-cpus", thresholds::half());
        compare::keep_tally(
            cx,
            question,
            (&tally, Fact::Time),
            (ours.then_some(tid), lost),
            &[least],
        );
    }
    ours.then(|| Blocker::thread(tid, stack, segment.exact, question.by))
}
