//! Spans of `tracing` know their parents across threads and on event loops, and a request continues
//! its caller's trace.
#![allow(clippy::expect_used, missing_docs)]

use capture::read::{Capture, SpanIds, Traces};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::Registry;

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn ids(capture: &Capture, name: &str) -> SpanIds {
    let index = capture.spans.iter().position(|s| capture.name(s.name) == name).expect(name);
    Traces::of(capture).span(index).expect("its ids").clone()
}

#[test]
fn parents_and_traces_are_recorded() {
    let out = std::env::temp_dir().join(format!("dashcam-tracing-ids-{}", std::process::id()));
    let config = dashcam::Config::new().memory("2MiB").out(out.display()).service("ids");
    dashcam::start(config).expect("starts");
    Registry::default().with(dashcam_tracing::Layer::new()).init();

    let later = {
        let request = tracing::info_span!(
            "serve",
            dashcam.request = true,
            traceparent = HEADER,
            status = tracing::field::Empty
        );
        let _in = request.enter();
        assert!(dashcam::traceparent().is_some_and(|found| found.starts_with(&HEADER[..36])));
        let outer = tracing::info_span!("outer");
        let inside = outer.clone();
        let _outer = outer.enter();
        {
            let _inner = tracing::info_span!("inner").entered();
        }
        // On another thread, whose own times do not show the parent.
        let worker = std::thread::spawn(move || {
            let _span = tracing::info_span!(parent: &inside, "on a worker").entered();
        });
        worker.join().expect("ends");
        tracing::error_span!("handed over")
    };
    // Ends on another thread than it began on.
    std::thread::spawn(move || drop(later)).join().expect("ends");
    let open = tracing::info_span!("still open");

    let path = dashcam::snap("traces").expect("a capture");
    let capture = Capture::open(&path).expect("whole");
    let serve = capture.requests.iter().find(|r| capture.name(r.name) == "serve").expect("there");
    let root = Traces::of(&capture).request(serve.id);
    assert_eq!((root.trace, root.parent, root.remote), (TRACE, 0x00f0_67aa_0ba9_02b7, true));
    let outer = ids(&capture, "outer");
    assert_eq!((outer.trace, outer.parent), (TRACE, root.span));
    for name in ["inner", "on a worker", "handed over"] {
        let found = ids(&capture, name);
        assert_eq!((found.trace, found.parent), (TRACE, outer.span), "{name}");
    }
    let still: Vec<_> = capture.spans.iter().filter(|s| s.open).collect();
    assert_eq!(still.len(), 1);
    assert_eq!(capture.name(still[0].name), "still open");
    drop(open);
    dashcam::stop();
    let _ = std::fs::remove_dir_all(out);
}
