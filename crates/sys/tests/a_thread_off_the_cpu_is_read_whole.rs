//! What is read of a thread while it is proven to be off the CPU is of one instant; on the live
//! scheduler, with threads that run, block and end.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use sys::off_cpu::{OffCpu, Proof};

/// Counted up by a thread as fast as it can.
static COUNTED: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Two readings, some microseconds apart: equal only if the thread did not run in between.
fn twice() -> (u64, u64) {
    let first = COUNTED.load(Ordering::Relaxed);
    for _ in 0..10_000 {
        std::hint::spin_loop();
    }
    (first, COUNTED.load(Ordering::Relaxed))
}

fn watch(tid: u32) -> OffCpu {
    OffCpu::open_in(Path::new("/proc/self"), tid).expect("it runs")
}

fn cpus() -> usize {
    thread::available_parallelism().expect("the mask").get()
}

#[test]
fn a_thread_that_runs_is_read_between_its_turns() {
    let (tid, begun) = mpsc::channel();
    let counts = thread::spawn(move || {
        tid.send(sys::thread::tid()).expect("the test waits");
        while !STOP.load(Ordering::Relaxed) {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
    });
    let before = cpus();
    let mut watched = watch(begun.recv().expect("it began"));
    let (mut held, mut last) = (0, 0);
    while held < 20 {
        let ((first, second), proof) = watched.during(twice);
        if proof == Proof::Held {
            assert_eq!(first, second);
            held += 1;
            last = first;
        }
        assert_ne!(proof, Proof::NotShown);
        thread::yield_now();
    }
    assert!(last > 0, "it never ran");
    drop(watched);
    assert_eq!(cpus(), before, "the reader may run where it could before");
    STOP.store(true, Ordering::Relaxed);
    counts.join().expect("it ends");
}

#[test]
fn a_blocked_thread_is_proven_at_once_and_one_that_ended_never() {
    let (tid, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let waits = thread::spawn(move || {
        tid.send(sys::thread::tid()).expect("the test waits");
        let _ = ends.recv();
    });
    let tid = begun.recv().expect("it began");
    let mut watched = watch(tid);
    testkit::wait_for("it blocks", || (watched.during(|| ()).1 == Proof::Held).then_some(()));
    assert_eq!(watched.during(|| 7), (7, Proof::Held));
    drop(end);
    waits.join().expect("it ends");
    testkit::wait_for("its number is free", || OffCpu::open_in(Path::new("/proc/self"), tid).err());
    assert_eq!(watched.during(|| 7), (7, Proof::NotShown));
}
