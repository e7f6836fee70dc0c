//! The error of writing a table.

/// Why a table was not written to its end.
pub type Halt = Box<dyn std::error::Error + Send + Sync>;
