//! Metrics: what was counted, in windows, exactly once.
//!
//! How it works: a window is plain values; who counts makes windows, who sends or stores takes them.
//! What it promises: no clock, no I/O, nothing unbounded.

pub mod window;
