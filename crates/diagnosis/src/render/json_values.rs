//! Values of `dashcam why --json` that several of its parts have: places, times, shares.

use analysis::frames::Place;
use serde_json::{json, Value};

/// A place, or null.
pub(crate) fn place(place: Option<&Place>) -> Value {
    place.map_or(Value::Null, |p| {
        json!({
            "function": p.function,
            "qualified": p.qualified,
            "file": p.file,
            "line": p.line,
            "module": p.module,
        })
    })
}

/// Nanoseconds as milliseconds with two decimals.
pub(crate) fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e4).round() / 100.0
}

/// A share with three decimals.
pub(crate) fn round(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
