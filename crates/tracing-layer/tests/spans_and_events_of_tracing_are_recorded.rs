//! Real `tracing` macros, into a capture: fields, requests, threads, spans that change threads and
//! spans that never close.
#![allow(clippy::expect_used, missing_docs)]

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use capture::read::{Capture, RequestRow, SpanRow, Text};
use dashcam_tracing::Layer;
use tracing::{error, info, info_span, instrument, Span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::Registry;

/// One recorder serves all tests of this process; they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn start() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("layer");
    let config = dashcam::Config::new().service("layer").memory("8MiB").out(out.display());
    dashcam::start(config).expect("starts");
}

fn saved() -> Capture {
    let path = dashcam::snap("test").expect("written");
    let capture = Capture::open(&path).expect("readable");
    std::fs::remove_file(path).expect("there");
    capture
}

fn spans<'c>(capture: &'c Capture, name: &str) -> Vec<&'c SpanRow> {
    capture.spans.iter().filter(|s| capture.name(s.name) == name).collect()
}

fn request<'c>(capture: &'c Capture, name: &str) -> &'c RequestRow {
    let found = capture.requests.iter().find(|r| capture.name(r.name) == name);
    found.unwrap_or_else(|| panic!("{name} is there"))
}

fn texts(capture: &Capture, rows: &[(u32, Text)]) -> Vec<String> {
    rows.iter().map(|(key, value)| format!("{}={value:?}", capture.name(*key))).collect()
}

fn lost(capture: &Capture, name: &str) -> u64 {
    capture.meta.losses.iter().find(|l| l.0 == name).map_or(0, |l| l.1)
}

#[instrument(fields(rows = tracing::field::Empty))]
fn query(table: &str) {
    Span::current().record("rows", 7);
    info!(hit = false, "looked for {table}");
}

#[instrument(err)]
fn fails() -> Result<(), String> {
    Err("on purpose".to_owned())
}

#[test]
fn fields_requests_and_errors_arrive() {
    let _turn = turn();
    start();
    let subscriber = Registry::default().with(Layer::new());
    tracing::subscriber::with_default(subscriber, || {
        let span = info_span!("GET", dashcam.request = true, user = 42, otel.name = "GET /shop");
        span.in_scope(|| {
            query("users");
            assert!(fails().is_err());
            dashcam::event!("from.dashcam");
        });
        drop(span);
        info_span!("GET", dashcam.request = false).in_scope(|| info!("outside"));
        let many =
            info_span!("many", a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9);
        drop(many);
    });
    let capture = saved();
    let shop = request(&capture, "GET /shop");
    assert_eq!(texts(&capture, &shop.attributes), ["user=Int(42)"]);
    assert!(shop.end_ns.is_some() && !shop.error);
    let query = spans(&capture, "query");
    assert_eq!(texts(&capture, &query[0].attributes), ["table=Text(\"users\")", "rows=Int(7)"]);
    assert_eq!(query[0].request, shop.id);
    assert!(spans(&capture, "fails")[0].error && !query[0].error);
    assert_eq!(spans(&capture, "GET").len(), 1, "dashcam.request = false is a span");
    assert_eq!(spans(&capture, "many")[0].attributes.len(), 8);
    assert_eq!(lost(&capture, "attributes_cut"), 1);
    let event = |text: &str| {
        let has = |a: &(u32, Text)| a.1 == Text::Text(text.to_owned());
        capture.events.iter().find(|e| e.attributes.iter().any(has)).expect("there")
    };
    let searched = event("looked for users");
    assert_eq!((capture.name(searched.name), searched.request), (module_path!(), shop.id));
    assert_eq!(event("outside").request, 0);
    let mixed = capture.events.iter().find(|e| capture.name(e.name) == "from.dashcam");
    assert_eq!(mixed.expect("there").request, shop.id);
}

