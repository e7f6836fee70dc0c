//! On captures made by hand: the place of a finding, and the path to it.

use capture::read::{Capture, RequestRow};
use diagnosis::{diagnose, Diagnosis};
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, Gil, Poll, Running};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const APP: &str = "/srv/app.py";

fn made() -> Capture {
    let mut made = made::capture(OWN, &["GET /a", "GET /b"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 100 * MS)
}

/// A request each of two handlers, 500 and 400 ms; both compute in `fold`, which calls `mix` for
/// less than half of it.
fn two_handlers() -> Capture {
    let mut made = made();
    for (tid, name, ms, handler) in [(OWN, 0, 500, "first"), (OTHER, 1, 400, "second")] {
        let fold = [(handler, APP, 10), ("fold", APP, 40)];
        let mix = [&fold[..], &[("mix", APP, 60)]].concat();
        let (fold, mix) = (stack(&mut made, &fold), stack(&mut made, &mix));
        let request = made::request(90 + u64::from(tid), tid, BEGIN, ms);
        made.requests.push(RequestRow { name, ..request });
        off(&mut made, tid, &[(ms, 9000)]);
        seen(&mut made, tid, &[]);
        also_seen(&mut made, tid, (2..ms / 2 + 60).step_by(10), Running, fold);
        also_seen(&mut made, tid, (ms / 2 + 62..ms).step_by(10), Running, mix);
    }
    made
}

#[test]
fn work_that_two_handlers_call_is_reported_where_it_is_done_and_the_path_ends_there() {
    let made = two_handlers();
    let verdict = judge(&made);
    let reported: Vec<_> = verdict.findings.iter().filter(|f| f.cause.text() == "cpu").collect();
    assert!(!reported.is_empty(), "{}", to_text(&verdict));
    for finding in reported {
        assert_eq!(
            finding.place.as_ref().expect("a place").function,
            "fold",
            "{}",
            to_text(&verdict)
        );
        assert!(
            matches!(&finding.path[..], [one] if one == "first" || one == "second"),
            "{:?}",
            finding.path
        );
    }
}

#[test]
fn a_servers_wait_for_the_gil_is_reported_at_the_holders_place() {
    let server = [("write", "/lib/site-packages/server/util.py", 348)];
    let view = [server[0], ("view", APP, 12)];
    for (frames, waiter) in
        [(&server[..], "requests waited"), (&view[..], "app.py:12 view() waited")]
    {
        let mut made = made();
        let waits = stack(&mut made, frames);
        let fold = stack(&mut made, &[("fold", APP, 40)]);
        made.requests.push(made::request(99, OWN, BEGIN, 400));
        off(&mut made, OWN, &[(1, 399)]);
        seen(&mut made, OWN, &[]);
        also_seen(&mut made, OWN, (2..399).step_by(10), Gil, waits);
        for look in made.samples.get_mut(&OWN).into_iter().flatten() {
            (look.lock_holder, look.holder_source) = (OTHER, HolderSource::OwnerField);
        }
        off(&mut made, OTHER, &[(400, 9000)]);
        seen(&mut made, OTHER, &[]);
        also_seen(&mut made, OTHER, (4..399).step_by(10), Running, fold);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
        assert!(first.summary.starts_with(waiter), "{}", first.summary);
        let place = first.place.as_ref().expect("a place");
        assert_eq!(place.function == "fold", waiter == "requests waited", "{place:?}");
    }
}

#[test]
fn the_holder_of_a_lock_while_a_program_runs_waited_for_a_child_process() {
    let mut made = made();
    let waits = stack(&mut made, &[("view", APP, 12)]);
    let runs = [("render", APP, 40), ("communicate", "/lib/subprocess.py", 1209)];
    let runs = stack(&mut made, &[&runs[..], &[("select", "/lib/selectors.py", 415)]].concat());
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    off(&mut made, OWN, &[(1, 399)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (2..399).step_by(10), Futex, waits);
    for look in made.samples.get_mut(&OWN).into_iter().flatten() {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::OwnerField);
    }
    off(&mut made, OTHER, &[(0, 400)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (4..399).step_by(10), Poll, runs);
    let verdict = judge(&made);
    let summary = &verdict.findings[0].summary;
    assert!(summary.contains("held by app.py:40 render()"), "{summary}");
    assert!(summary.contains("which waited for a child process"), "{summary}");
}

#[test]
fn a_stack_that_could_not_be_read_is_the_one_beside_it() {
    let mut made = made();
    let fold = stack(&mut made, &[("fold", APP, 40)]);
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    off(&mut made, OWN, &[(400, 9000)]);
    seen(&mut made, OWN, &[]);
    // Four samples in five found the thread on its way from one call into another.
    also_seen(&mut made, OWN, (5..400).step_by(50), Running, fold);
    for ms in [15, 25, 35, 45] {
        also_seen(&mut made, OWN, (ms..400).step_by(50), Running, 0);
    }
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert!(first.summary.starts_with("app.py:40 fold() computed"), "{}", to_text(&verdict));
    assert!(first.share > 0.9, "{}", to_text(&verdict));
}
