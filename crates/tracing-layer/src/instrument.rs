//! Futures with a span, as `tracing::Instrument` makes them, whose awaits are recorded.
//!
//! How it works: the future of a request is polled through a `dashcam::Watch`, inside of its span.
//! `use dashcam_tracing::Instrument` in place of `use tracing::Instrument` is all it takes.
//!
//! What it promises: the result is tracing's own type, and does what tracing's does. A future whose
//! span is no request, and belongs to none, costs one load and a branch more. Missing on purpose:
//! functions with the attribute `#[tracing::instrument]`, which use tracing's own: their awaits are
//! recorded where a future around them is the request's.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use dashcam::Watch;
use pin_project_lite::pin_project;
use tracing::instrument::Instrumented;
use tracing::Span;

/// Attaches spans to futures, as `tracing::Instrument`, and records what a request's future awaits.
///
/// ```
/// use dashcam_tracing::Instrument;
///
/// let span = tracing::info_span!("GET /checkout", dashcam.request = true);
/// let answer = async { 3 }.instrument(span);
/// # drop(answer);
/// ```
pub trait Instrument: Sized {
    /// Polls the future inside of `span`.
    fn instrument(self, span: Span) -> Instrumented<Watched<Self>> {
        tracing::Instrument::instrument(Watched { watch: Watch::default(), future: self }, span)
    }

    /// Polls the future inside of the span that is entered now.
    fn in_current_span(self) -> Instrumented<Watched<Self>> {
        self.instrument(Span::current())
    }
}

impl<T: Sized> Instrument for T {}

pin_project! {
    /// A future whose awaits are recorded, if it is a request's.
    pub struct Watched<F> {
        watch: Watch,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.watch.poll(cx, |cx| this.future.poll(cx))
    }
}
