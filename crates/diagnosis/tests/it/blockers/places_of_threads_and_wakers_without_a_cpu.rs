//! On captures made by hand: where a thread mostly was that was seen at another line each time, and
//! the waker of a wait whose thread got no CPU for a while afterwards.

use capture::read::Capture;
use diagnosis::diagnose;
use format::record::flag;
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, Running, SocketRead};
use made::{also_seen, capture, off, request, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

/// The thread of the slow request, and another one.
const OWN: u32 = 7;
const OTHER: u32 = 9;

/// A request of 500 ms that waits in a futex for 499 ms, and its name of the culprit.
fn waiting() -> Capture {
    let mut made = capture(OWN, &["GET /"]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    off(&mut made, OWN, &[(0, 499)]);
    seen(&mut made, OWN, &[(50, Futex, view), (300, Futex, view)]);
    made
}

fn culprit(made: &Capture) -> Option<String> {
    let verdict = diagnose(made, |_| 300 * MS);
    let first = verdict.findings.first().expect("a finding");
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    first.culprit.as_ref().map(|c| format!("{}:{}", c.function, c.line))
}

/// As `waiting`; `OTHER` holds the lock and computes: `lines` of `rebuild`, each for 100 ms, then
/// 150 ms in one line of `tidy`.
fn held(lines: &[u32]) -> Capture {
    let mut made = waiting();
    // One sample of the wait: it is one segment.
    let samples = made.samples.get_mut(&OWN).expect("seen");
    samples.truncate(1);
    (samples[0].lock_holder, samples[0].holder_source) = (OTHER, HolderSource::OwnerField);
    off(&mut made, OTHER, &[(550, 9000)]);
    for (i, line) in (0..).zip(lines) {
        let at = stack(&mut made, &[("rebuild", "/srv/index.py", *line)]);
        also_seen(&mut made, OTHER, (i * 100 + 5..i * 100 + 100).step_by(10), Running, at);
    }
    let tidy = stack(&mut made, &[("tidy", "/srv/index.py", 80)]);
    also_seen(&mut made, OTHER, (345..500).step_by(10), Running, tidy);
    made.samples.get_mut(&OTHER).expect("seen").sort_by_key(|s| s.t_ns);
    made
}

#[test]
fn a_thread_that_computes_is_where_its_function_is_however_many_lines_that_has() {
    // No line has as much as `tidy`; all three together have most of the time.
    let found = culprit(&held(&[31, 34, 37])).expect("a culprit");
    assert!(found.starts_with("rebuild:"), "{found}");
    // One line of `rebuild` alone has less.
    let found = culprit(&held(&[31])).expect("a culprit");
    assert!(found.starts_with("tidy:"), "{found}");
}

/// As `waiting`: `OTHER`, in code of the same file, last ran 45 ms before the waiter did. The
/// sample behind the wait says how long the waiter was without a CPU by then.
fn let_go(run_delay_ms: u64) -> Capture {
    let mut made = waiting();
    let store = stack(&mut made, &[("store", "/srv/app.py", 40)]);
    off(&mut made, OTHER, &[(0, 452), (454, 9000)]);
    seen(&mut made, OTHER, &[(100, Running, store), (350, Running, store)]);
    let view = made.samples[&OWN][0].stack;
    also_seen(&mut made, OWN, [510].into_iter(), Running, view);
    let look = made.samples.get_mut(&OWN).and_then(|s| s.last_mut()).expect("seen");
    look.flags |= flag::TIMES;
    (look.wall_ns, look.run_delay_ns) = (210 * MS, run_delay_ms * MS);
    made
}

#[test]
fn the_waker_ran_before_the_waiter_was_without_a_cpu() {
    assert_eq!(culprit(&let_go(45)).as_deref(), Some("store:40"));
    // It came back at once: nobody was seen to run just before, and none is named.
    assert_eq!(culprit(&let_go(0)), None);
    // It was without a CPU for less: a thread that ran so long before is not the waker.
    assert_eq!(culprit(&let_go(20)), None);
}

/// As `waiting`, without switch records; `OTHER` holds the lock and asks a peer, and then waits for
/// work. Its last samples in the wait are from behind its work.
#[test]
fn a_holder_that_waits_for_work_held_the_lock_where_it_was_before() {
    let mut made = waiting();
    made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    made.off_cpu.clear();
    let view = made.samples[&OWN][0].stack;
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..450).step_by(50), Futex, view);
    for look in made.samples.get_mut(&OWN).into_iter().flatten() {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::OwnerField);
        (look.target, look.flags) = (4096, flag::TIMES);
    }
    let asks = stack(&mut made, &[("company", "/srv/crm.py", 17)]);
    let idle =
        stack(&mut made, &[("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 81)]);
    also_seen(&mut made, OTHER, (5..180).step_by(50), SocketRead, asks);
    also_seen(&mut made, OTHER, (200..600).step_by(50), Futex, idle);
    let verdict = diagnose(&made, |_| 300 * MS);
    let text = to_text(&verdict);
    let of_lock = verdict.findings.iter().filter(|f| f.cause.text() == "lock-wait");
    let culprits: Vec<_> = of_lock.filter_map(|f| f.culprit.as_ref()).collect();
    assert!(culprits.iter().all(|c| c.function == "company"), "{text}");
    assert_eq!(culprits.len(), 1, "{text}");
}
