//! What the future of a request awaits can be read while it is suspended: futures made by hand,
//! polled by hand, without a runtime.
#![allow(clippy::expect_used, missing_docs)]
#![cfg(target_arch = "x86_64")]

use std::future::Future;
use std::path::PathBuf;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use dashcam_tracing::{Instrument, Layer};
use recorder::OpenRequest;
use samplers::native_tasks::{cell_of, read, Suspended};
use sys::mem::Reader;
use tracing::info_span;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::Registry;

/// One recorder serves all tests of this process; they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("awaits");
    let config = dashcam::Config::new().service("awaits").memory("8MiB").out(out.display());
    dashcam::start(config).expect("starts");
    turn
}

/// Ready at its second poll.
#[derive(Default)]
struct Leaf {
    waker: Arc<Mutex<Option<Waker>>>,
    polled: bool,
}

impl Future for Leaf {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.waker.lock().expect("no panic") = Some(cx.waker().clone());
        match std::mem::replace(&mut self.polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn open() -> Vec<OpenRequest> {
    let mut open = Vec::new();
    recorder::current().expect("it records").open_requests().each(|request| open.push(request));
    open
}

/// The only open request's task, as the sampler reads it.
fn suspended() -> Option<Suspended> {
    let request = open().pop().expect("an open request");
    let mem = Reader::new().expect("guarded reads");
    read(&mem, cell_of(request.task)?, request.id, 0)
}

fn on_loop() -> impl tracing::Subscriber {
    Registry::default().with(Layer::new().on_event_loop(true))
}

#[test]
fn a_suspended_future_shows_where_it_waits_and_is_woken_once() {
    let _turn = turn();
    tracing::subscriber::with_default(on_loop(), || {
        let (leaf, wakes) = (Leaf::default(), Arc::new(Wakes::default()));
        let (kept, waker) = (Arc::clone(&leaf.waker), Waker::from(Arc::clone(&wakes)));
        let mut cx = Context::from_waker(&waker);
        let span = info_span!("GET /checkout", dashcam.request = true);
        let mut future = pin!(Instrument::instrument(leaf, span));
        assert!(future.as_mut().poll(&mut cx).is_pending());
        let seen = suspended().expect("it waits");
        assert_eq!(seen.awaits.len(), 1);
        assert!(seen.awaits[0].1.len() > 100, "frames up to the instrumented future");
        kept.lock().expect("no panic").take().expect("a clone").wake();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(future.as_mut().poll(&mut cx).is_ready());
        assert!(open().iter().all(|request| request.task == 0), "the task has ended");
    });
}

#[test]
fn each_of_several_awaits_has_a_stack_and_any_of_them_wakes_the_task() {
    let _turn = turn();
    tracing::subscriber::with_default(on_loop(), || {
        let (mut one, mut other) = (Leaf::default(), Leaf::default());
        let (kept, wakes) = (Arc::clone(&other.waker), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let both = std::future::poll_fn(move |cx| {
            let ready = Pin::new(&mut one).poll(cx).is_ready();
            if Pin::new(&mut other).poll(cx).is_ready() || ready {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let span = info_span!("GET /either", dashcam.request = true);
        let mut future = pin!(Instrument::instrument(both, span));
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert_eq!(suspended().map(|seen| seen.awaits.len()), Some(2));
        kept.lock().expect("no panic").as_ref().expect("a clone").wake_by_ref();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(future.as_mut().poll(&mut cx).is_ready());
    });
}

#[test]
fn futures_inside_and_futures_of_no_request_are_not_watched() {
    let _turn = turn();
    tracing::subscriber::with_default(on_loop(), || {
        let waker = Waker::from(Arc::new(Wakes::default()));
        let mut cx = Context::from_waker(&waker);
        let inner = Instrument::instrument(Leaf::default(), info_span!("inner"));
        let span = info_span!("GET /nested", dashcam.request = true);
        let mut future = Box::pin(Instrument::instrument(inner, span));
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert_eq!(suspended().map(|seen| seen.awaits.len()), Some(1), "one copy for both");
        drop(future);
        assert!(open().is_empty(), "a future that is dropped ends its request");
        let mut bare = pin!(Instrument::instrument(Leaf::default(), info_span!("no request")));
        assert!(bare.as_mut().poll(&mut cx).is_pending());
        assert!(open().is_empty());
    });
}
