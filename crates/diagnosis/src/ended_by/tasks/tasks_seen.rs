//! Tasks that samples saw at something for most of a wait, and what an explanation keeps of them.

use std::collections::HashMap;

use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment};
use format::record::Await;

use crate::compare::Question;
use crate::context::Context;
use crate::explain::{self, Dropped, Fact, Fate, Inference, Subject, Threshold, CANDIDATES_MAX};

/// A task, by when it was first and last seen so, and its first sample.
pub(super) type Seen<'c> = HashMap<u64, (u64, u64, &'c Await)>;

/// Those that were seen so for most of the segment.
pub(super) fn covering<'c>(found: Seen<'c>, segment: &Segment<'_>) -> Vec<&'c Await> {
    let covers = |(begin, end, _): &(u64, u64, &Await)| {
        overlap_ns((*begin, *end), segment.times()) * 2 > segment.ns()
    };
    found.into_values().filter(covers).map(|f| f.2).collect()
}

/// Keeps, if it is wanted, which tasks may have had what was awaited.
pub(super) fn keep(cx: &Context<'_>, segment: &Segment<'_>, able: &[&Await], one: bool) {
    if !cx.trace.wants(segment.from_ns, segment.to_ns) {
        return;
    }
    let fate = if one { Fate::Won } else { Fate::Dropped(Dropped::Ambiguous) };
    let candidate = |row: &&Await| explain::Candidate {
        subject: Subject::Task(row.task),
        place: cx.frames.innermost(row.stack),
        evidence: vec![Fact::SharesCode],
        weight: Some(1.0 / able.len() as f64),
        fate,
        won: usize::from(one),
    };
    let shown = able.iter().take(CANDIDATES_MAX).map(candidate).collect();
    let more = able.len().saturating_sub(CANDIDATES_MAX);
    let least = Threshold::part("task-in-same-code.part-of-wait", thresholds::half());
    let question = Question::about(Inference::SameCode, segment);
    cx.trace.put(question.answered((shown, more), vec![least]));
}
