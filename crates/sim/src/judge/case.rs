//! One case: a program run in one kernel mode, the verdict on its capture, and how right that is.
//!
//! How it works: the capture goes through the file format and `capture::read` to
//! `diagnosis::diagnose`, as `dashcam why` has it. A case counts only where the truth has its
//! defect: at least two slow requests, and half of what they took longer by its cause. The first
//! finding's cause, place and culprit are compared with the answer; every finding is compared with
//! the truth, which says how often a confidence was deserved.

use std::collections::{BTreeMap, BTreeSet};

use capture::read::Capture;
use diagnosis::{Finding, Place};

use crate::engine::World;
use crate::program::{draw, Answer, Program};

use super::truth::Truth;

/// Slow requests that a sick program must have had.
const LEAST_SLOW: usize = 2;
/// Part of the excess that the truth must have of the defect's cause.
const LEAST_TRUTH: f64 = 0.5;
/// A cause of the program's that has so much of the truth must be a finding.
const MISSED_PART: f64 = 0.2;
/// A finding is right if the truth has so much of what it claims.
const RIGHT_PART: f64 = 0.5;

/// A finding, as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its cause.
    pub cause: &'static str,
    /// Its share.
    pub share: f64,
    /// Its confidence.
    pub confidence: &'static str,
    /// Function of its place.
    pub place: Option<String>,
    /// Function of its culprit.
    pub culprit: Option<String>,
    /// Its sentence.
    pub summary: String,
}

impl Found {
    fn named(&self) -> String {
        self.cause.to_owned()
    }
}

/// The part of each cause in what slow requests took longer, 0 to 1.
type Parts = BTreeMap<&'static str, f64>;

/// What was said of a run, and what is true.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Requests over the limit.
    pub slow: usize,
    /// Requests.
    pub requests: usize,
    /// Findings, the largest share first.
    pub findings: Vec<Found>,
    /// The part of each cause, in truth.
    pub truth: Parts,
    /// The same with waits for notice as what the thread did that gave it: as right.
    pub through_notices: Parts,
    /// What the reader found wrong with the file.
    pub damage: Vec<String>,
    /// CPU time of the sampler, % of a core.
    pub sampler_percent: f64,
}

impl Verdict {
    /// The part that is true of these causes together, by the view that has more of them.
    fn true_part<'a>(&self, causes: impl Iterator<Item = &'a str> + Clone) -> f64 {
        let of = |parts: &Parts| causes.clone().filter_map(|cause| parts.get(cause)).sum::<f64>();
        of(&self.truth).max(of(&self.through_notices))
    }
}

/// How right a verdict is.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program's seed and defect.
    pub seed: u64,
    /// See `seed`.
    pub defect: String,
    /// The cause that is wanted.
    pub wanted: String,
    /// The truth has it.
    pub valid: bool,
    /// The first finding's cause, or `nothing`.
    pub found: String,
    /// It is right.
    pub cause: bool,
    /// So is its place; None: not judged.
    pub place: Option<bool>,
    /// So is its culprit.
    pub culprit: Option<bool>,
    /// The functions of the first finding's place and culprit.
    pub named: [Option<String>; 2],
    /// Causes of the program's own that have a large part of the truth and are no finding.
    pub missed: Vec<String>,
    /// Each finding's confidence and cause, and whether it is right.
    pub sure: Vec<(&'static str, &'static str, bool)>,
}

impl Outcome {
    /// Nothing about it is wrong.
    pub fn is_right(&self) -> bool {
        self.cause && self.place != Some(false) && self.culprit != Some(false)
    }
}

/// Runs a program and asks the diagnosis; an error if the capture cannot be written or read.
pub fn verdict(program: &Program, switches: bool, slow_ns: u64) -> Result<Verdict, String> {
    let mut world = World::new(program, switches);
    world.run();
    let capture = capture_of(&world)?;
    Ok(said(&world, &capture, slow_ns))
}

