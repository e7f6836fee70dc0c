//! {start a thread, 3 events, join} over and over: every event accounted for, memory flat, and the
//! millionth thread begins as quickly as the first.
//!
//! `DASHCAM_CHURN` sets the number of threads (default 6,000; the live lane runs 2,000,000).
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use dashcam::{Runtime, Value};

/// Resident memory of this process but for files and shared memory, in pages.
fn anonymous_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let word =
        |i: usize| text.split(' ').nth(i).and_then(|w| w.parse::<u64>().ok()).expect("number");
    word(1) - word(2)
}

/// Times of the first record of a thread, in powers of two of ns.
struct Histogram([AtomicU64; 40]);

impl Histogram {
    fn new() -> Histogram {
        Histogram([const { AtomicU64::new(0) }; 40])
    }

    fn add(&self, ns: u64) {
        self.0[(64 - ns.leading_zeros() as usize).min(39)].fetch_add(1, Ordering::Relaxed);
    }

    fn text(&self) -> String {
        let counts: Vec<u64> = self.0.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let row = |(i, n): (usize, &u64)| (*n > 0).then(|| format!("<{} ns: {n}", 1u64 << i));
        counts.iter().enumerate().filter_map(row).collect::<Vec<_>>().join(", ")
    }
}

fn pair() -> &'static [Histogram; 2] {
    Box::leak(Box::new([Histogram::new(), Histogram::new()]))
}

fn churn(threads: u64, spawners: u64, name: u32, key: u32, first: &'static [Histogram; 2]) {
    std::thread::scope(|scope| {
        for _ in 0..spawners {
            scope.spawn(move || {
                let many = threads / spawners;
                for n in 0..many {
                    let body = move || {
                        let begin = dashcam::now_ns();
                        for i in 0..3u64 {
                            dashcam::event(name, i, &[(key, Value::Int((i * 3 + 1) as i64))]);
                            if i == 0 {
                                let late = usize::from(n >= many / 2);
                                first[late].add(dashcam::now_ns() - begin);
                            }
                        }
                    };
                    let small = std::thread::Builder::new().stack_size(64 << 10);
                    small.spawn(body).expect("room").join().expect("no panic");
                }
            });
        }
    });
}

#[test]
fn threads_come_and_go() {
    let threads: u64 = testkit::count("DASHCAM_CHURN", 6_000);
    let given = [("service", "churn"), ("memory", "64MiB"), ("switches", "off")];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    dashcam::start_with_runtime(&given, Runtime::default()).expect("starts");
    let tables = dashcam::current().expect("recording").tables();
    let (name, key) = (tables.name("churn"), tables.name("key"));
    let report = Mutex::new(Vec::new());
    // Once through, so that what is made once is made.
    churn(5_000, 64, name, key, pair());
    for spawners in [1, 8, 64] {
        let first = pair();
        let part = threads / 3 / spawners * spawners;
        let (begin, pages) = (dashcam::now_ns(), anonymous_pages());
        churn(part, spawners, name, key, first);
        let seconds = (dashcam::now_ns() - begin) as f64 / 1e9;
        let grown = anonymous_pages() as i64 - pages as i64;
        report.lock().expect("whole").push(grown);
        println!(
            "{spawners} spawners: {part} threads, {:.0} a second, memory {grown:+} pages\n  \
             first record, first half:  {}\n  first record, second half: {}",
            part as f64 / seconds,
            first[0].text(),
            first[1].text()
        );
    }
    let status = dashcam::status_json();
    let path = status.split("\"box\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let path = PathBuf::from(path.expect("a path"));
    dashcam::stop();
    let found = common::Box::read(&path);
    std::fs::remove_file(&path).expect("ours");
    found.balance(key);
    let wanted =
        3 * (5_000 / 64 * 64 + [1, 8, 64].map(|s| threads / 3 / s * s).iter().sum::<u64>());
    let (written, _) = found.written();
    assert!(written >= wanted, "{written} records, {wanted} of the short threads alone");
    // 12 words a thread with their marks: nothing of the box is wasted on short threads.
    let kept = found.check(key).len() as u64;
    assert!(kept * 2 > (threads).min(500_000), "{kept} threads are still in the box");
    // A megabyte is allowed for what the allocator keeps for 64 spawners, however many they spawn.
    let grown = report.into_inner().expect("whole");
    assert!(grown.iter().all(|pages| *pages <= 256), "memory grew with threads: {grown:?} pages");
}
