//! Forks while other threads record: the child has none of its parent's records, the parent does
//! not notice, nobody hangs.
//!
//! `DASHCAM_FORKS` sets how many (default 48; the live lane runs 2,000).
#![allow(clippy::expect_used, missing_docs)]

mod common;

use dashcam::{Runtime, Value};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn own_box() -> PathBuf {
    let status = dashcam::status_json();
    let text = status.split("\"box\":\"").nth(1).and_then(|rest| rest.split('"').next());
    PathBuf::from(text.expect("a path"))
}

fn event(name: u32, key: u32, i: u64) {
    dashcam::event(name, i, &[(key, Value::Int((i * 3 + 1) as i64))]);
}

/// What a child does; its exit code says what went wrong. Only the forking thread is here.
fn child(number: u64, name: u32, key: u32, generation: u32) -> i32 {
    // Parent's names mean nothing here and are not recorded: no recorder, one load.
    event(name, key, 1);
    if dashcam::current().is_some() {
        return 10;
    }
    if number % 4 != 0 {
        return 0;
    }
    dashcam::after_fork_child();
    let Some(recorder) = dashcam::current() else { return 11 };
    let (name, key) = (recorder.tables().name("child"), recorder.tables().name("key"));
    (0..10).for_each(|i| event(name, key, i));
    let path = own_box();
    if !path.display().to_string().contains(&format!("-{}", std::process::id())) {
        return 12;
    }
    let found = common::Box::read(&path).check(key).values().sum::<u64>();
    // Ten of ours and a few of our sampler's; thousands, were the parent's there.
    if !(10..500).contains(&found) {
        return 13;
    }
    if generation == 0 && number % 16 == 0 && fork(number, name, key, 1) != 0 {
        return 14;
    }
    dashcam::before_exit();
    0
}

fn fork(number: u64, name: u32, key: u32, generation: u32) -> i32 {
    testkit::in_a_child(|| child(number, name, key, generation))
}

#[test]
fn forks_while_others_record() {
    let forks: u64 = testkit::count("DASHCAM_FORKS", 48);
    let given = [("service", "forks"), ("memory", "4MiB"), ("switches", "off")];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    dashcam::start_with_runtime(&given, Runtime::default()).expect("starts");
    let tables = dashcam::current().expect("recording").tables();
    let (name, key) = (tables.name("parent"), tables.name("key"));
    let (stop, total) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stops = testkit::SetsAtEnd(stop);
        for _ in 0..3 {
            scope.spawn(move || {
                let mut i = 0;
                while !stop.load(Ordering::Relaxed) {
                    event(name, key, i);
                    i += 1;
                    if i % 512 == 0 {
                        std::thread::yield_now();
                    }
                }
                total.fetch_add(i, Ordering::Relaxed);
            });
        }
        for number in 0..forks {
            event(name, key, number);
            assert_eq!(fork(number, name, key, 0), 0, "child {number}");
            if number % 100 == 0 {
                // posix_spawn or vfork, as std chooses: no hooks run, nothing of ours is there.
                let spawned = Command::new("/bin/true").status().expect("starts");
                assert!(spawned.success());
            }
        }
    });
    let path = own_box();
    dashcam::stop();
    let found = common::Box::read(&path);
    found.balance(key);
    let wanted = total.load(Ordering::Relaxed) + forks;
    let (least, _) = found.written();
    assert!(least >= wanted, "{least} records of the parent, {wanted} wanted");
    std::fs::remove_file(path).expect("ours");
}
