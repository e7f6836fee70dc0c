//! The compared tools: one file for each, all behind the same small trait, so that the loops around
//! them are the same code.

use std::path::{Path, PathBuf};

pub mod backbeat;
pub mod dashcam;
pub mod fastrace;
pub mod flight_recorder;
pub mod opentelemetry;
pub mod plain;
pub mod tracing_bare;
pub mod tracing_layers;
pub mod tracy;

/// What a tool is started with.
pub struct Setup {
    /// Bytes of everything it may hold; tools with a ring for each core or thread divide it.
    pub ring_bytes: usize,
    /// Where files go.
    pub out: PathBuf,
    /// Instructions are counted: dashcam's background work would be counted with the calls.
    pub counting: bool,
}

/// A recorder under test. A value is a handle: small, and good on any thread.
pub trait Rival: Copy + Send + Sync + 'static {
    /// Lives while up to a thousand calls are made: what a tool needs around them.
    type Scope;
    /// Least bytes of an event in the ring: gives how many events fill it.
    const EVENT_BYTES: usize = 32;
    /// It has points in time.
    const HAS_EVENTS: bool = true;
    /// It can be installed and not record.
    const HAS_OFF: bool = true;
    /// It can stop and continue; for other tools "off" is measured before they start.
    const CAN_TOGGLE: bool = false;
    /// `dump` works.
    const HAS_DUMP: bool = false;

    /// A handle while nothing is recorded.
    fn off() -> Self;
    /// Starts it.
    fn on(setup: &Setup) -> Self;
    /// See `Scope`.
    fn scope(&self) -> Self::Scope;
    /// A span with the integer attribute `rows`, around `inside`.
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T;
    /// A point in time with the integer attribute `rows`.
    fn event(&self, rows: u64);
    /// Stops or continues; for tools with `CAN_TOGGLE`.
    fn toggle(&self, _on: bool) {}
    /// Writes everything held to a file; returns its bytes.
    fn dump(&self, _path: &Path) -> std::io::Result<u64> {
        Err(std::io::Error::other("has nothing to dump"))
    }
    /// The process ends.
    fn end(&self) {}
}
