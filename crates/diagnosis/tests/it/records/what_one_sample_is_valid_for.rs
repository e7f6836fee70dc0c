//! On captures made by hand, without switch records: a sample is valid for the time next to it, and
//! not for what came before or after what it saw.

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::WaitKind::{Futex, Gil, Running, Sleep, SocketRead};
use made::{also_seen, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 8;

/// A slow request of 500 ms, which sleeps from `from_ms` on; behind it its thread reads the next
/// one.
fn slow(from_ms: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let nap = stack(&mut made, &[("view", "/srv/app.py", 12), ("nap", "/srv/app.py", 30)]);
    let serve = stack(&mut made, &[("serve", "/srv/run.py", 8)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (from_ms + 5..450).step_by(10), Sleep, nap);
    also_seen(&mut made, OWN, [540].into_iter(), SocketRead, serve);
    made
}

fn causes(made: &Capture) -> Vec<(&'static str, f64)> {
    let verdict = diagnose(made, |_| 100 * MS);
    verdict.findings.iter().map(|f| (f.cause.text(), f.share)).collect()
}

#[test]
fn the_last_sample_of_a_request_shows_how_it_ended() {
    let made = slow(0);
    let found = causes(&made);
    assert_eq!(found.len(), 1, "{}", to_text(&diagnose(&made, |_| 100 * MS)));
    assert_eq!(found[0].0, "sleep");
    assert!(found[0].1 > 0.95, "{found:?}");
}

/// It lay in its socket for 200 ms; the first sample of another thread, at the end of that, finds
/// it at the GIL, and one before, if there is one, at `before`.
fn waits_in_its_socket(before: Option<format::wait::WaitKind>) -> Capture {
    let mut made = slow(200);
    made.requests.last_mut().expect("the slow one").started_ns = BEGIN + 200 * MS;
    let asks = stack(&mut made, &[("boot", "/srv/run.py", 3)]);
    let holds = stack(&mut made, &[("load", "/srv/jobs.py", 9)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, before.map(|_| 2).into_iter(), before.unwrap_or(Futex), asks);
    also_seen(&mut made, OTHER, [198].into_iter(), Gil, asks);
    seen(&mut made, 9, &[]);
    also_seen(&mut made, 9, (5..200).step_by(20), Running, holds);
    for look in made.samples.get_mut(&OTHER).into_iter().flatten() {
        look.gil_holder = 9;
    }
    made
}

#[test]
fn the_first_sample_of_a_thread_says_nothing_of_long_before() {
    for before in [None, Some(Futex)] {
        let found = causes(&waits_in_its_socket(before));
        assert!(found.iter().all(|(cause, _)| *cause != "gil-wait"), "{before:?}: {found:?}");
    }
    let found = causes(&waits_in_its_socket(Some(Gil)));
    let gil: f64 = found.iter().filter(|f| f.0 == "gil-wait").map(|f| f.1).sum();
    assert!(gil > 0.35, "{found:?}");
}
