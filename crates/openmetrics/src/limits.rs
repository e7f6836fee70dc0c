//! What a client may cost: the bounds that the crate's page promises, one constant each.
//!
//! The server and the text writer enforce them. Missing on purpose: settings for them. A scraper
//! that needs more is none.

/// The largest number of clients at once.
pub const CLIENTS: usize = 4;
/// The largest number of bytes of a request.
pub const LONGEST: usize = 8192;
/// A request must come within this time.
pub const PATIENCE_NS: u64 = 3_000_000_000;
/// An answer must be taken within this time.
pub const TAKING_NS: u64 = 10_000_000_000;
/// The largest number of bytes of an answer; families beyond are left out and counted.
pub const MOST_BYTES: usize = 8 << 20;
/// Time until a port in use is tried again.
pub const AGAIN_NS: u64 = 2_000_000_000;
