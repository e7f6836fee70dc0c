//! Each capture is a line in a file beside the captures: when, where, why, of which request, by
//! which process. The file is no capture itself, and does no harm where it cannot be written.

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
    let entries = std::fs::read_dir(out).expect("a folder").flatten().map(|e| e.path());
    entries.filter(|path| path.extension().is_some_and(|x| x == "dashcam")).collect()
}

fn takes(name: &str, ms: u64) {
    let mut request = dashcam::request!("a request");
    request.rename(name);
    std::thread::sleep(Duration::from_millis(ms));
}

/// One test: there is one recorder a process.
#[test]
fn of_slow_and_failed_requests_and_of_captures_by_hand() {
    let out = std::env::temp_dir().join(format!("dashcam-log-{}", std::process::id()));
    let log = out.join("lines.captures.log");
    let config = dashcam::Config::new().service("lines").memory("4MiB").out(out.display());
    let config = config.slow("checkout>30ms").on_error("Timeout").at_exit("never").control("off");
    dashcam::start(config.post("1ms").cooldown("100ms").keep(2)).expect("starts");
    let lines = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(fields).collect::<Vec<_>>()
    };

    takes("checkout", 50);
    until("a line of the slow one", || lines().len() == 1);
    let pid = std::process::id().to_string();
    let slow = &lines()[0];
    let is_digit_or = |c: char| if c.is_ascii_digit() { '0' } else { c };
    assert_eq!(slow[0].chars().map(is_digit_or).collect::<String>(), "0000-00-00T00:00:00Z");
    assert_eq!(PathBuf::from(&slow[1]), captures(&out)[0]);
    assert!(slow[2].starts_with("slow: a request ") && slow[2].ends_with(": checkout"), "{slow:?}");
    assert_eq!((slow[3].as_str(), slow[5].as_str()), ("checkout", pid.as_str()));
    assert!(slow[4].parse::<u64>().expect("ms") >= 30, "{slow:?}");

    // Past the cooldown.
    std::thread::sleep(Duration::from_millis(300));
    dashcam::request!("search").fail_as("Timeout");
    until("a line of the failed one", || lines().len() == 2);
    assert_eq!(lines()[1][2..5], ["error: Timeout in search", "search", "-"]);

    for _ in 0..4 {
        let path = dashcam::snap("two\nlines").expect("written");
        let last = lines().pop().expect("there when the capture is");
        assert_eq!(last[1..], [&path.display().to_string(), "two lines", "-", "-", &pid]);
    }
    assert_eq!((lines().len(), captures(&out).len()), (6, 2), "it is none of those that are kept");

    std::fs::remove_file(&log).expect("ours");
    std::fs::create_dir(&log).expect("a folder");
    let unlisted = |count: u32| {
        dashcam::status_json().contains(&format!(r#""captures_unlisted":{count},"#))
            || dashcam::status_json().contains(&format!(r#""captures_unlisted":{count}}}"#))
    };
    assert!(unlisted(0), "{}", dashcam::status_json());
    let path = dashcam::snap("cannot be listed").expect("written all the same");
    assert!(path.is_file() && unlisted(1), "{}", dashcam::status_json());
    dashcam::stop();
    testkit::remove(&out);
}
