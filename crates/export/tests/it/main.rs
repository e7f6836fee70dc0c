//! The tests of `dashcam-export` from outside, one binary: each file is a promise.
#![allow(clippy::expect_used, missing_docs)]

mod any_capture_gives_a_valid_file;
mod common;
mod every_span_is_below_its_parent;
mod flame_graphs_sum_to_measured_time;
mod parts_have_what_the_whole_has;
mod pprof_sums_equal_measured_time;
mod records_during_the_copy_add_no_cpu_time;
mod timelines_nest_and_keep_every_slice;
mod weights_are_unbiased;
