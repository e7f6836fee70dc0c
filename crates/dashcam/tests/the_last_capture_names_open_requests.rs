//! The capture at the end of recording, when the sampler is gone, names the open requests: a
//! request whose end is lost must not be taken for one that still runs.
#![allow(clippy::expect_used, missing_docs)]

use capture::read::Capture;

#[test]
fn requests_open_at_the_end_are_recorded_once_more() {
    let out = std::env::temp_dir().join(format!("dashcam-last-{}", std::process::id()));
    let config = dashcam::Config::new().memory("4MiB").out(out.display()).slow("9s").control("off");
    dashcam::start(config.at_exit("always")).expect("starts");
    drop(dashcam::request!("ended"));
    let open = dashcam::request!("open");
    dashcam::stop();
    drop(open);

    let mut files = std::fs::read_dir(&out).expect("captures").flatten().map(|file| file.path());
    let file = files.find(|path| path.extension().is_some_and(|x| x == "dashcam"));
    let capture = Capture::open(&file.expect("a capture")).expect("a capture");
    let _ = std::fs::remove_dir_all(&out);
    assert_eq!(capture.meta.reason, "exit: recording ends");
    assert_eq!(capture.meta.all["open_told"], true);
    let row = |name: &str| {
        let mut rows = capture.requests.iter().filter(|r| capture.name(r.name) == name);
        rows.next().expect("a request")
    };
    assert!(row("ended").end_ns.is_some() && row("open").end_ns.is_none());
    let reported: Vec<u64> = capture.open_at_copy.iter().copied().collect();
    assert_eq!(reported, [row("open").id]);
}
