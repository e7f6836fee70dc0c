//! On captures made by hand: the innermost code may only do what its caller asked for. A pause of
//! an installed library belongs to the call that it tries again, or to the library's caller; a
//! query for each row belongs to the code that asks for each row.

use capture::read::Capture;
use diagnosis::{diagnose, Finding};
use format::wait::WaitKind::{Running, Sleep, SocketRead};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;

fn made() -> Capture {
    let mut made = made::capture(OWN, &["POST /settle"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    seen(&mut made, OWN, &[]);
    made
}

fn first(made: &Capture) -> Finding {
    let verdict = diagnose(made, |_| 100 * MS);
    assert!(!verdict.findings.is_empty(), "{}", to_text(&verdict));
    verdict.findings.into_iter().next().expect("a finding")
}

fn name(place: Option<&diagnosis::Place>) -> Option<String> {
    place.map(diagnosis::Place::short)
}

const SETTLE: (&str, &str, u32) = ("settle", "/srv/invoices.py", 5);
const CALL: (&str, &str, u32) =
    ("Retrying.__call__", "/lib/site-packages/tenacity/__init__.py", 480);
const NAP: (&str, &str, u32) = ("sleep", "/lib/site-packages/tenacity/nap.py", 31);

/// A call of 20 ms, a pause of 350 ms, and another call.
fn tried_again(inside: Option<(&str, &str, u32)>, sleeper: &[(&str, &str, u32)]) -> Capture {
    let mut made = made();
    off(&mut made, OWN, &[(1, 20), (21, 370), (371, 399)]);
    let sleeps = stack(&mut made, sleeper);
    also_seen(&mut made, OWN, (30..370).step_by(20), Sleep, sleeps);
    if let Some(inside) = inside {
        let calls = stack(&mut made, &[SETTLE, CALL, inside]);
        also_seen(&mut made, OWN, [375, 385].into_iter(), SocketRead, calls);
    }
    made
}

#[test]
fn a_pause_of_a_library_that_tries_again_is_the_called_functions() {
    let made = tried_again(Some(("authorise", "/srv/psp.py", 12)), &[SETTLE, CALL, NAP]);
    let reported = first(&made);
    assert_eq!(reported.cause.text(), "sleep", "{}", reported.summary);
    assert_eq!(name(reported.place.as_ref()).as_deref(), Some("invoices.py:5 settle()"));
    assert_eq!(name(reported.culprit.as_ref()).as_deref(), Some("psp.py:12 authorise()"));
    let said = "between calls of psp.py:12 authorise(), in nap.py:31 sleep()";
    assert!(reported.summary.ends_with(said), "{}", reported.summary);
}

#[test]
fn without_a_sample_of_what_it_tries_it_is_the_librarys_caller() {
    let reported = first(&tried_again(None, &[SETTLE, CALL, NAP]));
    assert_eq!(name(reported.place.as_ref()).as_deref(), Some("invoices.py:5 settle()"));
    assert_eq!(reported.culprit, reported.place, "{}", reported.summary);
    assert!(reported.summary.ends_with(", in nap.py:31 sleep()"), "{}", reported.summary);
}

#[test]
fn a_pause_of_the_programs_own_is_its_own() {
    let reported = first(&tried_again(None, &[SETTLE, ("rest", "/srv/shared/rest.py", 3)]));
    assert_eq!(name(reported.place.as_ref()).as_deref(), Some("rest.py:3 rest()"));
    assert_eq!(reported.culprit, None, "{}", reported.summary);
}

#[test]
fn what_a_library_computes_is_its_callers() {
    let mut made = made();
    let compile = ("Environment.compile", "/lib/site-packages/jinja2/environment.py", 764);
    let computes = stack(&mut made, &[SETTLE, ("render", "/srv/branding.py", 12), compile]);
    off(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (2..398).step_by(10), Running, computes);
    let reported = first(&made);
    assert_eq!(reported.cause.text(), "cpu", "{}", reported.summary);
    assert_eq!(name(reported.place.as_ref()).as_deref(), Some("branding.py:12 render()"));
    assert_eq!(reported.culprit, reported.place, "{}", reported.summary);
    assert!(
        reported.summary.ends_with(", in environment.py:764 compile()"),
        "{}",
        reported.summary
    );
}

/// Eighty answers waited for, one after the other, on stacks that begin with `callers`.
fn row_by_row(
    callers: &[(&'static str, &'static str, u32)],
    also: &[(&str, &str, u32)],
) -> Capture {
    let mut made = made();
    let away: Vec<(u64, u64)> = (0..80).map(|i| (i * 5 + 1, i * 5 + 5)).collect();
    off(&mut made, OWN, &away);
    let command = ("command", "/srv/kv.py", 18);
    let read = ("SocketIO.readinto", "/lib/socket.py", 706);
    let asks = stack(&mut made, &[callers, &[command, read]].concat());
    also_seen(&mut made, OWN, (0..80).map(|i| i * 5 + 3), SocketRead, asks);
    // Another request, long before.
    let other = stack(&mut made, also);
    made.samples.entry(OWN).or_default().insert(0, made::sample(OWN, 1000 * MS, Running, other));
    made
}

const LISTING: (&str, &str, u32) = ("listing", "/srv/items.py", 15);
const ATTRIBUTES: (&str, &str, u32) = ("attributes", "/srv/items.py", 6);

#[test]
fn a_comprehension_on_the_way_is_the_loop() {
    let part = ("listing.<locals>.<listcomp>", "/srv/items.py", 15);
    let reported = first(&row_by_row(&[LISTING, part, ATTRIBUTES], &[LISTING]));
    assert_eq!(reported.cause.text(), "downstream-wait", "{}", reported.summary);
    assert_eq!(name(reported.place.as_ref()).as_deref(), Some("kv.py:18 command()"));
    assert_eq!(name(reported.culprit.as_ref()).as_deref(), Some("items.py:15 listing()"));
    assert!(reported.summary.ends_with("one after the other, called by items.py:15 listing()"));
}

#[test]
fn a_function_that_several_call_is_a_helper_of_the_one_that_calls_it_often() {
    let home = ("home", "/srv/views.py", 9);
    let also = [home, ("command", "/srv/kv.py", 18)];
    let reported = first(&row_by_row(&[LISTING, ATTRIBUTES], &also));
    assert_eq!(name(reported.culprit.as_ref()).as_deref(), Some("items.py:6 attributes()"));
    // A function that only one calls may be a helper or not.
    let reported = first(&row_by_row(&[LISTING, ATTRIBUTES], &[home]));
    assert_eq!(reported.culprit, None, "{}", reported.summary);
}
