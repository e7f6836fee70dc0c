//! The golden captures of tests/captures: each gives its stored verdict, no word of which
//! contradicts its data; the ones marked right are right, none is missing or too large, and none
//! names a machine. See docs/internals/golden-captures.md.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use diagnosis::Cause;
use golden::compare::side_by_side;
use golden::neutral;
use golden::store::{self, Claim, Entry};
use golden::store::{ALL_BYTES_MAX, CAPTURE, CAPTURE_BYTES_MAX, DESCRIPTION, EXPECTED};
use golden::verdict::judge;

/// There are at least this many captures.
const ENTRIES_MIN: usize = 120;
/// Servers, frameworks and bindings with at least one capture each.
const SERVERS: &[&str] = &[
    "aiohttp",
    "asyncio",
    "c",
    "celery",
    "cheroot",
    "django",
    "fastapi",
    "flask",
    "gevent",
    "gunicorn gevent",
    "gunicorn gthread",
    "gunicorn sync",
    "http.server",
    "hypercorn",
    "rust",
    "threads",
    "tornado",
    "uvicorn",
    "waitress",
    "werkzeug",
    "wsgiref",
];
/// Interpreters, by version.
const PYTHONS: &[&str] = &["3.11", "3.13", "3.14", "3.15"];
/// The oldest version of the file format with a capture.
const FIRST_FORMAT: u64 = 2;
/// Kinds of damage, as their descriptions begin.
const DAMAGE: &[&str] = &["cut at", "a bit turned in chunk", "without chunk", "format"];
/// The command that writes the accepted verdicts again.
const REMEDY: &str = "`make accept` shows old and new side by side and writes what is agreed to";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures")
}

fn entries() -> Vec<Entry> {
    store::entries(&folder(), "*").expect("every golden capture has a description")
}

/// What `check` finds wrong with each entry; runs on as many threads as there are CPUs.
fn wrong(check: impl Fn(&Entry) -> Vec<String> + Sync) -> Vec<String> {
    let (entries, next) = (entries(), AtomicUsize::new(0));
    let found = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wrong = check(entry);
                    found.lock().expect("no check panics").extend(wrong);
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no check panics");
    found.sort();
    found
}

fn assert_none(wrong: &[String], remedy: &str) {
    assert!(wrong.is_empty(), "{} wrong; {remedy}\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_has_the_verdict_that_was_accepted() {
    let wrong = wrong(|entry| {
        let verdict = entry.capture().map(|bytes| judge(&bytes));
        let expected = entry.expected();
        match verdict {
            Err(error) => vec![error],
            Ok(verdict) if !verdict.contradictions.is_empty() => {
                let named = |what: &String| format!("{}: {what}", entry.name);
                verdict.contradictions.iter().map(named).collect()
            }
            Ok(verdict) if verdict.text == expected => {
                let is = entry.answer.wrong(&verdict, entry.switches);
                let claim = is.clone().map_or(Claim::Right, Claim::Wrong);
                let other = claim != entry.claim;
                let is = is.unwrap_or_else(|| "right".to_owned());
                let text = format!("{}: is called {:?}; it is {is}", entry.name, entry.claim);
                other.then_some(text).into_iter().collect()
            }
            Ok(verdict) => {
                let is = entry.answer.wrong(&verdict, entry.switches);
                let is = is.unwrap_or_else(|| "right".to_owned());
                let shown = side_by_side(&expected, &verdict.text);
                vec![format!("== {}: was {:?}, now {is}\n{shown}", entry.name, entry.claim)]
            }
        }
    });
    assert_none(&wrong, REMEDY);
}

#[test]
fn none_names_the_machine_it_was_recorded_on() {
    let wrong = wrong(|entry| {
        let bytes = entry.capture().expect("unpacks");
        neutral::offences(&bytes).iter().map(|what| format!("{}: {what}", entry.name)).collect()
    });
    assert_none(&wrong, "record it again with `make captures CASE=NAME`");
}

#[test]
fn each_has_its_three_files_and_none_is_too_large() {
    let (mut wrong, mut all) = (Vec::new(), 0);
    for name in store::names(&folder()).expect("the folder can be read") {
        for end in [CAPTURE, EXPECTED, DESCRIPTION] {
            let path = folder().join(format!("{name}{end}"));
            let size = std::fs::metadata(&path).map(|meta| meta.len());
            match size {
                Err(error) => wrong.push(format!("{name}{end}: {error}")),
                Ok(size) if end == CAPTURE && size > CAPTURE_BYTES_MAX => {
                    wrong.push(format!("{name}: {size} bytes, wanted at most {CAPTURE_BYTES_MAX}"));
                }
                Ok(size) if end == CAPTURE => all += size,
                Ok(_) => (),
            }
        }
    }
    assert_none(&wrong, "record it again, or remove what is left of it");
    assert!(all <= ALL_BYTES_MAX, "{all} bytes in all, wanted at most {ALL_BYTES_MAX}");
}

#[test]
fn every_cause_mode_server_interpreter_and_kind_of_damage_is_there() {
    let entries = entries();
    let mut missing: Vec<String> = Vec::new();
    let mut want = |what: String, there: bool| missing.extend((!there).then_some(what));
    for cause in Cause::ALL.iter().map(|cause| cause.text()).chain(["none"]) {
        for switches in [true, false] {
            let is = |e: &Entry| e.answer.cause.as_deref().unwrap_or("none") == cause;
            let there =
                entries.iter().any(|e| is(e) && e.switches == switches && e.damage.is_empty());
            want(format!("cause {cause}, switch records {switches}"), there);
        }
    }
    for server in SERVERS {
        let there = entries.iter().any(|e| e.server.iter().any(|s| s == server));
        want(format!("server {server}"), there);
    }
    for python in PYTHONS {
        want(format!("Python {python}"), entries.iter().any(|e| e.python == *python));
    }
    for damage in DAMAGE {
        want(format!("damage {damage:?}"), entries.iter().any(|e| e.damage.starts_with(damage)));
    }
    assert_none(&missing, "wanted at least one capture of each: `make captures CASE=NAME`");
    assert!(entries.len() >= ENTRIES_MIN, "{} captures, wanted {ENTRIES_MIN}", entries.len());
}

#[test]
fn one_of_every_version_of_the_format_is_kept() {
    let current = std::str::from_utf8(format::chunk::MAGIC).ok();
    let current =
        current.and_then(|line| line.trim().strip_prefix("DASHCAM ")?.parse::<u64>().ok());
    let current = current.expect("the first line says the version");
    let mut kept = BTreeSet::new();
    for entry in entries().iter().filter(|entry| entry.damage.is_empty()) {
        let first = entry.capture().expect("unpacks").into_iter().take_while(|b| *b != b'\n');
        let line = String::from_utf8(first.collect()).expect("text");
        assert_eq!(line, format!("DASHCAM {}", entry.format), "{}", entry.name);
        kept.insert(entry.format);
    }
    let wanted: BTreeSet<u64> = (FIRST_FORMAT..=current).collect();
    assert_eq!(kept, wanted, "versions of the format of which a capture is kept");
}
