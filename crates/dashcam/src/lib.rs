//! dashcam in a process: starts and stops the recording, owns its two threads and its files.
//!
//! How it works: `start` makes the black box (`ring`), installs the recorder, and starts two
//! threads that take none of the host's signals: the *sampler* looks at threads and requests a
//! hundred times a second and asks the trigger; the *keeper* writes captures. After a fork the
//! child has nothing of its parent's: `after_fork_child` starts it afresh with the same settings.
//!
//! What it promises: a failure of ours never stops the host; it is told by `status`. What is
//! missing on purpose: reading captures (crate `diagnosis`), languages (crate `dashcam-python`),
//! metrics.
//!
//! From Rust: `start(Config)`, then `request!`, `span!`, `event!`; `snap`, `status_json`, `stop`.
//! The functions on ids below them are what bindings use.

mod boxes;
mod builder;
mod config;
mod control;
mod forks;
mod held;
mod keeper;
mod macros;
mod meta;
mod moments;
mod names;
mod sampler;
mod snapshot;
mod stream;
mod subject;
mod suspended;
mod tracks;

pub use builder::{start, Config};
pub use config::{Knob, KNOBS};
pub use control::{
    after_fork_child, before_exit, is_forked, is_started, snap, start_with_runtime, status_json,
    stop, Runtime, StartError,
};
pub use format::record::Value;
pub use held::Held::Later;
pub use held::{Held, HeldText};
pub use moments::{
    carry, current_request, door, epoch, in_request, lost_attribute, swap_current_request, Carried,
    RequestGuard, SpanGuard, TaskGuard,
};
pub use names::{dynamic, dynamic_request, handle, handle_id, handle_request_id, lost_name, Site};
pub use recorder::SessionCounts;
pub use recorder::{
    append, current, event, gc, is_on, name_thread, on_epoch, span, task, Attribute, Request,
};
pub use stream::{Stream, StreamConfig};
pub use suspended::set_asyncio_tasks;
pub use sys::clock::now_ns;
pub use sys::shelf::Shelf;

/// What the macros expand to.
#[doc(hidden)]
pub mod __private {
    pub use crate::moments::{door, event_now};
    pub use crate::names::{dynamic, dynamic_request};
}
