//! The kernel has no room for all switch records: a capture says from when to when nothing is
//! known. No off-CPU interval reaches into that gap, nor contains an instant at which its thread
//! ran.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use capture::read::{Capture, OffCpu};

/// What follows `before` in the status, up to the next comma, quote or brace.
fn status(before: &str) -> String {
    let status = dashcam::status_json();
    let value = status.split(before).nth(1).unwrap_or_default();
    value.split([',', '"', '}']).next().unwrap_or_default().to_owned()
}

fn source() -> String {
    // A setting of that name is no text.
    status("\"switches\":\"")
}

/// Sends and awaits a byte until it is stopped: returns the thread's id, and when it ran.
fn exchange(mut peer: UnixStream, stop: &AtomicBool) -> (u32, Vec<u64>) {
    let (mut ran, mut byte) = (Vec::new(), [0]);
    while !stop.load(Ordering::Relaxed) && peer.write_all(&byte).is_ok() {
        ran.push(sys::clock::kernel_ns());
        if peer.read_exact(&mut byte).is_err() {
            break;
        }
    }
    (sys::thread::tid(), ran)
}

#[test]
fn a_loss_ends_off_cpu_intervals() {
    let out = std::env::temp_dir().join(format!("dashcam-loss-{}", std::process::id()));
    let settings = dashcam::Config::new().service("loss").slow("1h").out(out.display());
    // Passes so far apart that the rings are full meanwhile.
    dashcam::start(settings.with("rate_hz", 2)).expect("starts");
    let begin = Instant::now();
    while source().contains("has not begun") {
        assert!(begin.elapsed() < Duration::from_secs(100), "the sampler begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    if source() != "on" {
        println!("SKIPPED: switch records are {}", source());
        return;
    }
    let stop = AtomicBool::new(false);
    let (path, ran) = std::thread::scope(|scope| {
        let stops = testkit::SetsAtEnd(&stop);
        let mut threads = Vec::new();
        for _ in 0..2 {
            let (one, other) = UnixStream::pair().expect("two sockets");
            threads.extend([one, other].map(|end| scope.spawn(|| exchange(end, &stop))));
        }
        while status("\"switches_lost\":") == "0" && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
        // Some times behind a gap.
        std::thread::sleep(Duration::from_millis(1500));
        let path = dashcam::snap("loss").expect("a capture");
        drop(stops);
        let ended = threads.into_iter().map(|t| t.join().expect("no panic"));
        (path, ended.collect::<HashMap<u32, Vec<u64>>>())
    });
    let capture = Capture::open(&path).expect("whole");
    check(&capture, &ran);
    dashcam::stop();
    let _ = std::fs::remove_dir_all(out);
}

fn check(capture: &Capture, ran: &HashMap<u32, Vec<u64>>) {
    let gaps = &capture.switches_paused;
    let loss = |what: &str| {
        let found = capture.meta.losses.iter().find(|(name, _)| name == what);
        found.expect("a counter").1
    };
    assert!(loss("switches_lost") > 0, "no ring was full");
    assert!(!gaps.is_empty() && gaps.iter().all(|(from, to)| from < to), "{gaps:?}");
    assert!(gaps.iter().all(|(_, to)| *to <= capture.meta.to_ns), "each is over: {gaps:?}");
    assert_eq!(loss("switch_pauses"), 0, "it was no burst of threads");
    let ended = |off: &&OffCpu| off.in_ns < capture.meta.to_ns;
    let mut reported = 0;
    for (tid, offs) in &capture.off_cpu {
        for off in offs.iter().filter(ended) {
            let over = gaps.iter().find(|(from, to)| off.out_ns < *to && off.in_ns > *from);
            assert_eq!(over, None, "{off:?} reaches into a gap");
            let Some(ran) = ran.get(tid) else { continue };
            let inside = ran.get(ran.partition_point(|t| *t <= off.out_ns));
            assert_eq!(inside.filter(|t| **t < off.in_ns), None, "it ran inside of {off:?}");
            reported += 1;
        }
    }
    assert!(reported > 0, "times between the gaps");
}
