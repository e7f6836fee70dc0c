//! The tests of `dashcam-golden` from outside, one binary: each file is a promise.
#![allow(clippy::expect_used, missing_docs)]

mod critical_paths_sum_to_the_request;
mod explained_verdicts;
mod golden_captures;
mod large_captures_are_judged_in_excerpts;
mod parts_are_the_whole;
mod rewriting_captures;
mod the_order_of_inferences_decides_nothing;
mod verdicts_fit_a_terminal;
