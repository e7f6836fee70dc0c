//! Exit codes beside 0. A verb's own page says what each means for it.

/// Exit code for input that cannot be read.
pub const UNREADABLE: u8 = 3;
/// Exit code for "nothing found".
pub const NOTHING: u8 = 1;
/// Exit code for wrong usage.
pub const USAGE: u8 = 2;
/// Exit code for a difference for the worse.
pub const WORSE: u8 = 1;
