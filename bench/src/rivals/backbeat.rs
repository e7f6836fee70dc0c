//! backbeat: a ring for each core, records of [time, event id, fields].

use std::path::Path;

use backbeat::recorder::Recorder;
use backbeat::Event;
use zerocopy::{Immutable, IntoBytes};

use super::{Rival, Setup};
use crate::machine;

#[derive(Event, IntoBytes, Immutable)]
#[event(namespace = "bench", span = enter)]
#[repr(C)]
struct Begin {
    #[event(span_id)]
    span: u64,
    rows: u64,
}

#[derive(Event, IntoBytes, Immutable)]
#[event(namespace = "bench", span = exit)]
#[repr(C)]
struct End {
    #[event(span_id)]
    span: u64,
}

#[derive(Event, IntoBytes, Immutable)]
#[event(namespace = "bench")]
#[repr(C)]
struct Point {
    rows: u64,
}

/// A handle.
#[derive(Clone, Copy)]
pub struct Backbeat(&'static Recorder);

fn made(bytes: usize) -> Backbeat {
    let shards = machine::cpus().len();
    Backbeat(Box::leak(Box::new(Recorder::new(shards, bytes / shards))))
}

impl Rival for Backbeat {
    type Scope = ();
    const EVENT_BYTES: usize = 24;
    const CAN_TOGGLE: bool = true;
    const HAS_DUMP: bool = true;

    fn off() -> Backbeat {
        made(1 << 20)
    }

    fn on(setup: &Setup) -> Backbeat {
        let made = made(setup.ring_bytes);
        made.0.set_enabled(true);
        made
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        let _guard = self.0.enter(|span| Begin { span, rows }, |span| End { span });
        inside()
    }

    #[inline]
    fn event(&self, rows: u64) {
        self.0.record(&Point { rows });
    }

    fn toggle(&self, on: bool) {
        self.0.set_enabled(on);
    }

    fn dump(&self, path: &Path) -> std::io::Result<u64> {
        let schemas = backbeat::registry::schemas();
        let dump = self.0.dump(schemas, std::iter::empty(), std::iter::empty(), "bench");
        std::fs::write(path, &dump)?;
        Ok(dump.len() as u64)
    }
}
