//! The tests of `dashcam-capture` from outside, one binary: each file is a promise.
#![allow(clippy::expect_used, missing_docs)]

mod damaged_captures;
mod recorded_and_derived_traces;
mod requests_from_several_records;
mod thinning_of_requests;
