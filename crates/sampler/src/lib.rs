//! The sampler: which threads and tasks are sampled, when, and at what cost.
//!
//! How it works: `policy` holds the decisions, as pure types: times, counts and costs are passed in.
//! What it promises: a decision depends on its arguments alone. What is missing on purpose: how
//! something is read (crate `samplers`), and when a capture is made (crate `trigger`).

pub mod policy;
