//! Forks between a count and its window: a child sends only its own counts, and its child, too.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;

use common::{add, of, series, take};
use metrics::window::Kind;

fn count(n: u64) {
    (0..n).for_each(|_| {
        add(series(Kind::Counter, "calls"), 1);
        metrics::value(series(Kind::Timing, "took"), 1.5);
        metrics::gauge_add(series(Kind::Gauge, "depth"), 1.0);
        metrics::member(series(Kind::Set, "users"), "somebody");
    });
}

/// What the next window holds: calls, values, depth.
fn window() -> (f64, f64, f64) {
    let readings = take();
    let (took, depth) = (of(&readings, "took"), of(&readings, "depth"));
    (of(&readings, "calls").count, took.count, depth.sum)
}

fn child(depth: u32) -> i32 {
    if window() != (0.0, 0.0, 0.0) {
        return 10;
    }
    count(7);
    std::thread::spawn(|| count(5)).join().expect("ends");
    if window() != (12.0, 12.0, 12.0) {
        return 11;
    }
    count(3);
    if depth < 3 && fork(depth + 1) != 0 {
        return 12;
    }
    if window() != (3.0, 3.0, 3.0) {
        return 13;
    }
    // A series of the child's own.
    metrics::count(series(Kind::Counter, "only the child's"), 2);
    if of(&take(), "only the child's").count == 2.0 {
        0
    } else {
        14
    }
}

/// The exit code of a child.
fn fork(depth: u32) -> i32 {
    testkit::in_a_child(|| child(depth))
}

#[test]
#[cfg_attr(tsan, ignore = "ThreadSanitizer allows no threads behind a fork")]
fn a_child_counts_from_zero_and_the_parent_goes_on() {
    count(100);
    assert_eq!(fork(0), 0);
    std::thread::spawn(|| count(20)).join().expect("ends");
    assert_eq!(fork(0), 0);
    assert_eq!(window(), (120.0, 120.0, 120.0));
    // While other threads count and one collects.
    let (stop, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
    // Forks begin when all threads run: if a child were forked while a thread was starting, the
    // standard library could start no thread in it, and the child's part needs one.
    let begun = &Barrier::new(5);
    let (codes, counted, taken) = std::thread::scope(|scope| {
        let _ends = (testkit::SetsAtEnd(stop), testkit::SetsAtEnd(done));
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    begun.wait();
                    let mut all = 0;
                    while !stop.load(Ordering::Relaxed) {
                        count(10);
                        all += 10;
                    }
                    all
                })
            })
            .collect();
        let collector = scope.spawn(move || {
            begun.wait();
            let mut all = (0.0, 0.0, 0.0);
            while !done.load(Ordering::Relaxed) {
                let (a, b, c) = window();
                all = (all.0 + a, all.1 + b, all.2 + c);
            }
            all
        });
        begun.wait();
        // Checked when the threads have ended: a failed assertion in here would wait for them.
        let codes: Vec<i32> = (0..300).map(|_| fork(3)).collect();
        stop.store(true, Ordering::Relaxed);
        let counted: u64 = writers.into_iter().map(|w| w.join().expect("ends")).sum();
        done.store(true, Ordering::Relaxed);
        (codes, counted as f64, collector.join().expect("ends"))
    });
    assert_eq!(codes, [0; 300]);
    let (a, b, c) = window();
    assert_eq!((taken.0 + a, taken.1 + b, taken.2 + c), (counted, counted, counted));
}
