//! On captures made by hand: a task awaits a future that a thread fulfils, and that thread waited
//! for another.

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::AwaitKind;
use format::wait::WaitKind::{ChildWait, Futex, Poll, Sleep};
use made::{also_seen, awaited, off, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;

/// A task awaits a future of the program's own for 300 ms. A thread in the same file waits for a
/// lock all the while, and another one for a child; both come back then.
fn fulfilled_by_a_thread(switches: bool, back_ms: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.requests.push(made::request(99, OWN, BEGIN, 300));
    made.requests.iter_mut().for_each(|request| request.on_loop = true);
    let wait = stack(&mut made, &[("view", "/srv/app.py", 22), ("ask", "/srv/app.py", 19)]);
    let work = stack(&mut made, &[("worker", "/srv/app.py", 14)]);
    let idle = stack(&mut made, &[("worker", "/srv/app.py", 13), ("get", "/lib/queue.py", 171)]);
    let rotate = stack(&mut made, &[("run", "/srv/app.py", 10), ("rotate", "/srv/app.py", 6)]);
    let pause = stack(&mut made, &[("run", "/srv/app.py", 9)]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    let look = |at| awaited(at, 99, 4096, AwaitKind::Future, wait);
    made.awaits.insert(99, (1..3).map(|i| look(i * 100)).collect());
    let samples: Vec<u64> = if switches { vec![5] } else { (5..back_ms).step_by(10).collect() };
    for (tid, stack, wait) in [(8, work, Futex), (9, rotate, ChildWait)] {
        also_seen(&mut made, tid, samples.iter().copied(), wait, stack);
    }
    also_seen(&mut made, 8, [back_ms + 5].into_iter(), Futex, idle);
    also_seen(&mut made, 9, [back_ms + 5].into_iter(), Sleep, pause);
    if switches {
        off(&mut made, OWN, &[(0, 299)]);
        off(&mut made, 8, &[(2, back_ms), (back_ms + 1, 9000)]);
        off(&mut made, 9, &[(2, back_ms - 1), (back_ms, 9000)]);
        also_seen(&mut made, OWN, [10, 200].into_iter(), Poll, 0);
    } else {
        made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
    }
    made
}

#[test]
fn a_future_that_a_thread_fulfils_is_delayed_by_that_threads_blocker() {
    for switches in [true, false] {
        let made = fulfilled_by_a_thread(switches, 298);
        let verdict = diagnose(&made, |_| 100 * MS);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
        let culprit = first.culprit.as_ref().map(|place| place.function.as_str());
        assert_eq!(culprit, Some("rotate"), "{}", to_text(&verdict));
        // A thread that does not leave its function had nothing to do with it.
        let made = fulfilled_by_a_thread(switches, 700);
        let verdict = diagnose(&made, |_| 100 * MS);
        assert!(verdict.findings.iter().all(|f| f.culprit.is_none()), "{}", to_text(&verdict));
    }
}
