//! Whether a value was kept, and if not, why.

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refused {
    /// It is kept.
    No,
    /// It is not a finite number, or the sum would not be one.
    Value,
    /// No place for it at this instant: all banks were busy, in every round.
    Busy,
}

impl From<Option<bool>> for Refused {
    fn from(kept: Option<bool>) -> Refused {
        match kept {
            Some(true) => Refused::No,
            Some(false) => Refused::Value,
            None => Refused::Busy,
        }
    }
}
