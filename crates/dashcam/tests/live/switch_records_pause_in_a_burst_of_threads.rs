//! A burst of short-lived threads pauses switch records; its end brings them back; a capture says
//! from when to when, and no time off the CPU reaches into the pause. A thread for each of some
//! hundred requests a second is no burst.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use capture::read::Capture;

fn source() -> String {
    let status = dashcam::status_json();
    let state = status.split("\"switches\":\"").nth(1).and_then(|rest| rest.split('"').next());
    state.unwrap_or_default().to_owned()
}

/// Waits until the source says so; the machine may be busy with other things.
fn until(what: &str, wanted: impl Fn(&str) -> bool) {
    let begin = Instant::now();
    while !wanted(&source()) {
        assert!(begin.elapsed() < Duration::from_secs(100), "{what}: {}", source());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn one_thread(name: u32) {
    let small = std::thread::Builder::new().stack_size(64 << 10);
    small.spawn(move || dashcam::event(name, 0, &[])).expect("room").join().expect("no panic");
}

#[test]
fn switch_records_pause_in_a_burst_of_threads() {
    let out = std::env::temp_dir().join(format!("dashcam-burst-{}", std::process::id()));
    let settings = dashcam::Config::new().service("burst").slow("1h").out(out.display());
    dashcam::start(settings).expect("starts");
    until("the sampler begins", |state| !state.contains("has not begun"));
    if source() != "on" {
        println!("SKIPPED: switch records are {}", source());
        return;
    }
    let name = dashcam::current().expect("recording").tables().name("short");
    let (burst_ends, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stops = (testkit::SetsAtEnd(&stop), testkit::SetsAtEnd(&burst_ends));
        // A thread with switches, all the time.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            one_thread(name);
            std::thread::sleep(Duration::from_millis(3));
        }
        assert_eq!(source(), "on", "300 threads a second are no burst");
        for _ in 0..2 {
            scope.spawn(|| {
                while !burst_ends.load(Ordering::Relaxed) {
                    one_thread(name);
                }
            });
        }
        until("the burst", |state| state.starts_with("on; paused while more than"));
        std::thread::sleep(Duration::from_millis(300));
        let inside = Capture::open(&dashcam::snap("inside").expect("a capture")).expect("whole");
        assert!(inside.meta.source_on("switches"));
        let paused = inside.switches_paused.last().expect("a pause");
        assert_eq!(paused.1, u64::MAX, "it goes on: {:?}", inside.switches_paused);
        burst_ends.store(true, Ordering::Relaxed);
        until("the calm", |state| state == "on");
        // A trial may fail while the machine is busy; the records must have come back for good.
        std::thread::sleep(Duration::from_millis(500));
        until("the calm", |state| state == "on");
        std::thread::sleep(Duration::from_millis(200));
        let capture = Capture::open(&dashcam::snap("after").expect("a capture")).expect("whole");
        drop(stops);
        check(&capture);
    });
    dashcam::stop();
    let _ = std::fs::remove_dir_all(out);
}

fn check(capture: &Capture) {
    let pauses = &capture.switches_paused;
    assert!(!pauses.is_empty() && pauses.iter().all(|(from, to)| from < to), "{pauses:?}");
    let (first, last) = (pauses[0], pauses[pauses.len() - 1]);
    assert!(last.1 < capture.meta.to_ns, "the last one is over: {pauses:?}");
    let loss = |what: &str| {
        let found = capture.meta.losses.iter().find(|(name, _)| name == what);
        found.expect("a counter").1
    };
    // A gap is recorded like a pause, and is none; a burst on a busy machine may fill the rings.
    if loss("switches_lost") > 0 {
        println!("records were lost: pauses are not counted");
        return;
    }
    assert_eq!(loss("switch_pauses"), pauses.len() as u64);
    let reported_ms: u64 = pauses.iter().map(|(from, to)| (to - from) / 1_000_000).sum();
    assert!(loss("switches_paused_ms").abs_diff(reported_ms) <= pauses.len() as u64 + 1);
    let all = || capture.off_cpu.values().flatten();
    for off in all() {
        let into = pauses.iter().find(|(from, to)| off.out_ns < *to && off.in_ns > *from);
        assert_eq!(into, None, "{off:?} reaches into one of {pauses:?}");
    }
    assert!(all().any(|off| off.in_ns < first.0), "records before");
    assert!(all().any(|off| off.out_ns > last.1), "records after");
}
