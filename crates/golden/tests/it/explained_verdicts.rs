//! `why --explain` on golden captures: the texts for a few captures are stored, and an explanation
//! changes no verdict.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use capture::read::{Capture, Wanted};
use golden::compare::side_by_side;
use golden::store::{self, Entry};
use golden::verdict::{explained, of};

/// A lock whose holder was read, one whose holder was inferred, a wait for the GIL, one for a pool,
/// and an unexplained one.
const STORED: &[&str] =
    &["lock_background", "lock_by_hand-off", "gil_json", "pool_executor", "unknown_signal"];
/// Captures whose culprit nothing but that inference names.
const DECIDED: &[(&str, &str)] = &[
    ("waitress_checkpoint", "recurring-waker"),
    ("waitress_checkpoint-off", "recurring-exit"),
    ("waitress_connections", "past-acquire-line"),
    ("waitress_connections-off", "past-acquire-line"),
];
/// If set to 1, the stored texts are written again.
const WRITE: &str = "DASHCAM_WRITE_EXPLAINED";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn entries(names: &str) -> Vec<Entry> {
    store::entries(&root().join("../../tests/captures"), names).expect("the golden captures")
}

fn parsed(entry: &Entry) -> Option<Capture> {
    let bytes = entry.capture().expect("unpacks");
    Capture::parse_for(&bytes, Wanted::Causes).ok()
}

#[test]
fn a_few_explanations_are_as_stored() {
    for name in STORED {
        let entry = entries(name).into_iter().find(|e| e.name == *name).expect(name);
        let (_, text) = explained(&parsed(&entry).expect("a whole capture"));
        let path = root().join(format!("tests/it/explained/{name}.txt"));
        if std::env::var(WRITE).is_ok_and(|set| set == "1") {
            std::fs::write(&path, &text).expect("written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        let shown = side_by_side(&stored, &text);
        assert!(stored == text, "{name}: if the new text is right, set {WRITE}=1\n{shown}");
    }
}

#[test]
fn each_inference_over_several_waits_decides_a_capture() {
    for (name, inference) in DECIDED {
        let entry = entries(name).into_iter().find(|e| e.name == *name).expect(name);
        let (_, text) = explained(&parsed(&entry).expect("a whole capture"));
        let blockers = text.lines().find(|line| line.trim().starts_with("Blockers: "));
        let by = format!(", by {inference}");
        assert!(blockers.is_some_and(|line| line.contains(&by)), "{name}: {inference}\n{text}");
    }
}

#[test]
fn an_explanation_changes_no_verdict() {
    check_those(true, (0, 3));
}

#[test]
fn an_explanation_changes_no_verdict_of_another_third() {
    check_those(true, (1, 3));
}

#[test]
fn an_explanation_changes_no_verdict_of_the_rest() {
    check_those(true, (2, 3));
}

#[test]
fn an_explanation_changes_no_verdict_without_switch_records() {
    check_those(false, (0, 2));
}

#[test]
fn an_explanation_changes_no_verdict_of_the_other_half_without_switch_records() {
    check_those(false, (1, 2));
}

/// Judges the captures with or without switch records, of each `share`-th from `first` on, with and
/// without explanation; fails if a verdict differs.
fn check_those(switches: bool, (first, share): (usize, usize)) {
    let in_mode = entries("*").into_iter().filter(|e| e.name.ends_with("-off") != switches);
    let entries: Vec<Entry> = in_mode.skip(first).step_by(share).collect();
    let (next, findings) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let judge = |entry: &Entry| {
        let Some(capture) = parsed(entry) else { return };
        let (verdict, text) = explained(&capture);
        findings.fetch_add(verdict.findings.len(), Ordering::Relaxed);
        let whys = text.lines().filter(|line| line.starts_with("Why ")).count();
        if verdict != of(&capture) || whys != verdict.findings.len() {
            wrong.lock().expect("no check panics").push(entry.name.clone());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    judge(entry);
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().expect("no check panics"), Vec::<String>::new());
    assert!(findings.into_inner() > 30, "hardly any capture has a finding");
}
