//! Metrics for Prometheus: an HTTP endpoint of this process that answers `GET /metrics`.
//!
//! How it works: windows of metrics are added up in a `Store`, from the start of recording on. One
//! thread listens, and writes the store as OpenMetrics 1.0 or as Prometheus's text format 0.0.4,
//! whichever the client asks for. What cannot be a window (times of requests, with an exemplar
//! each) is asked for when a client comes.
//!
//! What it promises: a client can waste its own place only. At most `CLIENTS` at once, `LONGEST`
//! bytes of a request, `PATIENCE_NS` for it to come and `TAKING_NS` for the answer to be taken,
//! `MOST_BYTES` of an answer; nothing runs while nobody asks. A port that is taken is said, and
//! tried again; the service runs on. No two series have the same name: of those that would, the
//! first is kept and the others are counted.
//!
//! Missing on purpose: TLS, passwords, compression, keep-alive, pushing. Put a proxy in front.

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

/// Most clients at once.
pub const CLIENTS: usize = 4;
/// Most bytes of a request.
pub const LONGEST: usize = 8192;
/// A request comes within this time.
pub const PATIENCE_NS: u64 = 3_000_000_000;
/// An answer is taken within this time.
pub const TAKING_NS: u64 = 10_000_000_000;
/// Most bytes of an answer; families beyond are left out and counted.
pub const MOST_BYTES: usize = 8 << 20;
/// Until a port that is taken is tried again.
pub const AGAIN_NS: u64 = 5_000_000_000;

/// Times of the requests of one name, since the start.
#[derive(Clone, Debug, Default)]
pub struct RequestTimes {
    /// The request's name.
    pub name: String,
    /// How many took at most as long as the bound of the same index in `bounds_ns`, and longer than
    /// the one before; the last: longer than all.
    pub counts: Vec<u64>,
    /// Upper bounds, ns; one fewer than counts.
    pub bounds_ns: &'static [u64],
    /// Time of all, ns.
    pub sum_ns: u64,
    /// The slowest request in each place of `counts` of late, if there is one.
    pub exemplars: Vec<Option<Exemplar>>,
}

/// A request that stands for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemplar {
    /// Its id, as in captures.
    pub request: u64,
    /// Its trace id; 0: not told.
    pub trace: u128,
    /// Name of the capture's file that holds it; empty: none does.
    pub capture: String,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Its end, ns since the epoch.
    pub at_epoch_ns: u64,
}
