//! Joins the parts of a series from all shards into one reading.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::bank::{Bank, Banks};
use crate::cell::Cell;
use crate::series::Series;
use crate::window::{Kind, Value};

/// Most members of a set in one window, of all shards together.
const MOST_MEMBERS: usize = 16_384;

/// Takes the parts of a series from the shards. None: nothing came in.
pub(crate) fn value<'a>(
    series: &Series,
    parts: impl Iterator<Item = (&'a Cell, Option<&'a Banks>)>,
) -> Option<Value> {
    match series.id.kind {
        Kind::Counter => count(parts.map(|(cell, _)| cell)),
        kind => {
            let banks = parts.filter_map(|(_, banks)| banks);
            match kind {
                Kind::Gauge => gauge(series, banks),
                Kind::Set => members(banks),
                _ => values(series, banks),
            }
        }
    }
}

fn count<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<Value> {
    let (mut whole, mut fraction, mut any) = (0i128, 0.0, false);
    for (more, part) in cells.filter_map(Cell::take) {
        (whole, fraction, any) = (whole + i128::from(more), fraction + part, true);
    }
    any.then_some(Value::Count(whole as f64 + fraction))
}

/// The latest set, and the deltas after it. A delta before a set that was in an earlier window has
/// no effect, as if all had come in order.
fn gauge<'a>(series: &Series, banks: impl Iterator<Item = &'a Banks>) -> Option<Value> {
    let mut sets: Vec<(u64, f64)> = Vec::new();
    let mut deltas: Vec<(u64, f64)> = Vec::new();
    for banks in banks {
        banks.take(|bank| {
            if let Bank::Gauge(gauge) = bank {
                sets.extend(gauge.set);
                deltas.extend(gauge.delta);
            }
        });
    }
    let seen = series.sets_seen.load(Ordering::Relaxed);
    let set = sets.into_iter().filter(|(number, _)| *number > seen).max_by_key(|(n, _)| *n);
    let since = set.map_or(seen, |(number, _)| number);
    series.sets_seen.store(since, Ordering::Relaxed);
    let deltas = deltas.into_iter().filter(|(after, _)| *after >= since).map(|(_, delta)| delta);
    match (set, deltas.reduce(|a, b| a + b)) {
        (None, None) => None,
        (Some((_, value)), delta) => {
            Some(Value::Gauge { value: value + delta.unwrap_or(0.0), set: true })
        }
        (None, Some(value)) => Some(Value::Gauge { value, set: false }),
    }
}

fn members<'a>(banks: impl Iterator<Item = &'a Banks>) -> Option<Value> {
    let (mut known, mut members) = (HashSet::new(), Vec::new());
    let mut refused = 0;
    for banks in banks {
        banks.take(|bank| {
            let Bank::Members(part) = bank else { return };
            refused += part.refused;
            part.each(|member| {
                if known.contains(member) {
                    return;
                }
                if members.len() == MOST_MEMBERS {
                    refused += 1;
                    return;
                }
                let member: Arc<str> = Arc::from(member);
                known.insert(member.clone());
                members.push(member);
            });
        });
    }
    (refused > 0 || !members.is_empty()).then_some(Value::Members { members, refused })
}

fn values<'a>(series: &Series, banks: impl Iterator<Item = &'a Banks>) -> Option<Value> {
    let mut parts: Vec<(Vec<f64>, u64)> = Vec::new();
    let (mut raw, mut sum) = (0u64, 0.0);
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for banks in banks {
        banks.take(|bank| {
            let Bank::Values(values) = bank else { return };
            (raw, sum) = (raw + values.raw, sum + values.sum);
            (min, max) = (min.min(values.min), max.max(values.max));
            parts.push((values.kept.clone(), values.raw));
        });
    }
    let kept = level(parts);
    let scale = |x: f64| x / series.rate;
    let sum = scale(sum).clamp(f64::MIN, f64::MAX);
    (raw > 0).then(|| Value::Values { kept, count: scale(raw as f64), sum, min, max })
}

/// The values kept of all parts, thinned so that each stands for as many as the others: if one part
/// kept one value in ten, one in ten of the other parts are kept, too.
fn level(parts: Vec<(Vec<f64>, u64)>) -> Vec<f64> {
    let each = |(kept, raw): &(Vec<f64>, u64)| *raw as f64 / kept.len().max(1) as f64;
    let most = parts.iter().map(each).fold(1.0, f64::max);
    let mut out = Vec::new();
    for (kept, raw) in parts {
        let wanted = ((raw as f64 / most).round() as usize).min(kept.len());
        // Evenly over the values kept; all of them if none has to go.
        out.extend((0..wanted).map(|n| kept[n * kept.len() / wanted]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_thinned_to_the_same_weight() {
        let full = (vec![1.0; 100], 1000);
        let few = (vec![2.0; 50], 50);
        let out = level(vec![full, few, (vec![3.0], 1)]);
        let of = |x: f64| out.iter().filter(|y| **y == x).count();
        assert_eq!((of(1.0), of(2.0), of(3.0)), (100, 5, 0));
        assert_eq!(level(vec![(vec![1.0, 2.0], 2), (vec![3.0], 1)]), [1.0, 2.0, 3.0]);
    }
}
