//! Candidates for the blocker of a wait, and how the best of them is chosen.
//!
//! How it works: an inference answers the question which thread or task ended a wait, or has what
//! it is for, with a candidate, or not at all; all inferences that can answer a question are one
//! list. `best` asks them, and takes the candidate with the largest weight (`evidence`). An
//! inference may also find that no thread of this process ended the wait, or that the one which did
//! is none that may be named: that is a candidate without a blocker, and outweighs a guess at the
//! thread.
//!
//! ```text
//!   owner        A   1e9        kernel's record   nobody  1e7
//!   ran before   B    20        ran before        B         20   refuted
//!   best         A              reader            C          4   best: it need not have ended it
//! ```
//!
//! What it promises: the order of a list decides nothing. An inference is not asked where its
//! answer could not outweigh what is known, unless an explanation is wanted.

use analysis::timeline::Segment;

use crate::claim::Blocker;
use crate::compare::Question;
use crate::context::Context;
use crate::evidence::{self, Role};
use crate::explain::{self, Dropped, Fact, Fate, Inference, Subject, CANDIDATES_MAX};

/// An inference's answer to one question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// The blocker; None: no thread of this process that may be named.
    pub(crate) blocker: Option<Blocker>,
    /// The inference.
    pub(crate) by: Inference,
    /// How many times likelier it is right than wrong.
    pub(crate) weight: f64,
}

impl Candidate {
    /// With the weight of its inference.
    pub(crate) fn of(blocker: Blocker) -> Candidate {
        Candidate::found_by(blocker.by, blocker)
    }

    /// As `of`, where the blocker was found by one inference and then replaced by what another one
    /// knows of it.
    pub(crate) fn found_by(by: Inference, blocker: Blocker) -> Candidate {
        Candidate { blocker: Some(blocker), by, weight: evidence::most(by) }
    }

    /// No thread that may be named.
    pub(crate) fn nobody(by: Inference) -> Candidate {
        Candidate { blocker: None, by, weight: evidence::most(by) }
    }
}

/// A wait that is asked about.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// A segment of it.
    pub(crate) segment: &'a Segment<'a>,
    /// It is about the chain behind a thread that left a function when another wait ended: which
    /// thread left one is not asked again, as that might lead in a circle.
    pub(crate) is_chained: bool,
}

impl<'a> Asked<'a> {
    /// A question that is part of no other.
    pub(crate) fn about(segment: &'a Segment<'a>) -> Asked<'a> {
        Asked { segment, is_chained: false }
    }
}

/// An inference of a list: its id (of several the strongest), and its question.
pub(crate) type Source<Ask> = (Inference, Ask);