#[test]
fn threads_at_once_lose_nothing_and_mix_nothing_up() {
    let _turn = turn();
    start();
    let layer = Layer::new().requests(|metadata| metadata.name() == "chosen");
    let dispatch = tracing::Dispatch::new(Registry::default().with(layer));
    std::thread::scope(|scope| {
        for thread in 0..4i64 {
            let dispatch = dispatch.clone();
            scope.spawn(move || {
                tracing::dispatcher::with_default(&dispatch, || {
                    for n in 0..500i64 {
                        let _request = info_span!("chosen", thread, n).entered();
                        let _span = info_span!("inside", thread, n).entered();
                        info!(name: "point", thread, n);
                    }
                });
            });
        }
    });
    let capture = saved();
    let of = |name: &str| capture.requests.iter().filter(|r| capture.name(r.name) == name).count();
    assert_eq!((of("chosen"), spans(&capture, "inside").len()), (2000, 2000));
    let points: Vec<_> =
        capture.events.iter().filter(|e| capture.name(e.name) == "point").collect();
    assert_eq!(points.len(), 2000);
    let requests: std::collections::HashMap<u64, &RequestRow> =
        capture.requests.iter().map(|r| (r.id, r)).collect();
    let inside = spans(&capture, "inside").into_iter().map(|s| (s.request, &s.attributes));
    for (id, attributes) in inside.chain(points.iter().map(|e| (e.request, &e.attributes))) {
        assert_eq!(*attributes, requests[&id].attributes, "of the request of its thread and turn");
    }
}

#[test]
fn a_span_on_several_threads_has_its_intervals_and_busy_time() {
    let _turn = turn();
    start();
    let layer = Layer::new().busy_time(true).on_event_loop(true);
    let dispatch = tracing::Dispatch::new(Registry::default().with(layer));
    let busy = Duration::from_millis(20);
    tracing::dispatcher::with_default(&dispatch, || {
        let request = info_span!("wanders", dashcam.request = true);
        request.in_scope(|| std::thread::sleep(busy));
        for _ in 0..2 {
            let (request, dispatch) = (request.clone(), dispatch.clone());
            std::thread::sleep(busy);
            let there = std::thread::spawn(move || {
                tracing::dispatcher::with_default(&dispatch, || {
                    let _in = request.enter();
                    let _again = request.enter();
                    dashcam::event!("over.there");
                    std::thread::sleep(busy);
                });
                assert_eq!(dashcam::current_request(), 0);
            });
            there.join().expect("ends");
        }
    });
    let capture = saved();
    let wanders = request(&capture, "wanders");
    assert!(wanders.on_loop);
    let Some((key, Text::Int(busy_ns))) = wanders.attributes.first() else { panic!("busy_ns") };
    assert_eq!(capture.name(*key), "busy_ns");
    let whole = wanders.end_ns.expect("ended") - wanders.begin_ns;
    let (busy_ns, busy) = (*busy_ns as u64, busy.as_nanos() as u64);
    assert!(busy_ns >= 3 * busy && busy_ns + 2 * busy <= whole, "{busy_ns} of {whole}");
    let tasks: Vec<_> = capture.tasks.iter().filter(|t| t.request == wanders.id).collect();
    assert_eq!(tasks.len(), 2);
    assert!(tasks.iter().all(|t| t.tid != wanders.tid && t.begin_ns - t.queued_ns >= busy));
    let there = capture.events.iter().filter(|e| capture.name(e.name) == "over.there");
    assert_eq!(there.filter(|e| e.request == wanders.id).count(), 2);
}

#[test]
fn only_spans_that_never_close_are_open_in_the_capture() {
    let _turn = turn();
    start();
    tracing::subscriber::with_default(Registry::default().with(Layer::new()), || {
        std::mem::forget(info_span!("open.request", dashcam.request = true).entered());
        std::mem::forget(info_span!("open.span"));
        error!("in the open request");
    });
    let capture = saved();
    let open = request(&capture, "open.request");
    assert_eq!(open.end_ns, None);
    assert_eq!(spans(&capture, "open.span").iter().map(|s| s.open).collect::<Vec<_>>(), [true]);
    dashcam::swap_current_request(0);
}

#[test]
fn spans_begun_while_off_are_not_recorded() {
    let _turn = turn();
    start();
    dashcam::stop();
    tracing::subscriber::with_default(Registry::default().with(Layer::new()), || {
        let before = info_span!("before", dashcam.request = true).entered();
        start();
        info!(name: "now.on", "it is on");
        drop(before);
    });
    let capture = saved();
    assert!(capture.requests.iter().all(|r| capture.name(r.name) != "before"));
    let event = capture.events.iter().find(|e| capture.name(e.name) == "now.on").expect("there");
    assert_eq!(event.request, 0);
}
