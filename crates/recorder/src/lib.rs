//! The program's own records: requests, spans, events, garbage collections.
//!
//! How it works: each thread keeps a `ring::Writer` in thread-local storage, made at its first
//! record. A record is put together on the stack and appended. Open requests are also in a fixed
//! table of atomics, so that the sampler can see a request that has not ended yet. When a request
//! ends past its limit its id goes into a small mailbox that the trigger polls, so the request's
//! own thread never makes a system call for dashcam.
//!
//! What it promises: a record costs no allocation, lock or fence; a system call or two only at a
//! thread's first record. While recording is off every call is one load and a branch. Records may
//! come from signal handlers and from inside other records.
//!
//! What is missing on purpose: reading the recording (snapshot, capture), and when to capture
//! (trigger).

mod connections;
mod contexts;
mod current;
mod failures;
mod install;
mod latency;
mod limits;
mod mailbox;
mod open;
mod open_spans;
mod recorder;
mod records;
mod rollups;
mod session;
pub mod statement;
mod thread;
pub mod traces;
mod twice;

pub use connections::{waited_ns, Connection};
pub use contexts::{context_switch_missed, context_switched, task_entered, task_left};
pub use current::{current, is_on, on_epoch, on_epoch_or, pause, resume, sleep};
pub use failures::{
    ask_postponed, set_predicate, Ended, ErrorJudge, Failures, Predicate, Recorded, ERROR_RULES,
};
pub use install::install;
pub use latency::{Latencies, LatencyView, Slow, LATENCY_BOUNDS_NS};
pub use limits::{Limit, LimitOf, Limits, SlowRequest, GROUPS};
pub use open::{OpenRequest, Request};
pub use open_spans::{begin_span, end_span, innermost_span};
pub use recorder::Recorder;
pub use records::{
    append, append_interval, call, event, event_at, gc, span, span_at, task, task_begins, Attribute,
};
pub use ring::OpenPlace;
pub use rollups::{rollup_bucket, Fate, Rollup, Rollups, ROLLUP_BUCKETS, ROLLUP_NAMES};
pub use session::{Filter, Session, SessionCounts, SESSIONS};
pub use thread::{forget_after_fork, name_other_thread, name_thread};
