//! Live tests of the interface to the kernel: switch records, wakeups, stacks and counters as the
//! kernel returns them. Each test needs a process of its own: `cargo nextest run --profile live`
//! (CONTRIBUTING.md).
#![allow(clippy::expect_used, missing_docs, reason = "a test may fail")]

#[path = "../common/mod.rs"]
mod common;

mod a_forked_child_is_left_alone;
mod a_refusal_names_its_remedy;
#[cfg(target_arch = "x86_64")]
mod a_running_thread_is_seen_where_it_runs;
mod a_threads_clock_tells_whether_it_ran;
mod every_thread_is_covered;
mod switches_are_exact;
mod the_host_keeps_its_descriptors;
mod vitals_count_what_happens;
mod where_who_wakes_stands_is_told;
mod who_wakes_a_thread_is_told;
