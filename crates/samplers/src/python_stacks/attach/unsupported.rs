//! Why an interpreter cannot be read: the thing, what was found, what was wanted, and the remedy.
//!
//! How it works: each check of `attach`, `published` and `self_test` ends in `refused`. What it
//! promises: one line that a user can act on. What is missing on purpose: more than one remedy.

use std::fmt;

/// Why this interpreter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What was read.
    pub thing: &'static str,
    /// What was found there.
    pub found: String,
    /// What was wanted.
    pub wanted: String,
    /// What the user can do.
    pub remedy: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsupported { thing, found, wanted, remedy } = self;
        write!(f, "cannot read Python stacks: {thing} is {found}, wanted {wanted}; {remedy}")
    }
}

impl std::error::Error for Unsupported {}

const REMEDY: &str = "use CPython 3.9 to 3.15 with the GIL";

/// Says that `thing` was found to be something else than wanted.
pub(crate) fn refused(thing: &'static str, found: String, wanted: &str) -> Unsupported {
    Unsupported { thing, found, wanted: wanted.to_owned(), remedy: REMEDY }
}
