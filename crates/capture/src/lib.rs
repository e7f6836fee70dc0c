//! The capture file: the waist between what records and what reads.
//!
//! `write` is the host's half: it streams tables and blocks into chunks with checksums, using
//! nothing but the standard library and a CRC. `read` is the reader's half: it turns any bytes into
//! tables, or into an error that says what is wrong, and never panics. `region` reads the black box
//! that a killed process left behind. The layout stands in `format::chunk` and
//! docs/capture-format.md.
//!
//! The host imports `write` only; tools/check_rooms.py holds that line.

#[cfg(feature = "read")]
pub mod read;
#[cfg(feature = "read")]
pub mod region;
pub mod write;
