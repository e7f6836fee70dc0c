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
mod limits;
mod names;
mod requests;
mod server;
mod store;
mod text;

pub use address::Address;
pub use http::Format;
pub use limits::{AGAIN_NS, CLIENTS, LONGEST, MOST_BYTES, PATIENCE_NS, TAKING_NS};
pub use names::{describe, Unit};
pub use requests::{Exemplar, RequestTimes};
pub use server::{Endpoint, Stats};
