//! The verdict on a capture in one line: for stderr, the list of captures, hooks and alerts.
//!
//! What it promises: no control characters, so a field is a field of a line. Missing on purpose:
//! every finding but the first, which has the largest share; `why` has the others.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::readable::thousands;
use capture::judged::Judged;
use capture::read::Capture;
use diagnosis::Diagnosis;
use serde_json::Value;

use crate::output::columns::plain;
use crate::read::{default_rules, open_judged};

/// Fields are empty where nothing is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brief {
    pub file: String,
    pub service: String,
    /// Why the capture was made.
    pub reason: String,
    pub judged: Judged,
}

impl Brief {
    /// Judges a capture by its own rules, and looks its fingerprint up in the list of captures.
    pub fn of_file(file: &Path, log: Option<&Path>) -> Result<Brief, ExitCode> {
        let (file, capture) = open_judged(file, None)?;
        Ok(Brief::of(&judged(&capture), &file, log))
    }

    /// The same of a verdict.
    pub fn of(diagnosis: &Diagnosis<'_>, file: &Path, log: Option<&Path>) -> Brief {
        let capture = diagnosis.capture;
        let mut brief = Brief {
            file: plain(&file.display().to_string()),
            service: plain(&capture.meta.service),
            reason: plain(&capture.meta.reason),
            ..Brief::default()
        };
        let judged = &mut brief.judged;
        if let Some(finding) = diagnosis.findings.first() {
            let short = |place: &diagnosis::Place| plain(&place.short());
            judged.cause = finding.cause.text().to_owned();
            judged.place = finding.place.as_ref().map(short).unwrap_or_default();
            judged.holder = finding.culprit.as_ref().map(short).unwrap_or_default();
            judged.share = format!("{:.0}", finding.share * 100.0);
            judged.confidence = finding.confidence.text().to_owned();
            judged.fingerprint.clone_from(&finding.fingerprint);
            judged.seen = match log {
                None => "",
                Some(log) if is_listed(log, &judged.fingerprint, &brief.file) => "before",
                Some(_) => "new",
            }
            .to_owned();
        }
        judged.line = sentence(judged, diagnosis);
        brief
    }

    /// The verdict that a hook was given in its environment. None: it was given none.
    pub fn of_hook(file: &Path, environment: impl Fn(&str) -> Option<String>) -> Option<Brief> {
        let field = |name: &str| plain(&environment(name).unwrap_or_default());
        let brief = Brief {
            file: field("DASHCAM_FILE"),
            service: field("DASHCAM_SERVICE"),
            reason: field("DASHCAM_REASON"),
            judged: Judged::with(|name| field(&format!("DASHCAM_{}", name.to_uppercase()))),
        };
        // Without a line the capture was not judged.
        (!brief.judged.line.is_empty() && brief.file == file.display().to_string()).then_some(brief)
    }

    /// The fields that the recorder reads, with tabs between.
    pub fn to_fields(&self) -> String {
        self.judged.to_line()
    }

    /// All fields by name.
    pub fn to_json(&self) -> Value {
        let own = [("file", &*self.file), ("service", &self.service), ("reason", &self.reason)];
        let fields = own.into_iter().chain(self.judged.fields());
        Value::Object(fields.map(|(name, text)| (name.to_owned(), text.into())).collect())
    }
}

/// The verdict on a capture by its own rules.
pub fn judged(capture: &Capture) -> Diagnosis<'_> {
    let rules = default_rules(capture);
    diagnosis::diagnose(capture, |name| rules.limit_ns(name))
}

fn sentence(judged: &Judged, diagnosis: &Diagnosis<'_>) -> String {
    let Judged { cause, place, holder, share, confidence, seen, .. } = judged;
    if cause.is_empty() {
        let (slow, total) = (thousands(diagnosis.slow as u64), thousands(diagnosis.total as u64));
        return match diagnosis.slow {
            0 if diagnosis.total == 0 => "nothing to judge: no requests".to_owned(),
            0 if diagnosis.total == 1 => {
                "nothing to blame: the only request was not slow".to_owned()
            }
            0 => format!("nothing to blame: none of {total} requests was slow"),
            _ => format!("no cause found for {slow} of {total} requests that were slow"),
        };
    }
    let part = |word: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{word}{text}"),
    };
    // What computes or sleeps at its own place is not to blame twice.
    let other = if holder == place { "" } else { holder };
    let (place, holder) = (part(" at ", place), part(", because of ", other));
    let seen = part(", ", if seen == "before" { "seen before" } else { seen });
    format!("{cause}{place}{holder}: {share} % of the excess, {confidence}{seen}")
}

/// Whether another capture of the list, or of the one before it, has the fingerprint.
fn is_listed(log: &Path, fingerprint: &str, file: &str) -> bool {
    let mut old = log.as_os_str().to_owned();
    old.push(".1");
    let old = PathBuf::from(old);
    [log, &old].iter().any(|log| {
        let text = std::fs::read(log).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().any(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            fields.get(6) == Some(&fingerprint) && fields.get(1) != Some(&file)
        })
    })
}
