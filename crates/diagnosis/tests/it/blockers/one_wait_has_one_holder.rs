//! On captures made by hand, without switch records: a wait that samples cut into parts has one
//! holder at one place, over the whole of it.

use crate::made;

use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::record::flag;
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, Gil, Running, Sleep};
use made::{also_seen, seen, stack, stack_on, BEGIN, MS};
use report::to_text;

/// The thread of the slow request, and two others.
const OWN: u32 = 7;
const HOLDER: u32 = 9;
const NEXT: u32 = 11;

const LOCK: u64 = 0x10;

/// A request of 500 ms waits for a lock, and is seen so every 10 ms.
fn waiting() -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    also_seen(&mut made, OWN, (5..500).step_by(10), Futex, view);
    for look in made.samples.get_mut(&OWN).into_iter().flatten() {
        look.target = LOCK;
        // It did not run in between.
        look.flags |= flag::TIMES;
        look.wall_ns = 10 * MS;
    }
    made
}

/// Thread `tid` sleeps in `publish`, which `run` calls, and is seen there every 100 ms; just before
/// the wait ends it is in `run` alone.
fn publishes(made: &mut Capture, tid: u32, from: u64) {
    let run = stack(made, &[("run", "/srv/app.py", 30)]);
    let publish = stack_on(made, run, &[("publish", "/srv/app.py", 41)]);
    seen(made, tid, &[]);
    also_seen(made, tid, (from..=400).step_by(100), Sleep, publish);
    also_seen(made, tid, [497].into_iter(), Sleep, run);
    let last = made.samples.get_mut(&tid).and_then(|s| s.last_mut()).expect("seen");
    last.flags |= flag::TIMES;
    (last.wall_ns, last.cpu_ns) = (97 * MS, MS);
}

/// Samples of the wait read its holder.
fn read_holder(made: &mut Capture, holder: impl Fn(u64) -> u32) {
    for look in made.samples.get_mut(&OWN).into_iter().flatten() {
        (look.lock_holder, look.holder_source) = (holder(look.t_ns), HolderSource::OwnerField);
    }
}

/// The holder's place in each finding, with its share.
fn culprits(verdict: &Diagnosis<'_>) -> Vec<(String, f64)> {
    let named = |f: &diagnosis::Finding| {
        assert_eq!(f.cause.text(), "lock-wait", "{}", to_text(verdict));
        (f.culprit.as_ref().expect("a holder").function.clone(), f.share)
    };
    verdict.findings.iter().map(named).collect()
}

#[test]
fn the_thread_that_ran_last_is_where_it_was_for_most_of_the_wait() {
    let mut made = waiting();
    publishes(&mut made, HOLDER, 0);
    let verdict = diagnose(&made, |_| 300 * MS);
    assert_eq!(culprits(&verdict), [("publish".to_owned(), 1.0)], "{}", to_text(&verdict));
}

#[test]
fn so_is_a_holder_that_the_lock_names() {
    let mut made = waiting();
    publishes(&mut made, HOLDER, 0);
    read_holder(&mut made, |_| HOLDER);
    let verdict = diagnose(&made, |_| 300 * MS);
    assert_eq!(culprits(&verdict), [("publish".to_owned(), 1.0)], "{}", to_text(&verdict));
}

#[test]
fn a_second_holder_is_where_it_was_while_it_had_the_lock() {
    let mut made = waiting();
    publishes(&mut made, HOLDER, 0);
    // The other one idles until it has the lock, for the last 200 ms.
    let idle = stack(&mut made, &[("idle", "/srv/other.py", 3)]);
    let store = stack(&mut made, &[("store", "/srv/other.py", 9)]);
    also_seen(&mut made, NEXT, (5..300).step_by(10), Sleep, idle);
    also_seen(&mut made, NEXT, (305..500).step_by(10), Sleep, store);
    read_holder(&mut made, |t_ns| if t_ns < BEGIN + 300 * MS { HOLDER } else { NEXT });
    let verdict = diagnose(&made, |_| 300 * MS);
    let found: Vec<String> = culprits(&verdict).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, ["publish", "store"], "{}", to_text(&verdict));
}

#[test]
fn what_a_holder_waited_for_in_a_part_of_the_wait_is_not_behind_it() {
    let mut made = waiting();
    publishes(&mut made, HOLDER, 0);
    // At the end of its sleep it waits for the GIL for a while, which another thread has.
    let compute = stack(&mut made, &[("compute", "/srv/other.py", 9)]);
    also_seen(&mut made, NEXT, (405..500).step_by(10), Running, compute);
    let publish = made.samples[&HOLDER][0].stack;
    also_seen(&mut made, HOLDER, (405..495).step_by(10), Gil, publish);
    let samples = made.samples.get_mut(&HOLDER).expect("seen");
    samples.sort_by_key(|s| s.t_ns);
    samples.iter_mut().filter(|s| s.wait == Gil).for_each(|s| s.gil_holder = NEXT);
    let verdict = diagnose(&made, |_| 300 * MS);
    assert_eq!(culprits(&verdict), [("publish".to_owned(), 1.0)], "{}", to_text(&verdict));
}
