//! docs/verdict-json.md names everything that `why --json` writes, and nothing else.

use capture::source::SourceLines;
use diagnosis::diagnose;
use format::wait::{HolderSource, WaitKind};
use made::{request, seen, stack, BEGIN, MS};
use report::to_json;
use serde_json::Value;

use crate::made;

/// Paths of all names below `value`; lists of objects are `NAME[]`. What has names of its own
/// choice (sources), or the shape of another one (culprit), is one name.
fn names(value: &Value, path: &str, found: &mut Vec<String>) {
    let is_leaf = ["capture.sources", "causes[].culprit"].contains(&path);
    match value {
        Value::Object(fields) if !is_leaf => {
            if path.ends_with("where") || path.ends_with("source") {
                found.push(path.to_owned());
            }
            for (name, field) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                names(field, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(rows) if rows.first().is_some_and(Value::is_object) => {
            names(&rows[0], &format!("{path}[]"), found);
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn every_name_is_on_the_page_and_no_other() {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.losses = vec![("switches_lost".to_owned(), 3)];
    made.requests.push(request(99, 7, BEGIN, 500));
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    let held = stack(&mut made, &[("refresh", "/srv/app.py", 40)]);
    made::off(&mut made, 7, &[(0, 499)]);
    made::off(&mut made, 9, &[(0, 499)]);
    seen(&mut made, 7, &[(100, WaitKind::Futex, view), (300, WaitKind::Futex, view)]);
    for look in made.samples.get_mut(&7).expect("seen") {
        (look.lock_holder, look.holder_source) = (9, HolderSource::OwnerField);
    }
    seen(&mut made, 9, &[(100, WaitKind::Sleep, held), (300, WaitKind::Sleep, held)]);
    made.source.push(SourceLines {
        file: "/srv/app.py".to_owned(),
        line: 12,
        first: 12,
        lines: vec!["with lock:".to_owned()],
        changed: false,
    });
    let verdict = to_json(&diagnose(&made, |_| 300 * MS), "one.dashcam");
    assert_eq!(verdict["causes"][0]["culprit"]["function"], "refresh", "{verdict:#}");
    let mut reported = Vec::new();
    names(&verdict, "", &mut reported);
    reported.sort();
    let page = include_str!("../../../../../docs/verdict-json.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut listed: Vec<String> = rows.map(|(name, _)| name.to_owned()).collect();
    listed.sort();
    assert_eq!(reported, listed);
}
