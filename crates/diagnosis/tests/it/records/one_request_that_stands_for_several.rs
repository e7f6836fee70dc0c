//! Of very many requests a reader keeps some that stand for several: they count as many.

use crate::made;

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::WaitKind::Sleep;
use made::{off, seen, stack, BEGIN, MS};

const OWN: u32 = 7;

/// Fifty quick requests of 2 ms, which stand for a thousand each but the first three, and a slow
/// one that slept.
fn capture() -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    for (i, row) in made.requests.iter_mut().enumerate() {
        match i {
            0..3 => row.end_ns = Some(row.begin_ns + 40 * MS),
            3 => (row.times, row.error) = (1000, true),
            _ => row.times = 1000,
        }
    }
    // Behind the last of the quick ones.
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let nap = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    off(&mut made, OWN, &[(0, 499)]);
    seen(&mut made, OWN, &[]);
    made::also_seen(&mut made, OWN, (5..490).step_by(50), Sleep, nap);
    made
}

#[test]
fn it_counts_as_many() {
    let made = capture();
    let verdict = diagnose(&made, |_| 300 * MS);
    assert_eq!((verdict.slow, verdict.total), (1, 47_004));
    assert_eq!((verdict.failed, verdict.failures[0].1), (1000, 1000));
    assert_eq!(verdict.typical_ns, Some(2 * MS));
    // Three of fifty take 40 ms; that only they stood for one would make them most of all.
    let mut few = capture();
    few.requests
        .iter_mut()
        .for_each(|r| r.times = if r.end_ns < Some(r.begin_ns + 40 * MS) { 1 } else { 1000 });
    few.requests.iter_mut().filter(|r| r.id == 99).for_each(|r| r.times = 1);
    assert_eq!(diagnose(&few, |_| 300 * MS).typical_ns, Some(40 * MS));
    // All of them are slow by this limit.
    assert_eq!(diagnose(&made, |_| MS).slow, 47_004);
}
