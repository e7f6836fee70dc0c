//! Recorders side by side. One process measures one tool in one way and prints one line of JSON;
//! `bench/run.py` runs the processes in turn and makes the tables.
//!
//! ```text
//! dashcam-bench run calls|churn|snapshot RIVAL  (RIVAL `limits`, with `calls`: the machine)
//! dashcam-bench run metrics CLIENT              counters; starts `dashcam-bench receive`, a server
//! dashcam-bench count CASE TURNS                for callgrind; `count list` names the cases
//! ```
//! Environment: BENCH_OUT (folder for dumps), BENCH_RING_MIB (64), BENCH_QUICK (1: fewer turns),
//! BENCH_CHURN_TURNS (1), BENCH_CHURN_STORM_MS (0: for how long threads start and end before each
//! turn), BENCH_TURNS (set: the limit's dump pauses as often as dashcam's).

mod calls;
mod churn;
mod count;
mod limits;
mod machine;
mod metrics;
mod report;
mod rivals;
mod snapshot;

use std::time::Duration;

use report::Figures;
use rivals::{Rival, Setup};

struct Order {
    setup: Setup,
    quick: bool,
    churn_turns: usize,
    churn_burst: Duration,
}

fn order() -> Order {
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let mib: usize = text("BENCH_RING_MIB").parse().unwrap_or(64);
    let out = match text("BENCH_OUT") {
        out if out.is_empty() => std::env::temp_dir(),
        out => out.into(),
    };
    let counting = std::env::args().nth(1).as_deref() == Some("count");
    let setup = Setup { ring_bytes: mib << 20, out, counting };
    let churn_turns = text("BENCH_CHURN_TURNS").parse().unwrap_or(1);
    let churn_burst = Duration::from_millis(text("BENCH_CHURN_STORM_MS").parse().unwrap_or(0));
    Order { setup, quick: text("BENCH_QUICK") == "1", churn_turns, churn_burst }
}

type More<R> = fn(&R, &calls::Effort, &mut Figures);

/// Measures and prints. False: this tool cannot be measured in this way.
fn run<R: Rival>(order: &Order, way: &str, more: More<R>) -> bool {
    let mut figures = Figures::default();
    let rival = match way {
        "calls" => {
            let effort = calls::Effort { turns: 100_000, runs: if order.quick { 3 } else { 5 } };
            calls::measure::<R>(&order.setup, &effort, &mut figures, more)
        }
        "churn" => {
            let block = Duration::from_millis(if order.quick { 40 } else { 250 });
            let effort =
                churn::Effort { block, turns: order.churn_turns, burst: order.churn_burst };
            churn::measure::<R>(&order.setup, &effort, &mut figures)
        }
        "snapshot" if R::HAS_DUMP => {
            let dumps = if order.quick { 2 } else { 5 };
            snapshot::measure::<R>(&order.setup, dumps, &mut figures)
        }
        _ => return false,
    };
    figures.print();
    rival.end();
    true
}

/// A tool without loops of its own.
fn plainly<R: Rival>(order: &Order, way: &str) -> bool {
    run::<R>(order, way, |_, _, _| ())
}

fn limits(order: &Order) -> bool {
    let mut figures = Figures::default();
    limits::measure(&order.setup, if order.quick { 3 } else { 5 }, &mut figures);
    figures.print();
    true
}

fn metrics_of(order: &Order, client: &str) -> bool {
    match metrics::run(client, &order.setup, order.quick) {
        Some(Err(why)) => {
            eprintln!("{client}: {why}");
            std::process::exit(1);
        }
        done => done.is_some(),
    }
}

fn measure(order: &Order, way: &str, rival: &str) -> bool {
    match (way, rival) {
        ("metrics", client) => metrics_of(order, client),
        ("calls", "limits") => limits(order),
        (_, "dashcam") => run(order, way, limits::of_dashcam),
        (_, "plain") => plainly::<rivals::plain::Plain>(order, way),
        (_, "tracing-trivial") => plainly::<rivals::tracing_layers::TracingTrivial>(order, way),
        (_, "tracing-recording") => plainly::<rivals::tracing_layers::TracingRecording>(order, way),
        (_, "tracing-bare") => plainly::<rivals::tracing_bare::TracingBare>(order, way),
        (_, "tracing-flight-recorder") => {
            plainly::<rivals::flight_recorder::TracingFlightRecorder>(order, way)
        }
        (_, "fastrace") => plainly::<rivals::fastrace::Fastrace>(order, way),
        (_, "tracy") => plainly::<rivals::tracy::Tracy>(order, way),
        (_, "backbeat") => plainly::<rivals::backbeat::Backbeat>(order, way),
        (_, "opentelemetry") => plainly::<rivals::opentelemetry::OpenTelemetry>(order, way),
        _ => false,
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let order = order();
    let known = match words.as_slice() {
        ["run", way, rival] => measure(&order, way, rival),
        ["receive"] => metrics::serve(),
        ["count", "list"] => {
            count::CASES.iter().for_each(|case| println!("{case}"));
            true
        }
        ["count", case, turns] => {
            turns.parse().is_ok_and(|turns| count::run(case, turns, &order.setup))
        }
        _ => false,
    };
    if !known {
        eprintln!("usage: dashcam-bench run calls|churn|snapshot|metrics RIVAL | count CASE TURNS");
        std::process::exit(2);
    }
}
