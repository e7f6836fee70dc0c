//! The tests of `dashcam-analysis` from outside, one binary: each file is a promise.
#![allow(clippy::expect_used, missing_docs)]

mod a_loop_is_busy_between_its_polls;
#[path = "../../../diagnosis/tests/it/made/mod.rs"]
mod made;
mod one_that_was_woken_without_a_cpu_did_not_wait;
mod one_wait_in_slices_is_one_wait;
mod signatures_of_waits;
mod waits_of_other_requests_are_not_its_own;
