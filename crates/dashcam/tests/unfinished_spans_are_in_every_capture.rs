//! A span that is open when a capture is made is in it, with its age; also in the box of a killed
//! process.
#![allow(clippy::expect_used, missing_docs)]

use std::path::Path;
use std::sync::mpsc::channel;

use capture::read::{Capture, SpanRow};
use capture::region::BlackBox;

fn open_spans(capture: &Capture) -> Vec<(String, &SpanRow)> {
    let open = capture.spans.iter().filter(|s| s.open);
    open.map(|s| (capture.name(s.name).to_owned(), s)).collect()
}

fn names(capture: &Capture) -> Vec<String> {
    open_spans(capture).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn open_spans_are_recorded_and_ended_ones_are_recorded_once() {
    let out = std::env::temp_dir().join(format!("dashcam-open-{}", std::process::id()));
    let config = dashcam::Config::new().memory("2MiB").out(out.display()).service("open");
    dashcam::start(config).expect("starts");

    let request = dashcam::request!("GET /");
    let before = dashcam::now_ns();
    let outer = dashcam::span!("outer", rows = 3);
    {
        let _ended = dashcam::span!("ended");
    }
    let inner = dashcam::span!("inner");
    let (reported, wait) = channel::<()>();
    let (ready, is_ready) = channel();
    let helper = std::thread::spawn(move || {
        let _span = dashcam::span!("on another thread");
        ready.send(()).expect("heard");
        wait.recv().ok();
    });
    is_ready.recv().expect("ready");

    let first = Capture::open(&dashcam::snap("open").expect("a capture")).expect("whole");
    assert_eq!(names(&first), ["outer", "inner", "on another thread"]);
    assert_eq!(first.spans.iter().filter(|s| first.name(s.name) == "ended").count(), 1);
    let (_, row) = open_spans(&first).remove(0);
    assert!((before..first.meta.to_ns).contains(&row.begin_ns), "{row:?}");
    assert_eq!((row.end_ns, row.request), (first.meta.to_ns, request.id()));
    assert_eq!(open_spans(&first)[2].1.request, 0);

    // A killed process's box: the file as it lies there now.
    let status = dashcam::status_json();
    let marker = "\"box\":\"";
    let at = status.find(marker).expect("a box") + marker.len();
    let path = status[at..].split('"').next().expect("its end");
    let bytes = std::fs::read(Path::new(path)).expect("readable");
    let mut recovered = Vec::new();
    let dead = BlackBox::parse(&bytes).expect("a box");
    dead.write_capture(&mut recovered).expect("memory");
    let recovered = Capture::parse(&recovered).expect("whole");
    assert_eq!(names(&recovered), ["outer", "inner", "on another thread"]);
    assert_eq!(recovered.meta.ids_seed, first.meta.ids_seed);
    assert_ne!(first.meta.ids_seed, 0);

    // Ended in another order than begun, and a thread that is gone.
    reported.send(()).expect("heard");
    helper.join().expect("ends");
    drop(outer);
    let second = Capture::open(&dashcam::snap("later").expect("a capture")).expect("whole");
    assert_eq!(names(&second), ["inner"]);
    assert_eq!(second.spans.iter().filter(|s| second.name(s.name) == "outer").count(), 1);

    // More than there is room for: counted, and recorded at their ends all the same.
    let many: Vec<_> = (0..20).map(|_| dashcam::span!("many")).collect();
    let third = Capture::open(&dashcam::snap("many").expect("a capture")).expect("whole");
    assert_eq!(names(&third).len(), 15, "one of them is `inner`");
    let untracked = third.meta.losses.iter().find(|(name, _)| name == "spans_untracked");
    assert_eq!(untracked.map(|(_, count)| *count), Some(6));
    drop(many);
    drop(inner);
    drop(request);
    let last = Capture::open(&dashcam::snap("last").expect("a capture")).expect("whole");
    assert_eq!(names(&last), Vec::<String>::new());
    assert_eq!(last.spans.iter().filter(|s| last.name(s.name) == "many").count(), 20);
    dashcam::stop();
    let _ = std::fs::remove_dir_all(out);
}
