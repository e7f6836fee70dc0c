//! A metric over its limit makes a capture that names metric, value and limit: once, until it was
//! under the limit again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use capture::read::Capture;

fn captures(out: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|p| p.extension().is_some_and(|x| x == "dashcam")).collect();
    found.sort();
    found
}

/// Waits for so many captures.
fn wait(out: &Path, count: usize) -> Vec<PathBuf> {
    for _ in 0..20_000 {
        let found = captures(out);
        if found.len() >= count {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("found {:?}, wanted {count}", captures(out));
}

fn reason(path: &Path) -> String {
    Capture::open(path).expect("readable").meta.reason
}

/// One test: the process has one recorder.
#[test]
fn a_metric_over_its_limit_makes_a_capture_once() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("over_a_limit");
    let _ = std::fs::remove_dir_all(&out);
    let config = dashcam::Config::new()
        .service("limits")
        .memory("4MiB")
        .out(out.display())
        .switches(false)
        .post("1ms")
        .cooldown("100ms")
        .on_metric("queue.depth{region=e*}>100, p90(db.query)>50ms/30s");
    dashcam::start(config).expect("starts");
    let depth = dashcam::metric("queue.depth").tag("region", "eu").gauge();
    let other = dashcam::metric("queue.depth").tag("region", "us").gauge();
    other.set(1e9);
    depth.set(100.0);
    assert!(dashcam::flush());
    depth.set(120.5);
    assert!(dashcam::flush());
    let found = wait(&out, 1);
    assert_eq!(
        reason(&found[0]),
        "metric: queue.depth{region=eu} was 120.5: queue.depth{region=e*}>100"
    );
    // Over it still, in more windows, after the cooldown, too: the same story.
    for value in [130.0, 140.0, 150.0] {
        depth.set(value);
        assert!(dashcam::flush());
        std::thread::sleep(Duration::from_millis(150));
    }
    let query = dashcam::timing("db.query");
    (0..10).for_each(|_| query.record(80.0));
    assert!(dashcam::flush());
    let found = wait(&out, 2);
    assert_eq!(
        reason(&found[1]),
        "metric: 10 of 10 values of db.query were over 50 ms: p90(db.query)>50ms/30s"
    );
    depth.set(1.0);
    assert!(dashcam::flush());
    // Long enough for the cooldown, which has doubled.
    std::thread::sleep(Duration::from_millis(900));
    depth.set(101.0);
    assert!(dashcam::flush());
    let found = wait(&out, 3);
    assert!(reason(&found[2]).starts_with("metric: queue.depth{region=eu} was 101:"));
    // What dashcam itself did is in the windows of captures, and adds up.
    let capture = Capture::open(&found[2]).expect("readable");
    let of = |name: &str| {
        let rows = capture.metrics.iter().filter(|row| capture.name(row.name) == name);
        rows.map(|row| row.numbers.floats().0[0]).collect::<Vec<f64>>()
    };
    assert_eq!(of("dashcam.captures").iter().sum::<f64>(), 2.0);
    assert!(!of("dashcam.sampler.budget_used").is_empty());
    assert!(of("dashcam.sampler.passes").iter().sum::<f64>() > 0.0);
    let verdict = diagnosis::diagnose(&capture, |_| u64::MAX);
    assert!(verdict.findings.is_empty(), "nobody invents a cause");
    let text = report::to_text(&verdict);
    assert!(text.contains("Saved for: metric: queue.depth{region=eu} was 101:"), "{text}");
    dashcam::before_exit();
}
