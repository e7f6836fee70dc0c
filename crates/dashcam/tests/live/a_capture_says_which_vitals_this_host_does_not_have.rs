//! The source `vitals` is on wherever dashcam runs; what this host does not give is said with it,
//! in the same words as `dashcam doctor` has.

use capture::read::Capture;
use sys::vitals::{Missing, Vitals};

#[test]
fn a_capture_says_which_vitals_this_host_does_not_have() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("vitals-{}", std::process::id()));
    let settings = dashcam::Config::new().service("vitals").out(out.display());
    dashcam::start(settings).expect("settings");
    std::thread::sleep(std::time::Duration::from_millis(200));
    let path = dashcam::snap("test").expect("a capture");
    let capture = Capture::open(&path).expect("a whole capture");
    testkit::remove(&out);
    assert!(capture.meta.source_on("vitals"));
    let mut vitals = Vitals::open();
    vitals.read(|_, _| {});
    let wanted = match Missing::line(vitals.missing()) {
        nothing if nothing.is_empty() => "on".to_owned(),
        missing => format!("on; missing: {missing}"),
    };
    let reported = capture.meta.sources.iter().find(|(name, _)| name == "vitals");
    assert_eq!(reported.map(|(_, state)| state.as_str()), Some(wanted.as_str()));
    // And nothing that is said to be missing is there.
    let named = |name: &str| capture.vitals.iter().any(|row| capture.name(row.name) == name);
    assert!(named("rss_bytes") && named("fds"));
    assert_ne!(wanted.contains("cgroup throttling ("), named("cgroup_throttled_ns"), "{wanted}");
    assert_ne!(wanted.contains("pressure of cpu ("), named("psi_cpu_some_total_us"), "{wanted}");
}
