//! Values of `dashcam why --json` that several of its parts have: places, times, shares.

use analysis::frames::Place;
use capture::read::Capture;
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

/// A place with the lines of source around it, if the capture has them.
pub(crate) fn place_with_source(capture: &Capture, at: Option<&Place>) -> Value {
    let mut value = place(at);
    let source = at.and_then(|at| capture.source_of(&at.file, at.line));
    let lines = source.map(|s| json!({"first": s.first, "lines": s.lines, "changed": s.changed}));
    if let Some(value) = value.as_object_mut() {
        value.insert("source".to_owned(), lines.unwrap_or_default());
    }
    value
}

/// Nanoseconds as milliseconds with two decimals.
pub(crate) fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e4).round() / 100.0
}

/// A share with three decimals.
pub(crate) fn round(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
