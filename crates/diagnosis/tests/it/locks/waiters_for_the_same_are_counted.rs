//! On captures made by hand: which other threads wait for what a slow request waits for, and what a
//! lock is called.

use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind::Futex;
use made::{also_seen, off, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const WAITERS: &str = "threads seen waiting for the same during the longest wait";

/// A request of 310 ms that waits for 300, with this behind its futex; others wait beside it:
/// (thread, futex, what is behind that).
fn waits_for(lock: u64, stack: &[(&str, &str, u32)], others: &[(u32, u64, u64)]) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.requests.push(made::request(99, OWN, BEGIN, 310));
    let stack = made::stack(&mut made, stack);
    for (tid, futex, behind) in [(OWN, 0x10, lock)].iter().chain(others) {
        off(&mut made, *tid, &[(1, 300)]);
        also_seen(&mut made, *tid, (6..300).step_by(10), Futex, stack);
        for look in made.samples.get_mut(tid).into_iter().flatten().skip(1) {
            (look.target, look.lock) = (*futex, *behind);
        }
        // The first sample knows the futex only.
        for look in made.samples.get_mut(tid).into_iter().flatten().take(1) {
            look.target = *futex;
        }
    }
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 100 * MS)
}

fn waiters(verdict: &Diagnosis<'_>) -> Option<f64> {
    let first = &verdict.findings[0];
    first.evidence.iter().find(|e| e.what == WAITERS).map(|e| e.value)
}

#[test]
fn a_waiter_in_a_lock_of_its_own_for_the_same_object_is_counted() {
    let in_queue = [
        ("take", "/srv/app.py", 10),
        ("Queue.get", "/usr/lib/python3.11/queue.py", 171),
        ("Condition.wait", "/usr/lib/python3.11/threading.py", 327),
    ];
    let queue = 0x7f00_0000_1000;
    let others = [(9, 0x20, queue), (11, 0x30, queue), (13, 0x40, queue + 64), (15, 0x50, 0)];
    let made = waits_for(queue, &in_queue, &others);
    let verdict = judge(&made);
    assert_eq!(waiters(&verdict), Some(3.0), "{}", to_text(&verdict));
    let alone = waits_for(queue, &in_queue, &others[2..]);
    let verdict = judge(&alone);
    assert_eq!(waiters(&verdict), None, "{}", to_text(&verdict));
}

#[test]
fn a_lock_in_static_memory_is_reported_by_its_name() {
    let in_native = [("price", "/srv/shop/price.rs", 10), ("reserve", "/srv/shop/stock.rs", 20)];
    let mut made = waits_for(0, &in_native, &[(9, 0x10, 0)]);
    made.names.push("shop::STOCK in shop".to_owned());
    let name = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    for look in made.samples.get_mut(&OWN).into_iter().flatten().skip(1) {
        look.lock = name;
    }
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.target().as_deref(), Some("shop::STOCK in shop"));
    assert!(first.summary.contains("for the lock shop::STOCK in shop"), "{}", first.summary);
    assert_eq!(waiters(&verdict), Some(2.0), "{}", to_text(&verdict));
}
