//! The verdict for a terminal, of golden captures: as wide as asked, with all the sentences' facts.

use std::path::Path;

use capture::read::{Capture, Wanted};
use diagnosis::{diagnose, Cause, Diagnosis};
use golden::store;
use report::{to_screen, Screen};
use trigger::Rules;

const COLUMNS: usize = 60;

/// What each of some captures with findings shows; `colour` is the terminal's.
fn shown(names: &str, colour: bool, check: impl Fn(&str, &Diagnosis<'_>, &str)) {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let entries = store::entries(&all, names).expect("the golden captures");
    let mut with_findings = 0;
    for entry in entries {
        let bytes = entry.capture().expect("unpacks");
        let Ok(capture) = Capture::parse_for(&bytes, Wanted::Causes) else { continue };
        let rules = Rules::parse(&capture.meta.slow).unwrap_or_default();
        let diagnosis = diagnose(&capture, |name| rules.limit_ns(name));
        with_findings += usize::from(!diagnosis.findings.is_empty());
        let text = to_screen(&diagnosis, Screen { columns: COLUMNS, colour });
        check(&entry.name, &diagnosis, &text);
    }
    assert!(with_findings > 3, "{with_findings} captures with findings are named {names}");
}

#[test]
fn no_line_is_longer_than_the_terminal_but_for_one_word() {
    shown("lock_*", false, |name, _, text| {
        for line in text.lines() {
            let fits = line.chars().count() <= COLUMNS;
            // Beside its label a word may be alone in its line.
            let words = line.get(15..).unwrap_or(line).split(' ').count();
            assert!(fits || words == 1, "{name}: {line:?}");
        }
        assert!(!text.contains('\x1b'), "{name}: no colour was asked for");
    });
}

#[test]
fn every_fact_of_a_finding_is_there() {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    shown("pool_*", false, |name, diagnosis, text| {
        let text = joined(text);
        for finding in &diagnosis.findings {
            let place = finding.place.as_ref().map(|place| place.short());
            let summary = place.as_deref().and_then(|p| finding.summary.strip_prefix(p));
            let facts = [summary.unwrap_or(&finding.summary), finding.cause.text()];
            let advice = finding.advice.trim_end_matches('.');
            assert!(finding.cause == Cause::Unknown || text.contains(advice), "{name}: {text}");
            let missing = finding.missing.iter().map(String::as_str);
            for fact in facts.into_iter().chain(missing).chain(place.as_deref()) {
                assert!(text.contains(&joined(fact)), "{name}: no {fact:?} in {text}");
            }
        }
    });
}

#[test]
fn colours_change_nothing_else() {
    shown("gil_*", true, |name, diagnosis, text| {
        let plain = to_screen(diagnosis, Screen { columns: COLUMNS, colour: false });
        let mut bare = String::new();
        for part in text.split('\x1b') {
            // `[32m` and what follows it.
            let escape = part.strip_prefix('[').and_then(|part| part.split_once('m'));
            bare += escape.map_or(part, |(_, text)| text);
        }
        assert_eq!(bare, plain, "{name}");
        assert_eq!(text.contains('\x1b'), !diagnosis.findings.is_empty(), "{name}");
    });
}
