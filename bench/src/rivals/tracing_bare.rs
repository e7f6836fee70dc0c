//! `tracing` with a subscriber written for this and no registry: spans of one thread on a stack of
//! that thread, records in its own ring. The fastest that `tracing` can be; it gives up layers,
//! filters and spans that change threads.

use std::cell::RefCell;
use std::path::Path;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::tracing_layers::{event, listen, span, Rows};
use super::{plain, Rival, Setup};
use crate::machine;

struct Bare;

struct Open {
    name: u64,
    begin: u64,
    rows: u64,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

impl Subscriber for Bare {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    #[inline]
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut rows = Rows::default();
        attributes.record(&mut rows);
        let name = std::ptr::from_ref(attributes.metadata()) as u64;
        OPEN.with_borrow_mut(|open| {
            open.push(Open { name, begin: machine::rdtsc(), rows: rows.0 });
            Id::from_u64(open.len() as u64)
        })
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut rows = Rows::default();
        event.record(&mut rows);
        let name = std::ptr::from_ref(event.metadata()) as u64;
        plain::store([name, machine::rdtsc(), 0, rows.0]);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    #[inline]
    fn try_close(&self, _: Id) -> bool {
        if let Some(Open { name, begin, rows }) = OPEN.with_borrow_mut(Vec::pop) {
            plain::store([name, begin, machine::rdtsc(), rows]);
        }
        true
    }
}

/// A handle.
#[derive(Clone, Copy)]
pub struct TracingBare;

impl Rival for TracingBare {
    type Scope = ();
    const HAS_DUMP: bool = true;

    fn off() -> Self {
        TracingBare
    }

    fn on(setup: &Setup) -> Self {
        plain::make_ring(setup.ring_bytes);
        listen(Bare);
        TracingBare
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
