//! Metrics for Prometheus: an HTTP endpoint of this process that answers `GET /metrics`.
//!
//! How it works: windows of metrics are added up in a `Store`, from the start of recording on. One
//! thread listens, and writes the store as OpenMetrics 1.0 or as Prometheus's text format 0.0.4,
//! whichever the client asks for. What cannot be a window (times of requests, with an exemplar
//! each) is fetched when a client comes.
//!
//! What it promises: a client can waste its own place only. At most `CLIENTS` at once, `LONGEST`
//! bytes of a request, `PATIENCE_NS` for it to come and `TAKING_NS` for the answer to be taken,
//! `MOST_BYTES` of an answer; without clients nothing runs. A port in use is reported and tried
//! again, and the service goes on. No two series have the same name: the first is kept, the others
//! are counted.
//!
//! What is missing on purpose: TLS, passwords, compression, keep-alive, pushing. Put a proxy in
//! front.

mod address;
mod http;
mod names;
mod server;
mod store;
mod text;

pub use address::Address;
pub use http::Format;
pub use names::{describe, Unit};
pub use server::{Endpoint, Stats};

/// The largest number of clients at once.
pub const CLIENTS: usize = 4;
/// The largest number of bytes of a request.
pub const LONGEST: usize = 8192;
/// A request must come within this time.
pub const PATIENCE_NS: u64 = 3_000_000_000;
/// An answer must be taken within this time.
pub const TAKING_NS: u64 = 10_000_000_000;
/// The largest number of bytes of an answer; families beyond are left out and counted.
pub const MOST_BYTES: usize = 8 << 20;
/// Time until a port in use is tried again.
pub const AGAIN_NS: u64 = 5_000_000_000;

/// Times of the requests of one name, since the start.
#[derive(Clone, Debug, Default)]
pub struct RequestTimes {
    /// The request's name.
    pub name: String,
    /// Requests by duration: at most the bound of the same index in `bounds_ns`, and longer than
    /// the bound before; the last: longer than all bounds.
    pub counts: Vec<u64>,
    /// Upper bounds, ns; one fewer than counts.
    pub bounds_ns: &'static [u64],
    /// Sum of all durations, ns.
    pub sum_ns: u64,
    /// The slowest recent request of each bucket, if there is one.
    pub exemplars: Vec<Option<Exemplar>>,
}

/// A request that is the example of its bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemplar {
    /// Its id, as in captures.
    pub request: u64,
    /// Its trace id; 0: not known.
    pub trace: u128,
    /// Name of the capture's file that contains it; empty: none does.
    pub capture: String,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Its end, ns since the epoch.
    pub at_epoch_ns: u64,
}
