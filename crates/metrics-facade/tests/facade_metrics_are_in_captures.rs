//! Everything that a program counts through the `metrics` facade is in dashcam's windows, exactly.
#![allow(clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};

use capture::read::Capture;
use format::metric::Numbers;
use metrics_rs::{counter, describe_counter, describe_histogram, gauge, histogram, Label, Unit};

/// Tags and numbers of every window's readings.
fn recorded(path: &Path, name: &str) -> Vec<(String, Numbers)> {
    let capture = Capture::open(path).expect("readable");
    let rows = capture.metrics.iter().filter(|row| capture.name(row.name) == name);
    let tags = |row: &capture::read::MetricRow| {
        let tags = row.tags.iter().map(|(key, value)| format!("{}={value:?}", capture.name(*key)));
        tags.collect::<Vec<_>>().join(",")
    };
    rows.map(|row| (tags(row), row.numbers)).collect()
}

fn sum(path: &Path, name: &str) -> f64 {
    let count = |numbers| match numbers {
        Numbers::Count(sum) => sum,
        other => panic!("{other:?}"),
    };
    recorded(path, name).into_iter().map(|(_, numbers)| count(numbers)).sum()
}

/// One test: the process has one recorder of each kind.
#[test]
fn facade_metrics_are_in_captures() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("facade");
    dashcam_metrics_facade::install().expect("the first");
    assert!(dashcam_metrics_facade::install().is_err(), "the second is refused");
    describe_counter!("orders", Unit::Count, "Orders taken.");
    describe_histogram!("size", Unit::Bytes, "Bytes of an answer.");
    let config = dashcam::Config::new().service("facade").memory("4MiB").slow("1h");
    let config = config.switches(false).out(out.display());
    let before = counter!("orders", "region" => "eu");
    before.increment(3);
    dashcam::start(config).expect("starts");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let kept = counter!("kept");
                for _ in 0..20_000 {
                    kept.increment(1);
                    histogram!("size").record(2.0);
                }
                (0..1000).for_each(|_| counter!("orders", "region" => "eu").increment(1));
            });
        }
    });
    let total = counter!("total");
    [5, 9, 7, 9, 12].into_iter().for_each(|n| total.absolute(n));
    gauge!("depth").set(4.0);
    gauge!("depth").increment(2.0);
    gauge!("depth").decrement(1.0);
    histogram!("size").record(f64::NAN);
    let labels: Vec<Label> = (0..33).map(|n| Label::new(format!("l{n}"), "x")).collect();
    let wide = counter!("wide", labels);
    (0..5).for_each(|_| wide.increment(1));
    let path = dashcam::snap("facade").expect("saved");
    let sizes = recorded(&path, "size").into_iter().map(|(_, numbers)| match numbers {
        Numbers::Values { count, sum, max, .. } => {
            assert_eq!(max, 2.0);
            (count, sum)
        }
        other => panic!("{other:?}"),
    });
    let sizes = sizes.reduce(|a, b| (a.0 + b.0, a.1 + b.1));
    assert_eq!(sizes, Some((160_000.0, 320_000.0)));
    assert_eq!((sum(&path, "kept"), sum(&path, "orders")), (160_000.0, 8003.0));
    assert_eq!(sum(&path, "total"), 12.0);
    assert!(recorded(&path, "orders").iter().all(|(tags, _)| tags == "region=Text(\"eu\")"));
    // Set and changes may be in different windows.
    let depth = recorded(&path, "depth").into_iter().fold(0.0, |now, (_, numbers)| match numbers {
        Numbers::Gauge { value, delta } => value + if delta { now } else { 0.0 },
        other => panic!("{other:?}"),
    });
    assert_eq!(depth, 5.0);
    assert!(recorded(&path, "wide").is_empty());
    // They are counted at the window's end; the next capture has them for sure.
    let path = dashcam::snap("facade").expect("saved");
    let capture = Capture::open(&path).expect("readable");
    assert!(capture.meta.losses.contains(&("metrics_refused".to_owned(), 5)));
    assert!(capture.meta.losses.contains(&("metric_values_refused".to_owned(), 1)));
    dashcam::before_exit();
}
