//! Metrics in `dashcam show`: one line for each.

use capture::read::{Capture, MetricRow};
use format::metric::Numbers;
use tables::summary::{kind_text, series};

/// Series listed; the rest are counted.
const MOST: usize = 40;

/// Metrics of dashcam itself.
const OWN: &str = "dashcam.";

/// A line for each metric of the program: its values over all windows of the capture. Those of
/// dashcam itself are counted.
pub fn text(capture: &Capture) -> String {
    let all = series(capture);
    let is_own = |name: &str| name.starts_with(OWN);
    let own = all.keys().filter(|(name, _, _)| is_own(name)).count();
    let mut rows = all.iter().filter(|((name, _, _), _)| !is_own(name));
    let listed: Vec<_> = rows.by_ref().take(MOST).collect();
    let left_out = rows.count();
    let mut out = String::new();
    if !all.is_empty() {
        out += &format!("Metrics: {}\n", listed.len() + left_out);
    }
    for ((name, tags, kind), rows) in listed {
        let tag = |(key, value): &(&str, &str)| match *value {
            "" => (*key).to_owned(),
            value => format!("{key}={value}"),
        };
        let tags: Vec<String> = tags.iter().map(tag).collect();
        let tags = if tags.is_empty() { String::new() } else { format!("{{{}}}", tags.join(",")) };
        out += &format!("  {:<12} {name}{tags}  {}\n", kind_text(*kind), line(rows));
    }
    if left_out > 0 {
        out += &format!("  and {left_out} more\n");
    }
    if own > 0 {
        out += &format!("  and {own} of dashcam itself (--json)\n");
    }
    out
}

/// The values of the windows together.
fn line(rows: &[&MetricRow]) -> String {
    let count = rows.len();
    let windows = format!("in {count} window{}", if count == 1 { "" } else { "s" });
    let (mut total, mut values, mut level) = (0.0, (0.0, 0.0), None);
    let (mut least, mut most, mut worst_p99) = (f64::INFINITY, f64::NEG_INFINITY, 0.0f64);
    let mut members = 0.0f64;
    for row in rows {
        match row.numbers {
            Numbers::Count(sum) => total += sum,
            Numbers::Gauge { value, delta: true } => level = Some(level.unwrap_or(0.0) + value),
            Numbers::Gauge { value, delta: false } => level = Some(value),
            Numbers::Members { members: n, .. } => members = members.max(n),
            Numbers::Values { count, sum, min, max, p99, .. } => {
                values = (values.0 + count, values.1 + sum);
                (least, most) = (least.min(min), most.max(max));
                worst_p99 = worst_p99.max(p99);
            }
        }
    }
    match rows.last().map(|row| row.numbers) {
        Some(Numbers::Count(_)) => format!("{total} {windows}"),
        Some(Numbers::Gauge { .. }) => format!("{} {windows}", level.unwrap_or(0.0)),
        Some(Numbers::Members { .. }) => format!("at most {members} members {windows}"),
        Some(Numbers::Values { .. }) => {
            let (n, sum) = values;
            let mean = if n > 0.0 { sum / n } else { 0.0 };
            format!(
                "{n} values, mean {mean:.3}, {least} to {most}, worst p99 {worst_p99} {windows}"
            )
        }
        None => windows,
    }
}
