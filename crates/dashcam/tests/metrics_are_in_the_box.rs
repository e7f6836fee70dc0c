//! What was counted is in captures, window by window, and at the sinks: each count once.
#![allow(clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use capture::read::Capture;
use dashcam::window::{Value, Window};
use format::metric::Numbers;

static SEEN: Mutex<Vec<Window>> = Mutex::new(Vec::new());
static SINKS: AtomicU64 = AtomicU64::new(0);

fn config(name: &str) -> dashcam::Config {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    dashcam::Config::new()
        .service(name)
        .memory("4MiB")
        .out(out.display())
        .slow("1h")
        .switches(false)
}

/// Name, tags and numbers of every window's readings, in order.
fn reported(path: &Path, name: &str) -> Vec<(String, Numbers)> {
    let capture = Capture::open(path).expect("readable");
    assert!(capture.damage.is_empty(), "{:?}", capture.damage);
    let rows = capture.metrics.iter().filter(|row| capture.name(row.name) == name);
    rows.map(|row| {
        assert!(row.from_ns < row.to_ns);
        let tags = row.tags.iter().map(|(key, value)| format!("{}={value:?}", capture.name(*key)));
        (tags.collect::<Vec<_>>().join(","), row.numbers)
    })
    .collect()
}

fn sum(path: &Path, name: &str) -> f64 {
    let each = reported(path, name).into_iter().map(|(_, numbers)| match numbers {
        Numbers::Count(sum) => sum,
        other => panic!("{other:?}"),
    });
    each.sum()
}

/// One test: the process has one recorder.
#[test]
fn what_is_counted_is_in_captures_and_at_the_sinks_once() {
    let orders = dashcam::counter("orders");
    orders.add(5);
    dashcam::on_window(|| {
        SINKS.fetch_add(1, Ordering::Relaxed);
        Box::new(|window| SEEN.lock().expect("whole").push(window.clone()))
    })
    .expect("the first sink");
    assert!(!dashcam::flush(), "nothing records yet");
    dashcam::start(config("metrics")).expect("starts");
    orders.add(2);
    dashcam::metric("orders").tag("region", "eu").counter().inc();
    let took = dashcam::timing("took");
    (1..=100).for_each(|ms| took.record(f64::from(ms)));
    dashcam::gauge("depth").set(4.0);
    dashcam::gauge("depth").add(-1.0);
    dashcam::set("users").add("ann");
    dashcam::set("users").add("bob");
    dashcam::set("users").add("ann");
    drop(dashcam::histogram("block").time());
    dashcam::distribution("ratio").record(f64::NAN);
    let path = dashcam::snap("metrics").expect("saved");
    let values = Numbers::Values {
        count: 100.0,
        sum: 5050.0,
        min: 1.0,
        max: 100.0,
        median: 50.0,
        p99: 99.0,
    };
    assert_eq!(reported(&path, "took"), [(String::new(), values)]);
    let gauge = Numbers::Gauge { value: 3.0, delta: false };
    assert_eq!(reported(&path, "depth"), [(String::new(), gauge)]);
    let members = Numbers::Members { members: 2.0, refused: 0.0 };
    assert_eq!(reported(&path, "users"), [(String::new(), members)]);
    assert_eq!(reported(&path, "block").len(), 1);
    assert!(reported(&path, "ratio").is_empty());
    let all = reported(&path, "orders");
    assert_eq!(sum(&path, "orders"), 8.0, "also what came before the start: {all:?}");
    let tagged = ("region=Text(\"eu\")".to_owned(), Numbers::Count(1.0));
    assert!(all.contains(&tagged), "{all:?}");
    let capture = Capture::open(&path).expect("readable");
    let lost = |name: &str| capture.meta.losses.iter().find(|l| l.0 == name).map(|l| l.1);
    assert_eq!(lost("metric_values_refused"), Some(1));
    assert_eq!(lost("metrics_refused"), Some(0));
    let nameless = dashcam::counter("");
    nameless.inc();
    nameless.inc();
    let path = dashcam::snap("metrics").expect("saved");
    let capture = Capture::open(&path).expect("readable");
    assert!(capture.meta.losses.contains(&("metrics_refused".to_owned(), 2)));

    orders.add(10);
    assert!(dashcam::flush());
    orders.add(20);
    assert!(dashcam::flush());
    assert!(dashcam::status_json().contains("\"metrics\":{\"series\":"));
    orders.add(100);
    dashcam::stop();
    orders.add(200);
    let at_sinks = || -> f64 {
        let seen = SEEN.lock().expect("whole");
        let readings = seen.iter().flat_map(|w| &w.readings).filter(|r| &*r.id.name == "orders");
        let count = |r: &dashcam::window::Reading| match r.value {
            Value::Count(n) => n,
            _ => panic!("{r:?}"),
        };
        readings.map(count).sum()
    };
    assert_eq!(at_sinks(), 138.0, "up to the stop");
    dashcam::start(config("metrics")).expect("starts again");
    assert!(dashcam::flush());
    assert_eq!((at_sinks(), SINKS.load(Ordering::Relaxed)), (338.0, 2), "kept for the next start");
    let seen = SEEN.lock().expect("whole");
    assert!(seen.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns), "no overlap");
    drop(seen);
    dashcam::before_exit();
}
