//! On captures made by hand, without switch records: a thread that was given no CPU is recorded by
//! repeating its last sample. The first real sample behind that says for how long it could have
//! run.

use crate::made;

use analysis::timeline::{of_thread, State};
use format::record::flag;
use format::wait::WaitKind::{Poll, Running};
use made::{seen, stack, BEGIN, MS};

const OWN: u32 = 7;

/// How long it was in each state in 310 ms, if the last sample has so much time without a CPU.
fn divided(delay_ms: u64) -> [(State, u64); 3] {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources.retain(|(name, _)| name != "switches");
    made.meta.sources.push(("switches".to_owned(), "off: turned off by settings".to_owned()));
    let serve = stack(&mut made, &[("serve", "/srv/app.py", 12)]);
    let samples = [(0, Poll), (100, Poll), (200, Poll), (300, Poll), (310, Running)];
    let samples: Vec<_> = samples.iter().map(|(at, wait)| (*at, *wait, serve)).collect();
    seen(&mut made, OWN, &samples);
    let rows = made.samples.get_mut(&OWN).expect("seen");
    rows.iter_mut().for_each(|row| (row.flags, row.wall_ns) = (flag::TIMES, 100 * MS));
    rows[1..4].iter_mut().for_each(|row| row.flags |= flag::REUSED);
    (rows[4].wall_ns, rows[4].cpu_ns, rows[4].run_delay_ns) = (10 * MS, MS, delay_ms * MS);
    let all = of_thread(&made, OWN, BEGIN, BEGIN + 310 * MS);
    let sum = |state| all.iter().filter(|s| s.state == state).map(|s| s.ns()).sum::<u64>() / MS;
    [State::Run, State::Ready, State::Wait].map(|state| (state, sum(state)))
}

#[test]
fn its_next_sample_shows_since_when_it_could_have_run() {
    assert_eq!(divided(180), [(State::Run, 1), (State::Ready, 180), (State::Wait, 129)]);
    assert_eq!(divided(305), [(State::Run, 1), (State::Ready, 305), (State::Wait, 4)]);
}

#[test]
fn one_that_got_its_cpu_soon_waited_until_then() {
    assert_eq!(divided(2), [(State::Run, 1), (State::Ready, 2), (State::Wait, 307)]);
    assert_eq!(divided(0), [(State::Run, 1), (State::Ready, 0), (State::Wait, 309)]);
}
