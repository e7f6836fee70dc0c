//! tracing-flight-recorder: a published layer that keeps the last events behind a lock. It records
//! events with the spans around them, but no spans of its own.

use std::path::Path;
use std::sync::OnceLock;

use tracing_flight_recorder::{FlightRecorder, FlightRecorderLayer};
use tracing_subscriber::layer::SubscriberExt;

use super::tracing_layers::{event, listen, span};
use super::{Rival, Setup};

/// Bytes one of its events takes, by its own documents ("200-500").
const EVENT_BYTES: usize = 350;

static RECORDER: OnceLock<FlightRecorder> = OnceLock::new();

/// A handle.
#[derive(Clone, Copy)]
pub struct TracingFlightRecorder;

impl Rival for TracingFlightRecorder {
    type Scope = ();
    const EVENT_BYTES: usize = EVENT_BYTES;
    const HAS_DUMP: bool = true;

    fn off() -> Self {
        TracingFlightRecorder
    }

    fn on(setup: &Setup) -> Self {
        let recorder = RECORDER.get_or_init(|| FlightRecorder::new(setup.ring_bytes / EVENT_BYTES));
        listen(tracing_subscriber::registry().with(FlightRecorderLayer::new(recorder.clone())));
        TracingFlightRecorder
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
        if let Some(recorder) = RECORDER.get() {
            recorder.dump_to_file(path)?;
        }
        Ok(std::fs::metadata(path)?.len())
    }
}
