//! Metrics: what was counted, in windows, exactly once.
//!
//! How it works: a *series* (kind, name, tags) is entered once into a table that only grows. Each
//! thread counts into its own *shard*: plain totals for counters, small banks for the rest
//! (PROTOCOL.md beside this crate has the full story). Every second one collector reads all shards
//! and makes a `Window` of plain values, for the sinks and the recording.
//!
//! What it promises: what was counted is in exactly one window, also counts of threads that end,
//! and no count of a parent is in a window of its forked child. Counting never waits, makes no
//! system call, and allocates nothing after a thread's first use of a series; from then on it is
//! async-signal-safe. Series, shards and bytes are bounded, and what is refused is counted. No
//! clock, no I/O.
//!
//! What is missing on purpose: when windows are collected (crate `dashcam`), and where they go.

// The models have no use for some of it.
#![cfg_attr(loom, allow(dead_code))]

mod bank;
mod cell;
#[cfg(not(loom))]
mod local;
#[cfg(not(loom))]
mod merge;
#[cfg(all(loom, test))]
mod models;
#[cfg(not(loom))]
mod own;
#[cfg(not(loom))]
mod refused;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod series;
#[cfg(not(loom))]
mod shard;
mod state;
mod sync;
pub mod window;

pub use cell::Cell;
#[cfg(not(loom))]
pub use local::{count, count_at_once, count_float, gauge_add, gauge_set, member, value};
#[cfg(not(loom))]
pub use refused::Refused;
#[cfg(not(loom))]
pub use registry::{registry, Registry, Tables, DEFAULT_SERIES, MOST_BYTES};
#[cfg(not(loom))]
pub use series::{Key, Series, MOST_SERIES};
#[cfg(not(loom))]
pub use shard::{Shard, MOST_SHARDS};
