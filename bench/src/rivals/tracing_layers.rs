//! `tracing` with a registry and one layer: a trivial layer, which records nothing (the least cost
//! for a user of layers), and a layer which records every span and event in a ring of the thread's
//! own.

use std::hint::black_box;
use std::path::Path;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::{plain, Rival, Setup};
use crate::machine;

/// The integer attribute of a span or event.
#[derive(Default)]
pub struct Rows(pub u64);

impl Visit for Rows {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0 = value;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

struct Trivial;

impl<S: tracing::Subscriber> Layer<S> for Trivial {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        black_box(event);
    }
}

struct Recording;

struct Open {
    begin: u64,
    rows: u64,
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recording {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut rows = Rows::default();
        attributes.record(&mut rows);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Open { begin: machine::rdtsc(), rows: rows.0 });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        if let Some(Open { begin, rows }) = extensions.get() {
            let name = std::ptr::from_ref(span.metadata()) as u64;
            plain::store([name, *begin, machine::rdtsc(), *rows]);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut rows = Rows::default();
        event.record(&mut rows);
        let name = std::ptr::from_ref(event.metadata()) as u64;
        plain::store([name, machine::rdtsc(), 0, rows.0]);
    }
}

/// A span of `tracing`, whichever subscriber is set.
#[inline]
pub fn span<T>(rows: u64, inside: impl FnOnce() -> T) -> T {
    let span = tracing::info_span!("bench", rows);
    let _entered = span.enter();
    inside()
}

/// An event of `tracing`, whichever subscriber is set.
#[inline]
pub fn event(rows: u64) {
    tracing::info!(rows);
}

/// Makes `subscriber` the subscriber of the process.
pub fn listen(subscriber: impl tracing::Subscriber + Send + Sync) {
    if let Err(error) = tracing::subscriber::set_global_default(subscriber) {
        eprintln!("tracing: {error}");
        std::process::exit(1);
    }
}

/// The trivial layer.
#[derive(Clone, Copy)]
pub struct TracingTrivial;

impl Rival for TracingTrivial {
    type Scope = ();

    fn off() -> Self {
        TracingTrivial
    }

    fn on(_: &Setup) -> Self {
        listen(tracing_subscriber::registry().with(Trivial));
        TracingTrivial
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        span(rows, inside)
    }

    #[inline]
    fn event(&self, rows: u64) {
        event(rows);
    }
}

/// The recording layer.
#[derive(Clone, Copy)]
pub struct TracingRecording;

impl Rival for TracingRecording {
    type Scope = ();
    const HAS_DUMP: bool = true;

    fn off() -> Self {
        TracingRecording
    }

    fn on(setup: &Setup) -> Self {
        plain::make_ring(setup.ring_bytes);
        listen(tracing_subscriber::registry().with(Recording));
        TracingRecording
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        span(rows, inside)
    }

    #[inline]
    fn event(&self, rows: u64) {
        event(rows);
    }

    fn dump(&self, path: &Path) -> std::io::Result<u64> {
        plain::dump_ring(path)
    }
}
