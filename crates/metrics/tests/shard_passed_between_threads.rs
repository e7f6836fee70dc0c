//! As under Python's GIL: many threads use one shard, and the thread that holds the lock counts
//! into it, also by a counter's words. Nothing is lost to a collector that never rests.
//!
//! `DASHCAM_COUNTS=10000000` counts that often with each thread.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use common::{series, take, Sum};
use metrics::registry;
use metrics::window::Kind;

const THREADS: u64 = 5;
/// Counts between two hand-overs of the lock.
const TURN: u64 = 700;
/// The writers go on until the collector has seen this many windows.
const WINDOWS: u64 = 4;

#[test]
fn nothing_is_lost_and_nothing_refused() {
    let turns = testkit::count("DASHCAM_COUNTS", 60 * TURN) / TURN;
    let names = ["orders", "took", "g"];
    let (orders, took) = (series(Kind::Counter, "orders"), series(Kind::Timing, "took"));
    let g = series(Kind::Gauge, "g");
    let lock = &Mutex::new(registry().claim().expect("a shard"));
    let (stop, windows) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let (mut sums, turns) = std::thread::scope(|scope| {
        let stops = testkit::SetsAtEnd(stop);
        let collector = scope.spawn(move || {
            let mut sums: Vec<Sum> = names.iter().map(|_| Sum::default()).collect();
            while !stop.load(Ordering::Relaxed) {
                let readings = take();
                windows.fetch_add(u64::from(!readings.is_empty()), Ordering::Relaxed);
                sums.iter_mut().zip(names).for_each(|(sum, name)| sum.add(&readings, name));
            }
            sums
        });
        let work = || {
            let mut done = 0;
            while done < turns || windows.load(Ordering::Relaxed) < WINDOWS {
                let shard = lock.lock().expect("no panic");
                for _ in 0..TURN {
                    registry().count(*shard, orders, 1);
                    assert!(shard.cell(orders).add(1));
                    registry().value(*shard, took, 2.0);
                    registry().gauge_add(*shard, g, 1.0);
                }
                done += 1;
            }
            done
        };
        let writers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let turns: u64 = writers.into_iter().map(|writer| writer.join().expect("ends")).sum();
        drop(stops);
        (collector.join().expect("ends"), turns)
    });
    let rest = take();
    sums.iter_mut().zip(names).for_each(|(sum, name)| sum.add(&rest, name));
    let all = (turns * TURN) as f64;
    let [orders, took, g] = &sums[..] else { panic!("three") };
    assert_eq!((orders.count, took.count, took.sum, g.sum), (2.0 * all, all, 2.0 * all, all));
    assert_eq!(registry().take_refused(), (0, 0));
}
