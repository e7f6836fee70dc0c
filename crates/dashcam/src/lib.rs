//! dashcam in a process: starts and stops the recording, owns its two threads and its files.
//!
//! How it works: `start` makes the black box (`ring`), installs the recorder, and starts two
//! threads that take none of the host's signals: the *sampler* looks at threads and requests a
//! hundred times a second and asks the trigger; the *keeper* writes captures. After a fork the
//! child has nothing of its parent's: `after_fork_child` starts it afresh with the same settings.
//!
//! What it promises: a failure of ours never stops the host; it is told by `status`. What is
//! missing on purpose: reading captures (crate `diagnosis`), languages (crate `dashcam-python`).

mod boxes;
mod config;
mod control;
mod keeper;
mod meta;
mod sampler;
mod snapshot;
mod stream;
mod subject;
mod tracks;

pub use config::{Config, Knob, KNOBS};
pub use control::{
    after_fork_child, before_exit, is_forked, is_started, snap, start, status_json, stop, Runtime,
    StartError,
};
pub use format::record::Value;
pub use recorder::SessionCounts;
pub use recorder::{
    append, current, event, gc, is_on, name_thread, span, task, Attribute, Request,
};
pub use stream::{Stream, StreamConfig};
pub use sys::clock::now_ns;
