//! On captures made by hand: a request's begin and end are code of its thread's own. A wait that
//! was seen before the one or behind the other (for the next request, on its connection) is not the
//! request's.

use crate::made;

use analysis::timeline::{of_request, of_thread, Segment, State};
use capture::read::Capture;
use format::wait::WaitKind::{Running, SocketRead};
use made::{off, seen, stack, BEGIN, MS};

const OWN: u32 = 7;

/// Reads its connection before 100 ms, is at work of its program's at 140, and reads again behind
/// 200.
fn recorded() -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let read = stack(&mut made, &[("readinto", "/usr/lib/python3.11/socket.py", 706)]);
    let own = stack(&mut made, &[("get", "/srv/app.py", 12)]);
    seen(&mut made, OWN, &[(95, SocketRead, read), (140, Running, own), (215, SocketRead, read)]);
    made
}

fn without_switch_records() -> Capture {
    let mut made = recorded();
    made.meta.sources.retain(|(name, _)| name != "switches");
    made.meta.sources.push(("switches".to_owned(), "off: turned off by settings".to_owned()));
    made
}

fn reads(segments: &[Segment<'_>]) -> u64 {
    let of = segments.iter().filter(|s| s.state == State::Wait && s.wait() == SocketRead);
    of.map(Segment::ns).sum::<u64>() / MS
}

fn request(made: &Capture, from_ms: u64, to_ms: u64) -> Vec<Segment<'_>> {
    of_request(made, OWN, BEGIN + from_ms * MS, BEGIN + to_ms * MS)
}

#[test]
fn without_switch_records_its_waits_are_those_seen_in_it() {
    let made = without_switch_records();
    let all = of_thread(&made, OWN, BEGIN + 100 * MS, BEGIN + 200 * MS);
    assert!(reads(&all) > 0, "of the thread as a whole they are: {all:?}");
    let own = request(&made, 100, 200);
    assert_eq!(reads(&own), 0, "{own:?}");
    assert!(own.iter().all(|s| s.sample.is_none_or(|s| s.wait == Running)), "{own:?}");
}

#[test]
fn one_that_no_sample_saw_did_not_wait_for_the_next_one() {
    let made = without_switch_records();
    let own = request(&made, 100, 110);
    assert!(own.iter().all(|s| s.state == State::Unknown), "{own:?}");
    let reads = |s: &Segment<'_>| s.sample.is_some_and(|s| s.wait == SocketRead);
    assert!(!own.iter().any(reads), "nor is it where that waits: {own:?}");
    let mut made = recorded();
    off(&mut made, OWN, &[(90, 100), (102, 108), (111, 114)]);
    let own = request(&made, 100, 110);
    let waits = own.iter().filter(|s| s.state == State::Wait);
    assert_eq!(waits.clone().map(Segment::ns).sum::<u64>(), 6 * MS, "by the kernel: {own:?}");
    assert!(!waits.clone().any(reads), "{own:?}");
}

#[test]
fn code_that_ran_before_and_behind_it_may_be_its_own() {
    let mut made = without_switch_records();
    let own = stack(&mut made, &[("get", "/srv/app.py", 14)]);
    seen(&mut made, OWN, &[(99, Running, own), (111, Running, own)]);
    let segments = request(&made, 100, 110);
    assert!(segments.iter().any(|s| s.stack() == own), "{segments:?}");
}
