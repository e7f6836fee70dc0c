//! The vital signs move when what they count happens, and what is absent is said.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::collections::HashMap;
use sys::vitals::Vitals;

fn read(vitals: &mut Vitals) -> HashMap<&'static str, f64> {
    let mut all = HashMap::new();
    vitals.read(|name, value| {
        assert!(value.is_finite() && value >= 0.0, "{name} = {value}");
        assert!(all.insert(name, value).is_none(), "{name} twice");
    });
    all
}

#[test]
fn faults_memory_threads_descriptors_and_time_move() {
    // In a process of its own, where the other tests open and start nothing.
    let moved = common::in_a_child(|| {
        values_move();
        0
    });
    assert_eq!(moved, 0);
}

fn values_move() {
    const BYTES: usize = 32 << 20;
    let mut vitals = Vitals::open();
    let before = read(&mut vitals);
    let file = std::fs::File::open("/proc/self/exe").expect("/proc is there");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || wait.recv());
    // Black boxes keep the pages from being optimised away.
    let memory = std::hint::black_box(vec![1u8; BYTES]);
    std::thread::sleep(std::time::Duration::from_millis(1));
    let after = read(&mut vitals);
    let grown = |name: &str| after[name] - before[name];
    assert!(grown("rss_bytes") > 0.8 * BYTES as f64, "{}", grown("rss_bytes"));
    assert!(grown("minor_faults") >= 16.0, "{}", grown("minor_faults"));
    assert!(grown("process_cpu_ns") > 0.0 && grown("voluntary_switches") > 0.0);
    assert_eq!(grown("fds"), 1.0);
    assert_eq!(grown("threads"), 1.0);
    drop((memory, file, go));
    let _ = thread.join().expect("it only waits");
}

#[test]
fn counts_are_those_of_proc() {
    // In a process of its own, as above.
    let own = common::in_a_child(|| {
        let mut vitals = Vitals::open();
        let seen = read(&mut vitals);
        let mut tids = Vec::new();
        sys::task::list(&mut tids).expect("/proc is there");
        assert_eq!(seen["threads"], tids.len() as f64);
        let listed = std::fs::read_dir("/proc/self/fd").expect("/proc is there").count();
        // Listing opens one more.
        assert_eq!(seen["fds"], listed as f64 - 1.0);
        0
    });
    assert_eq!(own, 0);
}

#[test]
fn every_value_is_either_there_or_said_to_be_missing() {
    let mut vitals = Vitals::open();
    let seen = read(&mut vitals);
    let sources = [
        ("rss_bytes", "rss"),
        ("psi_cpu_some_total_us", "pressure of cpu"),
        ("psi_io_some_avg10_percent", "pressure of io"),
        ("psi_memory_some_total_us", "pressure of memory"),
        ("host_steal_ticks", "steal"),
        ("cgroup_throttled_ns", "cgroup throttling"),
        ("threads", "threads"),
        ("fds", "fds"),
    ];
    for (value, source) in sources {
        let missing = vitals.missing().iter().find(|m| m.source == source);
        assert_ne!(seen.contains_key(value), missing.is_some(), "{value}: {missing:?}");
    }
}

#[test]
fn also_as_nobody() {
    common::all_again_as_nobody();
}
