//! The tests of `dashcam-sim` from outside, one binary: each file is a promise.
#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)]

mod heavier_evidence_is_right_more_often;
mod seeds_that_were_judged_wrong;
mod sentences_agree_with_their_data;
mod the_diagnosis_meets_its_goals;
mod the_model_is_like_recorded_programs;
mod the_order_of_inferences_decides_nothing;
mod the_simulator_keeps_its_promises;
