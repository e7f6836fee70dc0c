//! Time a request lay in its socket before its handler began.
//!
//! No thread worked for it then, so its own timeline says nothing; what kept the *process* from
//! taking it up does. Eight answers: the process was stopped, its worker
//! was in the predicate that dashcam asks, another thread forked, a collection ran (or its thread
//! got no CPU), its worker got no CPU, threads waited for the GIL, the worker that took the request
//! in the end was busy with another one. Of those that cover half of the time the one on the
//! heaviest grounds is the answer (`causes::grounds`).
//!
//! A worker that waited for a client meanwhile, in the server's own code, was kept by another
//! connection: a client that sends nothing, or takes nothing, keeps it from everybody else.
//!
//! If none does, the time is divided by what the threads did that were to take it up, one after the
//! other. The first is a thread started for this request, from its birth on. Before that (or
//! instead, where the worker is older and idled) it is the one thread that usually waits for
//! connections and did not then: it was still importing the program, starting another thread, or
//! without a CPU. If that explains most of the time it is used, as an inference; else the time is
//! unknown.

mod kept_process;
mod life;
mod line;
mod taken_up;

use std::cell::RefCell;

use analysis::requests::Judged;
use analysis::thresholds;
use analysis::timeline::{Segment, State};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule;
use crate::causes::system::fork;
use crate::claim::{Claim, Slice};
use crate::compare::Question;
use crate::context::Context;
use crate::critical_path::kept_gil;
use crate::explain::{Candidate, Dropped, Fact, Fate, Inference, Subject, Threshold};
use kept_process::{asked, collection, starved, still, Answer};
use line::busy;
use taken_up::taken_up;

/// A request that lay in its socket, and when.
struct Lay<'a, 'c> {
    request: &'a Judged<'c>,
    segment: &'a Segment<'a>,
}

/// What may have kept the process from taking a request up.
struct AnswerRule {
    id: &'static str,
    grounds: Grounds,
    ask: fn(&Context<'_>, &Lay<'_, '_>) -> Answer,
}

/// All of them; their order decides nothing.
const ANSWERS: &[AnswerRule] = &[
    AnswerRule {
        id: "arrival-stopped",
        grounds: Grounds::Stopped,
        ask: |cx, lay| still(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-predicate",
        grounds: Grounds::Recorder,
        ask: |cx, lay| asked(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-fork",
        grounds: Grounds::Fork,
        ask: |cx, lay| fork::elsewhere(cx, lay.segment).map(|claim| (lay.segment.ns(), claim)),
    },
    AnswerRule {
        id: "arrival-gc",
        grounds: Grounds::Collection,
        ask: |cx, lay| collection(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-gil-kept-long",
        grounds: Grounds::LongWork,
        ask: |cx, lay| {
            let kept = |(_, claim): &(u64, Claim)| kept_gil::for_long(cx, claim, lay.segment);
            kept_gil::answer(cx, lay.segment).filter(kept)
        },
    },
    AnswerRule {
        id: "arrival-no-cpu",
        grounds: Grounds::Counters,
        ask: |cx, lay| starved(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-gil",
        grounds: Grounds::Others,
        ask: |cx, lay| kept_gil::answer(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-worker-busy",
        grounds: Grounds::Line,
        ask: |cx, lay| busy(cx, lay.request, lay.segment),
    },
];

/// The intervals from a request's arrival to its handler's start; none when it was taken up at
/// once.
pub fn slices<'c>(cx: &Context<'c>, request: &Judged<'c>) -> Vec<Slice<'c>> {
    let row = request.row;
    let (from_ns, to_ns) = (row.begin_ns, row.started_ns.min(request.end_ns));
    if to_ns <= from_ns {
        return Vec::new();
    }
    let exact = cx.capture.has_switches(from_ns, to_ns);
    let segment = Segment {
        tid: row.tid,
        from_ns,
        to_ns,
        state: State::Wait,
        sample: None,
        sampled: false,
        exact,
    };
    let asked = Lay { request, segment: &segment };
    let covered_by: RefCell<Vec<(Cause, u64)>> = RefCell::default();
    let ask = |answer: &AnswerRule| {
        let (covered, claim) = (answer.ask)(cx, &asked)?;
        covered_by.borrow_mut().push((claim.cause, covered));
        (covered * 2 >= segment.ns()).then(|| claim.by_rule(answer.id))
    };
    let claim = rule::heaviest(cx, ANSWERS, |a| a.grounds, |a| a.id, ask);
    keep(cx, &segment, &covered_by.take(), claim.is_some());
    let Some(claim) = claim else {
        let slices = taken_up(cx, &segment);
        let known = slices.iter().filter(|p| p.claim.cause != Cause::Unknown);
        return match known.map(|p| p.segment.ns()).sum::<u64>() * 2 >= segment.ns() {
            true => slices,
            false => vec![Slice { claim: Claim::of(Cause::Unknown, &segment), segment }],
        };
    };
    vec![Slice { segment, claim: Claim { seen: true, ..claim } }]
}

/// Keeps, if it is wanted, how much of the time each answer covers that was asked for.
fn keep(cx: &Context<'_>, segment: &Segment<'_>, covered_by: &[(Cause, u64)], found: bool) {
    if covered_by.is_empty() || !cx.trace.wants(segment.from_ns, segment.to_ns) {
        return;
    }
    let candidate = |(at, (cause, ns)): (usize, &(Cause, u64))| {
        let won = found && at + 1 == covered_by.len();
        let fate = if won { Fate::Won } else { Fate::Dropped(Dropped::TooLittle) };
        let weight = (*ns as f64 / segment.ns().max(1) as f64).min(1.0);
        Candidate {
            subject: Subject::Cause(*cause),
            place: None,
            evidence: vec![Fact::Time(*ns, segment.ns())],
            weight: Some(weight),
            fate,
            won: usize::from(won),
        }
    };
    let mut candidates: Vec<Candidate> = covered_by.iter().enumerate().map(candidate).collect();
    candidates.reverse();
    let least = Threshold::part("arrival.part-of-wait", thresholds::half());
    let question = Question::about(Inference::Arrival, segment);
    cx.trace.put(question.answered((candidates, 0), vec![least]));
}
