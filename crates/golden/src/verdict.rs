//! The verdict on a capture, as `dashcam why` gives it.

use capture::read::{Capture, Wanted};
use diagnosis::{diagnose, diagnose_explained, diagnose_in_order};
use diagnosis::{Diagnosis, Order, Place};
use report::to_explanation;
use trigger::Rules;

use crate::words;

/// Rules for captures without readable rules of their own, the same as `dashcam why` uses.
const DEFAULT_SLOW: &str = "500ms";

/// A place in the code, as an answer names it: function and base name of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Function, without its enclosing classes and functions.
    pub function: String,
    /// Base name of its file.
    pub file: String,
}

/// One finding, as far as an answer judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its cause.
    pub cause: String,
    /// Its place.
    pub place: Option<Spot>,
    /// Its culprit.
    pub culprit: Option<Spot>,
    /// Its confidence.
    pub confidence: String,
}

/// A verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The text for a person; for a capture that cannot be read, the reason.
    pub text: String,
    /// Findings, the largest share first.
    pub findings: Vec<Found>,
    /// Words of it that its data contradicts (`words`).
    pub contradictions: Vec<String>,
}

/// Judges the bytes of a capture. Its native code is named only by what is in the capture.
pub fn judge(bytes: &[u8]) -> Verdict {
    match Capture::parse_for(bytes, Wanted::Causes) {
        Ok(capture) => of(&capture),
        Err(error) => Verdict { text: format!("unreadable: {error}\n"), ..Verdict::default() },
    }
}

/// The verdict on a capture that was read.
pub fn of(capture: &Capture) -> Verdict {
    let rules = rules(capture);
    verdict(&diagnose(capture, |name| rules.limit_ns(name)))
}

/// The same verdict, with rules and inferences asked in another order.
pub fn in_order(capture: &Capture, order: Order) -> Verdict {
    let rules = rules(capture);
    verdict(&diagnose_in_order(capture, |name| rules.limit_ns(name), order))
}

/// The same verdict with its explanation, and the explanation.
pub fn explained(capture: &Capture) -> (Verdict, String) {
    let rules = rules(capture);
    let diagnosis = diagnose_explained(capture, |name| rules.limit_ns(name));
    (verdict(&diagnosis), to_explanation(&diagnosis))
}

fn rules(capture: &Capture) -> Rules {
    let own = Rules::parse(&capture.meta.slow);
    own.or_else(|_| Rules::parse(DEFAULT_SLOW)).unwrap_or_default()
}

fn verdict(diagnosis: &Diagnosis<'_>) -> Verdict {
    let findings = diagnosis.findings.iter().map(|finding| Found {
        cause: finding.cause.text().to_owned(),
        place: finding.place.as_ref().map(spot),
        culprit: finding.culprit.as_ref().map(spot),
        confidence: finding.confidence.text().to_owned(),
    });
    Verdict {
        findings: findings.collect(),
        text: report::to_text(diagnosis),
        contradictions: words::contradictions(diagnosis),
    }
}

fn spot(place: &Place) -> Spot {
    let file = place.file.rsplit('/').next().unwrap_or_default().to_owned();
    Spot { function: place.function.clone(), file }
}
