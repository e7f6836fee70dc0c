//! Live tests of the interface to the kernel: switch records, wakeups, stacks and counters as the
//! kernel returns them. Each test needs a process of its own: `cargo nextest run --profile live`
//! (CONTRIBUTING.md).
#![allow(clippy::expect_used, missing_docs, reason = "a test may fail")]

#[path = "../common/mod.rs"]
mod common;

mod cpu_clock_of_a_thread;
mod descriptors_of_perf_events;
mod every_thread_is_covered;
mod perf_refusals;
mod stacks_of_wakers;
mod switch_records_after_fork;
mod switches_are_exact;
mod vitals_of_a_process;
mod wakeups_of_followed_threads;
#[cfg(target_arch = "x86_64")]
mod watch_of_a_running_thread;
