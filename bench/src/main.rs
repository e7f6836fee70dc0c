//! What a span and an event cost in Rust, beside an empty loop and beside `tracing` with a trivial
//! layer, all in one run.
//!
//! `dashcam-bench` prints a table: median ns of interleaved rounds, and the ratio to two clock
//! reads. `dashcam-bench count NAME N` runs one case N times, for instruction counts under
//! callgrind (the difference of two runs, divided by the difference in N).

use std::hint::black_box;
use std::time::Instant;

use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A layer that looks at nothing: the least a `tracing` user pays for a registry.
struct Trivial;

impl<S: tracing::Subscriber> Layer<S> for Trivial {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        black_box(event);
    }
}

type Case = (&'static str, fn(u64));

const ROUNDS: usize = 15;
const TIMES: u64 = 200_000;

fn empty(n: u64) {
    (0..n).for_each(|i| {
        black_box(i);
    });
}

fn two_clock_reads(n: u64) {
    for _ in 0..n {
        black_box((sys_now(), sys_now()));
    }
}

/// The clock that records are stamped with, read as the recorder reads it.
fn sys_now() -> Instant {
    Instant::now()
}

fn name(text: &str) -> u32 {
    dashcam::current().map_or(0, |recorder| recorder.tables().name(text))
}

fn span(n: u64) {
    let id = name("bench.span");
    for i in 0..n {
        let begin = if dashcam::is_on() { dashcam::now_ns() } else { 0 };
        dashcam::span(id, black_box(begin), i, false, &[]);
    }
}

fn event(n: u64) {
    let id = name("bench.event");
    (0..n).for_each(|i| dashcam::event(id, i, &[]));
}

fn event_with_attribute(n: u64) {
    let (id, key) = (name("bench.event"), name("rows"));
    for i in 0..n {
        dashcam::event(id, 0, &[(key, dashcam::Value::Int(i as i64))]);
    }
}

fn tracing_span(n: u64) {
    for i in 0..n {
        let span = tracing::info_span!("bench", rows = i);
        let _entered = black_box(span.enter());
    }
}

fn tracing_event(n: u64) {
    (0..n).for_each(|i| tracing::info!(rows = i));
}

const ON: &[Case] = &[
    ("empty loop", empty),
    ("two clock reads", two_clock_reads),
    ("dashcam span, on", span),
    ("dashcam event, on", event),
    ("dashcam event + attribute, on", event_with_attribute),
    ("tracing span, trivial layer", tracing_span),
    ("tracing event, trivial layer", tracing_event),
];
const OFF: &[Case] =
    &[("empty loop", empty), ("dashcam span, off", span), ("dashcam event, off", event)];

fn medians(cases: &[Case]) -> Vec<f64> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (i, (_, case)) in cases.iter().enumerate() {
            let begin = Instant::now();
            case(TIMES);
            times[i].push(begin.elapsed().as_nanos() as f64 / TIMES as f64);
        }
    }
    times
        .into_iter()
        .map(|mut rounds| {
            rounds.sort_by(f64::total_cmp);
            rounds[ROUNDS / 2]
        })
        .collect()
}

fn start() {
    let settings = [("service", "bench"), ("switches", "off"), ("out", "/tmp")];
    let given: Vec<(String, String)> =
        settings.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    if let Err(error) = dashcam::start(&given, dashcam::Runtime::default()) {
        eprintln!("bench: dashcam did not start: {error}");
        std::process::exit(1);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let off = medians(if words.len() > 1 { &[] } else { OFF });
    start();
    let subscriber = tracing_subscriber::registry().with(Trivial);
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let [_, command, case, times] = words.as_slice() {
        let found = ON.iter().find(|(name, _)| name == case);
        match (command.as_str(), found, times.parse()) {
            ("count", Some((_, case)), Ok(times)) => case(times),
            _ => eprintln!("usage: dashcam-bench [count CASE N]"),
        }
        dashcam::before_exit();
        return;
    }
    let on = medians(ON);
    let floor = on[1] - on[0];
    println!("{:34}{:>8}{:>22}", "Rust, ns a call", "ns", "x two clock reads");
    for ((name, _), ns) in ON.iter().zip(&on) {
        println!("{name:34}{ns:8.1}{:22.2}", (ns - on[0]) / floor);
    }
    for ((name, _), ns) in OFF.iter().zip(&off).skip(1) {
        println!("{name:34}{:8.2}  over the empty loop", ns - off[0]);
    }
    dashcam::before_exit();
}
