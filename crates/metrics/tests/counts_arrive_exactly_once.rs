//! Threads that come and go, signal handlers that count inside of counts, and a collector that
//! never rests: in the end every call is accounted for.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{add, of, series, take, Sum};
use metrics::window::Kind;
use metrics::{registry, MOST_SHARDS};

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    add(series(Kind::Counter, "calls"), 1);
    metrics::value(series(Kind::Timing, "signals"), 0.25);
}

const ROUNDS: u64 = 60;
const THREADS: u64 = 6;
const CALLS: u64 = 3000;

fn work(number: u64) {
    let (calls, money) = (series(Kind::Counter, "calls"), series(Kind::Counter, "money"));
    let (took, depth) = (series(Kind::Timing, "took"), series(Kind::Gauge, "depth"));
    let users = series(Kind::Set, "users");
    // The thread must have used the handler's series before: the first use allocates.
    metrics::value(series(Kind::Timing, "signals"), 0.0);
    metrics::count(calls, 0);
    for i in 0..CALLS {
        add(calls, 1);
        metrics::count(calls, 2);
        metrics::count_float(money, 0.5);
        metrics::value(took, i as f64);
        metrics::gauge_add(depth, if i % 2 == 0 { 5.0 } else { -4.0 });
        if i % 100 == 0 {
            metrics::member(users, &format!("user-{}", (number + i / 100) % 50));
        }
        if i % 64 == 0 {
            // SAFETY: to the calling thread itself, whose handler only counts.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
    }
}

/// One test, since the process has one registry: parts run one after the other.
#[test]
fn every_call_is_accounted_for() {
    // SAFETY: the handler is async-signal-safe: everything it counts is registered before.
    unsafe { libc::signal(libc::SIGUSR1, on_signal as *const () as libc::sighandler_t) };
    for (kind, name) in [(Kind::Counter, "calls"), (Kind::Timing, "signals")] {
        series(kind, name);
    }
    threads_come_and_go();
    more_threads_than_shards();
    a_gauge_is_what_was_set_last_and_what_changed_since();
    rates_scale_what_is_let_through();
}

fn threads_come_and_go() {
    let (stop, windows) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let names = ["calls", "money", "took", "depth", "users", "signals"];
    let mut sums: Vec<Sum> = std::thread::scope(|scope| {
        let stops = testkit::SetsAtEnd(stop);
        let collector = scope.spawn(move || {
            let mut sums: Vec<Sum> = names.iter().map(|_| Sum::default()).collect();
            while !stop.load(Ordering::Relaxed) {
                let readings = take();
                windows.fetch_add(1, Ordering::Relaxed);
                sums.iter_mut().zip(names).for_each(|(sum, name)| sum.add(&readings, name));
            }
            sums
        });
        // A thread that stays, too.
        let stays = scope.spawn(|| (0..10).for_each(work));
        for round in 0..ROUNDS {
            std::thread::scope(|crowd| {
                (0..THREADS).for_each(|n| drop(crowd.spawn(move || work(round * THREADS + n))));
            });
        }
        stays.join().expect("ends");
        drop(stops);
        collector.join().expect("ends")
    });
    let rest = take();
    sums.iter_mut().zip(names).for_each(|(sum, name)| sum.add(&rest, name));
    assert!(take().is_empty(), "all is taken");
    let all = (ROUNDS * THREADS + 10) * CALLS;
    let signals = SIGNALS.load(Ordering::Relaxed);
    assert_eq!(signals, (ROUNDS * THREADS + 10) * CALLS.div_ceil(64));
    assert!(windows.load(Ordering::Relaxed) > 20, "the collector came often");
    let [calls, money, took, depth, users, nested] = &sums[..] else { panic!("six") };
    assert_eq!(calls.count, (all * 3 + signals) as f64);
    assert_eq!(money.count, all as f64 / 2.0);
    assert_eq!((took.count, took.extremes), (all as f64, Some((0.0, (CALLS - 1) as f64))));
    assert_eq!(took.sum, (all / CALLS * (CALLS * (CALLS - 1) / 2)) as f64);
    assert_eq!(depth.sum, all as f64 / 2.0);
    // A collector that loses the CPU inside of a bank leaves writers a bank of eight members; what
    // is refused there is counted, and comes again.
    assert_eq!(users.members.len(), 50);
    assert!(users.refused < all / 100, "{} refused", users.refused);
    let touched = signals + ROUNDS * THREADS + 10;
    assert_eq!((nested.count, nested.sum), (touched as f64, signals as f64 / 4.0));
    assert_eq!(registry().take_refused(), (0, 0));
}

fn more_threads_than_shards() {
    let (calls, took) = (series(Kind::Counter, "calls"), series(Kind::Timing, "took"));
    let gate = &std::sync::Barrier::new(MOST_SHARDS + 50);
    std::thread::scope(|scope| {
        for _ in 0..MOST_SHARDS + 50 {
            let body = move || {
                for turn in 0..200 {
                    metrics::count(calls, 1);
                    metrics::value(took, 2.0);
                    if turn == 0 {
                        gate.wait();
                    }
                }
            };
            let thread = std::thread::Builder::new().stack_size(128 << 10);
            thread.spawn_scoped(scope, body).expect("starts");
        }
    });
    let (refused, readings) = (registry().take_refused(), take());
    let all = ((MOST_SHARDS + 50) * 200) as f64;
    assert_eq!((of(&readings, "calls").count, refused.0), (all, 0));
    // Values of too many threads in one bank of the shared shard may be refused, and are counted.
    assert_eq!(of(&readings, "took").count + refused.1 as f64, all);
    assert_eq!(of(&readings, "took").sum, 2.0 * of(&readings, "took").count);
}

fn a_gauge_is_what_was_set_last_and_what_changed_since() {
    let depth = series(Kind::Gauge, "depth");
    let elsewhere = |change: fn(&'static metrics::Series)| {
        std::thread::spawn(move || change(depth)).join().expect("ends");
    };
    let gauge = || of(&take(), "depth").gauge;
    metrics::gauge_add(depth, 100.0);
    elsewhere(|depth| metrics::gauge_set(depth, 7.0));
    metrics::gauge_add(depth, 2.0);
    elsewhere(|depth| metrics::gauge_add(depth, 0.5));
    assert_eq!(gauge(), Some((9.5, true)), "the 100 came before the set");
    elsewhere(|depth| metrics::gauge_add(depth, -1.0));
    assert_eq!(gauge(), Some((-1.0, false)), "a change of what was told before");
    metrics::gauge_set(depth, 3.0);
    metrics::gauge_set(depth, 4.0);
    assert_eq!(gauge(), Some((4.0, true)));
    assert_eq!(gauge(), None);
}

fn rates_scale_what_is_let_through() {
    let at = |kind, name, rate| registry().series_of(kind, name, &[], rate).expect("room");
    let (calls, took) = (at(Kind::Counter, "tenth", 0.1), at(Kind::Timing, "quarter", 0.25));
    (0..100_000).for_each(|_| metrics::count(calls, 1));
    (0..100_000).for_each(|_| metrics::value(took, 8.0));
    let readings = take();
    let (calls, took) = (of(&readings, "tenth"), of(&readings, "quarter"));
    // 100,000 tries at 1 in 10 have a standard deviation of 95 hits; the bounds are twenty of them
    // wide.
    assert!((80_000.0..120_000.0).contains(&calls.count) && calls.count % 10.0 == 0.0, "{calls:?}");
    assert!((85_000.0..115_000.0).contains(&took.count) && took.sum == 8.0 * took.count);
}
