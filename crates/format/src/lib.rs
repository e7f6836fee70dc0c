//! The words both sides share: how a record, a block, the region and the capture file are laid out.
//!
//! How it works: everything recorded is a sequence of 64-bit words. `record` says what the words of
//! each kind of record mean and turns them into values and back; `block` and `region` say where
//! records lie in memory; `chunk` says how the capture file wraps a copy of that memory.
//!
//! What it promises: no I/O, no unsafe, and decoding that accepts any words without a panic. The
//! host side (ring, recorder) and the reading side (capture, diagnosis) both depend on this crate
//! and on nothing of each other.
//!
//! What is missing on purpose: policy, names of causes, files.

pub mod block;
pub mod chunk;
pub mod ids;
pub mod json;
pub mod metric;
pub mod native;
pub mod off_cpu;
pub mod own_span;
pub mod record;
pub mod region;
pub mod sample;
pub mod schema;
pub mod source;
pub mod suspension;
pub mod symbols;
pub mod trace;
pub mod traceparent;
pub mod usage;
pub mod wait;
pub mod wake;
mod words;
