//! The tests of `dashcam-tables` from outside, one binary: each file is a promise.
#![allow(clippy::expect_used, missing_docs)]

mod a_capture_is_judged_once;
#[path = "../../../export/tests/it/common/mod.rs"]
mod common;
mod every_row_is_in_a_table;
mod parts_have_the_rows_of_the_whole;
mod the_documentation_is_the_schema;
