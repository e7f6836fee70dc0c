//! What a capture that a metric made can say: why it was saved, and how that metric went.

use std::fmt::Write;

use capture::read::{Capture, SavedFor, Text};
use format::metric::Numbers;

/// Most series in a report.
const SERIES_MAX: usize = 3;

/// `Saved for: metric: queue.depth was 120: queue.depth>100.`, and a line for each series that the
/// rule may speak of. Nothing for other captures.
pub(crate) fn report(out: &mut String, capture: &Capture) {
    let SavedFor::Metric(reason) = capture.meta.saved_for() else { return };
    // A String takes everything.
    let _ = writeln!(out, "Saved for: {}.", capture.meta.reason);
    let mut series: Vec<(String, Vec<f64>)> = Vec::new();
    for row in &capture.metrics {
        let name = capture.name(row.name);
        if !has_word(reason, name) {
            continue;
        }
        let tags = row.tags.iter().map(|(key, value)| {
            let value = match value {
                Text::Text(text) => text.clone(),
                other => format!("{other:?}"),
            };
            format!("{}={value}", capture.name(*key))
        });
        let tags: Vec<String> = tags.collect();
        let tags = if tags.is_empty() { String::new() } else { format!("{{{}}}", tags.join(",")) };
        let label = format!("{name}{tags}");
        let value = match row.numbers {
            Numbers::Count(sum) => sum,
            Numbers::Gauge { value, delta: false } => value,
            Numbers::Gauge { delta: true, .. } => continue,
            Numbers::Values { max, .. } => max,
            Numbers::Members { members, .. } => members,
        };
        match series.iter_mut().find(|(known, _)| *known == label) {
            Some((_, values)) => values.push(value),
            None => series.push((label, vec![value])),
        }
    }
    // The series that is named comes first.
    series.sort_by_key(|(label, _)| !reason.starts_with(label.as_str()));
    for (label, values) in series.iter().take(SERIES_MAX) {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        values.iter().for_each(|v| (low, high) = (low.min(*v), high.max(*v)));
        let (windows, last) = (values.len(), values.last().copied().unwrap_or_default());
        let _ = match windows {
            1 => writeln!(out, "   {label}: {last}, in one window."),
            _ => writeln!(out, "   {label}: {low} to {high} in {windows} windows, last {last}."),
        };
    }
}

/// Whether a name is in a text, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "_.-/:".contains(c);
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let behind = text[at + word.len()..].trim_end_matches(':').chars().next();
            !before.is_some_and(part) && !behind.is_some_and(part)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_part_of_another() {
        assert!(has_word("queue.depth{a=b} was 1: queue.*>2", "queue.depth"));
        assert!(has_word("10 of 10 values of db were over 50 ms: p99(db)>50ms/30s", "db"));
        assert!(!has_word("db.query was 3: db.query>2", "db"));
        assert!(!has_word("my.db was 3: my.db>2", "db") && !has_word("x", ""));
    }
}
