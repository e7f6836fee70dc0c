//! A difference as JSON, schema 1 (docs/diff-json.md).

use serde_json::{json, Value};

use super::compare::{CauseRow, Difference, NameRow};
use super::side::{Found, Name, Side};
use crate::output::columns::utc;
use diagnosis::Place;

/// The answer of `dashcam diff --json`.
pub fn of(difference: &Difference<'_>, slow: &str) -> Value {
    let [a, b] = difference.sides.map(side);
    json!({
        "schema": 1,
        "slow": slow,
        "worse": difference.is_worse(),
        "a": a,
        "b": b,
        "requests": difference.names.iter().map(name).collect::<Vec<Value>>(),
        "causes": difference.causes.iter().map(cause).collect::<Vec<Value>>(),
    })
}

fn side(side: &Side) -> Value {
    json!({
        "path": side.path,
        "captures": side.files.len(),
        "unreadable": side.unread,
        "of_other_services": side.elsewhere,
        "services": side.services,
        "recorded_with": side.other_rules,
        "sources": side.sources,
        "from_utc": side.covers_ns.map(|(from_ns, _)| utc(from_ns)),
        "to_utc": side.covers_ns.map(|(_, to_ns)| utc(to_ns)),
        "requests": side.requests(),
        "slow": side.slow(),
        "excess_ns": side.excess_ns.round() as u64,
        "unlisted_ns": side.unlisted_ns.round() as u64,
    })
}

fn name(row: &NameRow<'_>) -> Value {
    let of = |name: Option<&Name>| {
        name.map(|name| {
            json!({
                "count": name.times.count(),
                "slow": name.slow,
                "bursts": name.episodes,
                "typical_ms": ms(name.normal.quantile(0.5)),
                "p99_ms": ms(name.times.quantile(0.99)),
                "worst_ms": ms(name.times.quantile(1.0)),
            })
        })
    };
    let [a, b] = row.sides.map(of);
    json!({
        "name": row.name,
        "slow": row.slow.text(),
        "typical": row.typical.text(),
        "worse": row.is_worse(),
        "a": a,
        "b": b,
    })
}

/// A cause on both sides.
pub fn cause(row: &CauseRow<'_>) -> Value {
    let of = |at: usize| {
        row.sides[at].map(|found: &Found| {
            json!({
                "slow_requests": found.slow,
                "bursts": found.episodes,
                "captures": found.captures,
                "excess_ns": found.excess_ns.round() as u64,
                "excess_ns_a_request": row.per_request_ns[at].round() as u64,
                "share": (row.shares[at] * 1e4).round() / 1e4,
                "where": place(found.place.as_ref()),
            })
        })
    };
    let found = row.newest;
    json!({
        "kind": row.kind.text(),
        "unsure_because": row.doubt.map(super::compare::Doubt::text),
        "cause": found.cause.text(),
        "fingerprint": row.fingerprint,
        "confidence": found.confidence.text(),
        "request": found.request,
        "summary": found.summary,
        "where": place(found.place.as_ref()),
        "culprit": place(found.culprit.as_ref()),
        "moved_from": row.moved_from,
        "moved_to": row.moved_to,
        "a": of(0),
        "b": of(1),
    })
}

fn place(place: Option<&Place>) -> Value {
    place.map_or(Value::Null, |place| {
        json!({"function": place.function, "qualified": place.qualified, "file": place.file,
               "line": place.line, "module": place.module})
    })
}

fn ms(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| (ns as f64 / 1e3).round() / 1e3)
}
