//! Comparisons of candidates: which threads were considered as the blocker of a wait, which test
//! dropped each, and what speaks for those that are left.
//!
//! How it works: a `Contest` is a list of candidates that shrinks test by test, and remembers which
//! were dropped and why if that is wanted. A finished comparison is kept in the context's trace.
//!
//! What it promises: nothing is made or kept while nobody asks for an explanation, and nothing here
//! changes an answer.

use analysis::timeline::Segment;

use crate::claim::Blocker;
use crate::context::Context;
use crate::explain::{
    Candidate, Comparison, Dropped, Fact, Fate, Inference, Subject, Threshold, CANDIDATES_MAX,
};

/// Candidates that are compared.
pub(crate) struct Contest {
    /// Those that are left.
    pub(crate) able: Vec<u32>,
    dropped: Option<Vec<(u32, Dropped)>>,
}

impl Contest {
    /// `remembers`: which threads are dropped, and why.
    pub(crate) fn of(all: impl Iterator<Item = u32>, remembers: bool) -> Contest {
        let mut able: Vec<u32> = all.collect();
        // A tally comes in any order.
        able.sort_unstable();
        Contest { able, dropped: remembers.then(Vec::new) }
    }

    /// Drops those that do not pass.
    pub(crate) fn keep(&mut self, why: Dropped, test: impl Fn(u32) -> bool) {
        let dropped = &mut self.dropped;
        self.able.retain(|tid| {
            let passes = test(*tid);
            if let (false, Some(dropped)) = (passes, dropped.as_mut()) {
                dropped.push((*tid, why));
            }
            passes
        });
    }

    /// The same, if any passes.
    pub(crate) fn prefer(&mut self, why: Dropped, test: impl Fn(u32) -> bool) {
        if self.able.len() > 1 && self.able.iter().any(|tid| test(*tid)) {
            self.keep(why, test);
        }
    }

    /// All of them as candidates, the winner first, and how many are left out. `lost`: why those
    /// that are left are not the winner.
    pub(crate) fn candidates(
        self,
        cx: &Context<'_>,
        (from_ns, to_ns): (u64, u64),
        (won, lost): (Option<u32>, Dropped),
        evidence: impl Fn(u32) -> (Vec<Fact>, Option<f64>),
    ) -> (Vec<Candidate>, usize) {
        let fate = |tid: u32| if Some(tid) == won { Fate::Won } else { Fate::Dropped(lost) };
        let mut left: Vec<(u32, Fate, bool)> =
            self.able.iter().map(|tid| (*tid, fate(*tid), true)).collect();
        left.sort_by_key(|(_, fate, _)| *fate != Fate::Won);
        // The thread that was dropped last came nearest.
        let dropped = self.dropped.into_iter().flatten().rev();
        left.extend(dropped.map(|(tid, why)| (tid, Fate::Dropped(why), false)));
        let more = left.len().saturating_sub(CANDIDATES_MAX);
        let shown = left.into_iter().take(CANDIDATES_MAX).map(|(tid, fate, weighed)| {
            let (evidence, weight) = if weighed { evidence(tid) } else { (Vec::new(), None) };
            let stack = cx.main_stack(tid, from_ns, to_ns);
            let place = cx.frames.innermost(stack);
            let won = usize::from(fate == Fate::Won);
            Candidate { subject: Subject::Thread(tid), place, evidence, weight, fate, won }
        });
        (shown.collect(), more)
    }
}

/// What speaks for each thread, and what that is: so many samples, or so many ns, of all.
pub(crate) type Tally<'t> = (&'t [(u32, u64)], fn(u64, u64) -> Fact);

/// What is asked about a wait.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    pub(crate) by: Inference,
    pub(crate) waiter: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Question {
    /// About a segment.
    pub(crate) fn about(by: Inference, segment: &Segment<'_>) -> Question {
        let Segment { tid: waiter, from_ns, to_ns, .. } = *segment;
        Question { by, waiter, from_ns, to_ns }
    }

    /// Its comparison.
    pub(crate) fn answered(
        self,
        (candidates, more): (Vec<Candidate>, usize),
        thresholds: Vec<Threshold>,
    ) -> Comparison {
        let Question { by, waiter, from_ns, to_ns } = self;
        Comparison { by, waiter, from_ns, to_ns, candidates, more, thresholds, times: 1 }
    }
}

/// Keeps, if it is wanted, a comparison of threads by what speaks for each: so many samples, or
/// so many ns. `lost`: why the others are not the winner.
pub(crate) fn keep_tally(
    cx: &Context<'_>,
    question: Question,
    (tally, fact): Tally<'_>,
    (won, lost): (Option<u32>, Dropped),
    thresholds: &[Threshold],
) {
    if cx.trace.wants(question.from_ns, question.to_ns) {
        cx.trace.put(tallied(cx, question, (tally, fact), (won, lost), thresholds));
    }
}

/// The same of a question over several waits.
pub(crate) fn keep_tally_of_group(
    cx: &Context<'_>,
    question: Question,
    (tally, fact): Tally<'_>,
    (won, lost): (Option<u32>, Dropped),
    thresholds: &[Threshold],
) {
    if cx.trace.is_on() {
        cx.trace.put_of_group(tallied(cx, question, (tally, fact), (won, lost), thresholds));
    }
}

fn tallied(
    cx: &Context<'_>,
    question: Question,
    (tally, fact): Tally<'_>,
    (won, lost): (Option<u32>, Dropped),
    thresholds: &[Threshold],
) -> Comparison {
    let times = (question.from_ns, question.to_ns);
    let all: u64 = tally.iter().map(|(_, n)| n).sum();
    let of = |tid: u32| tally.iter().filter(|(t, _)| *t == tid).map(|(_, n)| n).sum();
    let mut contest = Contest::of(tally.iter().map(|(tid, _)| *tid), false);
    contest.able.dedup();
    contest.able.sort_by_key(|tid| std::cmp::Reverse(of(*tid)));
    let evidence = |tid: u32| {
        let n: u64 = of(tid);
        (vec![fact(n, all)], Some(n as f64 / all.max(1) as f64))
    };
    let candidates = contest.candidates(cx, times, (won, lost), evidence);
    question.answered(candidates, thresholds.to_vec())
}

/// Keeps, if it is wanted, that there was one candidate, and what became of it.
pub(crate) fn keep_one(cx: &Context<'_>, question: Question, found: &Blocker, fate: Fate) {
    if !cx.trace.wants(question.from_ns, question.to_ns) {
        return;
    }
    let subject = match found.doing {
        Some(_) => Subject::Code,
        None => Subject::Thread(found.tid),
    };
    let (won, place) = (fate == Fate::Won, cx.frames.innermost(found.stack));
    let (evidence, won, weight) = (Vec::new(), usize::from(won), won.then_some(1.0));
    let one = Candidate { subject, place, evidence, weight, fate, won };
    cx.trace.put(question.answered((vec![one], 0), Vec::new()));
}
