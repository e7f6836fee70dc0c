//! `why` of several captures, `ls`, and the pages made from the declaration of the arguments.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{as_text, dashcam, Folder};
use serde_json::Value;

fn capture(folder: &Folder, golden: &str, file: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let found = golden::store::entries(&all, golden).expect("the golden captures");
    let entry = found.into_iter().find(|entry| entry.name == golden).expect("there");
    let path = folder.0.join(file);
    std::fs::write(&path, entry.capture().expect("unpacks")).expect("a file");
    path
}

fn run(folder: &Folder, words: &[&str]) -> (Option<i32>, String, String) {
    let out = dashcam(&folder.0, words).output().expect("dashcam runs");
    (out.status.code(), as_text(&out.stdout), as_text(&out.stderr))
}

#[test]
fn each_capture_has_its_verdict_below_its_name() {
    let folder = Folder::new("several");
    capture(&folder, "cheroot_sleep", "a.dashcam");
    capture(&folder, "lock_background", "b.dashcam");
    folder.capture();
    let (code, text, _) = run(&folder, &["why", "one.dashcam", "a.dashcam", "b.dashcam"]);
    assert_eq!(code, Some(0), "one has a cause");
    let heads: Vec<&str> = text.lines().filter(|line| line.ends_with(".dashcam:")).collect();
    assert_eq!(heads, ["one.dashcam:", "a.dashcam:", "b.dashcam:"]);
    assert!(text.contains("\n1. sleep: ") && text.contains("\n1. lock-wait: "), "{text}");
    let (_, json, _) = run(&folder, &["why", "--json", "a.dashcam", "b.dashcam"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    let (code, _, _) = run(&folder, &["why", "one.dashcam", "one.dashcam"]);
    assert_eq!(code, Some(1), "none has a cause");
    let (code, _, _) = run(&folder, &["why", "one.dashcam", "gone.dashcam"]);
    assert_eq!(code, Some(3));
}

#[test]
fn since_takes_all_captures_of_that_time() {
    let folder = Folder::new("since");
    let old = capture(&folder, "cheroot_sleep", "old.dashcam");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options()
        .write(true)
        .open(&old)
        .and_then(|file| file.set_modified(past))
        .expect("ours");
    let (code, _, error) = run(&folder, &["why", ".", "--since", "1h"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no capture of that time in ."), "{error}");
    capture(&folder, "lock_background", "new.dashcam");
    let (code, text, _) = run(&folder, &["why", ".", "--since", "1h"]);
    assert!(code == Some(0) && text.contains("1. lock-wait: "), "{text}");
    let (_, text, _) = run(&folder, &["why", ".", "--since", "3h"]);
    assert!(text.contains("1. lock-wait: ") && text.contains("1. sleep: "), "{text}");
    let named = ["why", "old.dashcam", "new.dashcam", "--since", "1h"];
    let (code, text, _) = run(&folder, &named);
    assert!(code == Some(0) && text.contains("1. lock-wait: "), "{text}");
    assert!(!text.contains("1. sleep: "), "an old capture is left out, named or not: {text}");
    let (code, _, error) = run(&folder, &["why", "old.dashcam", "--since", "1h"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no capture of that time in old.dashcam"), "{error}");
    let (code, _, error) = run(&folder, &["why", "gone.dashcam", "--since", "1h"]);
    assert!(code == Some(3) && error.contains("gone.dashcam: No such file"), "{error}");
    let (code, _, error) = run(&folder, &["why", "-", "--since", "1h"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--since: found stdin (-), wanted captures or folders"), "{error}");
}

#[test]
fn a_dash_is_stdin_and_leaves_nothing_behind() {
    let folder = Folder::new("stdin");
    let path = capture(&folder, "cheroot_sleep", "a.dashcam");
    let mut command = dashcam(&folder.0, &["why", "-"]);
    command.env("TMPDIR", folder.0.join("tmp"));
    std::fs::create_dir(folder.0.join("tmp")).expect("a folder");
    let file = std::fs::File::open(path).expect("there");
    let out = command.stdin(Stdio::from(file)).output().expect("dashcam runs");
    assert!(as_text(&out.stdout).contains("1. sleep: 98 %"), "{}", as_text(&out.stderr));
    assert_eq!(std::fs::read_dir(folder.0.join("tmp")).expect("ours").count(), 0);
}

#[test]
fn stdin_is_called_so_in_errors_and_verdicts() {
    let folder = Folder::new("stdin-name");
    let path = capture(&folder, "cheroot_sleep", "a.dashcam");
    let answer = |words: &[&str], input: &Path| {
        let file = std::fs::File::open(input).expect("there");
        let out = dashcam(&folder.0, words).stdin(Stdio::from(file)).output().expect("it runs");
        (out.status.code(), as_text(&out.stdout), as_text(&out.stderr))
    };
    let (code, _, error) = answer(&["why", "-"], Path::new("/dev/null"));
    assert_eq!(code, Some(3));
    assert!(error.starts_with("dashcam: stdin: "), "{error}");
    let (_, json, _) = answer(&["why", "-", "--json"], &path);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["capture"]["file"], "stdin");
    let (_, text, _) = answer(&["why", "-", "--md"], &path);
    assert!(text.contains("stdin") && !text.contains("dashcam-stdin"), "{text}");
    let (_, text, _) = answer(&["why", "-", "a.dashcam"], &path);
    assert!(text.starts_with("stdin:\n"), "{text}");
}

#[test]
fn show_of_a_program_without_an_interpreter_names_no_runtime() {
    let folder = Folder::new("no-runtime");
    folder.capture();
    let (_, text, _) = run(&folder, &["show", "one.dashcam"]);
    assert!(text.lines().nth(1).is_some_and(|line| line.ends_with(", process 7")), "{text}");
}

#[test]
fn ls_has_the_reason_and_the_verdict_of_each() {
    let folder = Folder::new("ls");
    let path = capture(&folder, "cheroot_sleep", "a.dashcam").display().to_string();
    folder.capture();
    let log = format!(
        "2026-11-21T10:14:03Z\t{path}\tslow: a request\tGET /\t1006\t7\n\
         2026-11-21T10:14:04Z\t{path}\tverdict: sleep at a.py:1 f()\t-\t-\t-\tf0\tnew\n"
    );
    std::fs::write(folder.0.join("s.captures.log"), log).expect("a file");
    let (code, text, _) = run(&folder, &["ls", "."]);
    assert_eq!((code, text.lines().count()), (Some(0), 3), "{text}");
    let line = text.lines().find(|line| line.contains(" a.dashcam ")).expect("its line");
    assert!(line.ends_with("slow: a request  sleep at a.py:1 f()"), "{line}");
    let (code, _, error) = run(&folder, &["ls", "gone"]);
    assert!(code == Some(3) && error.contains("wanted a folder"), "{error}");
}

#[test]
fn completions_and_manual_pages_name_each_verb() {
    let folder = Folder::new("pages");
    let (code, text, _) = run(&folder, &["completions", "bash"]);
    assert_eq!(code, Some(0));
    for verb in ["why", "show", "alert", "attach"] {
        assert!(text.contains(&format!("dashcam__subcmd__{verb}")) || text.contains(verb));
    }
    assert!(text.contains("--since"), "{text}");
    let (code, _, error) = run(&folder, &["man", "."]);
    assert_eq!(code, Some(0), "{error}");
    let files = folder.files();
    for page in ["dashcam.1", "dashcam-why.1", "dashcam-show.1"] {
        assert!(files.iter().any(|file| file == page), "{page}: {files:?}");
    }
}
