//! What a span and an event of `tracing` cost with the layer and without, and with the macros of
//! dashcam itself, in one run: `cargo run --release -p dashcam-tracing --example tracing_costs`.

use std::hint::black_box;
use std::time::Instant;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::Registry;

/// A layer that does nothing: the least that a second layer costs.
struct Nothing;
impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Nothing {}

const ROUNDS: u32 = 200_000;

/// Best of seven, ns a call.
fn best(mut call: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let begin = Instant::now();
        (0..ROUNDS).for_each(|_| call());
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    best
}

fn all(what: &str) {
    let bare = best(|| drop(tracing::info_span!("span").entered()));
    let fields = best(|| drop(tracing::info_span!("span", a = black_box(1), b = "text").entered()));
    let event = best(|| tracing::info!(name: "event", a = black_box(1)));
    println!("{what:<28} span {bare:6.1}  with 2 fields {fields:6.1}  event {event:6.1}");
}

fn main() -> Result<(), dashcam::StartError> {
    println!("ns each");
    all("no subscriber");
    tracing::subscriber::with_default(Registry::default(), || all("registry"));
    tracing::subscriber::with_default(Registry::default().with(Nothing), || {
        all("registry, empty layer");
    });
    let ours = || Registry::default().with(dashcam_tracing::Layer::new());
    tracing::subscriber::with_default(ours(), || all("registry, dashcam off"));
    let macros = |what: &str| {
        let bare = best(|| drop(dashcam::span!("span")));
        let fields = best(|| drop(dashcam::span!("span", a = black_box(1), b = "text")));
        let event = best(|| dashcam::event!("event", a = black_box(1)));
        println!("{what:<28} span {bare:6.1}  with 2 fields {fields:6.1}  event {event:6.1}");
        let request = best(|| drop(dashcam::request!("request")));
        println!("{what:<28} request {request:6.1}");
    };
    macros("macros, off");
    dashcam::start(dashcam::Config::new().service("costs").slow("1h"))?;
    tracing::subscriber::with_default(ours(), || all("registry, dashcam on"));
    macros("macros, on");
    println!("clock read {:.1}", best(|| _ = black_box(dashcam::now_ns())));
    Ok(())
}
