//! The capture file, between what records and what reads.
//!
//! How it works: `write` is the host's half: it streams tables and blocks into chunks with
//! checksums, using nothing but the standard library and a CRC. `read` is the reader's half: it
//! turns bytes into tables. `region` reads the black box of a killed process. The layout is in
//! `format::chunk` and docs/capture-format.md. `judged` is the verdict on a capture in a line, as
//! two processes exchange it; `source` is the lines of source that go with a verdict.
//!
//! What it promises: any bytes give tables or an error that says what is wrong, never a panic. The
//! host imports `write` and `judged` only; tools/check_rooms.py checks that.

pub mod judged;
#[cfg(feature = "read")]
pub mod read;
#[cfg(feature = "read")]
pub mod region;
#[cfg(feature = "read")]
pub mod source;
pub mod write;
