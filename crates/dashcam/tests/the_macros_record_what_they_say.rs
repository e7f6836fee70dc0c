//! `request!`, `span!`, `event!`: from the call site into a capture; off, failed, nested, on other
//! threads, and in a forked child.
#![allow(clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use capture::read::Capture;
use dashcam::{event, request, span, Config, Later};

/// One recorder serves all tests of this process; they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("macros-{}", std::process::id()))
}

fn start() {
    let config = Config::new().service("macros").memory("4MiB").out(folder().display());
    dashcam::start(config).expect("starts");
}

fn saved() -> Capture {
    let path = dashcam::snap("test").expect("written");
    let capture = Capture::open(&path).expect("readable");
    std::fs::remove_file(path).expect("there");
    capture
}

/// The texts of a span's or event's attributes.
fn attributes(capture: &Capture, rows: &[(u32, capture::read::Text)]) -> Vec<String> {
    rows.iter().map(|(key, value)| format!("{}={value:?}", capture.name(*key))).collect()
}

#[test]
fn attributes_arrive_and_late_ones_too() {
    let _turn = turn();
    start();
    for rows in 0..3u64 {
        let mut span = span!("late.span", table = "users", rows = Later, "db.port" = 5432);
        span.set("rows", rows);
        span.set("nobody declared this", 1);
    }
    event!("plain.event", ratio = 0.5, hit = true, key = "k".repeat(100), none = None::<u8>);
    let capture = saved();
    let named = |name: u32| capture.name(name);
    let spans: Vec<_> = capture.spans.iter().filter(|s| named(s.name) == "late.span").collect();
    assert_eq!(spans.len(), 3);
    assert_eq!(
        attributes(&capture, &spans[2].attributes),
        ["table=Text(\"users\")", "rows=Int(2)", "db.port=Int(5432)"]
    );
    let event = capture.events.iter().find(|e| named(e.name) == "plain.event").expect("there");
    let cut = format!("key=Text(\"{}\")", "k".repeat(64));
    assert_eq!(
        attributes(&capture, &event.attributes),
        ["ratio=Float(0.5)", "hit=Bool(true)", &cut]
    );
    let lost = |name: &str| capture.meta.losses.iter().find(|l| l.0 == name).map_or(0, |l| l.1);
    assert_eq!(lost("attributes_cut"), 4, "three undeclared ones and the long text");
}

#[test]
fn spans_belong_to_the_innermost_request_also_on_another_thread() {
    let _turn = turn();
    start();
    let route = String::from("GET /outer");
    let outer = request!(name: &route, user = 42);
    let outer_id = outer.id();
    span!("in.outer").fail();
    {
        let mut inner = request!("inner");
        inner.rename("inner, renamed");
        event!("in.inner");
    }
    event!("in.outer.again");
    let carried = dashcam::carry();
    let thread = std::thread::spawn(move || {
        carried.run(|| event!("carried"));
        dashcam::in_request(outer_id, || event!("by.id"));
        event!("in.none");
    });
    thread.join().expect("ends");
    drop(outer);
    let capture = saved();
    let id_of = |name: &str| {
        let event = capture.events.iter().find(|e| capture.name(e.name) == name);
        event.unwrap_or_else(|| panic!("{name} is there")).request
    };
    let request =
        |name: &str| capture.requests.iter().find(|r| capture.name(r.name) == name).expect("there");
    assert_eq!(request("GET /outer").id, outer_id);
    assert_eq!(id_of("in.inner"), request("inner, renamed").id);
    for event in ["in.outer.again", "carried", "by.id"] {
        assert_eq!(id_of(event), outer_id, "{event}");
    }
    assert_eq!(id_of("in.none"), 0);
    let span = capture.spans.iter().find(|s| capture.name(s.name) == "in.outer").expect("there");
    assert!(span.error && span.request == outer_id);
    assert_eq!(capture.tasks.iter().filter(|t| t.request == outer_id).count(), 2);
}

#[test]
fn a_panic_marks_what_it_drops_as_failed_and_nothing_else() {
    let _turn = turn();
    start();
    struct Cleanup;
    impl Drop for Cleanup {
        fn drop(&mut self) {
            drop(span!("cleanup"));
        }
    }
    let caught = std::panic::catch_unwind(|| {
        let _request = request!("panics");
        let _span = span!("panics.span");
        let _cleanup = Cleanup;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(caught.is_err());
    let capture = saved();
    let failed = |name: &str| {
        let span = capture.spans.iter().find(|s| capture.name(s.name) == name);
        span.expect("there").error
    };
    assert!(failed("panics.span"));
    assert!(!failed("cleanup"), "it began during the panic and went well");
    let request = capture.requests.iter().find(|r| capture.name(r.name) == "panics");
    assert!(request.expect("there").error);
}

fn never(evaluated: &str) -> i64 {
    panic!("{evaluated} was evaluated while recording is off");
}

#[test]
fn off_nothing_is_evaluated_and_names_are_known_again_after_a_new_start() {
    let _turn = turn();
    let work = || drop(span!("before.and.after", n = 1));
    start();
    work();
    dashcam::stop();
    let _request = request!("off", user = never("user"));
    let _span = span!("off", rows = never("rows"));
    event!("off", key = never("key"));
    let started = request!("nothing");
    assert_eq!(started.id(), 0);
    start();
    work();
    drop(started);
    let capture = saved();
    let count = capture.spans.iter().filter(|s| capture.name(s.name) == "before.and.after").count();
    assert_eq!(count, 2);
}

#[test]
fn a_forked_child_has_its_own_names_and_no_request_of_its_parents() {
    let _turn = turn();
    start();
    let work = |by: u32| {
        (0..by).for_each(|_| event!("only", by = by));
        drop(span!("both.record", by = by));
    };
    // Ids that differ between the two processes.
    (0..50).for_each(|n| event!(name: &format!("filler {n}")));
    let request = request!("parents");
    let span = span!("begun.before.the.fork");
    work(3);
    let path = folder().join("child");
    let mut both = Some((span, request));
    let child = testkit::start_child(|| {
        work(2);
        drop(both.take());
        let saved = dashcam::snap("child").expect("written");
        dashcam::before_exit();
        i32::from(std::fs::rename(saved, &path).is_err())
    });
    drop(both);
    assert_eq!(testkit::wait_for_child(child), 0, "the child saved a capture");
    check_child(&path);
    std::fs::remove_file(path).expect("there");
    let parent = saved();
    assert_eq!(parent.events.iter().filter(|e| parent.name(e.name) == "only").count(), 3);
}

fn check_child(path: &Path) {
    let child = Capture::open(path).expect("readable");
    assert!(child.requests.is_empty(), "the request is its parent's");
    let events: Vec<_> = child.events.iter().collect();
    assert_eq!(events.len(), 2);
    for event in events {
        assert_eq!((child.name(event.name), event.request), ("only", 0));
        assert_eq!(attributes(&child, &event.attributes), ["by=Int(2)"]);
    }
    let spans: Vec<_> = child.spans.iter().map(|s| child.name(s.name)).collect();
    assert_eq!(spans, ["both.record"]);
}
