//! What each inference about a blocker is worth, measured: how often the thread that it names is
//! the one that a wait was really for.
//!
//! How it works: sick programs are run and judged with explanations. Each comparison in these
//! (`diagnosis::explain::Comparison`) says what an inference answered about a wait, and the
//! engine's log says which threads had what was waited for then, or ended the wait. A likelihood
//! ratio is the odds of being right times the number of threads that the inference could have named
//! wrongly: what `diagnosis::evidence` calls a weight. Where inferences name different threads, the
//! pair is counted too: which of both was right.
//!
//! What it promises: the same seeds make the same table. What is missing on purpose: waits whose
//! blocker the engine has no word for (sleeps, peers), tasks of event loops, and the blockers of
//! requests that are no examples of a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use diagnosis::explain::{Candidate, Comparison, Fact, Fate, Inference, Interval, Subject};
use diagnosis::{evidence, Diagnosis, Place};

use super::case::with_explanations;
use super::truth::Truth;
use crate::program::{draw, Program};

/// How often an inference named a thread, and how often that was right.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Named {
    /// Right.
    pub right: u64,
    /// Wrong.
    pub wrong: u64,
    /// Threads that it could have named wrongly, over all questions.
    pub others: u64,
}

impl Named {
    /// How many times more often the thread that it names is the blocker than another one. Half a
    /// case is added to each side: nothing is known from no case.
    pub fn ratio(&self) -> f64 {
        let questions = self.questions().max(1) as f64;
        let odds = (self.right as f64 + 0.5) / (self.wrong as f64 + 0.5);
        odds * (self.others as f64 / questions)
    }

    /// How many questions it answered.
    pub fn questions(&self) -> u64 {
        self.right + self.wrong
    }

    fn text(&self) -> String {
        match self.questions() {
            0 => "-".to_owned(),
            all => format!("{} of {all}", self.right),
        }
    }

    fn add(&mut self, right: bool, others: u64) {
        *if right { &mut self.right } else { &mut self.wrong } += 1;
        self.others += others;
    }
}

/// Two inferences that named different threads: how often the heavier was right, the lighter, and
/// none of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Against {
    /// The heavier one was right.
    pub heavier: u64,
    /// The lighter one was right.
    pub lighter: u64,
    /// Neither was.
    pub neither: u64,
}

/// The measured worth of each inference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Whatever it answered.
    pub alone: BTreeMap<Inference, Named>,
    /// Where its answer was the one that counted.
    pub chosen: BTreeMap<Inference, Named>,
    /// Against another, by the heavier one and the lighter one.
    pub against: BTreeMap<(Inference, Inference), Against>,
}

impl Calibration {
    /// Judges the sick programs of these seeds, in one kernel mode. An error if a capture cannot be
    /// written or read.
    pub fn of(seeds: impl Iterator<Item = u64>, switches: bool) -> Result<Calibration, String> {
        let mut all = Calibration::default();
        for seed in seeds {
            let program = draw::program(seed, true);
            with_explanations(&program, switches, |truth, verdict| {
                all.add(&program, truth, verdict);
            })?;
        }
        Ok(all)
    }

    fn add(&mut self, program: &Program, truth: &Truth<'_, '_>, verdict: &Diagnosis<'_>) {
        let explanations = verdict.findings.iter().filter_map(|f| f.explanation.as_ref());
        for explanation in explanations {
            for request in &explanation.requests {
                let row = verdict.capture.requests.iter().find(|row| row.id == request.id);
                let begin_ns = row.map_or(0, |row| row.begin_ns);
                for interval in &request.intervals {
                    self.choice(program, truth, (interval, begin_ns));
                    for comparison in &interval.comparisons {
                        self.compare(program, truth, comparison);
                    }
                }
            }
            for comparison in &explanation.comparisons {
                self.compare(program, truth, comparison);
            }
        }
    }

    /// The blocker that an interval of a request has.
    fn choice(
        &mut self,
        program: &Program,
        truth: &Truth<'_, '_>,
        (interval, begin_ns): (&Interval, u64),
    ) {
        let Some((by, tid, place)) = &interval.blocker else { return };
        let times = (begin_ns + interval.from_ns, begin_ns + interval.to_ns);
        let mut blockers = truth.blockers(interval.tid, times);
        // The verdict follows a chain: what the blocker waited for is named as well.
        for blocker in blockers.clone() {
            blockers.extend(truth.blockers(blocker, times));
        }
        if !blockers.is_empty() {
            let right = blockers.contains(tid) || is_culprit(program, place.as_ref());
            self.chosen.entry(*by).or_default().add(right, others(truth, &blockers));
        }
    }

