//! What a call costs on this machine:
//! `cargo run --release -p dashcam-metrics --example metrics_costs`.

use std::hint::black_box;
use std::time::Instant;

use metrics::registry;
use metrics::window::Kind;

const CALLS: u32 = 20_000_000;

/// Best of five, ns a call.
fn best(name: &str, call: impl Fn()) {
    let once = || {
        let began = Instant::now();
        (0..CALLS).for_each(|_| call());
        began.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let best = (0..5).map(|_| once()).fold(f64::INFINITY, f64::min);
    println!("{best:6.2} ns  {name}");
    let _ = registry().take();
}

fn main() {
    let get = |kind, name| registry().series_of(kind, name, &[], 1.0);
    let all = (
        get(Kind::Counter, "calls"),
        get(Kind::Timing, "took"),
        get(Kind::Gauge, "depth"),
        get(Kind::Set, "users"),
    );
    let (Some(calls), Some(took), Some(depth), Some(users)) = all else { return };
    best("an empty call", || {
        black_box(1);
    });
    best("counter: 1 more, as a handle does it", || {
        if !metrics::count_at_once(black_box(calls), 1) {
            metrics::count(calls, 1);
        }
    });
    best("counter: 1 more", || metrics::count(black_box(calls), 1));
    best("counter: a fraction more", || metrics::count_float(black_box(calls), 0.3));
    best("timing: a value", || metrics::value(black_box(took), 1.5));
    best("gauge: set", || metrics::gauge_set(black_box(depth), 1.5));
    best("gauge: changed", || metrics::gauge_add(black_box(depth), 1.5));
    best("set: a member that is known", || metrics::member(black_box(users), "somebody"));
    best("counter by name", || {
        if let Some(series) = get(Kind::Counter, black_box("calls")) {
            metrics::count(series, 1);
        }
    });
    let tagged =
        |name: &str, tag: (&str, &str)| registry().series_of(Kind::Counter, name, &[tag], 1.0);
    best("counter by name with a tag", || {
        if let Some(series) = tagged(black_box("calls"), black_box(("region", "eu"))) {
            metrics::count(series, 1);
        }
    });
}
