//! A Rust program's failed requests, by type, and those its predicate chooses, make captures.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The reasons of the captures in `out`, once there are `count` or a while has passed.
fn reasons(out: &Path, count: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        files.retain(|path| path.extension().is_some_and(|x| x == "dashcam"));
        if files.len() >= count || Instant::now() > until {
            let open = |path: &PathBuf| capture::read::Capture::open(path).expect("a capture");
            let mut reasons: Vec<String> = files.iter().map(|p| open(p).meta.reason).collect();
            reasons.sort();
            return reasons;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn fails(name: &str, kind: &str) {
    let mut request = dashcam::request!("a request");
    request.rename(name);
    request.fail_as(kind);
}

/// One test: there is one recorder a process.
#[test]
fn a_rule_by_type_and_a_predicate() {
    let out = std::env::temp_dir().join(format!("dashcam-failed-{}", std::process::id()));
    let config = dashcam::Config::new().memory("4MiB").out(out.display()).slow("9s").control("off");
    let config = config.on_error("Timeout(checkout)").post("1ms").cooldown("100ms");
    dashcam::start(config.at_exit("never")).expect("starts");
    fails("search", "Timeout");
    fails("checkout", "Refused");
    fails("checkout", "Timeout");
    assert_eq!(reasons(&out, 1), ["error: Timeout in checkout"]);

    // Past the cooldown, however long the machine took for the above.
    std::thread::sleep(Duration::from_millis(300));
    dashcam::when(|request| match request.name {
        "panics" => panic!("in the predicate"),
        "fails" => Err("does not know".to_owned()),
        name => Ok(name == "chosen" && !request.error && request.took_ns > 0),
    });
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for _ in 0..3 {
        drop(dashcam::request!("panics"));
        drop(dashcam::request!("fails"));
    }
    std::panic::set_hook(quiet);
    drop(dashcam::request!("chosen"));
    let found = reasons(&out, 2);
    let status = dashcam::status_json();
    assert!(found.len() == 2 && found[1].starts_with("when: chosen by the program"), "{found:?}");
    assert!(status.contains(r#""predicate_failed":6"#), "{status}");
    assert!(status.contains(r#""when":"on""#), "{status}");
    for _ in 0..4 {
        drop(dashcam::request!("fails"));
    }
    drop(dashcam::request!("fails"));
    let status = dashcam::status_json();
    assert!(status.contains(r#""predicate_failed":10"#), "{status}");
    assert!(status.contains(r#""when":"off: failed 10 times, the last time: does not know""#));
    dashcam::stop();
    testkit::remove(&out);
}