    fn compare(&mut self, program: &Program, truth: &Truth<'_, '_>, comparison: &Comparison) {
        let Comparison { waiter, from_ns, to_ns, .. } = *comparison;
        let blockers = truth.blockers(waiter, (from_ns, to_ns));
        if blockers.is_empty() {
            return;
        }
        let is_right = |c: &Candidate| {
            let by_place = || is_culprit(program, c.place.as_ref());
            match c.subject {
                Subject::Thread(tid) => Some(blockers.contains(&tid) || by_place()),
                Subject::Code => Some(by_place()),
                Subject::Task(_) | Subject::Cause(_) | Subject::Nobody => None,
            }
        };
        if comparison.by == Inference::Compared {
            self.rivals(&comparison.candidates, is_right);
            return;
        }
        let won = comparison.candidates.iter().find(|c| c.fate == Fate::Won);
        if let Some(right) = won.and_then(is_right) {
            let known = self.alone.entry(comparison.by).or_default();
            known.add(right, others(truth, &blockers));
        }
    }

    /// The pairs of candidates that name different threads.
    fn rivals(&mut self, candidates: &[Candidate], is_right: impl Fn(&Candidate) -> Option<bool>) {
        let mut weighed: Vec<(Inference, f64, &Subject, bool)> = Vec::new();
        for candidate in candidates {
            let named = candidate.evidence.iter().find_map(|fact| match fact {
                Fact::Named(by, weight) => Some((*by, *weight)),
                _ => None,
            });
            if let (Some((by, weight)), Some(right)) = (named, is_right(candidate)) {
                weighed.push((by, weight, &candidate.subject, right));
            }
        }
        weighed.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (at, heavier) in weighed.iter().enumerate() {
            for lighter in weighed[at + 1..].iter().filter(|l| l.2 != heavier.2 && l.0 != heavier.0)
            {
                let pair = self.against.entry((heavier.0, lighter.0)).or_default();
                match (heavier.3, lighter.3) {
                    (true, _) => pair.heavier += 1,
                    (false, true) => pair.lighter += 1,
                    (false, false) => pair.neither += 1,
                }
            }
        }
    }

    /// As tables.
    pub fn text(&self, mode: &str) -> String {
        let mut out = format!("switch records {mode}\n");
        let _ = writeln!(
            out,
            "  {:<26} {:>12} {:>9} {:>9} {:>14}",
            "inference", "right", "ratio", "weight", "right, chosen"
        );
        let all: BTreeSet<Inference> =
            self.alone.keys().chain(self.chosen.keys()).copied().collect();
        for by in all {
            let [alone, chosen] =
                [&self.alone, &self.chosen].map(|of| of.get(&by).copied().unwrap_or_default());
            let (measured, weight) = (rounded(alone.ratio()), rounded(evidence::most(by)));
            let measured = if alone.questions() == 0 { "-" } else { &measured };
            let _ = writeln!(
                out,
                "  {:<26} {:>12} {measured:>9} {weight:>9} {:>14}",
                by.id(),
                alone.text(),
                chosen.text()
            );
        }
        for ((heavier, lighter), Against { heavier: won, lighter: lost, neither }) in &self.against
        {
            let pair = format!("{} > {}", heavier.id(), lighter.id());
            let _ =
                writeln!(out, "  {pair:<52} right {won:>5}, wrong {lost:>5}, both {neither:>5}");
        }
        out
    }
}

/// Threads that could have been named wrongly.
fn others(truth: &Truth<'_, '_>, blockers: &BTreeSet<u32>) -> u64 {
    truth.threads().saturating_sub(blockers.len() + 1) as u64
}

/// Whether a place is the program's culprit: of several that have a permit, each may be named.
fn is_culprit(program: &Program, place: Option<&Place>) -> bool {
    place.is_some_and(|place| program.answer.culprits.contains(&place.function))
}

/// With two digits, or whole.
fn rounded(value: f64) -> String {
    match value {
        v if v >= 1e4 => format!("{v:.0e}"),
        v if v >= 100.0 => format!("{:.0}", v),
        v => format!("{v:.1}"),
    }
}
