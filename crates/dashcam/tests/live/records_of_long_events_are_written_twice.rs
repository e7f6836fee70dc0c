//! No verdict rests on one record: the end of a slow request, a fork and a long collection are in a
//! capture twice, and the reader makes one row of them, whichever is lost.

use std::time::Duration;

use capture::read::Capture;
use format::record::Kind;

#[path = "../../../diagnosis/tests/it/changed/mod.rs"]
mod changed;

#[test]
fn each_of_the_two_is_enough() {
    let out = std::env::temp_dir().join(format!("dashcam-twice-{}", std::process::id()));
    let config = dashcam::Config::new().memory("8MiB").out(out.display()).control("off");
    dashcam::start(config.slow("50ms").post("200ms")).expect("starts");
    // Memory enough for a fork of a millisecond.
    let many = vec![1u8; 400 << 20];
    // SAFETY: the child does nothing but leave, without running what runs at an exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it does not return.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    drop(many);
    recorder::gc(2, sys::clock::now_ns() - 30_000_000, 5);
    let request = dashcam::request!("slow");
    std::thread::sleep(Duration::from_millis(80));
    drop(request);
    drop(dashcam::request!("quick"));
    std::thread::sleep(Duration::from_millis(100));
    let file = dashcam::snap("by hand").expect("a capture");
    dashcam::stop();

    let bytes = std::fs::read(&file).expect("a file");
    let _ = std::fs::remove_dir_all(&out);
    let rows = |bytes: &[u8]| {
        let capture = Capture::parse(bytes).expect("a capture");
        let forks = capture.own_spans.iter().map(|s| (s.tid, s.begin_ns, s.end_ns));
        let gcs = capture.gcs.iter().map(|g| (g.tid, g.begin_ns, g.end_ns));
        let long = gcs.filter(|(_, begin, end)| end - begin > 20_000_000);
        let slow = capture.requests.iter().filter(|r| capture.name(r.name) == "slow");
        let slow = slow.map(|r| (r.tid, r.begin_ns, r.end_ns.unwrap_or(0)));
        [forks.collect::<Vec<_>>(), long.collect(), slow.collect()]
    };
    let whole = rows(&bytes);
    assert!(whole.iter().all(|rows| rows.len() == 1), "{whole:?}");
    let mut kinds = Vec::new();
    changed::without(&bytes, |_, words| {
        kinds.push(words[0] as u8);
        false
    });
    let long = [Kind::RequestEnd, Kind::Span, Kind::Gc, Kind::Again].map(|kind| kind as u8);
    let of_one: Vec<usize> = (0..kinds.len()).filter(|n| long.contains(&kinds[*n])).collect();
    assert!(of_one.len() >= 6, "{} records", of_one.len());
    for lost in of_one {
        let less = changed::without(&bytes, |number, _| number == lost);
        assert_eq!(rows(&less), whole, "without record {lost}, of kind {}", kinds[lost]);
    }
}