/// The same of one run by two limits: the program's, and one that a request in fifty breaks.
pub fn verdicts(program: &Program, switches: bool) -> Result<[Verdict; 2], String> {
    let mut world = World::new(program, switches);
    world.run();
    let capture = capture_of(&world)?;
    Ok([program.slow_ns, tight(&world)].map(|slow_ns| said(&world, &capture, slow_ns)))
}

/// A run that is kept, to be judged again and again.
pub struct Recorded {
    /// The program.
    pub program: Program,
    capture: Capture,
    truth: [Parts; 2],
    sampler_percent: f64,
}

impl Recorded {
    /// Runs the sick program of a seed; an error if its capture cannot be written or read.
    pub fn of(seed: u64, switches: bool) -> Result<Recorded, String> {
        let program = draw::program(seed, true);
        let mut world = World::new(&program, switches);
        world.run();
        let (capture, truth) = (capture_of(&world)?, truths(&world, program.slow_ns));
        let sampler_percent = world.sampler_percent();
        Ok(Recorded { program, capture, truth, sampler_percent })
    }

    /// The verdict on it.
    pub fn verdict(&self) -> Verdict {
        let known = (self.truth.clone(), self.sampler_percent);
        judged(&self.capture, self.program.slow_ns, known)
    }
}

/// Why the verdict on a run says what it says; by the tight limit, or the program's.
pub fn explained(program: &Program, switches: bool, by_tight: bool) -> Result<String, String> {
    let mut world = World::new(program, switches);
    world.run();
    let capture = capture_of(&world)?;
    let slow_ns = if by_tight { tight(&world) } else { program.slow_ns };
    let diagnosis = diagnosis::diagnose_explained(&capture, |_| slow_ns);
    Ok(report::to_explanation(&diagnosis))
}

