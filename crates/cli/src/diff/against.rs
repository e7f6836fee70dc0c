//! `dashcam why CAPTURE --against OTHER`: which findings of the verdict are new since then.
//!
//! How it works: the verdict on the capture is printed as always; what it found is kept here as one
//! side, the capture is dropped, and the other side is read and compared with it.

use std::path::Path;
use std::process::ExitCode;

use analysis::readable::{counted, thousands};
use diagnosis::Diagnosis;
use serde_json::{json, Value};
use trigger::Rules;

use super::compare::Difference;
use super::side::{comparable, Reader, Side};
use super::{json, words};

/// What a verdict is compared with.
pub struct Against<'p> {
    other: &'p Path,
    reader: Reader,
    /// The side of the verdict, and the fingerprints of its findings by rank.
    judged: Option<(Side, Vec<String>)>,
}

impl<'p> Against<'p> {
    /// `other`: a capture, or a folder.
    pub fn new(other: &'p Path, slow: Option<&str>) -> Result<Against<'p>, ExitCode> {
        Ok(Against { other, reader: Reader::new(slow)?, judged: None })
    }

    /// Keeps what a verdict found.
    pub fn keep(&mut self, file: &Path, diagnosis: &Diagnosis<'_>, rules: &Rules) {
        let side = self.reader.judged(file, diagnosis, rules);
        let ranked = diagnosis.findings.iter().map(|f| f.fingerprint.clone()).collect();
        self.judged = Some((side, ranked));
    }

    /// Compares the kept verdict with the other side, as text, and into its JSON if there is one.
    /// None: there was no verdict.
    pub fn compare(self, verdict: Option<&mut Value>) -> Option<(ExitCode, String)> {
        let Against { other, mut reader, judged } = self;
        let (second, ranked) = judged?;
        let first = reader.side(other).and_then(|first| {
            comparable([&first, &second])?;
            Ok(first)
        });
        let first = match first {
            Ok(first) => first,
            Err(code) => return Some((code, String::new())),
        };
        let difference = Difference::of(&first, &second);
        if let Some(verdict) = verdict {
            insert(verdict, &difference, &reader.slow);
        }
        Some((difference.exit_code(), text(&difference, &ranked)))
    }
}

fn text(difference: &Difference<'_>, ranked: &[String]) -> String {
    let [a, _] = difference.sides;
    let mut out = format!(
        "Against {} ({}, {} of {} slow):\n",
        a.path,
        counted(a.files.len(), "capture"),
        thousands(a.slow()),
        counted(a.requests() as usize, "request"),
    );
    for (at, fingerprint) in ranked.iter().enumerate() {
        if let Some(row) = difference.causes.iter().find(|row| row.fingerprint == fingerprint) {
            out += &format!("  {}. {}\n", at + 1, words::against(difference, row));
        }
    }
    if ranked.is_empty() {
        out += "  no finding to compare\n";
    }
    out
}

/// Each cause gets its row, and the verdict what was compared.
fn insert(verdict: &mut Value, difference: &Difference<'_>, slow: &str) {
    let causes = verdict["causes"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    for cause in causes {
        let is_it = |row: &&super::compare::CauseRow<'_>| cause["fingerprint"] == row.fingerprint;
        let row = difference.causes.iter().find(is_it);
        cause["against"] = row.map_or(json!(null), json::cause);
    }
    verdict["against"] = json::of(difference, slow);
}
