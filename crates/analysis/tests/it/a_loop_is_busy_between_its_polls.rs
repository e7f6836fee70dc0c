//! How long an event loop was away from its poll call: from the poll before to the poll behind,
//! however far these are, up to two seconds on each side.

use crate::made;

use analysis::index::Index;
use analysis::timeline::{of_thread, State};
use capture::read::Capture;
use format::wait::WaitKind::{Poll, SocketRead};
use made::{off, seen, stack, BEGIN, MS};

const LOOP: u32 = 7;

/// A loop that polls in these intervals and computes between them; for 10 ms at each of these times
/// it reads from a peer.
fn polling(polls: &[(u64, u64)], reads: &[u64]) -> Capture {
    let mut made = made::capture(LOOP, &["GET /"]);
    let place = stack(&mut made, &[("run", "/srv/app.py", 3)]);
    let polled = polls.iter().map(|(from, to)| (*from, *to, Poll));
    let read = reads.iter().map(|at| (*at, at + 10, SocketRead));
    let mut all: Vec<_> = polled.chain(read).collect();
    all.sort_by_key(|(from, ..)| *from);
    off(&mut made, LOOP, &all.iter().map(|(from, to, _)| (*from, *to)).collect::<Vec<_>>());
    let samples = all.iter().map(|(from, to, kind)| ((from + to) / 2, *kind, place));
    seen(&mut made, LOOP, &samples.collect::<Vec<_>>());
    made
}

/// What the loop was busy for around the run at this instant, asked of an index that knows nothing
/// yet.
fn busy_ms(made: &Capture, at_ms: u64) -> u64 {
    let at_ns = BEGIN + at_ms * MS;
    let all = of_thread(made, LOOP, BEGIN, BEGIN + 10_000 * MS);
    let run = all.iter().find(|s| s.from_ns <= at_ns && at_ns < s.to_ns).expect("a segment");
    assert_eq!(run.state, State::Run);
    Index::new(made).busy_around(run) / MS
}

#[test]
fn the_polls_around_it_bound_it_near_and_far() {
    let reads: Vec<u64> = [300, 500].into_iter().chain((1_000..=5_500).step_by(500)).collect();
    let made = polling(&[(0, 40), (70, 110), (800, 840), (6_000, 6_040)], &reads);
    assert_eq!(busy_ms(&made, 50), 30);
    assert_eq!((busy_ms(&made, 200), busy_ms(&made, 400), busy_ms(&made, 700)), (690, 690, 690));
    assert_eq!(busy_ms(&made, 900), 2_160, "to two seconds behind its end, 1,000");
    assert_eq!(busy_ms(&made, 3_100), 4_490, "two seconds on each side of 3,010 to 3,500");
}