/// Runs a program, and gives its truth and its explained verdict to `look`. An error if the capture
/// cannot be written or read.
pub fn with_explanations(
    program: &Program,
    switches: bool,
    look: impl FnOnce(&Truth<'_, '_>, &diagnosis::Diagnosis<'_>),
) -> Result<(), String> {
    let mut world = World::new(program, switches);
    world.run();
    let capture = capture_of(&world)?;
    let verdict = diagnosis::diagnose_explained(&capture, |_| program.slow_ns);
    look(&Truth::of(&world), &verdict);
    Ok(())
}

fn capture_of(world: &World<'_>) -> Result<Capture, String> {
    let bytes = world.capture().map_err(|error| format!("writing the capture: {error}"))?;
    Capture::parse(&bytes).map_err(|error| format!("reading the capture: {error}"))
}

fn said(world: &World<'_>, capture: &Capture, slow_ns: u64) -> Verdict {
    judged(capture, slow_ns, (truths(world, slow_ns), world.sampler_percent()))
}

/// Both views.
fn truths(world: &World<'_>, slow_ns: u64) -> [Parts; 2] {
    [Truth::of(world), Truth::through_notices(world)].map(|truth| truth.excess(slow_ns))
}

fn judged(
    capture: &Capture,
    slow_ns: u64,
    ([truth, through_notices], sampler_percent): ([Parts; 2], f64),
) -> Verdict {
    let diagnosis = diagnosis::diagnose(capture, |_| slow_ns);
    Verdict {
        slow: diagnosis.slow,
        requests: diagnosis.total,
        findings: diagnosis.findings.iter().map(found).collect(),
        truth,
        through_notices,
        damage: capture.damage.clone(),
        sampler_percent,
    }
}

fn tight(world: &World<'_>) -> u64 {
    const ONE_IN: usize = 50;
    let took = |r: &crate::engine::Request| r.end_ns.map(|end| end - r.begin_ns);
    let mut all: Vec<u64> = world.requests().iter().filter_map(took).collect();
    all.sort_unstable();
    all.len().checked_sub(1 + all.len() / ONE_IN).map(|at| all[at]).unwrap_or(1)
}

fn found(finding: &Finding) -> Found {
    let name = |place: &Option<Place>| place.as_ref().map(|place| place.function.clone());
    Found {
        cause: finding.cause.text(),
        share: finding.share,
        confidence: finding.confidence.text(),
        place: name(&finding.place),
        culprit: name(&finding.culprit),
        summary: finding.summary.clone(),
    }
}

/// Compares a verdict with the answer.
pub fn judge(program: &Program, verdict: &Verdict) -> Outcome {
    let first = verdict.findings.first();
    let of_answer: f64 = answers(program)
        .flat_map(causes)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter_map(|cause| verdict.truth.get(cause))
        .sum();
    let answer = first.map_or(&program.answer, |found| answer_with(program, found.cause));
    let cause = first.is_some_and(|found| causes(answer).any(|cause| cause == found.cause));
    let fits = |wanted: &[String], found: Option<&String>| {
        (!wanted.is_empty()).then(|| found.is_some_and(|found| wanted.contains(found)))
    };
    let (at, by) = (first.and_then(|f| f.place.as_ref()), first.and_then(|f| f.culprit.as_ref()));
    let (place, culprit) = match first.is_some_and(|found| answer.accept.contains(&found.named())) {
        // Another right cause sees the same from another side: either place may be reported.
        true => {
            let both = [&answer.places[..], &answer.culprits].concat();
            (fits(&both, at).map(|fits_at| fits_at || by.is_some_and(|by| both.contains(by))), None)
        }
        false => (fits(&answer.places, at), fits(&answer.culprits, by)),
    };
    let named = |found: &&Found| found.cause != "unknown";
    let missed = answers(program).filter(|answer| {
        let found = |cause: &str| verdict.findings.iter().any(|found| found.cause == cause);
        verdict.true_part(causes(answer)) >= MISSED_PART && !causes(answer).any(found)
    });
    let missed = missed.map(|answer| answer.cause.clone()).collect();
    let sure = verdict.findings.iter().filter(named).map(|found| {
        let answer = answer_with(program, found.cause);
        let part = match causes(answer).any(|cause| cause == found.cause) {
            true => verdict.true_part(causes(answer)),
            false => verdict.true_part(std::iter::once(found.cause)),
        };
        let right = part >= RIGHT_PART * found.share;
        // The blocker it names must be right as well, if it names any.
        let wrong_one = found.cause == answer.cause
            && !answer.culprits.is_empty()
            && found.culprit.as_ref().is_some_and(|name| !answer.culprits.contains(name));
        (found.confidence, found.cause, right && !wrong_one)
    });
    Outcome {
        seed: program.seed,
        defect: program.defect.clone(),
        wanted: answer.cause.clone(),
        valid: verdict.slow >= LEAST_SLOW && of_answer >= LEAST_TRUTH,
        found: first.map_or("nothing", |found| found.cause).to_owned(),
        cause,
        place,
        culprit,
        named: [at.cloned(), by.cloned()],
        missed,
        sure: sure.collect(),
    }
}

/// The answers of a program, one for each defect.
fn answers(program: &Program) -> impl Iterator<Item = &Answer> {
    std::iter::once(&program.answer).chain(&program.answer.also)
}

/// The answer that has this cause; the first one if none has.
fn answer_with<'p>(program: &'p Program, cause: &str) -> &'p Answer {
    let has = |answer: &&Answer| causes(answer).any(|own| own == cause);
    answers(program).find(has).unwrap_or(&program.answer)
}

fn causes(answer: &Answer) -> impl Iterator<Item = &str> + Clone {
    std::iter::once(answer.cause.as_str()).chain(answer.accept.iter().map(String::as_str))
}

/// Findings about a healthy program that are not true: their causes.
pub fn false_alarms(verdict: &Verdict) -> Vec<&'static str> {
    let is_false = |found: &&Found| {
        let part = verdict.true_part(std::iter::once(found.cause));
        found.cause != "unknown" && part < RIGHT_PART * found.share
    };
    verdict.findings.iter().filter(is_false).map(|found| found.cause).collect()
}
