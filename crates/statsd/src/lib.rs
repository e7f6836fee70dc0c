//! The StatsD sink: metric windows, events and service checks to a StatsD or DogStatsD server.
//!
//! How it works:
//!
//! ```text
//! window(&Window) ----> lines ----> packets ----> queue ----> dispatcher ----> UDP, unix
//! event(), check() ---> a line -------------------^ bounded    one thread       socket
//! ```
//!
//! A caller makes text and puts it into a queue bounded in bytes. One thread of ours, started with
//! the first line, resolves, connects, sends and tries again.
//!
//! What it promises: no caller ever waits for the network. Every line is accounted for: produced =
//! sent + dropped (by reason) + waiting, in `Sink::stats` and in the self-metrics
//! `dashcam.statsd.*`. A forked child sends nothing of its parent's. Settings that are not valid
//! turn the sink off, with a message; they never stop a service.
//!
//! What is missing on purpose: aggregation and sampling (crate `metrics`), TCP, Windows pipes.

mod config;
mod container;
mod dispatch;
mod env;
mod lines;
mod marks;
mod pack;
mod queue;
mod sink;
mod stats;
mod text;
mod wire;

pub use config::{
    parse_switch, resolve, Config, Dialect, Resolve, Target, MOST_PACKET, PORT, QUEUE, UDP_PACKET,
    UNIX_PACKET,
};
pub use env::{load, load_from, passed_over, Loaded, VARIABLES};
pub use marks::{Alert, Event, ServiceCheck, Status};
pub use sink::Sink;
pub use stats::{Amount, Reason, Stats, REASONS};
