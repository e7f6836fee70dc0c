//! What a program calls: requests, spans, events, names, traces, the predicate.

pub(crate) mod current;
pub(crate) mod held;
pub(crate) mod macros;
pub(crate) mod moments;
pub(crate) mod names;
pub(crate) mod traces;
pub(crate) mod watch;
pub(crate) mod when;
