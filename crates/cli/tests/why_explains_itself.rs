//! `dashcam why --explain`: as text below the verdict, in Markdown, and as `explain` in JSON.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{as_text, Folder};

/// A golden capture with a lock and its holder.
fn capture(folder: &Folder) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let name = "lock_background";
    let found = golden::store::entries(&all, name).expect("the golden captures");
    let entry = found.into_iter().find(|entry| entry.name == name).expect(name);
    let path = folder.0.join("one.dashcam");
    std::fs::write(&path, entry.capture().expect("unpacks")).expect("a file");
    path
}

fn why(capture: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let out = command.arg("why").arg(capture).args(more).output().expect("dashcam runs");
    assert_eq!(out.status.code(), Some(0), "{}", as_text(&out.stderr));
    as_text(&out.stdout)
}

#[test]
fn the_verdicts_text_is_unchanged_and_the_explanation_follows() {
    let folder = Folder::new("explained");
    let capture = capture(&folder);
    let (plain, explained) = (why(&capture, &[]), why(&capture, &["--explain"]));
    let below = explained.strip_prefix(&plain).expect("the verdict comes first");
    assert!(below.starts_with("\nWhy 1. lock-wait, confirmed:\n"), "{below}");
    assert!(below.contains("lock-owner-read") && below.contains("Rules: lock-wait 100 %."));
    let markdown = why(&capture, &["--explain", "--md"]);
    assert!(markdown.contains("```text\nWhy 1. lock-wait"), "{markdown}");
}

#[test]
fn json_has_explanations_only_with_explain() {
    let folder = Folder::new("explained_json");
    let capture = capture(&folder);
    let read = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&why(&capture, more)).expect("JSON")
    };
    let (plain, mut explained) = (read(&["--json"]), read(&["--json", "--explain"]));
    let causes = explained["causes"].as_array_mut().expect("causes");
    for cause in causes {
        let explain = cause.as_object_mut().expect("an object").remove("explain");
        let explain = explain.expect("every cause has one");
        assert!(explain["requests"][0]["intervals"][0]["rule"].is_string(), "{explain:#}");
        assert!(explain["checks"][0]["passed"].is_boolean(), "{explain:#}");
    }
    assert_eq!(plain, explained);
}
