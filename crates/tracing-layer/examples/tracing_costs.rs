//! What a span, an event and an await of `tracing` cost with the layer and without, and the macros
//! of dashcam itself, in one run: `cargo run --release -p dashcam-tracing --example tracing_costs`.

use std::future::Future;
use std::hint::black_box;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
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

/// Not ready at its first poll; it keeps a waker, as a socket or a lock does, and wakes it later.
#[derive(Default)]
struct Leaf(Option<Waker>);

impl Future for Leaf {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.take() {
            Some(waker) => {
                waker.wake();
                Poll::Ready(())
            }
            None => {
                self.0 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

struct Nobody;
impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Four async functions deep, as a handler is.
async fn handler() {
    async fn at(depth: u32) {
        match depth {
            0 => loop {
                Leaf::default().await;
            },
            _ => Box::pin(at(depth - 1)).await,
        }
    }
    at(3).await;
}

/// ns of an await: the poll that is not ready, the wakeup, and the poll that goes on.
fn await_of(future: impl Future<Output = ()>) -> f64 {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Nobody));
    let mut cx = Context::from_waker(&waker);
    best(|| _ = black_box(future.as_mut().poll(&mut cx)))
}

fn awaits(what: &str) {
    let span = || tracing::info_span!("GET /", dashcam.request = true);
    let bare = await_of(handler());
    let theirs = await_of(tracing::Instrument::instrument(handler(), span()));
    let ours = await_of(dashcam_tracing::Instrument::instrument(handler(), span()));
    println!(
        "{what:<28} await {bare:6.1}  in tracing's span {theirs:6.1}  dashcam_tracing's {ours:6.1}"
    );
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
    let on_loop = || Registry::default().with(dashcam_tracing::Layer::new().on_event_loop(true));
    tracing::subscriber::with_default(on_loop(), || awaits("registry, dashcam off"));
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
    tracing::subscriber::with_default(on_loop(), || awaits("registry, dashcam on"));
    macros("macros, on");
    println!("clock read {:.1}", best(|| _ = black_box(dashcam::now_ns())));
    Ok(())
}
