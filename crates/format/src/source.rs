//! The state of a source of what is recorded, as `status`, black boxes and META have it.
//!
//! How it works: the recorder sets a `SourceState`; its text is written, and readers make of that a
//! `SourceState` again:
//!
//! ```text
//!   on          on; what is missing          off: why
//! ```
//!
//! What it promises: what was written is read as what it was. Readers take any text: one of another
//! form is a source that is off for that reason. What is missing on purpose: the sources' names.

use std::fmt::{self, Display, Formatter};

/// How a source is, or was while a capture was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState<T = String> {
    /// It is on.
    On,
    /// It is on, but for what is said here.
    Partly(T),
    /// It is off, for this reason; without one "".
    Off(T),
}

impl SourceState {
    /// On, but for this.
    pub fn partly(what: impl Display) -> SourceState {
        SourceState::Partly(what.to_string())
    }

    /// Off, for this reason.
    pub fn off(why: impl Display) -> SourceState {
        SourceState::Off(why.to_string())
    }
}

impl<'a> SourceState<&'a str> {
    /// Reads what a recorder wrote; older ones wrote also `on: how`.
    pub fn parse(state: &'a str) -> SourceState<&'a str> {
        let (word, rest) = state.split_at(state.find([';', ':']).unwrap_or(state.len()));
        let rest = rest.get(1..).unwrap_or_default().trim_start();
        match (word, rest) {
            ("on", "") => SourceState::On,
            ("on", rest) => SourceState::Partly(rest),
            ("off", why) => SourceState::Off(why),
            _ => SourceState::Off(state),
        }
    }
}

impl SourceState<&str> {
    /// The same with a text of its own.
    pub fn owned(self) -> SourceState {
        match self {
            SourceState::On => SourceState::On,
            SourceState::Partly(what) => SourceState::partly(what),
            SourceState::Off(why) => SourceState::off(why),
        }
    }
}

impl<T> SourceState<T> {
    /// Whether it is on, also in part.
    pub fn is_on(&self) -> bool {
        !matches!(self, SourceState::Off(_))
    }
}

impl<T: Display> Display for SourceState<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SourceState::On => f.write_str("on"),
            SourceState::Partly(what) => write!(f, "on; {what}"),
            SourceState::Off(why) => write!(f, "off: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SourceState;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let partly = SourceState::partly("missing: sockets (none)");
        for state in [SourceState::On, partly, SourceState::off("refused: perf; no privilege")] {
            let text = state.to_string();
            match (&state, SourceState::parse(&text)) {
                (SourceState::On, SourceState::On) => {}
                (SourceState::Partly(written), SourceState::Partly(read))
                | (SourceState::Off(written), SourceState::Off(read)) => assert_eq!(written, read),
                other => panic!("{other:?}"),
            }
        }
    }
}
