//! On captures made by hand: what native code waits for at a condition variable, and for a lock.

use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind::{Futex, PipeWrite, Running};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const TID: u32 = 7;
const OWN: &str = "/srv/billy/src/main.rs";
const CARGO: &str = "/h/.cargo/registry/src/index-1";
const CONDVAR: &str = "/rustc/5980/library/std/src/sync/poison/condvar.rs";

/// One request of 500 ms that waits at `inner`, with a time limit, ns.
fn waits(inner: &[(&str, &str, u32)], timeout_ns: u64) -> Capture {
    let mut made = made::capture(TID, &["GET /"]);
    made.meta.stdlib.clear();
    made.requests.push(made::request(99, TID, BEGIN, 500));
    let mut frames = vec![("billy::balance", OWN, 19)];
    frames.extend(inner);
    let code = stack(&mut made, &frames);
    off(&mut made, TID, &[(0, 499)]);
    seen(&mut made, TID, &[]);
    also_seen(&mut made, TID, (5..495).step_by(10), Futex, code);
    for (sample, at_ms) in made.samples.get_mut(&TID).into_iter().flatten().zip((5..).step_by(10)) {
        sample.timeout_ns = timeout_ns.saturating_sub(at_ms * MS);
    }
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn a_packages_pool_is_one() {
    let pool = format!("{CARGO}/r2d2-0.8.10/src/lib.rs");
    let lock = format!("{CARGO}/parking_lot-0.12.5/src/condvar.rs");
    let inner = [("get<A>", pool.as_str(), 411), ("wait_until<r2d2::PoolInternals<A>>", &lock, 9)];
    let made = waits(&inner, 0);
    let verdict = judge(&made);
    let summary = &verdict.findings[0].summary;
    assert!(summary.contains("balance() waited 499 ms for a pool;"), "{summary}");
}

#[test]
fn a_condition_of_the_programs_own_is_none() {
    let made = waits(&[("wait<PoolOfMine>", CONDVAR, 128)], 0);
    let summary = &judge(&made).findings[0].summary;
    assert!(summary.contains("waited 499 ms for a condition;"), "{summary}");
}

#[test]
fn nobody_notified_what_waited_until_its_time_limit() {
    let made = waits(&[("wait_timeout<()>", CONDVAR, 330)], 499 * MS);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    let words = "for a condition until its time limit: no thread notified it";
    assert!(first.summary.contains(words), "{}", first.summary);
    assert!(first.advice.starts_with("Change what the waiter checks"), "{}", first.advice);
}

#[test]
fn code_of_rusts_own_maps_is_the_code_that_called_it() {
    let futex = "/rustc/5980/library/std/src/sys/sync/mutex/futex.rs";
    let mut made = waits(&[("lock_contended", futex, 115)], 0);
    let map = "/rust/deps/hashbrown-0.16.1/src/raw/mod.rs";
    let counts = stack(
        &mut made,
        &[("billy::census", OWN, 11), ("next_impl<(usize, u64), false>", map, 495)],
    );
    off(&mut made, 9, &[(498, 900)]);
    seen(&mut made, 9, &[]);
    also_seen(&mut made, 9, (5..495).step_by(10), Running, counts);
    let verdict = judge(&made);
    let culprit = verdict.findings[0].culprit.as_ref().map(|place| place.short());
    assert_eq!(culprit.as_deref(), Some("main.rs:11 census()"), "{}", to_text(&verdict));
}

/// As `waits`, inside of a package; two threads of which `outer` is the outermost code are in the
/// program's `region`, and ran until shortly before the end.
fn in_package(outer: (&str, &str, u32)) -> Capture {
    let latch = format!("{CARGO}/rayon-core-1.13.0/src/latch.rs");
    let iter = format!("{CARGO}/rayon-1.11.0/src/iter/mod.rs");
    let inner = [("reduce", iter.as_str(), 900), ("wait_and_reset", &latch, 246)];
    let mut made = waits(&[&inner[..], &[("wait", CONDVAR, 128)]].concat(), 0);
    let region = stack(&mut made, &[outer, ("billy::region", OWN, 44)]);
    for tid in [9, 10] {
        off(&mut made, tid, &[(440, 900)]);
        seen(&mut made, tid, &[]);
        also_seen(&mut made, tid, (5..440).step_by(100), Running, region);
    }
    made
}

#[test]
fn threads_of_the_package_that_waits_do_what_it_waits_for() {
    let registry = format!("{CARGO}/rayon-core-1.13.0/src/registry.rs");
    let made = in_package(("main_loop", registry.as_str(), 906));
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    let culprit = first.culprit.as_ref().map(|place| place.short());
    assert_eq!(culprit.as_deref(), Some("main.rs:44 region()"), "{}", to_text(&verdict));
    let text = to_text(&verdict);
    assert!(text.contains("a thread of the library was at work meanwhile"), "{text}");
    assert!(first.summary.contains("balance() waited 499 ms for a pool;"), "{text}");
    // Others compute too, for none of the waits here.
    for outer in [("main", OWN, 3), ("run", &*format!("{CARGO}/other-1.0.0/src/lib.rs"), 9)] {
        let made = in_package(outer);
        let verdict = judge(&made);
        assert!(verdict.findings[0].culprit.is_none(), "{}", to_text(&verdict));
        assert!(verdict.findings[0].summary.contains("for a condition;"), "{}", to_text(&verdict));
    }
}

/// A thread of the library's that `began`s in it writes to a pipe while a request waits for room.
fn sends_to(began: &str) -> Option<String> {
    let send = format!("{CARGO}/crossbeam-channel-0.5.17/src/flavors/array.rs");
    let write = format!("{CARGO}/tracing-appender-0.2.5/src/non_blocking.rs");
    let mut made = waits(&[("write", &write, 246), ("send<Msg>", &send, 390)], 0);
    let worker = format!("{CARGO}/tracing-appender-0.2.5/src/worker.rs");
    let writes = stack(&mut made, &[("run", began, 3), ("handle_try_recv", &worker, 44)]);
    off(&mut made, 9, &[(0, 460), (461, 900)]);
    seen(&mut made, 9, &[]);
    also_seen(&mut made, 9, (5..480).step_by(50), PipeWrite, writes);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "pool-wait", "{}", to_text(&verdict));
    verdict.findings[0].culprit.as_ref().map(|place| place.short())
}

#[test]
fn a_librarys_thread_at_work_empties_the_queue_that_the_library_fills() {
    let worker = format!("{CARGO}/tracing-appender-0.2.5/src/worker.rs");
    assert_eq!(sends_to(&worker).as_deref(), Some("worker.rs:44 handle_try_recv()"));
    assert_eq!(sends_to(&format!("{CARGO}/tiny_http-0.12.0/src/lib.rs")), None);
}
