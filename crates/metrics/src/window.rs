//! A window: what came in between two collections, as plain values.

use std::sync::Arc;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A sum of increments.
    Counter,
    /// The last value.
    Gauge,
    /// Durations, ms; the sink decides whether it sends each or percentiles.
    Timing,
    /// Values whose distribution the agent on this host computes.
    Histogram,
    /// Values whose distribution the server computes over all hosts.
    Distribution,
    /// Distinct members.
    Set,
}

/// The identity of a series. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// Kind.
    pub kind: Kind,
    /// Name as the user wrote it.
    pub name: Arc<str>,
    /// Key and value; a tag without a value has an empty one. Sorted.
    pub tags: Arc<[(Box<str>, Box<str>)]>,
}

/// What came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The sum of the increments, scaled up by their rates.
    Count(f64),
    /// The last value set, with the deltas after it; `set`: false when only deltas came.
    Gauge {
        /// The value, or the sum of the deltas.
        value: f64,
        /// It is a value, not a delta.
        set: bool,
    },
    /// The values that were kept, in the order they came, and how many each stands for.
    Values {
        /// At most the shards' bounds; all values, in order by thread, while there is room. Past
        /// that a fair sample, in which each value stands for `count / kept.len()`.
        kept: Vec<f64>,
        /// The number of all values, scaled up by their rates: `kept.len()` or more.
        count: f64,
        /// The sum of all values.
        sum: f64,
        /// The least of all.
        min: f64,
        /// The greatest of all.
        max: f64,
    },
    /// Distinct members, at most the bound, and how many members did not fit.
    Members {
        /// Distinct.
        members: Vec<Arc<str>>,
        /// Refused because there was no room.
        refused: u64,
    },
}

/// One series in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its identity.
    pub id: Id,
    /// Its value.
    pub value: Value,
}

/// Everything that came in between two collections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Begin, ns since the epoch.
    pub from_ns: u64,
    /// End, ns since the epoch.
    pub to_ns: u64,
    /// Series that something came in for, gauges that were set included. Values with different
    /// rates have a reading for each rate, with the same id.
    pub readings: Vec<Reading>,
}
