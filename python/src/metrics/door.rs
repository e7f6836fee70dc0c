//! The functions by name: kind of metric, effect of a call, names for messages.
//!
//! What it promises: data alone. Missing on purpose: what a call does (`handle`).

use ::metrics::window::Kind;

/// All kinds; a kind's place is its number.
pub(super) const KINDS: [Kind; 6] =
    [Kind::Counter, Kind::Gauge, Kind::Timing, Kind::Histogram, Kind::Distribution, Kind::Set];

/// The effect of a call on its series.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Op {
    /// Adds to a counter; 1 without a value.
    Add,
    /// Records a value.
    Value,
    /// Sets a gauge.
    Set,
    /// Changes a gauge.
    Change,
    /// Records a member of a set.
    Member,
    /// Returns the handle.
    Bind,
}

/// A function by name.
pub(super) struct Door {
    pub kind: Kind,
    pub op: Op,
    pub name: &'static str,
    /// The name of the argument after the metric's name.
    pub argument: &'static str,
}
