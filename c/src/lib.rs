//! dashcam for C and C++: `libdashcam`, `dashcam.h`.
//!
//! How it works: thin functions over the crate `dashcam`. Texts become *names* (numbers) once, by
//! `dashcam_name`; spans, requests and tasks are plain values that the caller keeps. What a caller
//! reads is in the comments of the functions, which cbindgen puts into c/include/dashcam.h.
//!
//! What it promises: no panic crosses into C (`codes::guarded`); wrong pointers that can be told
//! (NULL), wrong texts and wrong moments give a code. Missing on purpose: metrics, reading.

// The names are C's, and the documentation is for its readers.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod codes;
mod moments;
mod process;
mod text;

/// A program that survives a full memory must not be ended by us.
#[global_allocator]
static ALLOCATOR: dashcam::Reserve<std::alloc::System> = dashcam::Reserve::new();
