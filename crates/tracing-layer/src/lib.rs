//! The spans and events of `tracing`, in the black box.
//!
//! How it works: a span's data (begin, attributes, request) lie in its extensions until it closes,
//! then one record is written; an event is one record at once. Each callsite is read once: its
//! names become `dashcam::Site`s in a table that is read without a lock. A span that is a *request*
//! (field `dashcam.request = true`, or chosen by `Layer::requests`) is judged by `slow`; its
//! children and their events belong to it.
//!
//! ```text
//! tracing                      dashcam
//! span, open to close          Span (begin, end, request, fields)
//! request span                 RequestBegin, RequestEnd; Task for each interval on another thread
//! event                        Event (request, fields); named by its target, or by `name:`
//! an ERROR event in a span     the span is marked as failed
//! ```
//!
//! A request's future that is instrumented by `Instrument` of this crate also records what it
//! awaits, which spans alone do not show.
//!
//! What it promises: while nothing records, one load and a branch for each call. Otherwise no lock
//! beside those of the `Registry`, and no memory except the span's own. Losses are counted: past 8
//! fields or 64 bytes of text in `attributes_cut`, past 8192 callsites in `names_refused`.
//!
//! Missing on purpose: filters (the subscriber has them), and busy times of spans unless asked for
//! (`Layer::busy_time`), since they need a clock at each entry and exit.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(dashcam_tracing::Layer::new()).init();
//! # fn serve() {
//! let request = tracing::info_span!("GET /checkout", dashcam.request = true, user = 42);
//! request.in_scope(|| tracing::info!(key = "k1", "cache missed"));
//! # }
//! # serve();
//! ```

mod callsite;
mod fields;
mod instrument;
mod layer;

pub use instrument::{Instrument, Watched};
pub use layer::Layer;
