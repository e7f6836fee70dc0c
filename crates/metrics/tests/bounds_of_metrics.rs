//! Bounds: series, texts, numbers, bytes, members. Nothing grows past them, and what is refused is
//! counted.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use common::{of, series, take};
use metrics::window::Kind;
use metrics::{registry, Registry, Tables, MOST_BYTES};

fn fresh() -> &'static Registry {
    // Static, because they are too large for the stack.
    static PLACES: [Tables; 3] = [const { Tables::new() }; 3];
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Box::leak(Box::new(Registry::new(&PLACES[next])))
}

#[test]
fn series_past_the_bound_are_refused_and_the_others_go_on() {
    let registry = fresh();
    registry.set_most(100);
    let get = |n: u32| registry.series_of(Kind::Counter, &format!("n{n}"), &[], 1.0);
    assert_eq!((0..150).filter(|n| get(*n).is_some()).count(), 100);
    assert_eq!(registry.series(), 100);
    let shard = registry.claim().expect("free");
    (0..100).for_each(|n| registry.count(shard, get(n).expect("known"), 2));
    assert_eq!(registry.take().expect("alone").len(), 100);
    registry.set_most(101);
    assert!(get(120).is_some(), "more are allowed now");
}

#[test]
fn a_series_is_its_kind_name_tags_in_any_order_and_rate() {
    let registry = fresh();
    let get = |kind, name: &str, list: &[(&str, &str)], rate| {
        registry.series_of(kind, name, list, rate).map(|s| std::ptr::from_ref(s) as usize)
    };
    let base = get(Kind::Counter, "a", &[("x", "1"), ("y", "2")], 1.0).expect("room");
    assert_eq!(get(Kind::Counter, "a", &[("y", "2"), ("x", "1")], 1.0), Some(base));
    for other in [
        get(Kind::Gauge, "a", &[("x", "1"), ("y", "2")], 1.0),
        get(Kind::Counter, "b", &[("x", "1"), ("y", "2")], 1.0),
        get(Kind::Counter, "a", &[("x", "1")], 1.0),
        get(Kind::Counter, "a", &[("x", "1y"), ("", "2")], 1.0),
        get(Kind::Counter, "a", &[("x", "1"), ("y", "2")], 0.5),
    ] {
        assert!(other.is_some_and(|other| other != base));
    }
    let long = "x".repeat(256);
    let numbers: Vec<String> = (0..33).map(|n| n.to_string()).collect();
    let many: Vec<_> = numbers.iter().map(|n| (&**n, "")).collect();
    for refused in [
        get(Kind::Counter, "", &[], 1.0),
        get(Kind::Counter, &long, &[], 1.0),
        get(Kind::Counter, "a", &[("k", &long)], 1.0),
        get(Kind::Counter, "a", &[], 0.0),
        get(Kind::Counter, "a", &[], 1.5),
        get(Kind::Counter, "a", &[], f64::NAN),
        registry.series_of(Kind::Counter, "a", &many, 1.0).map(|_| 0),
    ] {
        assert_eq!(refused, None);
    }
    assert_eq!(registry.series(), 6);
}

#[test]
fn banks_stay_within_their_bytes_and_threads_share_what_is_there() {
    let registry = fresh();
    registry.set_most(8192);
    let get = |n: usize| registry.series_of(Kind::Set, &format!("s{n}"), &[], 1.0);
    let sets = (0..8192).take_while(|n| get(*n).is_some()).count();
    assert!((100..MOST_BYTES / 32_768).contains(&sets), "{sets} sets of at least 32 KiB each");
    assert!(registry.series_of(Kind::Counter, "counters need none", &[], 1.0).is_some());
    // No bytes are left for banks of a thread's own.
    let shard = registry.claim().expect("free");
    (0..sets).for_each(|n| registry.member(shard, get(n).expect("known"), "one"));
    assert_eq!(registry.take().expect("alone").len(), sets);
    assert_eq!(registry.take_refused(), (0, 0));
}

/// The only test here with the process's own registry.
#[test]
fn numbers_that_are_none_are_refused_and_members_past_the_room_counted() {
    let (calls, took) = (series(Kind::Counter, "calls"), series(Kind::Histogram, "took"));
    let (depth, users) = (series(Kind::Gauge, "depth"), series(Kind::Set, "users"));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        metrics::count_float(calls, bad);
        metrics::value(took, bad);
        metrics::gauge_set(depth, bad);
        metrics::gauge_add(depth, bad);
    }
    assert_eq!((registry().take_refused(), take()), ((0, 12), Vec::new()));
    metrics::value(took, f64::MAX);
    metrics::value(took, f64::MAX);
    metrics::value(took, 1.0);
    assert_eq!(registry().take_refused(), (0, 1));
    assert_eq!(of(&take(), "took").count, 2.0);
    (0..5000).for_each(|n| metrics::member(users, &format!("{n}")));
    let sum = of(&take(), "users");
    assert_eq!(sum.members.len() as u64 + sum.refused, 5000);
    assert!(sum.members.len() >= 1024, "{}", sum.members.len());
    metrics::count(calls, i64::MAX);
    metrics::count(calls, i64::MIN);
    metrics::count(calls, 7);
    assert_eq!(of(&take(), "calls").count, 7.0 - 1.0 + 1.0, "large numbers are rounded");
    assert!(metrics::count_at_once(calls, 0), "known, and on");
    assert!(!metrics::count_at_once(calls, i64::MAX), "too large to be exact");
    let sampled = registry().series_of(Kind::Counter, "calls", &[], 0.5).expect("room");
    metrics::count(sampled, 1);
    assert!(!metrics::count_at_once(sampled, 1), "rates are drawn elsewhere");
    take();
    registry().turn(false);
    assert!(!metrics::count_at_once(calls, 1));
    metrics::count(calls, 1);
    metrics::value(took, 1.0);
    registry().turn(true);
    assert!(take().is_empty(), "off");
}