/// The best candidate whose blocker `fits`, of those that the inferences of a list give. A fact
/// that does not fit still says that no other thread ended the wait.
pub(crate) fn best<Ask: Copy>(
    cx: &Context<'_>,
    (segment, list): (&Segment<'_>, &[Source<Ask>]),
    ask: impl Fn(Ask) -> Option<Candidate>,
    fits: impl Fn(&Blocker) -> bool,
) -> Option<Blocker> {
    let wants = cx.trace.wants(segment.from_ns, segment.to_ns);
    let mut strongest: Vec<&Source<Ask>> = cx.order.of(list).collect();
    strongest.sort_by(|a, b| evidence::most(b.0).total_cmp(&evidence::most(a.0)));
    let mut found: Vec<Candidate> = Vec::new();
    for (by, infer) in strongest {
        if wants || !is_outweighed(*by, &found) {
            found.extend(ask(*infer).and_then(|c| admitted(c, &fits)));
        }
    }
    let won = choose(&found);
    keep(cx, segment, &found, won.as_ref());
    won.and_then(|won| won.blocker)
}

/// A candidate of an inference over several waits: the same for each of them.
pub(crate) struct OverWaits {
    /// The inference.
    pub(crate) by: Inference,
    /// How many times likelier it is right than wrong.
    pub(crate) weight: f64,
    /// The blocker of each wait; None where it had none.
    pub(crate) blockers: Vec<Option<Blocker>>,
}

impl OverWaits {
    /// With the weight that its chances give, as far as such chances may count.
    pub(crate) fn weighing(by: Inference, weight: f64, blockers: Vec<Option<Blocker>>) -> Self {
        OverWaits { by, weight: weight.min(evidence::most(by)), blockers }
    }
}

/// Whether nothing that an inference may find counts beside what is known.
fn is_outweighed(by: Inference, found: &[Candidate]) -> bool {
    let most = evidence::most(by);
    found.iter().any(|known| {
        let refuted = evidence::role(by) == Role::Waker;
        known.weight > most && (known.blocker.is_some() || refuted)
    })
}

fn admitted(candidate: Candidate, fits: &impl Fn(&Blocker) -> bool) -> Option<Candidate> {
    match candidate.blocker {
        Some(blocker) if !fits(&blocker) => {
            evidence::is_fact(candidate.by).then_some(Candidate { blocker: None, ..candidate })
        }
        _ => Some(candidate),
    }
}

/// The candidate that outweighs all others, of those that no heavier one without a blocker refutes.
/// Of two that weigh the same always the same, whichever was found first.
pub(crate) fn choose(found: &[Candidate]) -> Option<Candidate> {
    let nobody = found.iter().filter(|c| c.blocker.is_none()).map(|c| c.weight);
    let nobody = nobody.fold(0.0, f64::max);
    let remains = |c: &&Candidate| evidence::role(c.by) == Role::Holder || c.weight >= nobody;
    let key = |c: &Candidate| c.blocker.map(|b| (b.measured, b.tid, b.stack));
    let named = found.iter().filter(|c| c.blocker.is_some()).filter(remains);
    named.max_by(|a, b| a.weight.total_cmp(&b.weight).then_with(|| key(a).cmp(&key(b)))).copied()
}

/// Keeps, if it is wanted, what several inferences found, and which of it won.
fn keep(cx: &Context<'_>, wait: &Segment<'_>, found: &[Candidate], won: Option<&Candidate>) {
    if found.len() < 2 || !cx.trace.wants(wait.from_ns, wait.to_ns) {
        return;
    }
    let is_won = |c: &Candidate| won.is_some_and(|w| (w.by, w.blocker) == (c.by, c.blocker));
    let shown = |c: &Candidate| {
        let subject = match c.blocker {
            None => Subject::Nobody,
            Some(blocker) if blocker.doing.is_some() => Subject::Code,
            Some(blocker) => Subject::Thread(blocker.tid),
        };
        let refuted = won.is_none() && c.blocker.is_some();
        let fate = match is_won(c) {
            true => Fate::Won,
            false if refuted => Fate::Dropped(Dropped::Refuted),
            false => Fate::Dropped(Dropped::LessEvidence),
        };
        let place = c.blocker.and_then(|b| cx.frames.innermost(b.stack));
        let (evidence, won) = (vec![Fact::Named(c.by, c.weight)], usize::from(is_won(c)));
        explain::Candidate { subject, place, evidence, weight: None, fate, won }
    };
    let mut heaviest: Vec<&Candidate> = found.iter().collect();
    heaviest.sort_by(|a, b| is_won(b).cmp(&is_won(a)).then_with(|| b.weight.total_cmp(&a.weight)));
    let more = heaviest.len().saturating_sub(CANDIDATES_MAX);
    let shown = heaviest.into_iter().take(CANDIDATES_MAX).map(shown).collect();
    cx.trace.put(Question::about(Inference::Compared, wait).answered((shown, more), Vec::new()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(tid: u32, by: Inference) -> Candidate {
        Candidate::of(Blocker::thread(tid, 1, false, by))
    }

    fn best_of(found: &[Candidate]) -> Option<u32> {
        let won = choose(found).and_then(|c| c.blocker).map(|b| b.tid);
        let reversed: Vec<Candidate> = found.iter().rev().copied().collect();
        assert_eq!(won, choose(&reversed).and_then(|c| c.blocker).map(|b| b.tid));
        won
    }

    #[test]
    fn the_heaviest_evidence_wins_wherever_it_is_in_the_list() {
        let read = named(7, Inference::NamedHolder);
        let guess = named(8, Inference::RanBefore);
        assert_eq!(best_of(&[guess, read, named(9, Inference::LeftPlace)]), Some(7));
    }

    #[test]
    fn of_two_that_weigh_the_same_it_is_always_the_same() {
        assert_eq!(
            best_of(&[named(7, Inference::RanBefore), named(8, Inference::RanBefore)]),
            Some(8)
        );
    }

    #[test]
    fn a_record_that_nobody_ended_the_wait_refutes_guesses_of_a_waker_and_no_holder() {
        let nobody = Candidate::nobody(Inference::WakeRecord);
        let guess = named(8, Inference::RanBefore);
        assert_eq!(best_of(&[guess, nobody]), None);
        assert_eq!(best_of(&[guess, nobody, named(9, Inference::QueueReader)]), Some(9));
        assert_eq!(best_of(&[nobody, named(7, Inference::NamedHolder)]), Some(7));
    }
}
