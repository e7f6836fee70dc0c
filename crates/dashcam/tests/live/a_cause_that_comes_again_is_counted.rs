//! With `repeat_after` a cause that comes again makes no capture: how often it did, each request
//! once, is in the status and in the next capture of another cause.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}: {}", dashcam::status_json());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn captures(out: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|x| x == "dashcam")).collect();
    // Their numbers are of one digit here.
    found.sort();
    found
}

/// A request that is seen past its limit as it runs, wherever the sampler gets a CPU in time.
fn takes(name: &str) {
    let mut request = dashcam::request!("a request");
    request.rename(name);
    std::thread::sleep(Duration::from_millis(80));
}

fn says(part: &str) -> bool {
    dashcam::status_json().contains(part)
}

/// One test: there is one recorder a process.
#[test]
fn of_slow_and_of_failed_requests() {
    let out = std::env::temp_dir().join(format!("dashcam-repeated-{}", std::process::id()));
    let config = dashcam::Config::new().memory("4MiB").out(out.display()).control("off");
    let config = config.slow("30ms").on_error("Timeout").at_exit("never").post("1ms");
    dashcam::start(config.cooldown("100ms").repeat_after("1h")).expect("starts");

    takes("checkout");
    until("it is captured", || captures(&out).len() == 1);
    assert!(says(r#""repeated":{}"#), "{}", dashcam::status_json());
    (0..3).for_each(|_| takes("checkout"));
    until("the others are counted", || says(r#""repeated":{"slow: checkout":3}"#));

    // Past the cooldown; one cause a capture.
    std::thread::sleep(Duration::from_millis(300));
    dashcam::request!("search").fail_as("Timeout");
    until("another cause is captured", || captures(&out).len() == 2);
    let second = capture::read::Capture::open(&captures(&out)[1]).expect("a capture");
    assert_eq!(second.meta.reason, "error: Timeout in search");
    assert_eq!(second.meta.all["repeated"].to_string(), r#"{"slow: checkout":3}"#);

    (0..5).for_each(|_| dashcam::request!("search").fail_as("Timeout"));
    let reported = r#""repeated":{"error: Timeout in search":5,"slow: checkout":3}"#;
    until("most often first", || says(reported));
    assert!(says(r#""firings_repeated":8,"#), "{}", dashcam::status_json());
    assert_eq!(captures(&out).len(), 2);
    dashcam::stop();
    testkit::remove(&out);
}
