//! Live tests of the samplers: real interpreters and full rings of switch records.
//! Each test wants a process of its own: `cargo nextest run --profile live` (CONTRIBUTING.md).
#![allow(clippy::expect_used, missing_docs, reason = "a test may fail")]

mod python_stacks;
mod switch_records_with_full_rings;
