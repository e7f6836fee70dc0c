//! dashcam in a process: starts and stops the recording, owns its threads, socket and files.
//!
//! How it works: `start` makes the black box (`ring`), installs the recorder, and starts three
//! threads that take none of the host's signals: the *sampler* looks at threads and requests a
//! hundred times a second and asks the trigger; the *keeper* writes captures; *control* (`remote`)
//! answers other shells, and sleeps until one asks. After a fork the
//! child has nothing of its parent's: `after_fork_child` starts it afresh with the same settings.
//!
//! What it promises: a failure of ours never stops the host; it is told by `status`. What is
//! missing on purpose: reading captures (crate `diagnosis`), languages (crate `dashcam-python`).
//!
//! From Rust: `start(Config)`, then `request!`, `span!`, `event!`; `counter("orders").inc()`; `snap`, `status_json`, `stop`.
//! The functions on ids below them are what bindings use.

mod alarms;
mod asked;
mod boxes;
mod builder;
mod captures_log;
mod config;
mod control;
mod current;
mod excess;
mod firing;
mod flush;
mod forks;
mod forward;
mod held;
mod hook;
mod interpreter;
mod judge;
mod keeper;
mod live;
mod lock;
mod macros;
mod meta;
mod metrics;
mod moments;
mod names;
mod notes;
mod otlp;
mod own;
mod queue;
mod recording;
mod remote;
mod running;
mod runtime;
mod sampler_thread;
mod say;
mod scrape;
mod snapshot;
mod sources;
mod stats;
mod status;
mod stream;
mod threads;
mod traces;
pub mod under_gil;
mod when;
mod windows;

pub use ::metrics::window;
pub use builder::{start, Config};
pub use config::{Knob, KNOBS};
pub use control::{
    before_exit, check_settings, crashing, snap, start_with_runtime, stop, StartError,
};
pub use current::{current_request, door, epoch, swap_current_request};
pub use flush::{flush, leave};
pub use format::record::Value;
pub use held::Held::Later;
pub use held::{Held, HeldText};
pub use interpreter::can_be_read;
pub use metrics::{
    counter, distribution, gauge, histogram, metric, set, timing, Counter, Gauge, Metric, Set,
    Timer, Values,
};
pub use moments::{carry, in_request, lost_attribute, Carried, RequestGuard, SpanGuard, TaskGuard};
pub use names::{dynamic, dynamic_request, handle, handle_id, handle_request_id, lost_name, Site};
pub use recorder::{
    append, begin_span, current, end_span, event, gc, is_on, name_thread, on_epoch, span, task,
    Attribute, OpenPlace, Request,
};
pub use recorder::{Ended, SessionCounts};
pub use running::{after_fork_child, is_forked, is_started};
pub use runtime::Runtime;
pub use sampler::{set_asyncio_running, set_asyncio_tasks};
pub use status::status_json;
pub use stream::{Stream, StreamConfig};
pub use sys::clock::now_ns;
/// An allocator for libraries that are loaded into a program (`sys::reserve`).
pub use sys::reserve::Reserve;
pub use sys::shelf::Shelf;
pub use traces::{
    continue_trace, setting_is_on, tell_span, this_thread, trace_id, trace_id_of, traceparent,
    traceparent_of, tracestate_of, SpanKey,
};
pub use when::{when, when_no_more};
pub use windows::{on_window, Sink};

/// Events and service checks for the StatsD server that the environment names.
pub mod marks {
    pub use crate::forward::{event, service_check};
    pub use statsd::{Alert, Event, ServiceCheck, Status};
}

/// What scrapers are told of a metric besides its numbers.
pub use openmetrics::{describe, Unit};

/// What the macros expand to.
#[doc(hidden)]
pub mod __private {
    pub use crate::current::door;
    pub use crate::moments::event_now;
    pub use crate::names::{dynamic, dynamic_request};
}
