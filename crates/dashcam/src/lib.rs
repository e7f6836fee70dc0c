//! dashcam in a process: starts and stops the recording, owns its threads, socket and files.
//!
//! How it works: `start` makes the black box (`ring`), installs the recorder, and starts three
//! threads that take none of the host's signals. `dashcam-sampler` samples threads and requests a
//! hundred times a second and asks the trigger. `dashcam-capture` writes captures and takes windows
//! of metrics. `dashcam-control` (`control_socket`) answers other shells, and sleeps until one
//! asks. After a fork the child has nothing of its parent's: `after_fork_child` starts it afresh
//! with the same settings.
//!
//! | folder | its promise |
//! | --- | --- |
//! | `settings/` | a value is checked where it comes from; reading one takes no lock |
//! | `recording/` | what every part needs: recorder, settings, sources, whether to stop |
//! | `captures/` | a capture has its name when it is whole; its folder keeps its caps |
//! | `triggers/` | each cause is captured once, within cooldown and quota |
//! | `metrics/` | each count is in one window |
//! | `exports/` | a slow or broken sink harms nobody else |
//! | `control_socket/` | a client can waste its own place only |
//! | `threads/` | a panic of ours ends one thread, and is reported |
//! | `process/` | started once, stopped in bounded time, begun anew in a forked child |
//! | `api/` | off, a call costs one load |
//!
//! Imports go one way, of folders too: `process` is above all, `running` (the parts, as calls of
//! the program find them) below what asks for it, `recording` and `settings` at the bottom.
//!
//! What it promises: a failure of ours never stops the host; `status` reports it. What is missing
//! on purpose: reading captures (crate `diagnosis`), languages (crate `dashcam-python`).
//!
//! From Rust: `start(Config)`, then `request!`, `span!`, `event!`; `counter("orders").inc()`;
//! `snap`, `status_json`, `stop`. The functions on ids below them are what bindings use.

mod api;
mod captures;
mod control_socket;
mod exports;
mod lock;
mod metrics;
mod process;
mod recording;
mod running;
mod say;
mod settings;
mod threads;
mod triggers;
pub mod under_gil;

pub use ::metrics::window;
pub use ::settings::{Knob, KNOBS};
pub use api::current::{current_request, door, epoch, swap_current_request};
pub use api::held::Held::Later;
pub use api::held::{Held, HeldText};
pub use api::moments::{
    carry, in_request, lost_attribute, Carried, RequestGuard, SpanGuard, TaskGuard,
};
pub use api::names::{
    dynamic, dynamic_request, handle, handle_id, handle_request_id, lost_name, Site,
};
pub use api::traces::{
    continue_trace, record_span_ids, setting_is_on, this_thread, trace_id, trace_id_of,
    traceparent, traceparent_of, tracestate_of, SpanKey,
};
pub use api::watch::Watch;
pub use api::when::{when, when_no_more};
pub use control_socket::status::status_json;
pub use exports::stream::{Stream, StreamConfig};
pub use format::record::Value;
pub use metrics::flush::{flush, leave};
pub use metrics::handles::{
    counter, distribution, gauge, histogram, metric, numbered, set, timing, Counter, Gauge, Metric,
    Numbered, Set, Timer, Values,
};
pub use metrics::windows::{on_window, Sink};
pub use process::builder::{start, Config};
pub use process::control::{
    before_exit, check_settings, crashing, owes_a_capture, snap, start_with_runtime, stop,
    StartError,
};
pub use recorder::{
    append, begin_span, current, end_span, event, gc, is_on, name_thread, on_epoch, span, task,
    Attribute, OpenPlace, Request,
};
pub use recorder::{Ended, SessionCounts};
pub use recording::integrations::{integration_in_place, known_integrations};
pub use recording::runtime::Runtime;
pub use running::{after_fork_child, is_forked, is_started};
pub use sampler::{set_asyncio_running, set_asyncio_tasks};
pub use sys::clock::now_ns;
/// An allocator for libraries that are loaded into a program (`sys::reserve`).
pub use sys::reserve::Reserve;
pub use sys::shelf::Shelf;
pub use threads::interpreter::can_be_read;

/// Events and service checks for the StatsD server that the environment names.
pub mod marks {
    pub use crate::metrics::forward::{event, service_check};
    pub use statsd::{Alert, Event, ServiceCheck, Status};
}

/// What scrapers get of a metric besides its numbers.
pub use openmetrics::{describe, Unit};

/// What the macros expand to.
#[doc(hidden)]
pub mod __private {
    pub use crate::api::current::door;
    pub use crate::api::moments::event_now;
    pub use crate::api::names::{dynamic, dynamic_request};
}
