//! dashcam for C and C++: `libdashcam`, `dashcam.h`.
//!
//! How it works: thin functions over the crate `dashcam`. Texts become *names* (numbers) once, by
//! `dashcam_name`; spans, requests and tasks are plain values owned by the caller. The
//! documentation for callers is in the comments of the functions, which cbindgen copies into
//! c/include/dashcam.h.
//!
//! What it promises: no panic crosses into C (`codes::guarded`); NULL pointers, wrong texts and
//! calls at a wrong moment give a code. Missing on purpose: reading.

// The names are C's, and the documentation is for C programmers.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod codes;
mod metrics;
mod moments;
mod process;
mod text;

/// A program that survives a lack of memory must not be ended by the library.
#[global_allocator]
static ALLOCATOR: dashcam::Reserve<std::alloc::System> = dashcam::Reserve::new();
