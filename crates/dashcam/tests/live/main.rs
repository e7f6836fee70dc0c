//! Live tests of the recorder: what it samples, saves and says on this kernel, in real time.
//! Each test wants a process of its own: `cargo nextest run --profile live` (CONTRIBUTING.md).
#![allow(clippy::expect_used, missing_docs, reason = "a test may fail")]

mod a_capture_says_which_vitals_this_host_does_not_have;
mod a_capture_that_failed_counts_for_nothing;
mod a_cause_that_comes_again_is_counted;
mod a_hang_in_a_cooldown_is_captured;
mod a_loss_ends_off_cpu_intervals;
mod each_capture_is_a_line_in_a_file;
mod failed_and_chosen_requests_make_captures;
mod late_requests_are_sampled_most;
mod metrics_over_a_limit_make_captures;
#[cfg(target_arch = "x86_64")]
mod native_cpu_is_named_by_line;
mod native_stacks_while_threads_die;
mod native_waits_are_named_by_line;
mod no_pass_looks_at_more_threads_than_it_may;
mod records_of_long_events_are_written_twice;
#[cfg(target_arch = "x86_64")]
mod running_stacks_while_threads_die;
mod switch_records_pause_in_a_burst_of_threads;
mod the_holder_of_a_lock_without_an_owner_is_named;
mod waker_stacks_show_where_a_lock_was_released;
mod wakings_while_threads_come_and_go;
mod what_is_waited_for_is_named_in_a_capture;
#[cfg(target_arch = "x86_64")]
mod without_perf_events_a_capture_says_so;
