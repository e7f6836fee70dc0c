//! Why a process is not attached to.

use std::fmt;

/// What kind of refusal it is, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such process.
    Gone,
    /// The process cannot be attached to, or the recorder refused to start in it.
    Refused,
    /// The request was written and not taken in time; it was withdrawn.
    Late,
}

/// Why a process is not attached to: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of refusal it is.
    pub kind: Kind,
    /// What was checked.
    pub thing: String,
    /// What was found there.
    pub found: String,
    /// What was wanted.
    pub wanted: String,
    /// What the user can do.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { thing, found, wanted, remedy, .. } = self;
        write!(f, "{thing}: found {found}, wanted {wanted}; {remedy}")
    }
}

impl std::error::Error for Refusal {}

/// A refusal of kind `Refused`.
pub(crate) fn refused(
    thing: impl Into<String>,
    found: impl Into<String>,
    wanted: impl Into<String>,
    remedy: impl Into<String>,
) -> Refusal {
    let (thing, found) = (thing.into(), found.into());
    Refusal { kind: Kind::Refused, thing, found, wanted: wanted.into(), remedy: remedy.into() }
}

impl Refusal {
    /// The same, of another kind.
    pub(crate) fn of_kind(self, kind: Kind) -> Refusal {
        Refusal { kind, ..self }
    }
}
