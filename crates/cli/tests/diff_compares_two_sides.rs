//! `diff A B` and `why --against`, with captures of real services.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::path::{Path, PathBuf};

use common::{as_text, dashcam, Folder};
use serde_json::Value;

fn capture(folder: &Folder, golden: &str, file: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let found = golden::store::entries(&all, golden).expect("the golden captures");
    let entry = found.into_iter().find(|entry| entry.name == golden).expect("there");
    let path = folder.0.join(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, entry.capture().expect("unpacks")).expect("a file");
    path
}

fn run(folder: &Folder, words: &[&str]) -> (Option<i32>, String, String) {
    let out = dashcam(&folder.0, words).output().expect("dashcam runs");
    (out.status.code(), as_text(&out.stdout), as_text(&out.stderr))
}

fn json(folder: &Folder, words: &[&str]) -> (Option<i32>, Value) {
    let (code, text, error) = run(folder, words);
    (code, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{error}")))
}

#[test]
fn a_sick_program_against_its_healthy_twin_has_a_new_cause() {
    let folder = Folder::new("diff-sick");
    capture(&folder, "cpu_loop-healthy", "a/healthy.dashcam");
    capture(&folder, "cpu_loop", "b/sick.dashcam");
    let (code, text, error) = run(&folder, &["diff", "a", "b"]);
    assert_eq!(code, Some(1), "{text}{error}");
    for line in [
        "A  a: 1 capture of ",
        "0 of 360 requests slow\n",
        "Slow on both sides: 300ms.",
        "\nB is slower: excess 0 a request in A, 108 ms in B.\n",
        "\nworse  360 ",
        "\n  new     cpu at program.py:19 mosaic(): 90 ms a request (84 % of B's excess), in 19 slow",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (code, text, _) = run(&folder, &["diff", "b", "a"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\nbetter 260 ") || text.contains("  gone    cpu at program.py:19"));
}

#[test]
fn two_runs_of_the_same_program_have_no_difference() {
    let folder = Folder::new("diff-same");
    for name in ["lock_chain", "cpu-starved-crowd", "event-loop-blocked-client", "tornado_block"] {
        let a = capture(&folder, name, "a.dashcam").display().to_string();
        let b = capture(&folder, &format!("{name}-off"), "b.dashcam").display().to_string();
        for (first, second) in [(&a, &b), (&b, &a)] {
            let (code, text, error) = run(&folder, &["diff", first, second]);
            assert_eq!(code, Some(0), "{name}: {text}{error}");
        }
        let (_, text, _) = run(&folder, &["diff", &a, &b]);
        let note = "Recorded otherwise: switches on in A, off in B";
        assert!(text.contains(note), "{name}: {text}");
    }
}

#[test]
fn a_cause_seen_in_one_burst_is_not_called_new() {
    let folder = Folder::new("diff-burst");
    capture(&folder, "lock_chain-healthy", "a.dashcam");
    capture(&folder, "lock_chain", "b.dashcam");
    let (code, text, _) = run(&folder, &["diff", "a.dashcam", "b.dashcam"]);
    assert_eq!(code, Some(0), "{text}");
    let line = "4 slow requests of 177 in B against 0 of 360 in A (1 burst in B): not enough to \
                compare\n";
    assert!(text.contains("Nothing is surely worse in B") && text.contains(line), "{text}");
}

#[test]
fn copies_of_a_capture_in_a_folder_are_one() {
    let folder = Folder::new("diff-copies");
    capture(&folder, "cpu_loop-healthy", "a.dashcam");
    capture(&folder, "cpu_loop", "one.dashcam");
    capture(&folder, "cpu_loop", "b/one.dashcam");
    capture(&folder, "cpu_loop", "b/two.dashcam");
    let (_, one) = json(&folder, &["diff", "--json", "a.dashcam", "one.dashcam"]);
    let (_, two) = json(&folder, &["diff", "--json", "a.dashcam", "b"]);
    assert_eq!((&one["b"]["captures"], &two["b"]["captures"]), (&1.into(), &2.into()));
    assert_eq!(one["requests"], two["requests"]);
    for key in ["requests", "slow", "excess_ns"] {
        assert_eq!(one["b"][key], two["b"][key], "{key}");
    }
}

#[test]
fn why_against_says_which_findings_are_new() {
    let folder = Folder::new("diff-against");
    capture(&folder, "cpu_loop-healthy", "before/a.dashcam");
    capture(&folder, "cpu_loop", "now.dashcam");
    let (code, text, _) = run(&folder, &["why", "now.dashcam", "--against", "before"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("\n1. cpu: 84 % of the excess"), "{text}");
    let wanted = "\nAgainst before (1 capture, 0 of 360 requests slow):\n  \
                  1. new since before: in none of its 360 requests\n";
    assert!(text.contains(wanted), "{text}");
    let (_, found) = json(&folder, &["why", "--json", "now.dashcam", "--against", "before"]);
    assert_eq!(found["causes"][0]["against"]["kind"], "new");
    assert_eq!(found["against"]["worse"], true);
    assert_eq!(found["against"]["a"]["requests"], 360);

    capture(&folder, "lock_chain", "now.dashcam");
    capture(&folder, "lock_chain-off", "then.dashcam");
    let (code, text, _) = run(&folder, &["why", "now.dashcam", "--against", "then.dashcam"]);
    assert_eq!(code, Some(0), "{text}");
    let wanted = "  1. also in then.dashcam: 99 % of its excess then, 100 % now; 13 ms a request \
                  then, 13 ms now: same\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_capture_is_compared_with_the_others_of_its_folder() {
    let folder = Folder::new("diff-own-folder");
    capture(&folder, "cpu_loop", "c/now.dashcam");
    let (code, _, error) = run(&folder, &["why", "c/now.dashcam", "--against", "c"]);
    assert_eq!(code, Some(3));
    assert!(error.contains("c: nothing but the capture that it is compared with"), "{error}");
    capture(&folder, "cpu_loop-healthy", "c/then.dashcam");
    let (code, text, error) = run(&folder, &["why", "c/now.dashcam", "--against", "c"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(text.contains("\nAgainst c (1 capture, 0 of 360 requests slow):\n"), "{text}");
}

#[test]
fn captures_of_other_services_in_a_folder_are_left_out() {
    let folder = Folder::new("diff-services");
    capture(&folder, "field-order-journal", "b.dashcam");
    capture(&folder, "field-order-journal-off", "a/same-service.dashcam");
    capture(&folder, "lock_chain", "a/other.dashcam");
    let (_, found) = json(&folder, &["diff", "--json", "a", "b.dashcam", "--slow", "100ms"]);
    assert_eq!(found["a"]["of_other_services"], 1);
    assert_eq!(found["a"]["services"], found["b"]["services"]);
    assert_eq!(found["a"]["captures"], 1, "{found}");
}

#[test]
fn what_cannot_be_compared_is_an_error_with_a_remedy() {
    let folder = Folder::new("diff-errors");
    capture(&folder, "cpu_loop", "b.dashcam");
    let empty = folder.capture();
    std::fs::create_dir(folder.0.join("none")).expect("a folder");
    std::fs::write(folder.0.join("text.dashcam"), "no capture").expect("a file");
    for (a, wanted) in [
        ("gone.dashcam", "gone.dashcam: No such file"),
        ("none", "no capture (*.dashcam) in none; a recorded service makes one"),
        ("text.dashcam", "text.dashcam: "),
        (empty.to_str().expect("text"), "no requests in it, so there is nothing to compare"),
    ] {
        let (code, text, error) = run(&folder, &["diff", a, "b.dashcam"]);
        assert_eq!((code, text.as_str()), (Some(3), ""), "{a}: {error}");
        assert!(error.contains(wanted), "{a}: {error}");
    }
    capture(&folder, "cpu_loop", "copy.dashcam");
    let (code, _, error) = run(&folder, &["diff", "copy.dashcam", "b.dashcam"]);
    let wanted = "dashcam: copy.dashcam: what it is compared with has all of its requests, too, so";
    assert!(code == Some(3) && error.contains(wanted), "{error}");
    let (code, _, error) = run(&folder, &["diff", "b.dashcam", "b.dashcam", "--slow", "quick"]);
    assert_eq!(code, Some(2), "{error}");
    let two = ["why", "b.dashcam", "b.dashcam", "--against", "b.dashcam"];
    let (code, _, error) = run(&folder, &two);
    assert!(code == Some(2) && error.contains("wanted one to compare"), "{error}");
}

#[test]
fn an_unreadable_capture_of_a_folder_is_counted() {
    let folder = Folder::new("diff-unreadable");
    capture(&folder, "cpu_loop-healthy", "a.dashcam");
    capture(&folder, "cpu_loop", "b/one.dashcam");
    std::fs::write(folder.0.join("b/text.dashcam"), "no capture").expect("a file");
    let (code, text, error) = run(&folder, &["diff", "a.dashcam", "b", "--slow", "300ms"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(text.contains("requests slow; 1 not readable\n"), "{text}");
}

#[test]
fn every_name_of_the_json_is_documented() {
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diff-json.md"),
    );
    let page = page.expect("the page");
    let folder = Folder::new("diff-json");
    capture(&folder, "cpu_loop-healthy", "a.dashcam");
    capture(&folder, "cpu_loop", "b.dashcam");
    let (_, found) = json(&folder, &["diff", "--json", "a.dashcam", "b.dashcam"]);
    let names = |value: &Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let mut missing = Vec::new();
    let mut each = |prefix: &str, value: &Value| {
        for name in names(value) {
            let full = format!("`{prefix}{name}`");
            let short = format!("`{name}`");
            let row = page.lines().find(|line| line.starts_with(&format!("| `{prefix}a`")));
            let in_row = row.is_some_and(|line| line.contains(&short));
            let is_there = page.contains(&full) || (prefix.contains("[]") && in_row);
            if !is_there {
                missing.push(full);
            }
        }
    };
    let lists = |name: &str| page.contains(&format!("`{name}[]`"));
    assert!(lists("requests") && lists("causes"));
    let mut own = found.clone();
    own.as_object_mut().expect("an object").retain(|_, value| !value.is_array());
    each("", &own);
    each("a.", &found["a"]);
    each("requests[].", &found["requests"][0]);
    each("causes[].", &found["causes"][0]);
    for side in ["requests", "causes"] {
        let row = format!("| `{side}[].a`");
        let line = page.lines().find(|line| line.starts_with(&row)).expect("its row");
        let list = &found[side];
        let value = list.as_array().expect("a list").iter().find(|row| row["b"].is_object());
        for name in names(&value.expect("one")["b"]) {
            assert!(line.contains(&format!("`{name}`")), "{side}[].b.{name}");
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
