//! On captures made by hand, without switch records: a thread that was done with a long request
//! when the wait ended ran then, although no sample saw that; a thread that accepts is no holder.

use crate::made;

use capture::read::Capture;
use diagnosis::diagnose;
use format::record::flag;
use format::wait::WaitKind::{Accept, Futex, SocketRead};
use made::{also_seen, stack, BEGIN, MS};
use report::to_text;

/// The thread of the slow request, the one that accepts, and one with another request.
const OWN: u32 = 7;
const MAIN: u32 = 9;
const OTHER: u32 = 11;

/// A request waits 398 ms for a lock. The main thread accepts connections, and ran for 1 ms just
/// before the wait's end. `OTHER` asks a peer, for a request that begins and ends so.
fn waiting(begin: u64, end: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /tariff"]);
    made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    made.requests.push(made::request(99, OWN, BEGIN + 100 * MS, 400));
    made.requests.push(made::request(98, OTHER, BEGIN + begin * MS, end - begin));
    let file = "/srv/tariffs.py";
    let look_up = stack(&mut made, &[("serve", file, 40), ("lookup", file, 33)]);
    let audit = stack(&mut made, &[("serve", file, 38), ("audit", file, 20)]);
    let main = stack(&mut made, &[("main", file, 71)]);
    also_seen(&mut made, OWN, (105..495).step_by(10), Futex, look_up);
    for look in made.samples.get_mut(&OWN).into_iter().flatten() {
        (look.target, look.wall_ns) = (0x10, 10 * MS);
        look.flags |= flag::TIMES;
    }
    also_seen(&mut made, OTHER, (begin + 5..end).step_by(50), SocketRead, audit);
    also_seen(&mut made, MAIN, [5, 105, 205, 305, 405, 495].into_iter(), Accept, main);
    let last = made.samples.get_mut(&MAIN).and_then(|s| s.last_mut()).expect("seen");
    (last.wall_ns, last.cpu_ns) = (90 * MS, 30 * MS);
    last.flags |= flag::TIMES;
    made
}

fn culprit(made: &Capture) -> String {
    let verdict = diagnose(made, |_| 300 * MS);
    let first = verdict.findings.iter().find(|f| f.cause.text() == "lock-wait");
    let first = first.unwrap_or_else(|| panic!("{}", to_text(&verdict)));
    first.culprit.as_ref().map_or_else(String::new, |place| place.function.clone())
}

#[test]
fn the_thread_whose_request_ended_when_the_wait_did_had_the_lock() {
    assert_eq!(culprit(&waiting(50, 497)), "audit");
}

/// A `RwLock` of Rust's has a word for readers, and one for writers.
#[test]
fn one_that_waited_for_another_word_of_the_lock_had_it_not() {
    let mut made = waiting(50, 497);
    let update = stack(&mut made, &[("update", "/srv/tariffs.py", 26)]);
    made.requests.push(made::request(97, 13, BEGIN + 90 * MS, 408));
    also_seen(&mut made, 13, (95..495).step_by(10), Futex, update);
    for look in made.samples.get_mut(&13).into_iter().flatten() {
        (look.target, look.wall_ns) = (0x14, 10 * MS);
        look.flags |= flag::TIMES;
    }
    assert_eq!(culprit(&made), "audit");
}

#[test]
fn one_whose_request_began_late_or_ended_before_had_not() {
    assert_ne!(culprit(&waiting(400, 497)), "audit");
    assert_ne!(culprit(&waiting(50, 350)), "audit");
}
